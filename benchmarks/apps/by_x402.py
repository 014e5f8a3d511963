"""The x402 middleware for FastAPI, at its best: one facilitator client for the life of the process."""

import os

from goods import shop
from x402 import x402ResourceServer
from x402.http import FacilitatorConfig, HTTPFacilitatorClient
from x402.http.middleware.fastapi import PaymentMiddlewareASGI
from x402.http.types import PaymentOption, RouteConfig
from x402.mechanisms.evm.exact.server import ExactEvmScheme

NETWORK = "eip155:84532"

server = x402ResourceServer(HTTPFacilitatorClient(FacilitatorConfig(url=os.environ["BENCH_UPSTREAM"])))
server.register(NETWORK, ExactEvmScheme())  # type: ignore[no-untyped-call,arg-type]  # as its README does
price = PaymentOption(scheme="exact", network=NETWORK, price="$0.01", pay_to="0x" + "2" * 40)

app = shop()
app.add_middleware(PaymentMiddlewareASGI, routes={"GET /report": RouteConfig(accepts=price)}, server=server)

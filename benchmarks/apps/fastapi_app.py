"""The seller's app on FastAPI."""

import gc
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import Depends, FastAPI, Response
from goods import HEALTH, NETWORK, PAY_TO, REPORT, SERVICE, build_paywall, build_whole_paywall

from faregate.fastapi import PaywallMiddleware, paid


def build(**route: Any) -> FastAPI:
    """Build the app; `route` is what the paid route is declared with."""
    app = FastAPI()

    @app.get("/report", **route)
    async def report() -> dict[str, str]:
        return REPORT

    @app.get("/blob/{size}", **route)
    async def blob(size: int) -> Response:
        # Not zeros: the kernel would give no memory for them.
        return Response(b"x" * size, media_type="application/octet-stream")

    @app.get("/health")
    async def health() -> dict[str, str]:
        return HEALTH

    return app


def bare() -> FastAPI:
    return build()


def by_hand() -> FastAPI:
    from two_calls import AsgiTwoCalls  # its client is installed by `benchmarks/run` alone

    app = build()
    app.add_middleware(AsgiTwoCalls)
    return app


def faregate() -> FastAPI:
    app = build(dependencies=[Depends(paid("report"))])
    app.add_middleware(PaywallMiddleware, paywall=build_paywall())
    return app


def frozen() -> FastAPI:
    """`faregate`, whose modules the garbage collector does not visit again."""
    app = faregate()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        gc.collect()
        gc.freeze()
        yield

    app.router.lifespan_context = lifespan
    return app


def inside() -> FastAPI:
    app = build(dependencies=[Depends(paid("report", price="0.01 USDC"))])
    app.add_middleware(PaywallMiddleware, paywall=build_whole_paywall())
    return app


def inside_by_hand() -> FastAPI:
    from whole_sales import AsgiWholeSales

    app = build()
    app.add_middleware(AsgiWholeSales)
    return app


def x402() -> FastAPI:
    """The x402 middleware at its best: one facilitator client for the life of the process."""
    from x402 import x402ResourceServer
    from x402.http import FacilitatorConfig, HTTPFacilitatorClient
    from x402.http.middleware.fastapi import PaymentMiddlewareASGI
    from x402.http.types import PaymentOption, RouteConfig
    from x402.mechanisms.evm.exact.server import ExactEvmScheme

    server = x402ResourceServer(HTTPFacilitatorClient(FacilitatorConfig(url=SERVICE)))
    server.register(NETWORK, ExactEvmScheme())  # type: ignore[no-untyped-call,arg-type]  # as its README does
    price = PaymentOption(scheme="exact", network=NETWORK, price="$0.01", pay_to=PAY_TO)
    app = build()
    app.add_middleware(
        PaymentMiddlewareASGI, routes={"GET /report": RouteConfig(accepts=price)}, server=server
    )
    return app

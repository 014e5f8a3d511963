"""The seller's app on Flask."""

from typing import Any

from flask import Flask
from goods import HEALTH, NETWORK, PAY_TO, REPORT, SERVICE, build_paywall, build_whole_paywall

from faregate.flask import Faregate


def report() -> dict[str, str]:
    return REPORT


def health() -> dict[str, str]:
    return HEALTH


def build(view: Any = report) -> Flask:
    app = Flask(__name__)
    app.add_url_rule("/report", "report", view)
    app.add_url_rule("/health", "health", health)
    return app


def bare() -> Flask:
    return build()


def by_hand() -> Flask:
    from two_calls import WsgiTwoCalls  # its client is installed by `benchmarks/run` alone

    app = build()
    app.wsgi_app = WsgiTwoCalls(app.wsgi_app)  # type: ignore[method-assign]
    return app


def faregate() -> Flask:
    extension = Faregate()
    app = build(extension.paid("report")(report))
    extension.init_app(app, build_paywall())
    return app


def inside() -> Flask:
    extension = Faregate()
    app = build(extension.paid("report", price="0.01 USDC")(report))
    extension.init_app(app, build_whole_paywall())
    return app


def inside_by_hand() -> Flask:
    from whole_sales import WsgiWholeSales

    app = build()
    app.wsgi_app = WsgiWholeSales(app.wsgi_app)  # type: ignore[method-assign]
    return app


def x402() -> Flask:
    """The x402 middleware at its best: one facilitator client for the life of the process."""
    from x402 import x402ResourceServerSync
    from x402.http import FacilitatorConfig, HTTPFacilitatorClientSync
    from x402.http.middleware.flask import PaymentMiddleware
    from x402.http.types import PaymentOption, RouteConfig
    from x402.mechanisms.evm.exact.server import ExactEvmScheme

    server = x402ResourceServerSync(HTTPFacilitatorClientSync(FacilitatorConfig(url=SERVICE)))
    server.register(NETWORK, ExactEvmScheme())  # type: ignore[no-untyped-call,arg-type]  # as its README does
    price = PaymentOption(scheme="exact", network=NETWORK, price="$0.01", pay_to=PAY_TO)
    app = build()
    PaymentMiddleware(app, {"GET /report": RouteConfig(accepts=price)}, server)
    return app

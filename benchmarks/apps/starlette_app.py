"""The seller's app on Starlette."""

from typing import Any

from goods import HEALTH, REPORT, build_paywall
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from two_calls import AsgiTwoCalls

from faregate.starlette import PaywallMiddleware, paid


async def report(_: Request) -> JSONResponse:
    return JSONResponse(REPORT)


async def health(_: Request) -> JSONResponse:
    return JSONResponse(HEALTH)


def build(endpoint: Any = report) -> Starlette:
    return Starlette(routes=[Route("/report", endpoint), Route("/health", health)])


def bare() -> Starlette:
    return build()


def by_hand() -> Starlette:
    app = build()
    app.add_middleware(AsgiTwoCalls)
    return app


def faregate() -> Starlette:
    app = build(paid("report")(report))
    app.add_middleware(PaywallMiddleware, paywall=build_paywall())
    return app

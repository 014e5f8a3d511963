"""Sellers that are traced, one per kind of server interface."""

from collections.abc import Callable
from typing import Any

import httpx
from fastapi import Depends, FastAPI
from flask import Flask
from opentelemetry import trace
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route
from starlette.testclient import TestClient

import faregate.fastapi
import faregate.flask
import faregate.starlette
import faregate.wsgi
from faregate import Paywall

tracer = trace.get_tracer("shop")
Ask = Callable[[str, dict[str, str]], Any]


def make_paywall(**arguments: Any) -> Paywall:
    address = "http://testserver"
    return Paywall(
        base_url="emulator:", public_url=address, otel=True, environ={}, settle_wait=0, **arguments
    )


def work(fails: bool = False) -> dict[str, str]:
    with tracer.start_as_current_span("own"):
        if fails:
            raise ZeroDivisionError("secret of the handler")
        return {"report": "Sunny."}


def make_starlette(paywall: Paywall) -> Ask:
    @faregate.starlette.paid("daily_report")
    async def report(request: Request) -> JSONResponse:
        return JSONResponse(work(request.path_params["day"] == "fails"))

    @faregate.starlette.paid("slow_settlement")
    async def late(request: Request) -> JSONResponse:
        return JSONResponse(work())

    routes = [Mount("/shop", routes=[Route("/report/{day}", report), Route("/late", late)])]
    paywalled = Middleware(faregate.starlette.PaywallMiddleware, paywall=paywall)
    app = Starlette(routes=routes, middleware=[paywalled])
    client = TestClient(app, raise_server_exceptions=False)
    return lambda path, headers: client.get(f"/shop{path}", headers=headers)


def make_fastapi(paywall: Paywall) -> Ask:
    app = FastAPI()
    app.add_middleware(faregate.fastapi.PaywallMiddleware, paywall=paywall)

    @app.get("/shop/report/{day}", dependencies=[Depends(faregate.fastapi.paid("daily_report"))])
    def report(day: str) -> dict[str, str]:
        return work(day == "fails")

    @app.get("/shop/late", dependencies=[Depends(faregate.fastapi.paid("slow_settlement"))])
    async def late() -> dict[str, str]:
        return work()

    client = TestClient(app, raise_server_exceptions=False)
    return lambda path, headers: client.get(f"/shop{path}", headers=headers)


def make_flask(paywall: Paywall) -> Ask:
    app, extension = Flask(__name__), faregate.flask.Faregate()
    extension.init_app(app, paywall)

    @app.get("/shop/report/<day>")
    @extension.paid("daily_report")
    def report(day: str) -> dict[str, str]:
        return work(day == "fails")

    @app.get("/shop/late")
    @extension.paid("slow_settlement")
    def late() -> dict[str, str]:
        return work()

    transport = httpx.WSGITransport(app, raise_app_exceptions=False)
    client = httpx.Client(transport=transport, base_url="http://testserver")
    return lambda path, headers: client.get(f"/shop{path}", headers=headers)


ROUTES = {
    make_starlette: "/shop/report/{day}",
    make_fastapi: "/shop/report/{day}",
    make_flask: "/shop/report/<day>",
}

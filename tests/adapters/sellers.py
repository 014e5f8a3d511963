"""One seller behind every adapter: the same routes, sold in each framework's own way."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Annotated, Any

import anyio
from fastapi import Depends, FastAPI
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

import faregate.fastapi
import faregate.starlette
from faregate.core.reported_values import Payment
from faregate.paywall import Paywall


@dataclass
class HandlerResult:
    """What the handlers do, and how often they did it."""

    runs: int = 0
    behave: Callable[[Payment], Awaitable[Response]] | None = None
    background: list[str] = field(default_factory=list)
    seen: list[Any] = field(default_factory=list)

    async def do(self, payment: Payment) -> Response:
        self.runs += 1
        if self.behave is not None:
            return await self.behave(payment)
        return JSONResponse({"result": "paid content", "run": self.runs}, headers={"x-own": "1"})


def starlette_shop(paywall: Paywall, work: HandlerResult) -> Any:
    def selling(sells: str, **limits: Any) -> Any:
        @faregate.starlette.paid(sells, **limits)
        async def endpoint(request: Request) -> Response:
            return await work.do(request.state.payment)

        return endpoint

    @faregate.starlette.paid("daily_report")
    def threaded(request: Request) -> Response:
        work.seen.append(threading.get_ident())
        return JSONResponse({"result": "from a thread"})

    routes = [
        Route("/paid", selling("daily_report"), methods=["GET", "OPTIONS"]),
        Route("/paid", selling("daily_report"), methods=["POST"]),
        Route("/metered", selling("token_meter")),
        Route("/late", selling("slow_settlement")),
        Route("/never", selling("failing_settlement")),
        Route("/free", selling("free_notes")),
        Route("/small", selling("daily_report", max_result_bytes=100)),
        Route("/hurried", selling("daily_report", max_work_seconds=0.2)),
        Route("/unknown", selling("no_such_thing")),
        Route("/threaded", threaded),
        Route("/open", lambda _request: JSONResponse({"open": True})),
    ]
    middleware = [Middleware(faregate.starlette.PaywallMiddleware, paywall=paywall)]
    return Starlette(routes=routes, middleware=middleware)


def fastapi_shop(paywall: Paywall, work: HandlerResult) -> Any:
    app = FastAPI()
    app.add_middleware(faregate.fastapi.PaywallMiddleware, paywall=paywall)
    sold = {
        "/metered": faregate.fastapi.paid("token_meter"),
        "/late": faregate.fastapi.paid("slow_settlement"),
        "/never": faregate.fastapi.paid("failing_settlement"),
        "/free": faregate.fastapi.paid("free_notes"),
        "/small": faregate.fastapi.paid("daily_report", max_result_bytes=100),
        "/hurried": faregate.fastapi.paid("daily_report", max_work_seconds=0.2),
        "/unknown": faregate.fastapi.paid("no_such_thing"),
        "/paid": faregate.fastapi.paid("daily_report"),
    }
    for path, dependency in sold.items():
        app.add_api_route(path, _endpoint(work, dependency), methods=["GET", "HEAD", "OPTIONS"])
    app.add_api_route("/paid", _endpoint(work, sold["/paid"]), methods=["POST"])

    @app.get("/threaded", dependencies=[Depends(sold["/paid"])])
    def threaded() -> dict[str, str]:
        work.seen.append(threading.get_ident())
        return {"result": "from a thread"}

    @app.get("/open")
    async def opened() -> dict[str, bool]:
        return {"open": True}

    return app


def _endpoint(work: HandlerResult, dependency: Any) -> Any:
    async def endpoint(payment: Annotated[Payment, Depends(dependency)]) -> Response:
        return await work.do(payment)

    return endpoint


SHOPS: dict[str, Callable[[Paywall, HandlerResult], Any]] = {
    "starlette": starlette_shop,
    "fastapi": fastapi_shop,
}


# Ways to behave


def answering(response: Callable[[], Response]) -> Callable[[Payment], Awaitable[Response]]:
    async def behave(_payment: Payment) -> Response:
        return response()

    return behave


def sleeping(seconds: float) -> Callable[[Payment], Awaitable[Response]]:
    async def behave(_payment: Payment) -> Response:
        await anyio.sleep(seconds)
        return JSONResponse({"result": "paid content"})

    return behave


def streaming(*chunks: bytes, error: Exception | None = None) -> Callable[[], Response]:
    async def body() -> Any:
        for chunk in chunks:
            yield chunk
            await asyncio.sleep(0)
        if error is not None:
            raise error

    return lambda: StreamingResponse(body(), media_type="text/plain")


def with_background(work: HandlerResult, before: Callable[[], int]) -> Callable[[], Response]:
    """Notes how many completions there had been when the background task ran."""

    def later() -> None:
        time.sleep(0.3)
        work.background.append(f"completions: {before()}")

    return lambda: JSONResponse({"result": "paid content"}, background=BackgroundTask(later))

"""Litestar, a foreign ASGI framework: the gate as a guard, and a router."""

import asyncio
from typing import Any

from litestar import Litestar, Request, Router, get, route
from litestar.background_tasks import BackgroundTask
from litestar.connection import ASGIConnection
from litestar.exceptions import HTTPException
from litestar.handlers import BaseRouteHandler
from litestar.response import File, Redirect, Response, Stream

from faregate.asgi import PaywallMiddleware, require_payment
from faregate.checkout.checkout import SkipHandler
from faregate.offers import offer
from tests.contract import handlers
from tests.contract.handlers import Answer, Sold

METHODS: Any = ["GET", "HEAD", "POST"]


def paid(sells: Any, **limits: Any) -> Any:
    sold = offer(sells, **limits)

    async def guard(connection: ASGIConnection[Any, Any, Any, Any], _handler: BaseRouteHandler) -> None:
        try:
            connection.state.payment = await require_payment(connection.scope, sold)
        except SkipHandler as stop:
            raise HTTPException(status_code=stop.status) from None

    return guard


def selling(sold: Sold, place: str, path: str | None = None) -> Any:
    @route(path or sold.path, http_method=METHODS, guards=[paid(sold.sells, **sold.limits)], name=place)
    async def handler(request: Request[Any, Any, Any]) -> Any:
        what = request.query_params.get("what", "")
        answer = handlers.work(place, what, request.state.payment, await request.body())
        await asyncio.sleep(answer.seconds)
        return native(answer)

    return handler


def native(answer: Answer) -> Any:
    headers = dict(answer.headers)
    if answer.how == "redirect":
        return Redirect(headers["location"], status_code=answer.status)  # type: ignore[arg-type]
    if answer.how == "file":
        return File(handlers.FILE, media_type=answer.media_type, status_code=answer.status)
    if answer.how == "stream":
        return Stream(answer.stream, status_code=answer.status, media_type=answer.media_type, headers=headers)
    later = BackgroundTask(asyncio.to_thread, answer.later) if answer.place else None
    response = Response(
        answer.body,
        status_code=answer.status,
        media_type=answer.media_type,
        headers=headers,
        background=later,
    )
    for name, value in answer.cookies:
        response.set_cookie(name, value)
    return response


@get("/open", sync_to_thread=False)
def opened() -> dict[str, bool]:
    return {"open": True}


@route("/open", http_method=["POST"], sync_to_thread=False)
def opened_to_posts() -> dict[str, bool]:
    return {"open": True}


seller = Litestar(
    [
        *(selling(sold, sold.path) for sold in handlers.SOLD),
        selling(handlers.ITEM, handlers.ITEM.path, "/items/{item:str}"),
        Router(handlers.MOUNT, route_handlers=[selling(handlers.INNER, handlers.MOUNT)]),
        opened,
        opened_to_posts,
    ],
    openapi_config=None,
    logging_config=None,
)
app = PaywallMiddleware(seller, handlers.paywall())

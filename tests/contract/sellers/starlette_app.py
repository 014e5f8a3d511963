"""Starlette: `@paid` on endpoints; a Mount in a Mount; a prefix."""

import asyncio
from typing import Any

from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route

from faregate.starlette import PaywallMiddleware, paid
from tests.contract import handlers
from tests.contract.handlers import Answer, Sold


def endpoint(place: str) -> Any:
    async def handler(request: Request) -> Response:
        what, payment = request.query_params.get("what", ""), getattr(request.state, "payment", None)
        answer = handlers.work(place, what, payment, await request.body())
        await asyncio.sleep(answer.seconds)
        return native(answer)

    return handler


def native(answer: Answer) -> Response:
    if answer.how == "redirect":
        return RedirectResponse(dict(answer.headers)["location"], answer.status)
    if answer.how == "file":
        return FileResponse(handlers.FILE, headers=dict(answer.headers), media_type=answer.media_type)
    if answer.how == "stream":
        return StreamingResponse(answer.stream(), answer.status, dict(answer.headers), answer.media_type)
    response = Response(answer.body, answer.status, dict(answer.headers), answer.media_type)
    for name, value in answer.cookies:
        response.set_cookie(name, value)
    if answer.place:
        response.background = BackgroundTask(answer.later)
    return response


def selling(sold: Sold, place: str, path: str | None = None) -> Route:
    sells = paid(sold.sells, **sold.limits)
    return Route(path or sold.path, sells(endpoint(place)), methods=[*handlers.METHODS])


inner = [selling(handlers.INNER, handlers.MOUNT)]
routes = [
    *(selling(sold, sold.path) for sold in handlers.SOLD),
    selling(handlers.ITEM, handlers.ITEM.path, "/items/{item}"),
    Mount("/mount", routes=[Mount("/inner", routes=inner)]),
    Route(f"{handlers.GROUND}/{{rest:path}}", endpoint(handlers.GROUND), methods=[*handlers.METHODS]),
    Route(f"{handlers.CLOSED}/{{rest:path}}", endpoint(handlers.CLOSED)),
    Route("/open", lambda _request: JSONResponse({"open": True}), methods=[*handlers.METHODS]),
]
grounds: Any = {"offers": handlers.OFFERS, "refuse": [handlers.CLOSED]}
app = Starlette(
    routes=routes, middleware=[Middleware(PaywallMiddleware, paywall=handlers.paywall(), **grounds)]
)

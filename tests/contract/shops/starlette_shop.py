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
from tests.contract import work
from tests.contract.work import Answer, Sold


def endpoint(place: str) -> Any:
    async def handler(request: Request) -> Response:
        what, payment = request.query_params.get("what", ""), getattr(request.state, "payment", None)
        answer = work.work(place, what, payment, await request.body())
        await asyncio.sleep(answer.seconds)
        return native(answer)

    return handler


def native(answer: Answer) -> Response:
    if answer.how == "redirect":
        return RedirectResponse(dict(answer.headers)["location"], answer.status)
    if answer.how == "file":
        return FileResponse(work.FILE, headers=dict(answer.headers), media_type=answer.media_type)
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
    return Route(path or sold.path, sells(endpoint(place)), methods=[*work.METHODS])


inner = [selling(work.INNER, work.MOUNT)]
routes = [
    *(selling(sold, sold.path) for sold in work.SOLD),
    selling(work.ITEM, work.ITEM.path, "/items/{item}"),
    Mount("/mount", routes=[Mount("/inner", routes=inner)]),
    Route(f"{work.GROUND}/{{rest:path}}", endpoint(work.GROUND), methods=[*work.METHODS]),
    Route(f"{work.CLOSED}/{{rest:path}}", endpoint(work.CLOSED)),
    Route("/open", lambda _request: JSONResponse({"open": True}), methods=[*work.METHODS]),
]
grounds: Any = {"offers": {work.GROUND: "daily_report"}, "refuse": [work.CLOSED]}
app = Starlette(routes=routes, middleware=[Middleware(PaywallMiddleware, paywall=work.paywall(), **grounds)])

"""Applications that give everything away below `/sold`, `/closed` and `/open`, each in its framework's way.

Whatever stands in front has to keep the first two. `/priced` sells by its own handler.
"""

from typing import Any
from urllib.parse import urlsplit

import litestar
import quart
from fastapi import Depends, FastAPI
from litestar.connection import ASGIConnection
from litestar.exceptions import HTTPException as LitestarException
from litestar.handlers import BaseRouteHandler
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route

import faregate.fastapi
import faregate.starlette
from faregate.asgi import require_payment
from faregate.checkout.checkout import SkipHandler
from faregate.offers import offer
from tests.attacks.content import Content

SELLS = offer("daily_report")


def give(path: str, content: Content) -> str:
    """What is on a shelf. Whoever is given it below `/open` has it for nothing."""
    if path.startswith(("/sold", "/closed")):
        content.runs += 1
    return content.mark("body") if path.startswith(("/sold", "/closed", "/open")) else "nothing"


def starlette_shelf(content: Content) -> Any:
    async def anything(request: Request) -> Response:
        return PlainTextResponse(give(request.url.path, content))

    priced = faregate.starlette.paid("daily_report")(lambda request: PlainTextResponse(content.mark("body")))
    below = [Route("/{rest:path}", anything)]
    mounts = [Mount(f"/{name}", routes=below) for name in ("sold", "closed", "open")]
    return Starlette(routes=[*mounts, Route("/priced", priced)])


def fastapi_shelf(content: Content) -> Any:
    app = FastAPI(openapi_url=None)

    for shelf in ("sold", "closed", "open"):

        @app.get(f"/{shelf}/{{rest:path}}")
        async def anything(request: Request) -> str:
            return give(request.url.path, content)

    @app.get("/priced", dependencies=[Depends(faregate.fastapi.paid("daily_report"))])
    async def priced() -> str:
        return content.mark("body")

    return app


def quart_shelf(content: Content) -> Any:
    app = quart.Quart(__name__)

    @app.get("/<any(sold, closed, open):shelf>/<path:rest>")
    async def anything(shelf: str, rest: str) -> str:
        return give(f"/{shelf}", content)

    @app.get("/priced")
    async def priced() -> Any:
        try:
            await require_payment(quart.request.scope, SELLS)
        except SkipHandler as stop:
            return quart.Response(status=stop.status)
        return content.mark("body")

    return app


def litestar_shelf(content: Content) -> Any:
    async def guard(connection: ASGIConnection[Any, Any, Any, Any], _handler: BaseRouteHandler) -> None:
        try:
            await require_payment(connection.scope, SELLS)
        except SkipHandler as stop:
            raise LitestarException(status_code=stop.status) from None

    @litestar.get([f"/{shelf}/{{rest:path}}" for shelf in ("sold", "closed", "open")], sync_to_thread=False)
    def anything(request: litestar.Request[Any, Any, Any]) -> str:
        return give(request.url.path, content)

    @litestar.get("/priced", guards=[guard])
    async def priced() -> str:
        return content.mark("body")

    return litestar.Litestar([anything, priced], openapi_config=None, logging_config=None)


def plain_shelf(content: Content) -> Any:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            raise ValueError("only http")
        if scope["path"] == "/priced":
            await require_payment(scope, SELLS)
            text = content.mark("body")
        else:
            path: str = scope["path"]  # read as Quart does
            text = give(path if path.startswith("/") else urlsplit(path).path, content)
        await PlainTextResponse(text)(scope, receive, send)

    return app


SHELVES = {
    "starlette": starlette_shelf,
    "fastapi": fastapi_shelf,
    "quart": quart_shelf,
    "litestar": litestar_shelf,
    "asgi": plain_shelf,
}
ON_ASYNCIO = frozenset(("quart",))
"""Those that do not run on trio."""

"""The ASGI stacks under attack, built as the documentation advises: what keeps state stands outside."""

import asyncio
import base64
from collections.abc import Sequence
from typing import Annotated, Any

import litestar
import quart
from fastapi import BackgroundTasks, Depends, FastAPI
from litestar.background_tasks import BackgroundTask as LitestarTask
from litestar.connection import ASGIConnection
from litestar.exceptions import HTTPException as LitestarException
from litestar.handlers import BaseRouteHandler
from litestar.middleware import DefineMiddleware
from litestar.middleware.session.client_side import CookieBackendConfig
from litestar.middleware.session.server_side import ServerSideSessionConfig
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.endpoints import HTTPEndpoint
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.middleware.sessions import SessionMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route

import faregate.fastapi
import faregate.starlette
from faregate import asgi
from faregate.asgi import require_payment
from faregate.checkout.checkout import SkipHandler
from faregate.offers import offer
from faregate.paywall import Paywall
from tests.attacks.content import EVERYWHERE, Content
from tests.attacks.servers import serving_on_granian, serving_on_hypercorn
from tests.attacks.site import Site
from tests.attacks.sites.outer_middleware import StoredSession, Telling
from tests.servers.http import serving_on_trio

SECRET = "a secret of sixteen or more"


# What handlers write, in the words of Starlette's requests


def write(request: Request, content: Content) -> Response:
    """Leave a mark everywhere, and answer as the query asks."""
    content.runs += 1
    session = request.session
    session["content"] = content.mark("session")
    session.setdefault("known", []).append(content.mark("nested"))
    request.state.content = content.mark("state")
    request.state.messages.append(content.mark("message"))
    request.scope["basket"]["content"] = content.mark("mapping")
    request.scope["basket"]["things"].append(content.mark("mapping"))
    then = request.query_params.get("then", "200")
    if then == "raise":
        raise LookupError(content.mark("body"))
    headers = {"x-content": content.mark("header")}
    response = PlainTextResponse(content.mark("body"), int(then), headers)
    response.set_cookie("content", content.mark("cookie"))
    response.background = BackgroundTask(content.work)
    return response


async def start(request: Request) -> Response:
    request.session["known"] = ["before"]
    return PlainTextResponse("started")


async def me(request: Request) -> Response:
    return JSONResponse(dict(request.session))


FREE = [Route("/start", start), Route("/me", me)]
OUTSIDE = [Middleware(Telling), Middleware(SessionMiddleware, SECRET)]


# Starlette


def starlette_site(paywall: Paywall, content: Content, outside: list[Middleware] = OUTSIDE) -> Any:
    @faregate.starlette.paid("daily_report")
    async def sold(request: Request) -> Response:
        return write(request, content)

    return Starlette(
        routes=[Route("/sold", sold), *FREE],
        middleware=[*outside, Middleware(faregate.starlette.PaywallMiddleware, paywall=paywall)],
    )


def starlette_class_in_a_mount(paywall: Paywall, content: Content) -> Any:
    """A sync method of an endpoint class, in a mount with the paywall in front of it alone."""

    class Sold(HTTPEndpoint):
        @faregate.starlette.paid("daily_report")
        def get(self, request: Request) -> Response:
            return write(request, content)

    front = Middleware(faregate.starlette.PaywallMiddleware, paywall=paywall)
    return Starlette(
        routes=[*FREE, Mount("/", routes=[Route("/sold", Sold)], middleware=[front])], middleware=OUTSIDE
    )


def starlette_prefix(paywall: Paywall, content: Content) -> Any:
    async def sold(request: Request) -> Response:
        return write(request, content)

    front = Middleware(
        faregate.starlette.PaywallMiddleware, paywall=paywall, offers={"/sold": "daily_report"}
    )
    return Starlette(routes=[Route("/sold", sold), *FREE], middleware=[*OUTSIDE, front])


def starlette_stored(paywall: Paywall, content: Content, *, late: bool = False) -> Any:
    stored = [Middleware(Telling), Middleware(StoredSession, {}, late=late)]
    return starlette_site(paywall, content, stored)


def starlette_stored_late(paywall: Paywall, content: Content) -> Any:
    return starlette_stored(paywall, content, late=True)


# FastAPI


async def passes(request: Request, call_next: Any) -> Any:
    return await call_next(request)


def fastapi_behind_middleware(paywall: Paywall, content: Content) -> Any:
    """With a middleware between the paywall and the handler, which runs the handler in a task of its own."""
    return fastapi_site(paywall, content, [Middleware(BaseHTTPMiddleware, dispatch=passes)])


def fastapi_site(paywall: Paywall, content: Content, inside: Sequence[Middleware] = ()) -> Any:
    app = FastAPI(openapi_url=None, middleware=inside)
    app.add_middleware(faregate.fastapi.PaywallMiddleware, paywall=paywall)
    app.add_middleware(SessionMiddleware, SECRET)
    app.add_middleware(Telling)
    sells = Annotated[faregate.fastapi.Payment, Depends(faregate.fastapi.paid("daily_report"))]

    @app.get("/sold")
    async def sold(request: Request, payment: sells, tasks: BackgroundTasks, response: Response) -> Any:
        made = write(request, content)
        tasks.add_task(content.work)
        if made.status_code != 200:
            made.background = tasks
            return made
        response.headers["x-content"] = content.mark("header")
        response.set_cookie("content", content.mark("cookie"))
        return {"result": content.mark("body")}

    app.router.routes.extend(FREE)
    return app


# ASGI alone


def plain_site(paywall: Paywall, content: Content) -> Any:
    sells = offer("daily_report")

    async def inner(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            raise ValueError("only http")
        request = Request(scope, receive, send)
        if request.url.path == "/sold":
            try:
                await require_payment(scope, sells)
            except SkipHandler:
                return
            response = write(request, content)
        else:
            response = await (start if request.url.path == "/start" else me)(request)
        await response(scope, receive, send)

    return Telling(SessionMiddleware(asgi.PaywallMiddleware(inner, paywall), SECRET))


# Quart


def quart_site(paywall: Paywall, content: Content) -> Any:
    app, sells = quart.Quart(__name__), offer("daily_report")
    app.secret_key = SECRET

    @app.get("/sold")
    async def sold() -> Any:
        try:
            await require_payment(quart.request.scope, sells)
        except SkipHandler as stop:
            return quart.Response(status=stop.status)
        content.runs += 1
        quart.session["content"] = content.mark("session")
        quart.session.setdefault("known", []).append(content.mark("nested"))
        await quart.flash(content.mark("message"))
        then = quart.request.args.get("then", "200")
        if then == "raise":
            raise LookupError(content.mark("body"))
        response = quart.Response(content.mark("body"), int(then), {"x-content": content.mark("header")})
        response.set_cookie("content", content.mark("cookie"))
        return response

    @app.get("/start")
    async def begin() -> Any:
        quart.session["known"] = ["before"]
        return "started"

    @app.get("/me")
    async def mine() -> Any:
        return dict(quart.session)

    return asgi.PaywallMiddleware(app, paywall)


# Litestar


def litestar_app(content: Content, middleware: list[Any]) -> Any:
    sells = offer("daily_report")

    async def guard(connection: ASGIConnection[Any, Any, Any, Any], _handler: BaseRouteHandler) -> None:
        try:
            await require_payment(connection.scope, sells)
        except SkipHandler as stop:
            raise LitestarException(status_code=stop.status) from None

    @litestar.get("/sold", guards=[guard])
    async def sold(request: litestar.Request[Any, Any, Any]) -> litestar.Response[str]:
        content.runs += 1
        request.session["content"] = content.mark("session")
        request.session.setdefault("known", []).append(content.mark("nested"))
        then = request.query_params.get("then", "200")
        if then == "raise":
            raise LookupError(content.mark("body"))
        response = litestar.Response(
            content.mark("body"),
            status_code=int(then),
            headers={"x-content": content.mark("header")},
            background=LitestarTask(asyncio.to_thread, content.work),
        )
        response.set_cookie("content", content.mark("cookie"))
        return response

    @litestar.get("/start", status_code=200)
    async def begin(request: litestar.Request[Any, Any, Any]) -> str:
        request.set_session({"known": ["before"]})
        return "started"

    @litestar.get("/me")
    async def mine(request: litestar.Request[Any, Any, Any]) -> dict[str, Any]:
        return dict(request.session)

    return litestar.Litestar(
        [sold, begin, mine], openapi_config=None, logging_config=None, middleware=middleware
    )


def litestar_cookies(paywall: Paywall, content: Content) -> Any:
    sessions = CookieBackendConfig(secret=base64.b64decode("c2l4dGVlbiBvciBtb3JlIQ==")[:16])
    return asgi.PaywallMiddleware(litestar_app(content, [sessions.middleware]), paywall)


def litestar_stored(paywall: Paywall, content: Content) -> Any:
    """Sessions in a store are written when the response begins: a paywall is the last middleware, too."""
    front: Any = asgi.PaywallMiddleware
    front = DefineMiddleware(front, paywall=paywall)
    return asgi.PaywallMiddleware(
        litestar_app(content, [ServerSideSessionConfig().middleware, front]), paywall
    )


ASGI_SITES = [
    Site("starlette", starlette_site),
    Site("starlette-on-granian", starlette_site, serve=serving_on_granian),
    Site("fastapi-on-hypercorn", fastapi_site, serve=serving_on_hypercorn),
    Site("asgi-on-hypercorn-trio", plain_site, serve=serving_on_trio),
    Site("starlette-class-in-a-mount", starlette_class_in_a_mount),
    Site("starlette-prefix", starlette_prefix),
    Site("starlette-stored-session", starlette_stored),
    Site("starlette-session-stored-late", starlette_stored_late),
    Site("fastapi", fastapi_site),
    Site("fastapi-behind-middleware", fastapi_behind_middleware),
    Site("asgi", plain_site),
    Site("quart", quart_site, EVERYWHERE - {"state", "mapping", "background"}),
    Site("litestar-cookies", litestar_cookies, EVERYWHERE - {"state", "mapping", "message"}),
    Site("litestar-stored-session", litestar_stored, EVERYWHERE - {"state", "mapping", "message"}),
]

"""The paywall for Starlette: the middleware, and `@paid` on an endpoint.

app = Starlette(routes=[Route("/summary", summary)], middleware=[Middleware(PaywallMiddleware)])
"""

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from inspect import isclass, iscoroutinefunction
from typing import Any, TypeVar, Unpack, cast

try:
    from starlette.concurrency import run_in_threadpool
    from starlette.exceptions import WebSocketException
    from starlette.requests import HTTPConnection
    from starlette.responses import Response
    from starlette.routing import Mount
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "faregate.starlette needs Starlette: pip install 'faregate[starlette]'", name=error.name
    ) from error

from faregate.asgi import ASGIApp, open_gate
from faregate.asgi import PaywallMiddleware as ASGIMiddleware
from faregate.errors import Misconfigured
from faregate.fronts import layers
from faregate.gate import PaymentStop
from faregate.model import Offer
from faregate.openapi import with_payments
from faregate.payment import Payment
from faregate.paywall import Limits, Paywall, offer
from faregate.scopes import Receive, Scope, Send
from faregate.settings import Arguments
from faregate.stock import inventory_of

__all__ = ["Payment", "PaywallMiddleware", "inventory_of", "paid"]

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


class PaywallMiddleware(ASGIMiddleware):
    """`faregate.asgi.PaywallMiddleware`; also completes the app's OpenAPI document, if it makes one.

    Starlette makes its middleware when the server starts, and servers swallow what is raised then: so
    a `Misconfigured` is kept as `mistake`, told to the server as a failed start, and raised for every
    request.
    """

    def __init__(
        self,
        app: ASGIApp,
        paywall: Paywall | None = None,
        *,
        offers: Mapping[str, str | Offer] | None = None,
        refuse: Sequence[str] = (),
        sweep_every: float | None = None,
        drain_seconds: float = 10.0,
        **arguments: Unpack[Arguments],
    ) -> None:
        self.mistake: Misconfigured | None = None
        self._documented = False
        try:
            super().__init__(
                app,
                paywall,
                offers=offers,
                refuse=refuse,
                sweep_every=sweep_every,
                drain_seconds=drain_seconds,
                **arguments,
            )
        except Misconfigured as mistake:
            self.mistake = mistake

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.mistake is not None:
            await _not_started(self.mistake, scope, receive, send)
            return
        if not self._documented:
            document(scope.get("app", self.app), self)
            self._documented = True
        await super().__call__(scope, receive, send)


async def _not_started(mistake: Misconfigured, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] != "lifespan":
        raise mistake
    await receive()
    await send({"type": "lifespan.startup.failed", "message": f"faregate: {mistake}"})


def document(app: Any, front: ASGIMiddleware | None = None, root: str = "") -> None:
    """Let `app.openapi()` speak of payments (`faregate.openapi`), and that of every application below it.

    `front` is the middleware in front of it: what its prefixes sell, and what its paywall knows of the
    offers, is said too. `root` is where the application is mounted. Nothing is asked of the service.
    """
    make: Callable[[], dict[str, Any]] | None = getattr(app, "openapi", None)
    if make is not None and callable(make):

        @wraps(make)
        def openapi() -> dict[str, Any]:
            return completed(make(), front, root)

        app.openapi = openapi
    for route in getattr(app, "routes", ()):
        if isinstance(route, Mount):
            document(layers(route.app)[-1], front, root + route.path)


def completed(schema: dict[str, Any], front: ASGIMiddleware | None, root: str) -> dict[str, Any]:
    if front is None:
        return with_payments(schema)
    grounds, paywall = front.grounds, front.paywall
    return with_payments(schema, lambda path: grounds.place(root + path, root).offer, paywall.known_asset)


def paid(sells: str, **limits: Unpack[Limits]) -> Callable[[Endpoint], Endpoint]:
    """Sell what an endpoint answers: a function of a request, or a method of an `HTTPEndpoint`.

    `sells` is an integration key or an `acr_` revision id. The endpoint finds its `Payment` in
    `request.state.payment`. Raises `Misconfigured`, here or on the first call.
    """
    sold = offer(sells, **limits)

    def decorate(endpoint: Endpoint) -> Endpoint:
        if isclass(endpoint):
            raise Misconfigured("Put @paid on the methods of an endpoint class, not on the class.")

        @wraps(endpoint)
        async def guarded(*args: Any, **kwargs: Any) -> Any:
            request = _request_of(args, kwargs)
            try:
                request.state.payment = await enter(request, sold)
            except PaymentStop as stop:
                return Response(status_code=stop.status)
            if iscoroutinefunction(endpoint):
                return await endpoint(*args, **kwargs)
            return await run_in_threadpool(endpoint, *args, **kwargs)

        guarded.__dict__["faregate_offer"] = sold
        return cast(Endpoint, guarded)

    return decorate


async def enter(connection: HTTPConnection[Any], sold: Offer) -> Payment:
    """Open the gate for this connection. Raises `PaymentStop`; refuses a websocket."""
    if connection.scope["type"] != "http":
        raise WebSocketException(1008, "payment required")
    return await open_gate(connection.scope, sold)


def _request_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> HTTPConnection[Any]:
    for value in (*args, *kwargs.values()):
        if _is_connection(value):
            return cast(HTTPConnection[Any], value)
    raise Misconfigured("@paid needs an endpoint that is given the request. FastAPI: Depends(paid(...)).")


def _is_connection(value: object) -> bool:
    return isinstance(value, HTTPConnection)

"""The paywall for Starlette: the middleware, and `@paid` on an endpoint.

app = Starlette(routes=[Route("/summary", summary)], middleware=[Middleware(PaywallMiddleware)])
"""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial, wraps
from inspect import isawaitable, isclass, iscoroutine, signature
from typing import Any, TypeVar, Unpack, cast, overload

try:
    from starlette.concurrency import run_in_threadpool
    from starlette.exceptions import WebSocketException
    from starlette.requests import HTTPConnection, Request
    from starlette.responses import Response
    from starlette.routing import Mount
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "faregate.starlette needs Starlette: pip install 'faregate[starlette]'", name=error.name
    ) from error

from faregate.asgi import PaywallMiddleware as ASGIMiddleware
from faregate.checkout.argument_checks import check_choose
from faregate.checkout.asgi_responder import ask_payment, find_responder
from faregate.checkout.asgi_scope import RAW_MARK, ASGIApp, Message, Receive, Scope, Send, decode_headers
from faregate.checkout.async_checkout import AsyncAsk
from faregate.checkout.checkout import SkipHandler
from faregate.checkout.handlers import (
    has_login,
    inspect_handler,
    mark,
    mark_maker,
    mark_price,
    name_handler,
)
from faregate.checkout.lifespan import fail_start
from faregate.checkout.openapi import with_payments
from faregate.checkout.wrapped_callables import is_async, mark_as_coroutine_function
from faregate.core import responses
from faregate.core.models import Choose, Offer
from faregate.core.reported_values import Payment
from faregate.core.withholding import may_be_result
from faregate.errors import ConfigurationError
from faregate.offers import OfferOptions, make_offer
from faregate.paywall import Paywall
from faregate.routes import RouteTable
from faregate.routes import starlette as starlette_routes
from faregate.routes.nested_routers import list_routers
from faregate.routes.starlette import list_routes
from faregate.routes.unsold_prices import note_price, warn_unsold
from faregate.routes.wrappers import unwrap
from faregate.settings import Arguments

__all__ = ["Payment", "PaywallMiddleware", "list_routes", "paid"]

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


class PaywallMiddleware(ASGIMiddleware):
    """`faregate.asgi.PaywallMiddleware`; also completes the app's OpenAPI document, if it makes one.

    At the start, after the startup, and with the first request after its routes have changed, the application
    is looked through for what would give paid handlers away: see `routes.starlette.list_routes`.
    `allow_outside` names the middleware classes that may be outside although they are called after caches
    or files.

    Starlette makes its middleware when the server starts, and servers swallow what is raised then: so
    a `ConfigurationError` is kept as `mistake`, reported to the server as a failed start, and raised for
    every request.
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
        allow_outside: Sequence[Any] = (),
        **arguments: Unpack[Arguments],
    ) -> None:
        self.mistake: ConfigurationError | None = None
        self.allow_outside: tuple[Any, ...] = ()
        self.app = app  # now: a mistake may end what sets it
        self._routers: list[tuple[Any, list[Any]]] | None = None  # as they were looked through
        self._notices: set[str] = set()  # what was logged about the routes
        self._document = ""  # the path of FastAPI's OpenAPI document, which is to have prices
        self._offers: tuple[Offer, ...] = ()
        try:
            self.allow_outside = _check_allowed(allow_outside)
            super().__init__(
                app,
                paywall,
                offers=offers,
                refuse=refuse,
                sweep_every=sweep_every,
                drain_seconds=drain_seconds,
                **arguments,
            )
        except ConfigurationError as mistake:
            self.mistake = mistake

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._has_changed():
            # Starlette puts the whole application there, with the middleware outside this one.
            self._check(scope.get("app", self.app))
            if scope["type"] != "lifespan":
                warn_unsold(scope.get("app", self.app))
        if self.mistake is not None:
            await fail_start(self.mistake, scope, receive, send)
            return
        if scope["type"] == "lifespan":
            send = self._check_after_startup(scope.get("app", self.app), send)
        elif self._document and scope["path"].removeprefix(scope.get("root_path", "")) == self._document:
            await self.paywall.ask_prices(self._offers)
        await super().__call__(scope, receive, send)

    def _has_changed(self) -> bool:
        """Whether a router has other routes than before. Asked for each request: lists are compared in C."""
        if self._routers is None:
            return True
        for router, routes in self._routers:  # noqa: SIM110 - `any` would call a generator
            if router.routes != routes:
                return True
        return False

    def _check(self, app: Any) -> None:
        is_first, self._routers = self._routers is None, list_routers(app)
        self.add_probes(app)
        if self.mistake is not None:
            return
        try:
            table = self._list(app)
            if table.mistakes:
                raise ConfigurationError(" ".join(table.mistakes))
            table.expect_offers()
            if is_first:
                add_openapi(app, self)
            if self.paywall.settings.discovery:
                self._document, self._offers = getattr(app, "openapi_url", None) or "", table.offers
        except ConfigurationError as mistake:
            self.mistake = mistake

    def _check_after_startup(self, app: Any, send: Send) -> Send:
        """The `send` of a lifespan, which looks again once the application has added its routes."""

        async def check_and_send(message: Message) -> None:
            if message["type"] == "lifespan.startup.complete" and self._has_changed():
                self._check(app)
                if self.mistake is not None:
                    raise self.mistake  # in the application, which ends what it has begun
            if message["type"] == "lifespan.startup.complete":
                warn_unsold(app)  # now that all routes are there
            if message["type"] == "lifespan.startup.failed" and self.mistake is not None:
                message = {**message, "message": f"faregate: {self.mistake}"}
            await send(message)

        return check_and_send

    def expect_offers(self) -> None:
        """Do nothing: `_check` has looked at all routes."""

    def _list(self, app: Any) -> RouteTable:
        return starlette_routes.list_routes(app)


def add_openapi(app: Any, front: ASGIMiddleware | None = None, root: str = "") -> None:
    """Add payments (`checkout.openapi`) to `app.openapi()`, and to that of every application below it.

    `front` is the middleware in front of it: what its prefixes sell, and what its paywall knows of the
    offers, is said too. `root` is where the application is mounted. The service is not called. Raises
    `ConfigurationError` for what is not an application.
    """
    if not callable(cast(object, app)):
        raise ConfigurationError(f"add_openapi takes an application, not {type(app).__name__}.")
    make: Callable[[], dict[str, Any]] | None = getattr(app, "openapi", None)
    if make is not None and callable(make):

        @wraps(make)
        def openapi() -> dict[str, Any]:
            return _complete_schema(make(), front, root)

        app.openapi = openapi
    for route in getattr(app, "routes", ()):
        if isinstance(route, Mount):
            add_openapi(unwrap(route.app)[-1], front, root + route.path)


def _complete_schema(schema: dict[str, Any], front: ASGIMiddleware | None, root: str) -> dict[str, Any]:
    if front is None:
        return with_payments(schema)
    rules, paywall = front.path_rules, front.paywall
    return with_payments(
        schema, lambda path: rules.match(root + path, root).offer, paywall.find_asset, paywall.find_price
    )


@overload
def paid(
    sells: str, among: None = None, **limits: Unpack[OfferOptions]
) -> Callable[[Endpoint], Endpoint]: ...
@overload
def paid(
    sells: Choose, among: Sequence[str | Offer], **limits: Unpack[OfferOptions]
) -> Callable[[Endpoint], Endpoint]: ...
def paid(
    sells: str | Choose, among: Sequence[str | Offer] | None = None, **limits: Unpack[OfferOptions]
) -> Callable[[Endpoint], Endpoint]:
    """Sell the response of an endpoint: a function of a request, or a method of an `HTTPEndpoint`.

    `sells` is an integration key or an `acr_` revision id; or a function, plain or async, that gets the
    request and returns one of the names in `among`. The endpoint finds its `Payment` in
    `request.state.payment`. Raises `ConfigurationError`, here or on the first call.
    """
    sold = make_offer(sells, among, limits, NO_KEY.format("@paid('text_summary')"))
    check_choose(sold)

    def decorate(endpoint: Endpoint) -> Endpoint:
        _check_endpoint(endpoint, sold)
        run: Any = endpoint if is_async(endpoint) else partial(run_in_threadpool, endpoint)
        prices_inside = int(sold in inspect_handler(endpoint).offers)

        @wraps(endpoint)
        def guard(*args: Any, **kwargs: Any) -> Coroutine[Any, Any, Any]:
            request = _find_request(args, kwargs)
            # Now: an endpoint that calls this one, and forgets the `await`, gives no result away.
            authorization = authorize(request, sold, partial(_ask_with_request, request), prices_inside)
            return answer(request, authorization, args, kwargs)

        async def answer(
            request: HTTPConnection[Any],
            authorization: Coroutine[Any, Any, Payment],
            args: tuple[Any, ...],
            kwargs: dict[str, Any],
        ) -> Any:
            try:
                payment = request.state.payment = await authorization
            except SkipHandler as stop:
                return Response(status_code=stop.status, headers=_NO_STORE)
            response = await run(*args, **kwargs)
            # A decorator between that is not an `async def` makes a plain function of an async endpoint.
            response = await response if iscoroutine(response) else response
            if payment.transaction_id is None:
                return response
            _note_status(request, response)
            return forbid_storing(response, sold)

        guard = mark_as_coroutine_function(guard)
        mark(guard, endpoint, sold)
        mark_price(guard, sold)
        note_price(guard)
        return cast(Endpoint, guard)

    mark_maker(decorate)
    return decorate


mark_maker(paid)


NO_KEY = "paid takes the name of what is sold. Write {}."


async def _ask_with_request(request: HTTPConnection[Any], choose: Choose) -> object:
    chosen = choose(request) if is_async(choose) else await run_in_threadpool(choose, request)
    return await chosen if isawaitable(chosen) else chosen


def _note_status(request: HTTPConnection[Any], response: Any) -> None:
    """Note the status of what an endpoint returns, before a decorator above its price changes it."""
    responder = find_responder(request.scope)
    if responder is not None and isinstance(response, Response):
        responder.checkout.note_status(response.status_code)


def forbid_storing(response: Any, sold: Offer) -> Any:
    """The response, which no cache above its handler may keep. Anything else is given back as it is.

    If one keeps it, the mark says what it is.
    """
    if isinstance(response, Response):
        raw, headers = response.raw_headers, decode_headers(response.raw_headers)
        if not responses.forbids_storing(headers):
            pairs = zip(raw, headers, strict=True)
            kept = [pair for pair, header in pairs if not responses.allows_storing(*header)]
            raw[:] = [*kept, _RAW_NO_STORE]  # in place: `response.headers` is a view of this list
        if may_be_result(response.status_code, (sold,)):
            raw.append(RAW_MARK)
    return response


_NO_STORE = dict((responses.NO_STORE,))
_RAW_NO_STORE = (b"cache-control", responses.NO_STORE[1].encode())


def _check_allowed(classes: Any) -> tuple[Any, ...]:
    if isinstance(classes, list | tuple | set | frozenset):
        return tuple(cast("Sequence[Any]", classes))
    raise ConfigurationError("allow_outside is a list of middleware classes, as in [GZipMiddleware].")


def _check_endpoint(endpoint: Any, sold: Offer) -> None:
    if isclass(endpoint):
        raise ConfigurationError("Put @paid on the methods of an endpoint class, not on the class.")
    if isinstance(endpoint, staticmethod | classmethod):
        raise ConfigurationError(f"Put @{type(cast(Any, endpoint)).__name__} above @paid.")
    if not callable(endpoint):
        raise ConfigurationError(f"@paid is for an endpoint, and {endpoint!r} is none.")
    others = [other.sells for other in inspect_handler(endpoint).offers if other != sold]
    if others:
        raise ConfigurationError(f"An endpoint sells {sold.sells!r} and {others[0]!r}. Keep one offer.")
    if not signature(endpoint).parameters:
        raise ConfigurationError(_NO_REQUEST)
    if has_login(endpoint):
        raise ConfigurationError(
            f"A login stands below the price of {name_handler(endpoint)}: a payer who is not logged in would "
            "pay for a redirect. Put @requires above @paid."
        )


_NO_REQUEST = (
    "@paid needs an endpoint that is given the request. FastAPI: Depends(paid(...)) of faregate.fastapi. "
    "MCP: the paid of faregate.mcp."
)


def authorize(
    connection: HTTPConnection[Any],
    sold: Offer,
    ask: AsyncAsk | None = None,
    prices_inside: int | None = None,
) -> Coroutine[Any, Any, Payment]:
    """Ask whether the endpoint of this connection may run: await it. Raises `SkipHandler`.

    Refuses a websocket at once. `prices_inside`: see `Checkout.start_work`; None where a dependency asks.
    """
    if connection.scope["type"] != "http":
        # 1008 is "policy violation", the code of RFC 6455 for a refusal.
        raise WebSocketException(1008, "payment required")
    return ask_payment(connection.scope, sold, ask, prices_inside)


def _find_request(args: tuple[Any, ...], kwargs: dict[str, Any]) -> HTTPConnection[Any]:
    for value in (*args, *kwargs.values()):
        # By its class first: to ask an abstract class for its instances takes longer.
        if type(value) is Request or _is_connection(value):
            return cast(HTTPConnection[Any], value)
    raise ConfigurationError(_NO_REQUEST)


def _is_connection(value: object) -> bool:
    return isinstance(value, HTTPConnection)

"""The paywall for FastAPI: the middleware, and `Depends(paid(...))` on a route, router or app.

app = FastAPI()
app.add_middleware(PaywallMiddleware)

@app.get("/summary")
async def summary(payment: Annotated[Payment, Depends(paid("text_summary"))]): ...
"""

import logging
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from dataclasses import replace
from inspect import Parameter, signature
from types import SimpleNamespace
from typing import Any, NamedTuple, Unpack, cast, overload

try:
    from fastapi import HTTPException, Response
    from fastapi.openapi.models import APIKey, APIKeyIn
    from fastapi.params import Depends
    from fastapi.requests import HTTPConnection
    from fastapi.routing import iter_route_contexts
    from fastapi.security.base import SecurityBase
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "faregate.fastapi needs FastAPI: pip install 'faregate[fastapi]'", name=error.name
    ) from error

from starlette.routing import BaseRoute, Host, Mount, Route, WebSocketRoute

from faregate import starlette
from faregate.checkout.checkout import SkipHandler
from faregate.checkout.handlers import inspect_handler, mark_maker
from faregate.checkout.openapi import INFO, MARK, payment_info
from faregate.checkout.wrapped_callables import mark_as_coroutine_function
from faregate.core import responses, withholding
from faregate.core.models import Choose, Offer, OfferChoice
from faregate.core.reported_values import Payment
from faregate.errors import ConfigurationError
from faregate.logs import log
from faregate.offers import OfferOptions, make_offer, record_if_serving
from faregate.routes import RouteInfo, RouteTable
from faregate.routes import starlette as starlette_routes
from faregate.routes.unsold_prices import note_price
from faregate.routes.wrappers import list_chains, unwrap
from faregate.starlette import NO_KEY, add_openapi, authorize

__all__ = ["Payment", "PaywallMiddleware", "RequirePayment", "add_openapi", "list_routes", "paid"]


class PaywallMiddleware(starlette.PaywallMiddleware):
    """`faregate.starlette.PaywallMiddleware` for an application of FastAPI."""

    def _list(self, app: Any) -> RouteTable:
        table = list_routes(app)
        if not self.path_rules.offers:  # a prefix sells some paths of a route on purpose
            notices = set(_describe_partly_sold(table.routes)) - self._notices
            self._notices |= notices  # the routes may be listed again
            for notice in sorted(notices):
                log("sale", logging.WARNING, notice)
        return table


def _describe_partly_sold(routes: Sequence[RouteInfo]) -> Iterator[str]:
    """Describe functions that one route sells and another gives away, where `dependencies` name the price.

    A seller may want this, as for a router that is included twice: so it is logged, and is no mistake.
    """
    with_endpoints = [route for route in routes if route.endpoint is not None]
    sold = {_identify(route.endpoint): route for route in with_endpoints if route.offer is not None}
    for route in with_endpoints:
        if route.access == "free" and (other := sold.get(_identify(route.endpoint))) is not None:
            yield (
                f"{route.handler} is sold at {other.place} and free at {route.place}: a price in "
                "dependencies is for one route. To sell both, give the function the parameter "
                f"payment: Annotated[Payment, Depends(paid({other.sells!r}))]."
            )


def _identify(endpoint: object) -> tuple[int, int]:
    """Identify a function, also if others have its name. Each read of a bound method makes a new object."""
    function = getattr(endpoint, "__func__", endpoint)
    return id(getattr(endpoint, "__self__", None)), id(function)


class RequirePayment(Depends):
    """A dependency that sells the response of a route, and gives the route its `Payment`.

    It is what `Depends` makes and what `Depends` takes: `Depends(paid(...))` and `paid(...)` alone are the
    same, in `dependencies`, in `Annotated` and as a default.
    """

    faregate_offer: Offer
    __wrapped__: "_Scheme"

    def __init__(self, sold: Offer) -> None:
        if not isinstance(cast(Any, sold), Offer):
            raise ConfigurationError("Write paid('text_summary'): it makes the RequirePayment.")
        super().__init__(self)
        # `Depends` is frozen. FastAPI reads the parameters and the security scheme of `__wrapped__`.
        object.__setattr__(self, "faregate_offer", sold)
        object.__setattr__(self, "__wrapped__", _Scheme(sold))
        note_price(self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # FastAPI passes what `_Scheme` asks for, by name.
        if "connection" not in kwargs and not any(isinstance(argument, HTTPConnection) for argument in args):
            written = repr(self)
            if isinstance(self.faregate_offer, OfferChoice):
                written = "paid(choose, among=...)"
            record_if_serving(self.faregate_offer)  # what calls it may catch the error
            raise ConfigurationError(
                f"{written} is a dependency, not a decorator: write @app.get(..., "
                f"dependencies=[Depends({written})]), or use the paid of faregate.starlette."
            )
        try:
            return self.__wrapped__(*args, **kwargs)
        except TypeError:
            record_if_serving(self.faregate_offer)
            raise

    def __repr__(self) -> str:
        return f"paid({self.faregate_offer.sells!r})"

    # By identity. `Depends` compares and hashes its dependency, which is this object: that has no end.
    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__


class _Scheme(SecurityBase):
    """Declares itself as a security scheme because that costs a request nothing; the paywall turns
    the declaration into what it is, a header parameter with the answers a payer gets (`checkout.openapi`).
    """

    def __init__(self, sold: Offer) -> None:
        self._sold = sold
        scheme = {"in": APIKeyIn.header, "name": "PAYMENT-SIGNATURE", INFO: payment_info(sold)}
        self.model = APIKey.model_validate(scheme)
        self.scheme_name = f"{MARK}{sold.sells}"
        own_signature = signature(self.__call__)
        parameters = list(own_signature.parameters.values())[:2]
        if isinstance(sold, OfferChoice):
            _check_request(sold)
            # FastAPI solves the parameters of the function that chooses, as those of any dependency.
            chosen = Parameter("chosen", Parameter.KEYWORD_ONLY, annotation=Any, default=Depends(sold.choose))
            parameters.append(chosen)
        self.__signature__ = own_signature.replace(parameters=parameters)

    def __call__(
        self, connection: HTTPConnection, response: Response, *, chosen: object = None
    ) -> Coroutine[Any, Any, Payment]:
        async def ask(_choose: Choose) -> object:
            return chosen

        # Asked now: a function that calls a price, and forgets the `await`, gives no result away.
        return _authorize(authorize(connection, self._sold, ask), response)

    __call__ = mark_as_coroutine_function(__call__)  # FastAPI looks for what is to be awaited


async def _authorize(authorization: Coroutine[Any, Any, Payment], response: Response) -> Payment:
    try:
        payment = await authorization
    except SkipHandler as stop:
        # The client never gets this answer: the paywall sends its own instead.
        raise HTTPException(stop.status) from None
    if payment.transaction_id is not None:
        # For caches between the route and the paywall.
        if response.raw_headers:  # another dependency may have named one of them
            response.headers.update(dict(_OF_RESULTS))
        else:
            response.raw_headers += _RAW_OF_RESULTS
    return payment


_OF_RESULTS = (responses.NO_STORE, withholding.MARK)
_RAW_OF_RESULTS = [(name.lower().encode(), value.encode()) for name, value in _OF_RESULTS]


def _check_request(sold: OfferChoice) -> None:
    """Check that FastAPI sees the request, and no query parameter of that name."""
    try:
        request = signature(sold.choose).parameters.get("request")
    except ValueError:  # a built-in function, which does not say what it takes
        return
    if request is not None and request.annotation is Parameter.empty:
        raise ConfigurationError(
            f"The function that chooses {sold.sells} takes a request without a type: FastAPI would read it "
            "from the query string. Write request: Request."
        )


@overload
def paid(sells: str, among: None = None, **limits: Unpack[OfferOptions]) -> RequirePayment: ...
@overload
def paid(sells: Choose, among: Sequence[str | Offer], **limits: Unpack[OfferOptions]) -> RequirePayment: ...
def paid(
    sells: str | Choose, among: Sequence[str | Offer] | None = None, **limits: Unpack[OfferOptions]
) -> RequirePayment:
    """Make the dependency that sells a route: `Depends(paid("text_summary"))`.

    `sells` is an integration key or an `acr_` revision id; or a dependency, plain or async, that returns one
    of the names in `among`: FastAPI solves its parameters. The route's OpenAPI operation gets the
    answers of a payment. Raises `ConfigurationError`, here or on the first call.
    """
    message = NO_KEY.format("Depends(paid('text_summary'))")
    return RequirePayment(make_offer(sells, among, limits, message))


mark_maker(paid)


def list_routes(app: Any) -> RouteTable:
    """Return what a FastAPI application or router sells. Raises `ConfigurationError`."""
    inventory = starlette_routes.list_routes(app, _expand)
    cores = (layers[-1] for layers in list_chains(app))
    missed = dict.fromkeys(mistake for core in cores for mistake in _find_missed(core, inventory))
    return replace(inventory, mistakes=(*inventory.mistakes, *missed)) if missed else inventory


def _find_missed(app: Any, inventory: RouteTable) -> Iterator[str]:
    """Describe the routes that are free although their router or application is sold."""
    for place, sold in _find_unreached(getattr(app, "router", app)):
        for row in inventory.routes:
            is_below = row.host == place.host and (
                row.path == place.path or row.path.startswith(f"{place.path.rstrip('/')}/")
            )
            if is_below and row.access == "free" and not row.handler.startswith(_DOCUMENTATION):
                yield (
                    f"{row.verbs} {row.place} is free, and its router or application is sold as "
                    f"{sold.sells!r}. FastAPI's dependencies do not reach mounts, hosts, routes of Starlette "
                    "and routes that were added before these dependencies. Sell the route itself, or by a "
                    "prefix: offers={...}. If it is to be free, put it into an application without a price."
                )


_DOCUMENTATION = "fastapi.applications."
"""Where FastAPI's own routes are made."""


class _Place(NamedTuple):
    """Where a route is, or an application that a route leads to."""

    path: str
    host: str = ""


_ROOT = _Place("")


def _find_unreached(
    router: Any, root: _Place = _ROOT, above: tuple[Offer, ...] = ()
) -> Iterator[tuple[_Place, Offer]]:
    """Places that the offers of a router, and of those it is included in (`above`), do not reach."""
    router_offers = _list_offers(getattr(router, "dependencies", ()))
    for route in getattr(router, "routes", ()):
        included = getattr(route, "include_context", None)
        if included is not None:
            offers = (*above, *_list_offers(included.dependencies))
            below = root._replace(path=root.path + included.prefix)
            yield from _find_unreached(route.original_router, below, offers)
            continue
        place = _Place(root.path + getattr(route, "path", ""), getattr(route, "host", root.host))
        dependant = getattr(route, "dependant", None)
        if dependant is not None:
            reached = inspect_handler(route.endpoint, dependant).offers
            yield from ((place, sold) for sold in router_offers if sold not in reached)
        elif isinstance(route, Route | WebSocketRoute | Mount | Host):
            yield from ((place, sold) for sold in (*above, *router_offers))
        if isinstance(route, Mount | Host):
            inner = unwrap(route.app)[-1]
            yield from _find_unreached(getattr(inner, "router", inner), place)


def _list_offers(dependencies: Iterable[Any]) -> tuple[Offer, ...]:
    return tuple(
        sold for dependency in dependencies for sold in inspect_handler(dependency.dependency).offers
    )


def _expand(router: Any) -> Iterator[tuple[type[BaseRoute], Any]]:
    """List the routes of a router, also those of the routers that it includes.

    FastAPI keeps an included router as one entry: its routes depend on where it is included.
    """
    for context in iter_route_contexts(router.routes):
        yield type(context.original_route), context
    for group in getattr(router, "_iter_low_priority_routes", tuple)():
        yield from _list_frontends(group)


def _list_frontends(group: Any) -> Iterator[tuple[type[BaseRoute], Any]]:
    """`app.frontend(...)`: files below a path, which answer when no route matches."""
    prefix = getattr(group, "frontend_prefix", "")
    for route in getattr(group, "original_route", group).routes:
        path = f"{prefix}{route.path.rstrip('/')}/{{path:path}}"
        yield (
            Route,
            SimpleNamespace(
                path=path, methods=route.methods, endpoint=route.app, app=None, dependant=group.dependant
            ),
        )

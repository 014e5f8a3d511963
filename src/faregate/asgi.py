"""The paywall for ASGI: a pure middleware, and the offers a whole prefix can carry.

The price is bound to the handler: a paid handler calls `require_payment` with the scope of its request.
A prefix is the coarser tool, for apps whose handlers cannot be touched.
"""

import logging
from collections.abc import Coroutine, Mapping, Sequence
from functools import partial
from inspect import signature
from typing import Any, Unpack

from faregate.checkout.argument_checks import (
    check_asgi_app,
    check_not_added_twice,
    check_required,
    check_starlette,
    choose_paywall,
)
from faregate.checkout.asgi_responder import PaywallResponder, ask_payment
from faregate.checkout.asgi_scope import ASGIApp, Receive, Scope, Send
from faregate.checkout.async_checkout import AsyncAsk
from faregate.checkout.lifespan import Lifespan, check_lifespan, fail_start
from faregate.checkout.object_publishers import check_publishers
from faregate.checkout.path_rules import NO_RULES, PATH_HEADERS, PathHeaders, PathRules
from faregate.checkout.shielding import run_shielded
from faregate.checkout.states import DECIDED
from faregate.core.models import Offer
from faregate.core.reported_values import Payment
from faregate.core.withholding import Bypass, is_harmless_error, may_be_result
from faregate.errors import ConfigurationError
from faregate.logs import log
from faregate.paywall import Paywall
from faregate.routes.first_prices import FirstPrices
from faregate.routes.handler_resolver import HandlerResolver
from faregate.routes.probes import add_probes
from faregate.routes.wrappers import list_own_roots
from faregate.server_config import find_forced_root, lets_clients_set_root
from faregate.settings import Arguments, check_arguments

__all__ = ["Payment", "PaywallMiddleware", "Scope", "require_payment"]


class PaywallMiddleware:
    """Holds every response of a paid handler until its payment is proven.

    `offers` sells everything below a path prefix as one offer. `refuse` names prefixes below which
    whatever has no offer is refused, not free: it does not run. Which handler a request reaches is asked
    of Starlette's and FastAPI's routers; an application without such routes has no offers there. Give a
    `paywall`, or the arguments of one.

    With `sweep_every` the journal is swept as long as the application lives, after so many seconds each
    time. Its shutdown waits up to `drain_seconds` for what was begun (`faregate.checkout.lifespan`).
    """

    # Others recognize the class by this attribute, because they may not import adapters.
    faregate_middleware = True

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
        check_lifespan(sweep_every, drain_seconds)
        check_arguments(arguments, signature(type(self)).parameters)
        check_asgi_app(app)
        check_starlette()
        self.app = app
        self.paywall = choose_paywall("PaywallMiddleware", paywall, arguments)
        self.path_rules = PathRules(offers, refuse)
        check_publishers(self.path_rules)
        check_not_added_twice(app, has_prefixes=not self.path_rules.is_empty)
        self._resolver = HandlerResolver(app)
        self._first_prices = FirstPrices(app)
        self._shared: Mapping[str, object] | None = None
        self._sweep_every = sweep_every
        self._drain_seconds = drain_seconds
        self._has_expected = False
        self._has_warned = False
        self._has_probes = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._has_expected:
            try:
                self.expect_offers()
            except ConfigurationError as mistake:
                await fail_start(mistake, scope, receive, send)
            self._has_expected = True
            self.add_probes(self.app)
            roots = (*list_own_roots(self.app), find_forced_root())
            self.path_rules.own_roots = tuple(dict.fromkeys(filter(None, roots)))
            self.path_rules.clients_set_root = lets_clients_set_root()
        if scope["type"] == "http":
            await self._serve_http(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._refuse_websocket(scope, receive, send)
        elif scope["type"] == "lifespan":
            # A server gives each request a copy of this mapping, but its values belong to all requests.
            self._shared = scope.get("state")
            life = Lifespan(self.paywall, self._sweep_every, self._drain_seconds, receive, send)
            await life.run(self.app, scope)
        else:
            await self.app(scope, receive, send)

    def add_probes(self, app: Any) -> None:
        """For adapters: have the routers of an application tell what they answer."""
        self._has_probes = add_probes(app) or self._has_probes

    def expect_offers(self) -> None:
        """For adapters: have what is sold checked against the service, at the start or first request."""
        self.paywall.expect_offers(self.path_rules.offers.values())

    async def _serve_http(self, scope: Scope, receive: Receive, send: Send) -> None:
        path, root_path = scope["path"], scope.get("root_path", "")
        # Most applications have no rules, and most targets are paths: then nothing is matched.
        is_unruled = self.path_rules.is_empty and not root_path and path[:1] == "/"
        headers = () if self.path_rules.is_empty else _list_path_headers(scope)
        path_match = NO_RULES if is_unruled else self.path_rules.match(path, root_path, headers)
        responder = PaywallResponder(
            self.paywall,
            path_match,
            self._find_bypass,
            scope,
            receive,
            send,
            self._shared,
            has_probes=self._has_probes,
        )
        app = partial(self._call_below_prefix, responder) if path_match.protected else self.app
        # There is nothing to complete without a payment, so the request may be cancelled with its client.
        if not responder.has_payment:
            if not path_match.protected and (price := self._first_prices.find(scope)) is not None:
                app = partial(self._call_behind_price, responder, *price)
            await responder.run(app)
            if responder.asking_scope is not None:
                self._warn_unknown(scope, responder.asking_scope)
                responder.asking_scope = None  # it refers to the responder: a cycle
            return
        try:
            # In a task of its own: servers cancel the task of a request whose client left, and the payment
            # of a payer who left is completed all the same.
            await run_shielded(partial(responder.run, app))
        except BaseException:
            responder.leave()
            raise

    def _warn_unknown(self, server_scope: Scope, scope: Mapping[str, Any]) -> None:
        """Log once that the route which asked for a payment is not found: what bypasses it is free."""
        if self._has_warned or (place := self._resolver.name_unfound_endpoint(server_scope, scope)) is None:
            return
        self._has_warned = True
        log(
            "sale",
            logging.ERROR,
            "%s asked for a payment, and its application is hidden from the paywall: something between the "
            "two looks it up, as in a global or by a function. An answer of a cache in there leaves unpaid, "
            "and so does a route that runs a paid function without its price. Keep the application in an "
            "attribute of what calls it, such as self.app, or put a paywall directly around it.",
            place,
        )

    async def _call_below_prefix(
        self, responder: PaywallResponder, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Call the application for a path that is sold or refused, if it is to run."""
        checkout = responder.checkout
        if checkout.prefix_offer is not None:
            await responder.authorize(checkout.prefix_offer, scope)
        elif checkout.path_match.refused and not self._resolver.is_sold(scope):
            checkout.refuse_unsold()
        if checkout.state is not DECIDED:
            await self.app(scope, receive, send)

    async def _call_behind_price(
        self,
        responder: PaywallResponder,
        offer: Offer,
        routed: Scope,
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        """Ask for the first price of a route, and call the application only if it is free.

        The application then asks again, and gets the same payment. `routed` has the endpoint and the route.
        """
        await responder.authorize(offer, routed)  # raises where the application is not to run
        await self.app(scope, receive, send)

    def _find_bypass(self, server_scope: Scope, scope: Scope, status: int) -> Bypass | None:
        """Find how what answers this request with this status passes its price by; None if it does not."""
        handler = self._resolver.recall(server_scope, scope, is_harmless_error(status))
        if handler is None or not may_be_result(status, handler.offers):
            return None
        if not (handler.mistake or handler.offers):
            return None
        mistake = handler.mistake or (
            f"The handler of this request sells {handler.offers[0].sells!r}, and something in front of it "
            "answered without a payment. Put the price outside: @paid above a decorator that caches or "
            "answers by itself, and such a middleware or route class behind a path prefix that is sold. "
            "A login may redirect to a page of this application whose path has no parameters."
        )
        return Bypass(mistake, partial(self._resolver.is_free_page, server_scope))

    async def _refuse_websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = _list_path_headers(scope)
        is_protected = self.path_rules.match(scope["path"], scope.get("root_path", ""), headers).protected
        # Something before a price, such as a dependency, could accept it.
        if not is_protected and not self._is_sold_websocket(scope):
            await self.app(scope, receive, send)
        else:
            # The connect event comes first. Servers answer a close that follows it with HTTP 403.
            await receive()
            await send({"type": "websocket.close", "code": 1008, "reason": "payment required"})

    def _is_sold_websocket(self, scope: Scope) -> bool:
        handler = self._resolver.resolve({**scope, "method": "GET"})
        return handler is not None and bool(handler.offers)


_PATH_HEADER_LENGTHS = frozenset(map(len, PATH_HEADERS))


def _list_path_headers(scope: Scope) -> PathHeaders:
    # By its length first: each request is asked, and few have one. An application of WSGI inside reads `_` in
    # the name as `-`.
    return [
        (text, value.decode("latin-1"))
        for name, value in scope["headers"]
        if len(name) in _PATH_HEADER_LENGTHS
        and (text := name.decode("latin-1").lower().replace("_", "-")) in PATH_HEADERS
    ]


def require_payment(
    scope: Mapping[str, Any], offer: Offer, ask: AsyncAsk | None = None
) -> Coroutine[Any, Any, Payment]:
    """Sell what this request runs: await it in a handler or adapter, before the work.

    `ask` awaits a function that chooses the offer; without it, that function gets the scope. The call is
    remembered before it is awaited: a handler that forgets the `await` gives no result away.

    Raises `SkipHandler` when the payer's answer is something else than the work, and
    `ConfigurationError` when there is no paywall in front.
    """
    check_required("scope", scope, offer, ask)
    return ask_payment(scope, offer, ask, 0)

"""The paywall for ASGI: a pure middleware, and the offers a whole prefix can carry.

The price is bound to the handler: a paid handler calls `require_payment` with the scope of its request.
A prefix is the coarser tool, for apps whose handlers cannot be touched.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Unpack

from faregate.core.models import Offer
from faregate.core.usage import Payment
from faregate.errors import ConfigurationError
from faregate.middleware.asgi_responder import PaywallResponder
from faregate.middleware.asgi_scope import Receive, Scope, Send, parse_scope
from faregate.middleware.checkout import Checkout, State
from faregate.middleware.handlers import Handler
from faregate.middleware.lifespan import Lifespan, check_lifespan
from faregate.middleware.path_rules import PathRules
from faregate.middleware.shielding import run_shielded
from faregate.paywall import Paywall
from faregate.routes.dispatch import HandlerResolver
from faregate.settings import Arguments

__all__ = ["Payment", "PaywallMiddleware", "Scope", "require_payment"]

ASGIApp = Callable[[Any, Any, Any], Awaitable[None]]
"""Frameworks disagree on the types of the three."""

_RESPONDER = "faregate.middleware.asgi_responder"
"""The key of a request's responder in its scope."""


class PaywallMiddleware:
    """Holds every response of a paid handler until its payment is proven.

    `offers` sells everything below a path prefix as one offer. `refuse` names prefixes below which
    whatever has no offer is refused, not free: it does not run. Which handler a request reaches is asked
    of Starlette's and FastAPI's routers; an application without such routes has no offers there. Give a
    `paywall`, or the arguments of one.

    With `sweep_every` the journal is swept as long as the application lives, after so many seconds each
    time. Its shutdown waits up to `drain_seconds` for what was begun (`faregate.middleware.lifespan`).
    """

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
        if paywall is not None and arguments:
            raise ConfigurationError("Give PaywallMiddleware a paywall or the arguments of one, not both.")
        self.app = app
        self.paywall = paywall or Paywall(**arguments)
        self.path_rules = PathRules(offers, refuse)
        self._resolver = HandlerResolver(app)
        self._shared: Mapping[str, object] | None = None
        self._sweep_every = sweep_every
        self._drain_seconds = drain_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._serve_http(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._refuse_websocket(scope, receive, send)
        elif scope["type"] == "lifespan":
            self._shared = scope.get("state")
            life = Lifespan(self.paywall, self._sweep_every, self._drain_seconds, receive, send)
            await life.run(self.app, scope)
        else:
            await self.app(scope, receive, send)

    async def _serve_http(self, server_scope: Scope, receive: Receive, send: Send) -> None:
        # A copy: applications change the scope they are given in place.
        scope = {**server_scope, "extensions": dict(server_scope.get("extensions") or {})}
        incoming = parse_scope(server_scope)
        path_match = self.path_rules.match(incoming.path, incoming.root_path)
        checkout = Checkout(
            self.paywall,
            incoming,
            path_match,
            lambda _status: _describe_bypass(self._resolver.recall(server_scope, scope)),
        )
        outer = find_responder(server_scope)
        responder = PaywallResponder(checkout, server_scope, scope, receive, send, self._shared, outer)
        scope[_RESPONDER] = responder

        async def run_app() -> None:
            if checkout.prefix_offer is not None:
                await responder.authorize(checkout.prefix_offer, scope)
            elif path_match.refused and not self._is_sold(scope):
                checkout.refuse_unsold()
            if checkout.state is not State.DECIDED:
                await self.app(scope, responder.receive, responder.send)

        if not incoming.has_payment:
            await responder.run(run_app)
            return
        try:
            # In a task of its own: servers cancel the task of a request whose client left, and the payment
            # of a payer who left is completed all the same.
            await run_shielded(lambda: responder.run(run_app))
        finally:
            responder.leave()

    def _is_sold(self, scope: Scope) -> bool:
        handler = self._resolver.resolve(scope)
        return handler is not None and bool(handler.offers)

    async def _refuse_websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self.path_rules.match(scope["path"], scope.get("root_path", "")).protected:
            await self.app(scope, receive, send)
        else:
            await receive()
            await send({"type": "websocket.close", "code": 1008, "reason": "payment required"})


def _describe_bypass(handler: Handler | None) -> str:
    if handler is None or handler.mistake or not handler.offers:
        return "" if handler is None else handler.mistake
    return (
        f"The handler of this request sells {handler.offers[0].sells!r}, and something in front of it "
        "answered without a payment. Put the price outside: @paid above a decorator that caches or answers "
        "by itself, and such a middleware or route class behind a path prefix that is sold."
    )


async def require_payment(scope: Mapping[str, Any], offer: Offer) -> Payment:
    """For adapters: let this request through to a paid handler.

    Raises `SkipHandler` when the payer's answer is something else than the work, and
    `ConfigurationError` when there is no paywall in front.
    """
    responder = find_responder(scope)
    if responder is None:
        raise ConfigurationError(
            f"A handler sells {offer.sells!r}, but no PaywallMiddleware is in front of it: "
            "app.add_middleware(PaywallMiddleware)"
        )
    return await responder.authorize(offer, scope)


def find_responder(scope: Mapping[str, Any]) -> PaywallResponder | None:
    responder = scope.get(_RESPONDER)
    return responder if isinstance(responder, PaywallResponder) else None

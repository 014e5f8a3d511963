"""The paywall for ASGI: a pure middleware, and the offers a whole prefix can carry.

The price is bound to the handler: a paid handler opens the gate it finds in its scope (`open_gate`).
A prefix is the coarser tool, for apps whose handlers cannot be touched.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Unpack

import anyio

from faregate.core.models import Offer, PaidRequest
from faregate.core.proof import speaks_of_payment
from faregate.errors import ConfigurationError, WorkInterrupted, WorkTimedOut
from faregate.middleware.asgi_responder import PaywallResponder
from faregate.middleware.asgi_scope import Receive, Scope, Send, host_of, origin_of, request_of
from faregate.middleware.checkout import Checkout
from faregate.middleware.lifespan import Lifespan, check
from faregate.middleware.path_rules import PathRules
from faregate.middleware.shielding import is_cancelled_by_itself, is_cancelled_from_outside, to_the_end
from faregate.payment import Payment
from faregate.paywall import Paywall
from faregate.routes.dispatch import HandlerResolver
from faregate.settings import Arguments

__all__ = ["Payment", "PaywallMiddleware", "Scope", "require_payment"]

ASGIApp = Callable[[Any, Any, Any], Awaitable[None]]
"""Frameworks disagree on the types of the three."""

_CURTAIN = "faregate.middleware.asgi_responder"


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
        check(sweep_every, drain_seconds)
        if paywall is not None and arguments:
            raise ConfigurationError("Give PaywallMiddleware a paywall or the arguments of one, not both.")
        self.app = app
        self.paywall = paywall or Paywall(**arguments)
        self.grounds = PathRules(offers, refuse)
        self._resolver = HandlerResolver(app)
        self._shared: Mapping[str, object] | None = None
        self._sweep_every = sweep_every
        self._drain_seconds = drain_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._websocket(scope, receive, send)
        elif scope["type"] == "lifespan":
            self._shared = scope.get("state")
            life = Lifespan(self.paywall, self._sweep_every, self._drain_seconds, receive, send)
            await life.live(self.app, scope)
        else:
            await self.app(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked = scope  # by the payer; applications change the scope they are given, in place
        scope = {**asked, "extensions": dict(asked.get("extensions") or {})}
        place = self.grounds.place(asked["path"], asked.get("root_path", ""))
        checkout = Checkout(self.paywall, asked["method"], partial(_sale, self.paywall, asked), place)
        outer = asked.get(_CURTAIN)
        curtain = scope[_CURTAIN] = PaywallResponder(
            checkout,
            asked,
            scope,
            receive,
            send,
            find_handler=lambda: self._resolver.recall(asked, scope),
            shared=self._shared,
            outer=outer if isinstance(outer, PaywallResponder) else None,
        )
        if any(speaks_of_payment(name) for name, _ in scope["headers"]):
            try:
                await to_the_end(lambda: self._limited(curtain, scope))
            finally:
                curtain.leave()
        else:
            await self._unlimited(curtain, scope)

    async def _unlimited(self, curtain: PaywallResponder, scope: Scope) -> None:
        try:
            await self._served(curtain, scope)
        except Exception:
            raise
        except BaseException as ended:
            await self._report(curtain, ended)
        finally:
            curtain.close()

    async def _limited(self, curtain: PaywallResponder, scope: Scope) -> None:
        """With a proof the handler can be cut off, so that it never outlives its payment."""
        try:
            with anyio.CancelScope() as curtain.checkout.limit:
                await self._served(curtain, scope)
            if curtain.checkout.limit.cancelled_caught:
                await curtain.fail(_too_late())
        except Exception:
            raise
        except BaseException as ended:
            await self._report(curtain, ended)
        finally:
            curtain.close()

    async def _served(self, curtain: PaywallResponder, scope: Scope) -> None:
        checkout = curtain.checkout
        try:
            sold = checkout.ground_offer
            if sold is not None:
                await curtain.open(sold, scope)
            elif checkout.place.closed and not self._sells(scope):
                checkout.refuse_closed()
            if checkout.verdict is None:
                await self.app(scope, curtain.receive, curtain.send)
        except Exception as error:
            await curtain.fail(error)
        else:
            await curtain.end()

    def _sells(self, scope: Scope) -> bool:
        handler = self._resolver.resolve(scope)
        return handler is not None and bool(handler.offers)

    async def _report(self, curtain: PaywallResponder, ended: BaseException) -> None:
        """Work that ended in more than an error is failed work; what ended it goes on, unless it was ours."""
        if isinstance(ended, GeneratorExit) or is_cancelled_from_outside(ended):
            raise ended
        limit = curtain.checkout.limit
        if limit is not None and limit.cancel_called and isinstance(ended, asyncio.CancelledError):
            await curtain.fail(_too_late())  # an application that made its own error of the cut-off
            return
        await curtain.fail(WorkInterrupted(f"the handler raised {type(ended).__name__}"))
        if not isinstance(ended, asyncio.CancelledError) or is_cancelled_by_itself():
            raise ended

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self.grounds.place(scope["path"], scope.get("root_path", "")).guarded:
            await self.app(scope, receive, send)
        else:
            await receive()
            await send({"type": "websocket.close", "code": 1008, "reason": "payment required"})


async def require_payment(scope: Mapping[str, Any], sold: Offer) -> Payment:
    """For adapters: let this request through to a paid handler.

    Raises `SkipHandler` when the payer's answer is something else than the work, and
    `ConfigurationError` when there is no paywall in front.
    """
    curtain = scope.get(_CURTAIN)
    if not isinstance(curtain, PaywallResponder):
        raise ConfigurationError(
            f"A handler sells {sold.sells!r}, but no PaywallMiddleware is in front of it: "
            "app.add_middleware(PaywallMiddleware)"
        )
    return await curtain.open(sold, scope)


def _too_late() -> WorkTimedOut:
    return WorkTimedOut("the work took longer than its payment is valid")


def _sale(paywall: Paywall, scope: Scope, sold: Offer) -> PaidRequest:
    return paywall.sale(sold, request_of(scope), scope["path"], origin_of(scope), host_of(scope))

"""The paywall for ASGI: a pure middleware, and the offers a whole prefix can carry.

The price is bound to the handler: a paid handler opens the gate it finds in its scope (`open_gate`).
A prefix is the coarser tool, for apps whose handlers cannot be touched.
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Unpack

import anyio

from faregate.detached import to_the_end
from faregate.errors import Misconfigured, WorkTimedOut
from faregate.gate import Gate
from faregate.model import Offer
from faregate.payment import Payment
from faregate.paywall import Paywall, offer
from faregate.proof import speaks_of_payment
from faregate.scopes import Message, Receive, Scope, Send
from faregate.settings import Arguments

__all__ = ["Payment", "PaywallMiddleware", "Scope", "open_gate"]

ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]

_GATE = "faregate.gate"


class PaywallMiddleware:
    """Holds every response of a paid handler until its payment is proven.

    `offers` sells everything below a path prefix as one offer. `refuse` names prefixes below which
    whatever has no offer is refused, not free. Give a `paywall`, or the arguments of one.
    """

    def __init__(
        self,
        app: ASGIApp,
        paywall: Paywall | None = None,
        *,
        offers: Mapping[str, str | Offer] | None = None,
        refuse: Sequence[str] = (),
        **arguments: Unpack[Arguments],
    ) -> None:
        if paywall is not None and arguments:
            raise Misconfigured("Give PaywallMiddleware a paywall or the arguments of one, not both.")
        self.app = app
        self.paywall = paywall or Paywall(**arguments)
        self._offers = {
            _prefix(path): sold if isinstance(sold, Offer) else offer(sold)
            for path, sold in (offers or {}).items()
        }
        if len(self._offers) < len(offers or {}):
            raise Misconfigured("Two paid prefixes are the same path, spelt differently. Keep one of them.")
        self._refuse = tuple(_prefix(path) for path in refuse)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._websocket(scope, receive, send)
        else:
            await self.app(scope, receive, self._closing(send))

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope = {**scope, "extensions": dict(scope.get("extensions") or {})}
        gate = scope[_GATE] = Gate(self.paywall, scope, receive, send)
        if any(speaks_of_payment(name) for name, _ in scope["headers"]):
            await to_the_end(lambda: self._limited(gate, scope))
        else:
            await self._unlimited(gate, scope)

    async def _unlimited(self, gate: Gate, scope: Scope) -> None:
        try:
            await self._served(gate, scope)
        finally:
            gate.close()

    async def _limited(self, gate: Gate, scope: Scope) -> None:
        """With a proof the handler can be cut off, so that it never outlives its payment."""
        try:
            with anyio.CancelScope() as gate.limit:
                await self._served(gate, scope)
            if gate.limit.cancelled_caught:
                await gate.fail(WorkTimedOut("the work took longer than its payment is valid"))
        finally:
            gate.close()

    async def _served(self, gate: Gate, scope: Scope) -> None:
        try:
            if await self._admitted(gate, scope):
                await self.app(scope, gate.receive, gate.send)
        except Exception as error:
            await gate.fail(error)
        else:
            await gate.end()

    async def _admitted(self, gate: Gate, scope: Scope) -> bool:
        """A prefix is known before the handler is. False if the app shall not be asked at all."""
        if not self._offers and not self._refuse:
            return True
        if _is_ambiguous(scope["path"]):
            gate.refuse(400, "ambiguous_path", "A path on this server has no dot-dot segments.")
            return False
        paths = _paths(scope)
        prefix = _below(paths, tuple(self._offers))
        closed = _below(paths, self._refuse) is not None
        if scope["method"] == "OPTIONS":
            gate.preflight = closed or prefix is not None
            return True
        gate.closed_ground = closed
        if prefix is not None:
            await gate.open(self._offers[prefix])
        return True

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        grounds = (*self._offers, *self._refuse)
        ambiguous = bool(grounds) and _is_ambiguous(scope["path"])
        if not ambiguous and _below(_paths(scope), grounds) is None:
            await self.app(scope, receive, send)
        else:
            await receive()
            await send({"type": "websocket.close", "code": 1008, "reason": "payment required"})

    def _closing(self, send: Send) -> Send:
        async def closing(message: Message) -> None:
            if message["type"] in ("lifespan.shutdown.complete", "lifespan.shutdown.failed"):
                await self.paywall.aclose()
            await send(message)

        return closing


async def open_gate(scope: Mapping[str, Any], sold: Offer) -> Payment:
    """For adapters: let this request through to a paid handler.

    Raises `PaymentStop` when the payer's answer is something else than the work, and
    `Misconfigured` when there is no paywall in front.
    """
    gate = scope.get(_GATE)
    if not isinstance(gate, Gate):
        raise Misconfigured(
            f"A handler sells {sold.sells!r}, but no PaywallMiddleware is in front of it: "
            "app.add_middleware(PaywallMiddleware)"
        )
    return await gate.open(sold)


def _prefix(path: str) -> str:
    if not path.startswith("/"):
        raise Misconfigured(f"A paid prefix starts with a slash: {path!r} does not.")
    if _is_ambiguous(path) or any(char in path for char in "*{}<>?#%"):
        raise Misconfigured(
            f"A paid prefix is a plain, decoded path and no pattern: {path!r} would match nothing."
        )
    return _canonical(path)


def _paths(scope: Scope) -> tuple[str, ...]:
    """The path as routers may read it: whole, without the root path, and with it."""
    path, root = scope["path"], scope.get("root_path", "")
    if not root:
        return (_canonical(path),)
    other = path[len(root) :] if path.startswith(root) else root + path
    return (_canonical(path), _canonical(other))


def _is_ambiguous(path: str) -> bool:
    """A dot-dot in any reading: routers, file systems and proxies disagree on where it leads."""
    return ".." in path and any(
        re.split(r"[;\s]+", part.strip())[0] == ".." for part in re.split(r"[/\\]+", path)
    )


def _canonical(path: str) -> str:
    """Wider than any router: in doubt a path is on paid ground."""
    parts: list[str] = []
    for part in re.split(r"[/\\]+", path.casefold()):
        part = part.strip().partition(";")[0]
        if part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts)


def _below(paths: tuple[str, ...], prefixes: tuple[str, ...]) -> str | None:
    """The longest prefix that one of the paths stands on."""
    found = [
        prefix for prefix in prefixes for path in paths if f"{path}/".startswith(f"{prefix.rstrip('/')}/")
    ]
    return max(found, key=len, default=None)

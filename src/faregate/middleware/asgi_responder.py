"""Buffer the messages of one ASGI response until its checkout says what may leave."""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, cast

import anyio

from faregate.core.models import Offer, Response
from faregate.errors import ConfigurationError, WorkInterrupted
from faregate.middleware.asgi_scope import (
    Message,
    Receive,
    Scope,
    Send,
    content_type_of,
    has_body,
    length_of,
    messages_of,
    take_snapshot,
    text_of,
)
from faregate.middleware.buffer import Held
from faregate.middleware.checkout import Checkout, SkipHandler
from faregate.middleware.handlers import Handler
from faregate.middleware.request_body import comparable_length
from faregate.payment import Payment

# Ways of sending past us; a paid handler must not be offered them.
_WITHHELD = ("pathsend", "zerocopysend", "trailers", "push", "early_hint")


class PaywallResponder:
    """Stands between an application and its server; `gate` decides.

    `asked` is the scope as the server gave it, `scope` the one for the application. `shared` objects belong
    to all requests. `find_handler` knows who answered; `outer` is that of a paywall around this one.
    """

    def __init__(
        self,
        checkout: Checkout,
        asked: Scope,
        scope: Scope,
        receive: Receive,
        send: Send,
        *,
        find_handler: Callable[[], Handler | None] = lambda: None,
        shared: Mapping[str, object] | None = None,
        outer: "PaywallResponder | None" = None,
    ) -> None:
        self.checkout = checkout
        self._asked = asked
        self._scope = scope
        self._method: str = asked["method"]
        self._receive = receive
        self._send = send
        self._find_handler = find_handler
        self._shared = shared
        self._outer = outer
        self._held = Held()
        self._body_read = not has_body(scope)
        self._is_comparable = comparable_length(length_of(scope)) is not None
        self._body: list[bytes] = []
        self._read_before: deque[Message] = deque()
        self._receiving: anyio.Lock | None = None
        self._payer_left = False
        self._server_left = False
        self._told = False
        self._closed: anyio.Event | None = None
        self._sent = False

    # The handler's side

    async def open(self, sold: Offer, scope: Mapping[str, Any]) -> Payment:
        """For the handler that sells: see `Checkout.open`. `scope` is the one that it was given."""
        if self._outer is not None:
            self._outer.checkout.is_sold_inside = True
        if self.checkout.payment is None and self.checkout.limit is not None:
            await self._read_ahead()
        payment = await self.checkout.aopen(sold)
        if self._closed is None:
            self._closed = anyio.Event()
            self._withhold_extensions()
            snapshot = take_snapshot(self._asked, scope, self._shared)
            self.checkout.restore_unless_released(snapshot.restore)
        return payment

    async def receive(self) -> Message:
        """The payer's messages; once the work runs, that the payer left is no news."""
        async with self._lock():
            if self._read_before:
                return self._read_before.popleft()
            message = await self._next_message()
        is_work_running = self.checkout.transaction_id is not None and not self._sent
        if message["type"] != "http.request" and is_work_running and self._body_read and self._closed:
            if self._told:
                await self._closed.wait()
            else:
                # uvicorn says so before it says that there is no body: whoever reads one would wait.
                message = {"type": "http.request", "body": b"", "more_body": False}
        self._told = True
        return message

    def _lock(self) -> anyio.Lock:
        """Held while a message is awaited. Quart reads the body in a task of its own, beside the handler."""
        if self._receiving is None:
            self._receiving = anyio.Lock()
        return self._receiving

    async def _next_message(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self._note_body(message)
        else:
            self._payer_left = True
        return message

    def _note_body(self, message: Message) -> None:
        self._body_read = not message.get("more_body", False)
        if self._is_comparable and self.checkout.limit is not None:  # only a payment is compared
            self._body.append(bytes(message.get("body", b"")))

    async def _read_ahead(self) -> None:
        """Read a small body before the handler does: it is a part of what the payment is for."""
        if not self._is_comparable or self.checkout.has_body or self.checkout.verdict is not None:
            return
        while not (self._body_read or self._payer_left):
            async with self._lock():
                if not (self._body_read or self._payer_left):
                    self._read_before.append(await self._next_message())
        body = b"".join(self._body) if self._body_read else None
        self.checkout.take_body(body, content_type_of(self._scope))
        self._body.clear()

    async def send(self, message: Message) -> None:
        """The handler's messages: held when paid for, dropped when stopped, passed on otherwise."""
        if self.checkout.verdict is not None or self.checkout.finished:
            return
        if self.checkout.payment is None:
            await self._pass(message)
        elif message["type"] == "http.response.start":
            headers = text_of(message.get("headers", ()))
            self._held.begin(message["status"], headers, self.checkout.result_bytes)
        elif message["type"] == "http.response.body":
            await self._hold(message)
        elif message["type"] != "http.response.debug":
            raise ConfigurationError(f"A paid handler cannot send {message['type']}.")

    async def _pass(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._withhold_unpaid(message["status"])
        if self.checkout.lets_pass():
            self._share_session()
            await self._deliver(message)

    def _withhold_unpaid(self, status: int) -> None:
        """A result of a handler that sells, whose gate was not opened: something answered in its place."""
        is_result = 200 <= status < 300 or status == 304
        if not is_result or self._method == "OPTIONS" or self.checkout.is_sold_inside:
            return
        self.checkout.check_unopened()
        handler = self._find_handler()
        if handler is not None and handler.mistake:
            self.checkout.withhold(ConfigurationError(handler.mistake))
        elif handler is not None and handler.offers:
            self.checkout.withhold(ConfigurationError(_answered_by_another(handler.offers[0])))

    async def _hold(self, message: Message) -> None:
        self._held.take(message.get("body", b""))
        if message.get("more_body", False):
            return
        work = self._held.whole()
        answer = await self.checkout.aconclude(work)
        await self._emit(answer)
        if not answer.released:
            # The payer did not get what the handler made: its background tasks must not run.
            raise SkipHandler(answer.status)

    # The middleware's side

    async def end(self) -> None:
        """The application returned."""
        if self.checkout.finished:
            await self._make_sure()
        elif self.checkout.verdict is not None:
            await self._emit(self.checkout.verdict)
        elif self.checkout.payment is not None:
            await self.fail(RuntimeError("the handler returned without a complete response"))

    async def fail(self, error: Exception) -> None:
        """The application raised; raised on, unless the payer's answer is decided."""
        checkout = self.checkout
        if checkout.finished:
            await self._make_sure()
        elif checkout.verdict is not None:
            await self._emit(checkout.verdict)
        elif checkout.payment is not None:
            await self._emit(await checkout.aabandon(self._held.too_large or error))
            return
        if not _is_a_stop(error) and (checkout.verdict is None or error is checkout.mistake):
            raise error

    def leave(self) -> None:
        """The server does not wait any longer: it answers by itself, and the payer comes back."""
        self._server_left = True

    def close(self) -> None:
        """The request is over."""
        self.checkout.close()
        if self._closed is not None:
            self._closed.set()

    async def _make_sure(self) -> None:
        """If the application was cut off while its payment was taken, the answer is still owed."""
        if not self._sent:
            await self._emit(await self.checkout.owed())

    async def _emit(self, response: Response) -> None:
        self.checkout.finished = self._sent = True
        if response.released:
            self._share_session()
        for message in messages_of(response, self._method):
            await self._deliver(message)

    async def _deliver(self, message: Message) -> None:
        if not self._server_left:
            await self._send(message)

    def _share_session(self) -> None:
        """Litestar's handlers set a session that is another object: who keeps sessions outside gets it."""
        if "session" in self._asked and "session" in self._scope:
            self._asked["session"] = self._scope["session"]

    def _withhold_extensions(self) -> None:
        # In place: a middleware in between may have copied the scope, but not this.
        for name in _WITHHELD:
            self._scope["extensions"].pop(f"http.response.{name}", None)


def _answered_by_another(offer: Offer) -> str:
    return (
        f"The handler of this request sells {offer.sells!r}, and something in front of it answered without "
        "a payment. Put the price outside: @paid above a decorator that caches or answers by itself, and "
        "such a middleware or route class behind a path prefix that is sold."
    )


def _is_a_stop(error: BaseException | None) -> bool:
    """Ours, or nothing but ours in what the application made of it: a group, or an error of its own."""
    if isinstance(error, ExceptionGroup):
        return all(map(_is_a_stop, cast("ExceptionGroup[Exception]", error).exceptions))
    return isinstance(error, (SkipHandler, WorkInterrupted)) or (
        error is not None and _is_a_stop(error.__cause__)
    )

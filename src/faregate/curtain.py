"""The messages of one ASGI request, held back until its gate says what may leave."""

from typing import cast

import anyio

from faregate.errors import Misconfigured, WorkInterrupted
from faregate.gate import Gate, PaymentStop
from faregate.held import Held
from faregate.model import Offer, Response
from faregate.payment import Payment
from faregate.scopes import Message, Receive, Scope, Send, has_body, messages_of, text_of

# Ways of sending past us; a paid handler must not be offered them.
_WITHHELD = ("pathsend", "zerocopysend", "trailers", "push", "early_hint")


class Curtain:
    """Stands between an application and its server; `gate` decides."""

    def __init__(self, gate: Gate, scope: Scope, receive: Receive, send: Send) -> None:
        self.gate = gate
        self._scope = scope
        self._method: str = scope["method"]
        self._receive = receive
        self._send = send
        self._held = Held()
        self._body_read = not has_body(scope)
        self._told = False
        self._closed: anyio.Event | None = None
        self._sent = False

    # The handler's side

    async def open(self, sold: Offer) -> Payment:
        """For the handler that sells: see `Gate.open`."""
        payment = await self.gate.aopen(sold)
        self._closed = self._closed or anyio.Event()
        self._withhold_extensions()
        return payment

    async def receive(self) -> Message:
        """The payer's messages; once the work runs, that the payer left is no news."""
        message = await self._receive()
        if message["type"] == "http.request":
            self._body_read = not message.get("more_body", False)
        elif self.gate.transaction_id is not None and self._body_read and not self._sent and self._closed:
            if self._told:
                await self._closed.wait()
            else:
                # uvicorn says so before it says that there is no body: whoever reads one would wait.
                message = {"type": "http.request", "body": b"", "more_body": False}
        self._told = True
        return message

    async def send(self, message: Message) -> None:
        """The handler's messages: held when paid for, dropped when stopped, passed on otherwise."""
        if self.gate.verdict is not None or self.gate.finished:
            return
        if self.gate.payment is None:
            await self._pass(message)
        elif message["type"] == "http.response.start":
            headers = text_of(message.get("headers", ()))
            self._held.begin(message["status"], headers, self.gate.result_bytes)
        elif message["type"] == "http.response.body":
            await self._hold(message)
        elif message["type"] != "http.response.debug":
            raise Misconfigured(f"A paid handler cannot send {message['type']}.")

    async def _pass(self, message: Message) -> None:
        if self.gate.lets_pass():
            await self._send(message)

    async def _hold(self, message: Message) -> None:
        self._held.take(message.get("body", b""))
        if message.get("more_body", False):
            return
        work = self._held.whole()
        answer = await self.gate.aconclude(work)
        await self._emit(answer)
        if answer.body is not work.body:
            # The payer did not get what the handler made: its background tasks must not run.
            raise PaymentStop(402)

    # The middleware's side

    async def end(self) -> None:
        """The application returned."""
        if self.gate.finished:
            await self._make_sure()
        elif self.gate.verdict is not None:
            await self._emit(self.gate.verdict)
        elif self.gate.payment is not None:
            await self.fail(RuntimeError("the handler returned without a complete response"))

    async def fail(self, error: Exception) -> None:
        """The application raised; raised on, unless the payer's answer is decided."""
        gate = self.gate
        if gate.finished:
            await self._make_sure()
        elif gate.verdict is not None:
            await self._emit(gate.verdict)
        elif gate.payment is not None:
            await self._emit(await gate.aabandon(self._held.too_large or error))
            return
        if not _is_a_stop(error) and (gate.verdict is None or error is gate.mistake):
            raise error

    def close(self) -> None:
        """The request is over."""
        self.gate.close()
        if self._closed is not None:
            self._closed.set()

    async def _make_sure(self) -> None:
        """If the application was cut off while its payment was taken, the answer is still owed."""
        if not self._sent:
            await self._emit(await self.gate.owed())

    async def _emit(self, response: Response) -> None:
        self.gate.finished = self._sent = True
        for message in messages_of(response, self._method):
            await self._send(message)

    def _withhold_extensions(self) -> None:
        # In place: a middleware in between may have copied the scope, but not this.
        for name in _WITHHELD:
            self._scope["extensions"].pop(f"http.response.{name}", None)


def _is_a_stop(error: Exception) -> bool:
    """Ours, or nothing but ours in what a task group of the application made of it."""
    if isinstance(error, ExceptionGroup):
        return all(map(_is_a_stop, cast("ExceptionGroup[Exception]", error).exceptions))
    return isinstance(error, (PaymentStop, WorkInterrupted))

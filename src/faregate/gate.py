"""One ASGI request at the gate: what the handler sends is held until the flow says what may leave.

The gate decides nothing. It opens when a paid handler is reached, drives the flow up to the work,
gathers the handler's whole response, drives the flow to its end, and sends what the flow returned.
"""

import math
from time import monotonic

import anyio
import anyio.lowlevel

from faregate import relay
from faregate.detached import to_the_end
from faregate.drive import Turn, adrive, raised, resumed, started
from faregate.errors import Misconfigured
from faregate.flow import serve
from faregate.model import Offer, Response, Sale, Work
from faregate.payment import Payment
from faregate.paywall import Paywall
from faregate.scopes import (
    Held,
    Message,
    Receive,
    Scope,
    Send,
    emptied,
    has_body,
    host_of,
    messages_of,
    origin_of,
    request_of,
)
from faregate.steps import Flow, RunWork

# Ways of sending a body past us; a paid handler must not be offered them.
_BODY_EXTENSIONS = ("http.response.pathsend", "http.response.zerocopysend", "http.response.trailers")


class PaymentStop(Exception):
    """Raised in the handler's place: what the payer gets is decided already."""

    def __init__(self, status: int) -> None:
        super().__init__("this request is not paid for")
        self.status = status


class Gate:
    """The state of one request. `limit` is the scope in which the handler runs, if it can be cut off."""

    def __init__(self, paywall: Paywall, scope: Scope, receive: Receive, send: Send) -> None:
        self._paywall = paywall
        self._scope = scope
        self._receive = receive
        self._send = send
        self._sale: Sale | None = None
        self._flow: Flow[Response] | None = None
        self._payment: Payment | None = None
        self._verdict: Response | None = None
        self._mistake: Misconfigured | None = None
        self._finished = False
        self._answer: Response | None = None
        self._concluded: anyio.Event | None = None
        self._closed: anyio.Event | None = None
        self._sent = False
        self._held = Held()
        self._body: bytes | None = None
        self._began = 0.0
        self._body_read = not has_body(scope)
        self.limit: anyio.CancelScope | None = None
        self.closed_ground = False
        self.preflight = False

    # The handler's side

    async def open(self, offer: Offer) -> Payment:
        """Ask whether this request may be served. Raises `PaymentStop` when it may not."""
        if self._payment is not None and self._sale is not None and self._sale.offer == offer:
            return self._payment
        if self._sale is not None or self._held.has_begun:
            raise Misconfigured("One request reached two offers. Put one offer on the handler or its group.")
        if self._scope["method"] == "OPTIONS":
            return self._stop(Response(204, (relay.NO_STORE,)))
        try:
            self._sale = sale = self._sale_of(offer)
            self._flow = serve(sale)
            return await self._reach_work(started(self._flow), sale)
        except Misconfigured as mistake:
            # Whoever catches this in between must not go on as if it were paid.
            self._verdict, self._mistake = relay.trouble(502), mistake
            raise

    async def _reach_work(self, turn: Turn, sale: Sale) -> Payment:
        step = await self._drive(turn)
        if not isinstance(step, RunWork):
            return self._stop(step)
        self._payment = Payment(step.transaction_id)
        self._concluded, self._closed = anyio.Event(), anyio.Event()
        self._began = monotonic()
        self._withhold_extensions()
        if self.limit is not None and step.transaction_id is not None:
            self.limit.deadline = anyio.current_time() + sale.work_seconds
        return self._payment

    def refuse(self, status: int, code: str, message: str) -> None:
        """Nothing of this request is served."""
        self._verdict = relay.refused(status, code, message)

    def _stop(self, verdict: Response) -> Payment:
        self._verdict = verdict
        raise PaymentStop(verdict.status)

    async def receive(self) -> Message:
        """The payer's messages; once the work runs, that the payer left is no news."""
        message = await self._receive()
        if message["type"] == "http.request":
            self._body_read = not message.get("more_body", False)
        elif self._transaction_id() is not None and self._body_read and not self._sent and self._closed:
            await self._closed.wait()
        return message

    async def send(self, message: Message) -> None:
        """The handler's messages: held when paid for, dropped when stopped, passed on otherwise."""
        if self._verdict is not None or (self._finished and self._sale is not None):
            return
        if self._payment is None:
            await self._pass(message)
        elif message["type"] == "http.response.start":
            self._held.begin(message)
        elif message["type"] == "http.response.body":
            await self._hold(message)
        elif message["type"] != "http.response.debug":
            raise Misconfigured(f"A paid handler cannot send {message['type']}.")

    async def _pass(self, message: Message) -> None:
        if self.closed_ground:
            self._verdict = relay.refused(403, "not_for_sale", "This resource is not for sale.")
            return
        self._held.begin(message)
        if not self.preflight:
            await self._send(message)
        elif message["type"] in ("http.response.start", "http.response.body"):
            await self._send(emptied(message))

    async def _hold(self, message: Message) -> None:
        if not self._held.take(message, self._sale.result_bytes if self._sale is not None else 0):
            return
        await self._finish(resumed(self._open_flow(), self._work()))
        if self._answer is None or self._answer.body is not self._body:
            # The payer did not get what the handler made: its background tasks must not run.
            raise PaymentStop(402)

    # The middleware's side

    async def end(self) -> None:
        """The application returned."""
        if self._finished:
            await self._make_sure()
        elif self._verdict is not None:
            await self._emit(self._verdict)
        elif self._payment is not None:
            await self.fail(RuntimeError("the handler returned without a complete response"))

    async def fail(self, error: Exception) -> None:
        """The application raised; raised on, unless the payer's answer is decided."""
        if self._finished:
            await self._make_sure()
        elif self._verdict is not None:
            await self._emit(self._verdict)
        elif self._payment is not None:
            await self._finish(raised(self._open_flow(), self._held.too_large or error))
            return
        if not isinstance(error, PaymentStop) and (self._verdict is None or error is self._mistake):
            raise error

    async def _make_sure(self) -> None:
        """If the application was cut off while its payment was taken, the answer is still owed."""
        if not self._sent and self._concluded is not None:
            await self._concluded.wait()
            await self._emit(self._answer or relay.unconfirmed(self._transaction_id()))

    def _transaction_id(self) -> str | None:
        return None if self._payment is None else self._payment.transaction_id

    def close(self) -> None:
        """Nothing more will be asked: an unfinished flow is the same case as a crash."""
        if self._flow is not None and not self._finished:
            self._flow.close()
        if self._closed is not None:
            self._closed.set()

    # Between them

    def _sale_of(self, offer: Offer) -> Sale:
        scope = self._scope
        return self._paywall.sale(offer, request_of(scope), scope["path"], origin_of(scope), host_of(scope))

    def _work(self) -> Work:
        response = self._held.whole()
        self._body = response.body
        values = {} if self._payment is None else self._payment.values
        return Work(response, values, int((monotonic() - self._began) * 1000))

    async def _finish(self, turn: Turn) -> None:
        if self.limit is not None:
            if self.limit.cancel_called:
                await anyio.lowlevel.checkpoint()  # too late: the cut-off is on its way
            self.limit.deadline = math.inf
        self._finished = True
        await to_the_end(lambda: self._conclude(turn))
        if self._answer is None:
            raise RuntimeError("the flow asked for the work twice")
        await self._emit(self._answer)

    async def _conclude(self, turn: Turn) -> None:
        """From the outcome to the answer: whatever cuts the application off does not cut this off."""
        try:
            answer = await self._drive(turn)
            self._answer = None if isinstance(answer, RunWork) else answer
        finally:
            if self._concluded is not None:
                self._concluded.set()

    async def _emit(self, response: Response) -> None:
        self._finished = self._sent = True
        for message in messages_of(response, self._scope["method"]):
            await self._send(message)

    async def _drive(self, turn: Turn) -> Response | RunWork:
        return await adrive(self._open_flow(), self._paywall.async_world, turn)

    def _open_flow(self) -> Flow[Response]:
        if self._flow is None:
            raise RuntimeError("the gate is not open")
        return self._flow

    def _withhold_extensions(self) -> None:
        # In place: a middleware in between may have copied the scope, but not this.
        for name in _BODY_EXTENSIONS:
            self._scope["extensions"].pop(name, None)

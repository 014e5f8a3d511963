"""One ASGI request at the gate: what the handler sends is held until the flow says what may leave.

The gate decides nothing. It opens when a paid handler is reached, drives the flow up to the work,
gathers the handler's whole response, drives the flow to its end, and sends what the flow returned.
"""

import math
from collections.abc import Awaitable, Callable, MutableMapping
from time import monotonic
from typing import Any

import anyio
import anyio.lowlevel

from faregate import relay
from faregate.detached import to_the_end
from faregate.drive import Turn, adrive, raised, resumed, started
from faregate.errors import Misconfigured, ResultTooLarge
from faregate.flow import serve
from faregate.model import Headers, Offer, Request, Response, Sale, Work
from faregate.payment import Payment
from faregate.paywall import Paywall
from faregate.proof import speaks_of_payment
from faregate.steps import Flow, RunWork

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

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
        self._start: Message | None = None
        self._chunks: list[bytes] = []
        self._body: bytes | None = None
        self._size = 0
        self._began = 0.0
        self._too_large: ResultTooLarge | None = None
        self._body_read = not _has_body(scope)
        self.limit: anyio.CancelScope | None = None
        self.closed_ground = False
        self.preflight = False

    # The handler's side

    async def open(self, offer: Offer) -> Payment:
        """Ask whether this request may be served. Raises `PaymentStop` when it may not."""
        if self._payment is not None and self._sale is not None and self._sale.offer == offer:
            return self._payment
        if self._sale is not None or self._start is not None:
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
            self._start = message
        elif message["type"] == "http.response.body":
            await self._hold(message)
        elif message["type"] != "http.response.debug":
            raise Misconfigured(f"A paid handler cannot send {message['type']}.")

    async def _pass(self, message: Message) -> None:
        if self.closed_ground:
            self._verdict = relay.refused(403, "not_for_sale", "This resource is not for sale.")
            return
        self._start = message
        if not self.preflight:
            await self._send(message)
        elif message["type"] in ("http.response.start", "http.response.body"):
            await self._send(_emptied(message))

    async def _hold(self, message: Message) -> None:
        chunk = bytes(message.get("body", b""))  # a view may be written to again
        self._size += len(chunk)
        limit = self._sale.result_bytes if self._sale is not None else 0
        if self._size > limit:
            self._chunks.clear()
            self._too_large = ResultTooLarge(f"the result has more than {limit} bytes")
            raise self._too_large
        self._chunks.append(chunk)
        if not message.get("more_body", False):
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
            await self._finish(raised(self._open_flow(), self._too_large or error))
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
        if self._flow is not None:
            self._flow.close()
        if self._closed is not None:
            self._closed.set()

    # Between them

    def _sale_of(self, offer: Offer) -> Sale:
        scope = self._scope
        url = _url(scope)
        headers = tuple(
            (name.decode("latin-1"), value.decode("latin-1"))
            for name, value in scope["headers"]
            if speaks_of_payment(name)
        )
        host = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"host"), None)
        request = Request(scope["method"], url, headers)
        return self._paywall.sale(offer, request, scope["path"], _origin(scope), host)

    def _work(self) -> Work:
        start = self._start
        if start is None or self._payment is None:
            raise RuntimeError("the handler sent a body before the start of its response")
        self._body = b"".join(self._chunks)
        response = Response(start["status"], _text(start.get("headers", ())), self._body)
        return Work(response, self._payment.values, int((monotonic() - self._began) * 1000))

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
        head = self._scope["method"] == "HEAD"
        body = b"" if head or response.status in (204, 304) else response.body
        headers = [
            (name.lower().encode("latin-1"), value.encode("latin-1"))
            for name, value in response.headers
            if head or name.lower() != "content-length"
        ]
        if not head and response.status not in (204, 304):
            headers.append((b"content-length", str(len(response.body)).encode()))
        await self._send({"type": "http.response.start", "status": response.status, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})

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


def _emptied(message: Message) -> Message:
    """What may pass of an answer to OPTIONS on paid ground: its headers, for CORS; never content."""
    if message["type"] == "http.response.start":
        kept = [pair for pair in message.get("headers", ()) if bytes(pair[0]).lower() != b"content-length"]
        return {**message, "headers": [*kept, (b"content-length", b"0")]}
    return {**message, "body": b""}


def _url(scope: Scope) -> str:
    """Path and query as the payer sent them."""
    raw = scope.get("raw_path")
    path = raw.decode("latin-1") if raw else scope["path"]
    query = scope.get("query_string", b"").decode("latin-1")
    return f"{path}?{query}" if query else path


def _origin(scope: Scope) -> str | None:
    """The address the server listens on, which no payer can choose."""
    server = scope.get("server")
    if server is None or server[0].startswith("/"):  # a unix socket has no address for payers
        return None
    scheme = scope.get("scheme", "http")
    name = f"[{server[0]}]" if ":" in server[0] else server[0]
    port = "" if server[1] in (None, {"http": 80, "https": 443}.get(scheme)) else f":{server[1]}"
    return f"{scheme}://{name}{port}"


def _has_body(scope: Scope) -> bool:
    return any(
        name == b"transfer-encoding" or (name == b"content-length" and value != b"0")
        for name, value in scope["headers"]
    )


def _text(headers: Any) -> Headers:
    return tuple((bytes(name).decode("latin-1"), bytes(value).decode("latin-1")) for name, value in headers)

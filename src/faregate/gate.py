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
        self._finished = False
        self._start: Message | None = None
        self._chunks: list[bytes] = []
        self._size = 0
        self._began = 0.0
        self._too_large: ResultTooLarge | None = None
        self._body_read = not _has_body(scope)
        self._left: anyio.Event | None = None
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
        self._sale = sale = self._sale_of(offer)
        self._flow = serve(sale)
        return await self._reach_work(started(self._flow), sale)

    async def _reach_work(self, turn: Turn, sale: Sale) -> Payment:
        step = await self._drive(turn)
        if not isinstance(step, RunWork):
            return self._stop(step)
        self._payment = Payment(step.transaction_id)
        self._began = monotonic()
        self._withhold_extensions()
        if self.limit is not None and step.transaction_id is not None:
            self.limit.deadline = anyio.current_time() + sale.work_seconds
        return self._payment

    def _stop(self, verdict: Response) -> Payment:
        self._verdict = verdict
        raise PaymentStop(verdict.status)

    async def receive(self) -> Message:
        """The payer's messages; once the work runs, that the payer left is no news."""
        message = await self._receive()
        if message["type"] == "http.request":
            self._body_read = not message.get("more_body", False)
        elif self._payment is not None and self._body_read and not self._finished:
            self._left = self._left or anyio.Event()
            await self._left.wait()
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
        await self._send(_emptied(message) if self.preflight else message)

    async def _hold(self, message: Message) -> None:
        chunk = message.get("body", b"")
        self._size += len(chunk)
        limit = self._sale.result_bytes if self._sale is not None else 0
        if self._size > limit:
            self._chunks.clear()
            self._too_large = ResultTooLarge(f"the result has more than {limit} bytes")
            raise self._too_large
        self._chunks.append(chunk)
        if not message.get("more_body", False):
            await self._finish(resumed(self._open_flow(), self._work()))

    # The middleware's side

    async def end(self) -> None:
        """The application returned."""
        if self._verdict is not None and not self._finished:
            await self._emit(self._verdict)
        elif self._payment is not None and not self._finished:
            await self.fail(RuntimeError("the handler returned without a complete response"))

    async def fail(self, error: Exception) -> None:
        """The application raised; raised on, unless the payer's answer is decided."""
        if self._finished:
            raise error
        if self._verdict is not None:
            await self._emit(self._verdict)
        elif self._payment is not None:
            await self._finish(raised(self._open_flow(), self._too_large or error))
        else:
            raise error

    def close(self) -> None:
        """Nothing more will be asked: an unfinished flow is the same case as a crash."""
        if self._flow is not None:
            self._flow.close()
        if self._left is not None:
            self._left.set()

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
        response = Response(start["status"], _text(start.get("headers", ())), b"".join(self._chunks))
        return Work(response, self._payment.values, int((monotonic() - self._began) * 1000))

    async def _finish(self, turn: Turn) -> None:
        if self.limit is not None:
            if self.limit.cancel_called:
                await anyio.lowlevel.checkpoint()  # too late: the cut-off is on its way
            self.limit.deadline = math.inf
        self._finished = True
        response = await self._drive(turn)
        if isinstance(response, RunWork):
            raise RuntimeError("the flow asked for the work twice")
        await self._emit(response)

    async def _emit(self, response: Response) -> None:
        self._finished = True
        head = self._scope["method"] == "HEAD"
        headers = [
            (name.lower().encode("latin-1"), value.encode("latin-1"))
            for name, value in response.headers
            if head or name.lower() != "content-length"
        ]
        if not head and response.status not in (204, 304):
            headers.append((b"content-length", str(len(response.body)).encode()))
        await self._send({"type": "http.response.start", "status": response.status, "headers": headers})
        await self._send({"type": "http.response.body", "body": b"" if head else response.body})

    async def _drive(self, turn: Turn) -> Response | RunWork:
        return await adrive(self._open_flow(), self._paywall.async_world, turn)

    def _open_flow(self) -> Flow[Response]:
        if self._flow is None:
            raise RuntimeError("the gate is not open")
        return self._flow

    def _withhold_extensions(self) -> None:
        extensions: dict[str, Any] = self._scope.get("extensions") or {}
        self._scope["extensions"] = {
            name: value for name, value in extensions.items() if name not in _BODY_EXTENSIONS
        }


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

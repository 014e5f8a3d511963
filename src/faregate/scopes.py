"""What an ASGI scope and its messages say, as the values the flow speaks in. Pure."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from faregate.errors import ResultTooLarge
from faregate.model import Headers, Request, Response
from faregate.proof import speaks_of_payment

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class Held:
    """A response while it is held back: its start, and its body so far."""

    def __init__(self) -> None:
        self._start: Message | None = None
        self._chunks: list[bytes] = []
        self._size = 0
        self.too_large: ResultTooLarge | None = None

    @property
    def has_begun(self) -> bool:
        return self._start is not None

    def begin(self, message: Message) -> None:
        self._start = message

    def take(self, message: Message, limit: int) -> bool:
        """Keep a piece of the body; True when it was the last. Raises `ResultTooLarge`."""
        chunk = bytes(message.get("body", b""))  # a view may be written to again
        self._size += len(chunk)
        if self._size > limit:
            self._chunks.clear()
            self.too_large = ResultTooLarge(f"the result has more than {limit} bytes")
            raise self.too_large
        self._chunks.append(chunk)
        return not message.get("more_body", False)

    def whole(self) -> Response:
        if self._start is None:
            raise RuntimeError("the handler sent a body before the start of its response")
        headers = text_of(self._start.get("headers", ()))
        return Response(self._start["status"], headers, b"".join(self._chunks))


def request_of(scope: Scope) -> Request:
    """The request with those of its headers that speak of payment."""
    headers = (pair for pair in scope["headers"] if speaks_of_payment(pair[0]))
    return Request(scope["method"], url_of(scope), text_of(headers))


def host_of(scope: Scope) -> str | None:
    return next((value.decode("latin-1") for name, value in scope["headers"] if name == b"host"), None)


def messages_of(response: Response, method: str) -> tuple[Message, Message]:
    """The two messages of a whole response; its length counted anew, no body where there is none."""
    head = method == "HEAD"
    bodiless = head or response.status in (204, 304)
    headers = [
        (name.lower().encode("latin-1"), value.encode("latin-1"))
        for name, value in response.headers
        if head or name.lower() != "content-length"
    ]
    if not bodiless:
        headers.append((b"content-length", str(len(response.body)).encode()))
    return (
        {"type": "http.response.start", "status": response.status, "headers": headers},
        {"type": "http.response.body", "body": b"" if bodiless else response.body},
    )


def emptied(message: Message) -> Message:
    """What may pass of an answer to OPTIONS on paid ground: its headers, for CORS; never content."""
    if message["type"] == "http.response.start":
        kept = [pair for pair in message.get("headers", ()) if bytes(pair[0]).lower() != b"content-length"]
        return {**message, "headers": [*kept, (b"content-length", b"0")]}
    return {**message, "body": b""}


def url_of(scope: Scope) -> str:
    """Path and query as the payer sent them."""
    raw = scope.get("raw_path")
    path = raw.decode("latin-1") if raw else scope["path"]
    query = scope.get("query_string", b"").decode("latin-1")
    return f"{path}?{query}" if query else path


def origin_of(scope: Scope) -> str | None:
    """The address the server listens on, which no payer can choose."""
    server = scope.get("server")
    if server is None or server[0].startswith("/"):  # a unix socket has no address for payers
        return None
    scheme = scope.get("scheme", "http")
    name = f"[{server[0]}]" if ":" in server[0] else server[0]
    port = "" if server[1] in (None, {"http": 80, "https": 443}.get(scheme)) else f":{server[1]}"
    return f"{scheme}://{name}{port}"


def has_body(scope: Scope) -> bool:
    return any(
        name == b"transfer-encoding" or (name == b"content-length" and value != b"0")
        for name, value in scope["headers"]
    )


def text_of(headers: Any) -> Headers:
    return tuple((bytes(name).decode("latin-1"), bytes(value).decode("latin-1")) for name, value in headers)

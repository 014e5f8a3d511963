"""What an ASGI scope and its messages say, as the values the flow speaks in. Pure."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from faregate.held import sendable
from faregate.model import Headers, Request, Response
from faregate.proof import speaks_of_payment

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


def request_of(scope: Scope) -> Request:
    """The request with those of its headers that speak of payment."""
    headers = (pair for pair in scope["headers"] if speaks_of_payment(pair[0]))
    return Request(scope["method"], url_of(scope), text_of(headers))


def host_of(scope: Scope) -> str | None:
    return next((value.decode("latin-1") for name, value in scope["headers"] if name == b"host"), None)


def messages_of(response: Response, method: str) -> tuple[Message, Message]:
    """The two messages of a whole response."""
    headers, body = sendable(response, method)
    return (
        {"type": "http.response.start", "status": response.status, "headers": bytes_of(headers)},
        {"type": "http.response.body", "body": body},
    )


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


def bytes_of(headers: Headers) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]

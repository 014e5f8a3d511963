"""Convert ASGI scopes and messages to core values and back. Pure."""

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from faregate.core.credentials import is_credential_header
from faregate.core.models import Headers, Request, Response
from faregate.core.proof import speaks_of_payment
from faregate.middleware.buffer import sendable
from faregate.middleware.snapshot import Snapshot

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_OF_THE_PROTOCOL = frozenset(
    (
        "asgi",
        "client",
        "extensions",
        "headers",
        "http_version",
        "method",
        "path",
        "query_string",
        "raw_path",
        "root_path",
        "scheme",
        "server",
        "type",
    )
)


def request_of(scope: Scope) -> Request:
    """The request with those of its headers that the flow reads."""
    headers = (
        pair for pair in scope["headers"] if speaks_of_payment(pair[0]) or is_credential_header(pair[0])
    )
    return Request(scope["method"], url_of(scope), text_of(headers))


def take_snapshot(
    asked: Mapping[str, Any], scope: Mapping[str, Any], shared: Mapping[str, object] | None
) -> Snapshot:
    """What a handler can change in the scope it is given, and in the one of the middleware outside.

    The session is taken deeply. `shared` is the state of the lifespan, whose values belong to all requests.
    """
    state = shared or {}
    snapshot = Snapshot((state, *state.values()))
    snapshot.take(asked.get("session"), deep=True)
    snapshot.take(scope.get("session"), deep=True)
    for one in (asked, scope):
        for name, value in one.items():
            if name not in _OF_THE_PROTOCOL:
                snapshot.take(value)
    return snapshot


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
    """Whether a body may follow. From HTTP/2 on, one may come that no header announces."""
    lengths = [value for name, value in scope["headers"] if name == b"content-length"]
    if any(name == b"transfer-encoding" for name, _ in scope["headers"]):
        return True
    return lengths != [b"0"] if lengths else not str(scope.get("http_version", "1.1")).startswith("1")


def length_of(scope: Scope) -> str | None:
    """The declared length of the body, "0" if there is none; None for a body whose length is not declared."""
    if any(name == b"transfer-encoding" for name, _ in scope["headers"]):
        return None
    lengths = [value.decode("latin-1") for name, value in scope["headers"] if name == b"content-length"]
    if not lengths and str(scope.get("http_version", "1.1")).startswith(("0", "1")):
        return "0"  # from HTTP/2 on, a body needs no header
    return lengths[0] if len(lengths) == 1 else None


def content_type_of(scope: Scope) -> str:
    return next((value.decode("latin-1") for name, value in scope["headers"] if name == b"content-type"), "")


def text_of(headers: Any) -> Headers:
    return tuple((bytes(name).decode("latin-1"), bytes(value).decode("latin-1")) for name, value in headers)


def bytes_of(headers: Headers) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]

"""What an ASGI app of the service needs: its types, the bounded body, the path, the whole response."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import quote

from faregate.core.models import Headers, Response
from faregate.rules.http import MAX_BODY

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


async def read_body(receive: Receive) -> bytes | None:
    """Read the body, no further than the service would; None if the client disconnected."""
    parts: list[bytes] = []
    size = 0
    # One chunk more than the limit is enough for the service to refuse the body.
    while size <= MAX_BODY:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        part: bytes = message.get("body", b"")
        parts.append(part)
        size += len(part)
        if not message.get("more_body", False):
            break
    return b"".join(parts)


def get_path(scope: Scope) -> str:
    """Return the path below the mount, still percent-encoded, with its query."""
    # The decoded `path` would not tell `%2F` in an id from a slash. ASGI lets a server leave `raw_path` out.
    raw: bytes | None = scope.get("raw_path")
    path = quote(scope["path"]) if raw is None else raw.decode("latin-1")
    root = scope.get("root_path")
    if root:
        path = path.removeprefix(quote(root))
    query = scope["query_string"].decode("latin-1")
    return f"{path}?{query}" if query else path


def decode_headers(headers: list[tuple[bytes, bytes]]) -> Headers:
    return tuple([(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers])


async def send_whole(response: Response, send: Send) -> None:
    await send(build_start(response))
    await send({"type": "http.response.body", "body": response.body})


def build_start(response: Response) -> Message:
    headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in response.headers]
    length = (b"content-length", str(len(response.body)).encode("ascii"))
    return {"type": "http.response.start", "status": response.status, "headers": [*headers, length]}

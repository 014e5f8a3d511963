"""Convert ASGI scopes and messages to core values and back. Pure."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from functools import lru_cache
from typing import Any

from faregate.checkout.buffer import finalize
from faregate.checkout.descriptions import HandlerInfo
from faregate.checkout.handlers import pick_method
from faregate.checkout.incoming_request import CONDITIONAL_METHODS, CONDITIONS, IncomingRequest, asks_upgrade
from faregate.checkout.openapi_operations import Operation
from faregate.checkout.snapshot import Snapshot
from faregate.core.models import Headers, Request, Response
from faregate.core.request_headers import CREDENTIAL_HEADERS, PAYMENT_HEADERS
from faregate.core.withholding import MARK
from faregate.x402.json_schema import inline_references

Scope = MutableMapping[str, Any]
"""The connection scope of ASGI, for type annotations."""
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Any, Any, Any], Awaitable[None]]
"""Frameworks disagree on the types of the three."""

_PROTOCOL_KEYS = frozenset(
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

_SINGLE = (b"host", b"content-type")
_JOINED = b"accept"
_UPGRADE = b"upgrade"
_WEBSOCKET = (b"sec-websocket-key", b"sec-websocket-version")
_FRAMING = (b"content-length", b"transfer-encoding")
_FORWARDED = (b"forwarded", b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto")
_OF_FLOW = frozenset((*PAYMENT_HEADERS, *CREDENTIAL_HEADERS))
_READ = frozenset((*_OF_FLOW, *_SINGLE, _JOINED, _UPGRADE, *_WEBSOCKET, *_FRAMING, *_FORWARDED))
"""Names of the headers that are read. Most requests have few of them."""

_PAYMENT_LENGTHS = frozenset(map(len, PAYMENT_HEADERS))

_CONDITIONS = frozenset(name.encode() for name in CONDITIONS)
_CONDITION_LENGTHS = frozenset(map(len, CONDITIONS))

_MARK = MARK[0].lower().encode()
RAW_MARK = (_MARK, MARK[1].encode())

RawHeaders = tuple[tuple[bytes, bytes], ...]


def has_payment(headers: RawHeaders) -> bool:
    """Whether a header is about payment."""
    # By its length first, and in a plain loop: each request is asked, and few have one.
    for name, _ in headers:  # noqa: SIM110
        if len(name) in _PAYMENT_LENGTHS and name.lower() in PAYMENT_HEADERS:
            return True
    return False


def has_result_mark(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether these are the headers of a result that something has kept: see `core.withholding.MARK`."""
    # By its length first, and in a plain loop, like `has_payment`.
    for name, _ in headers:  # noqa: SIM110
        if len(name) == len(_MARK) and bytes(name).lower() == _MARK:
            return True
    return False


def drop_conditions(method: str, headers: RawHeaders) -> list[tuple[bytes, bytes]]:
    """Drop what could make a handler answer with less than the result: see `CONDITIONS`."""
    if method not in CONDITIONAL_METHODS:
        return list(headers)
    # By their lengths first: few headers have one of them.
    return [
        (name, value)
        for name, value in headers
        if len(name) not in _CONDITION_LENGTHS or name.lower() not in _CONDITIONS
    ]


def parse_scope(scope: Mapping[str, Any], raw_headers: RawHeaders) -> IncomingRequest:
    """Read an HTTP scope, its headers in one pass. The flow sees those of payments and credentials only."""
    flow_headers: list[tuple[bytes, bytes]] = []
    single: dict[bytes, bytes] = {}
    framing: list[tuple[bytes, bytes]] = []
    accept: list[bytes] = []
    upgrade: list[bytes] = []
    is_upgrade = scope["method"].upper() == "CONNECT"
    is_forwarded = False
    for name, value in raw_headers:
        # ASGI says that names are in lower case. Not every server keeps to that.
        kind = name if name in _READ or name.islower() else name.lower()
        if kind not in _READ:
            continue
        if kind in _OF_FLOW:
            flow_headers.append((name, value))
        elif kind in _SINGLE:
            single.setdefault(kind, value)
        elif kind in _FRAMING:
            framing.append((kind, value))
        elif kind == _JOINED:
            accept.append(value)
        elif kind == _UPGRADE:
            upgrade.append(value)
        elif kind in _WEBSOCKET:
            is_upgrade = True
        else:
            is_forwarded = True
    return IncomingRequest(
        Request(scope["method"], _build_url(scope), decode_headers(flow_headers)),
        scope["path"],
        scope.get("root_path", ""),
        _find_origin(scope),
        single[b"host"].decode("latin-1") if b"host" in single else None,
        single.get(b"content-type", b"").decode("latin-1"),
        find_content_length(framing, scope.get("http_version", "1.1")),
        b",".join(accept).decode("latin-1"),
        is_upgrade or (bool(upgrade) and asks_upgrade(b",".join(upgrade).decode("latin-1"))),
        is_forwarded,
    )


def find_content_length(headers: Iterable[tuple[bytes, bytes]], http_version: str) -> str | None:
    """The declared length of the body, "0" if there is none; None for a body whose length is not declared."""
    lengths: list[bytes] = []
    for name, value in headers:
        if name == b"transfer-encoding":
            return None
        if name == b"content-length":
            lengths.append(value)
    if not lengths and http_version.startswith(("0", "1")):
        return "0"  # from HTTP/2 on, a body needs no header
    return lengths[0].decode("latin-1") if len(lengths) == 1 else None


def find_route(scope: Mapping[str, Any], root_path: str) -> str | None:
    """Find the pattern of the path by which Starlette or FastAPI chose a handler; None if none did.

    `root_path` is that of the server's scope: what was added to it since is where the route is mounted.
    """
    path = getattr(_get_route(scope), "path", None)
    if not isinstance(path, str):
        return None
    mounted_at: str = scope.get("root_path", "").removeprefix(root_path)
    return mounted_at + path


def find_handler(scope: Mapping[str, Any]) -> HandlerInfo | None:
    """Find what describes the handler that Starlette or FastAPI chose; None if neither did.

    A mount is none: what it leads to is an application.
    """
    route, endpoint = _get_route(scope), scope.get("endpoint")
    if endpoint is None or hasattr(getattr(route, "starlette_route", route), "routes"):
        return None
    method = pick_method(endpoint, scope["method"]) if isinstance(endpoint, type) else endpoint
    return (getattr(route, "description", None), method, endpoint), _find_media_type(route)


def find_operation(scope: Mapping[str, Any]) -> Operation | None:
    """Find how FastAPI documents the handler that it chose; empty where it does not.

    None for a route that the seller keeps out of documents.
    """
    route, app = _get_route(scope), scope.get("app")
    if not getattr(route, "include_in_schema", True):
        return None
    path, make = getattr(route, "path_format", None), getattr(app, "openapi", None)
    if path is None or make is None:
        return {}
    # FastAPI keeps what it has made.
    document = getattr(app, "openapi_schema", None) or make()
    documented: Operation = document.get("paths", {}).get(path, {}).get(scope["method"].lower(), {})
    return {
        name: inline_references(documented[name], document)
        for name in ("parameters", "requestBody", "responses")
        if name in documented
    }


def _get_route(scope: Mapping[str, Any]) -> Any:
    # Of an included router of FastAPI, `route` is the router's own. The context has the prefix as well.
    included: Any = scope.get("fastapi") or {}
    return included.get("effective_route_context") or scope.get("route")


def _find_media_type(route: Any) -> str | None:
    if getattr(route, "is_json_stream", False):
        return "application/jsonl"  # what FastAPI makes of a generator
    response_class: Any = getattr(route, "response_class", None)
    # FastAPI wraps its default class in a placeholder.
    return getattr(getattr(response_class, "value", response_class), "media_type", None)


def take_snapshot(
    server_scope: Mapping[str, Any], scope: Mapping[str, Any], shared: Mapping[str, object] | None
) -> Snapshot:
    """Remember what a handler can change in the scope it is given, and in the one of the middleware outside.

    The session is taken deeply. `shared` is the state of the lifespan, whose values belong to all requests.
    """
    state = shared or {}
    snapshot = Snapshot((state, *state.values()))
    for each_scope in (server_scope, scope):
        if "session" in each_scope:
            snapshot.take(each_scope["session"], into_records=True)
    for each_scope in (server_scope, scope):
        snapshot.take_items(each_scope, _PROTOCOL_KEYS)
    return snapshot


def build_messages(response: Response, method: str) -> tuple[Message, Message]:
    """Build the two messages of a whole response."""
    headers, body = finalize(response, method)
    return (
        {"type": "http.response.start", "status": response.status, "headers": _encode_headers(headers)},
        {"type": "http.response.body", "body": body},
    )


def decode_headers(headers: Any) -> Headers:
    return tuple([(str(name, "latin-1"), str(value, "latin-1")) for name, value in headers])


def _encode_headers(headers: Headers) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]


def _build_url(scope: Mapping[str, Any]) -> str:
    """Path and query as the payer sent them."""
    raw = scope.get("raw_path")
    path = raw.decode("latin-1") if raw else scope["path"]
    query = scope.get("query_string", b"").decode("latin-1")
    return f"{path}?{query}" if query else path


def _find_origin(scope: Mapping[str, Any]) -> str | None:
    host, port = scope.get("server") or (None, None)
    return _build_origin(host, port, scope.get("scheme", "http"))


@lru_cache(maxsize=64)
def _build_origin(host: str | None, port: int | None, scheme: str) -> str | None:
    if not host or host.startswith("/"):  # a unix socket has no address for payers
        return None
    name = f"[{host}]" if ":" in host else host
    usual = port in (None, {"http": 80, "https": 443}.get(scheme))
    return f"{scheme}://{name}" if usual else f"{scheme}://{name}:{port}"

"""Convert a WSGI environ to core values; Django's `request.META` is one too.

Also takes from an environ what a handler could send with, past the paywall.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from io import BytesIO
from types import NoneType
from typing import Any
from urllib.parse import quote

from faregate.checkout.incoming_request import CONDITIONAL_METHODS, CONDITIONS, IncomingRequest, asks_upgrade
from faregate.checkout.path_rules import PATH_HEADERS, PathHeaders
from faregate.core.models import Request

Environ = dict[str, Any]
"""The environment of a WSGI request, for type annotations."""

CHECKOUT = "faregate.checkout.checkout"
"""The key of a request's checkout in its environ."""

# A server joins doubled headers by a comma, which no proof has.
_PAYMENT_HEADERS = (("PAYMENT-SIGNATURE", "HTTP_PAYMENT_SIGNATURE"), ("X-PAYMENT", "HTTP_X_PAYMENT"))
_CREDENTIAL_HEADERS = (
    ("Authorization", "HTTP_AUTHORIZATION"),
    ("Cookie", "HTTP_COOKIE"),
    ("Idempotency-Key", "HTTP_IDEMPOTENCY_KEY"),
)
_FORWARDED = ("HTTP_FORWARDED", "HTTP_X_FORWARDED_FOR", "HTTP_X_FORWARDED_HOST", "HTTP_X_FORWARDED_PROTO")
_FLOW_HEADERS = _PAYMENT_HEADERS + _CREDENTIAL_HEADERS
_WEBSOCKET_HEADERS = ("HTTP_SEC_WEBSOCKET_KEY", "HTTP_SEC_WEBSOCKET_VERSION")

_PATH_HEADERS = {f"HTTP_{name.upper().replace('-', '_')}": name for name in PATH_HEADERS}

BYPASS_KEYS = (
    "wsgi.early_hints",
    "wsgi.websocket",  # gevent-websocket
    "werkzeug.socket",
    "gunicorn.socket",
    "gunicorn.http2.send_trailers",
    "waitress.client_disconnected",
    "eventlet.input",
    "eventlet.websocket",
    "meinheld.client",
    "uwsgi.sock",
)
"""The keys under which servers give a handler the connection itself, or another way to send."""
_BYPASS_KEYS = frozenset(BYPASS_KEYS)

_SERVERS = frozenset(
    (
        *("a2wsgi", "asgi", "bjoern", "cheroot", "daphne", "eventlet", "gevent", "granian", "gunicorn"),
        *("hypercorn", "meinheld", "mod_wsgi", "tornado", "uvicorn", "uwsgi", "waitress", "wsgi"),
    )
)
"""What the keys of servers begin with, up to the first dot. Others are set by middleware of the seller's."""
_NAMED = frozenset(("wsgi.errors", "wsgi.file_wrapper", "wsgi.input"))
"""The objects that PEP 3333 names. The file wrapper is replaced by the paywall, the input below."""
_get_type: Callable[[object], type[object]] = type  # typed: of a value that can be anything
_DATA = frozenset((str, int, bool, float, tuple, bytes, NoneType))

_URL_SAFE = "/:@!$&'()*+,;=~-._"
_CONDITIONS = frozenset(f"HTTP_{name.upper().replace('-', '_')}" for name in CONDITIONS)
_MAX_KEPT = 256
"""The longest path that is remembered as it was read: strangers choose the paths."""


def parse_environ(environ: Mapping[str, Any], scheme: str, content_length: str | None) -> IncomingRequest:
    """Read an environ. `content_length` is that of `find_content_length`."""
    path, root_path, url = find_path(environ)
    method = find_method(environ)
    query = environ.get("QUERY_STRING", "")
    headers = tuple([(name, str(environ[key])) for name, key in _FLOW_HEADERS if key in environ])
    return IncomingRequest(
        Request(method, f"{url}?{query}" if query else url, headers),
        path,
        root_path,
        _find_origin(environ, scheme),
        environ.get("HTTP_HOST"),
        environ.get("CONTENT_TYPE", ""),
        content_length,
        str(environ.get("HTTP_ACCEPT", "")),
        method == "CONNECT"
        or not environ.keys().isdisjoint(_WEBSOCKET_HEADERS)
        or ("HTTP_UPGRADE" in environ and asks_upgrade(str(environ["HTTP_UPGRADE"]))),
        not environ.keys().isdisjoint(_FORWARDED),
    )


def find_method(environ: Mapping[str, Any]) -> str:
    """The method in upper case, as frameworks read it: some servers pass it on as it was sent."""
    return str(environ["REQUEST_METHOD"]).upper()


def drop_conditions(environ: Environ) -> None:
    """Drop what could make a handler answer with less than the result: see `CONDITIONS`."""
    if environ.keys().isdisjoint(_CONDITIONS):
        return
    if str(environ.get("REQUEST_METHOD")).upper() in CONDITIONAL_METHODS:
        for key in _CONDITIONS & environ.keys():
            del environ[key]


def withhold_connection(environ: Environ) -> None:
    """Take from an environ what a handler could send with past the paywall, its input's socket among it."""
    if not environ.keys().isdisjoint(_BYPASS_KEYS):
        for name in _BYPASS_KEYS & environ.keys():
            del environ[name]
    # By class first: most values are data, and few objects can be called or send.
    suspects = set(filter(_may_send, set(map(type, environ.values())) - _DATA))
    if suspects:
        for name, value in [*environ.items()]:
            kind = _get_type(value)
            # A function of the server's own may be a way to send that is not known here.
            is_server_s = name not in _NAMED and name.partition(".")[0] in _SERVERS and callable(value)
            if kind in suspects and (is_server_s or hasattr(kind, "sendall")):
                del environ[name]
    # Servers' own streams lead to the socket, as gevent's by `rfile.raw`, or send themselves (100 Continue).
    if type(environ.get("wsgi.input")) not in (BytesIO, _Input, NoneType):
        environ["wsgi.input"] = _Input(environ["wsgi.input"])


@lru_cache(maxsize=1024)
def _may_send(kind: Any) -> bool:
    """Whether objects of this class can be called, or send as a socket does."""
    return hasattr(kind, "sendall") or any("__call__" in vars(base) for base in kind.__mro__)


class _Input:
    """The body of a request, with what PEP 3333 names and no more."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def read(self, *size: int) -> bytes:
        content: bytes = self._stream.read(*size)
        return content

    def readline(self, *size: int) -> bytes:
        line: bytes = self._stream.readline(*size)
        return line

    def readlines(self, *hint: int) -> list[bytes]:
        lines: list[bytes] = self._stream.readlines(*hint)
        return lines

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._stream)


def has_payment(environ: Mapping[str, Any]) -> bool:
    return "HTTP_PAYMENT_SIGNATURE" in environ or "HTTP_X_PAYMENT" in environ


def find_content_length(environ: Mapping[str, Any]) -> str | None:
    """The declared length of the body, "0" if there is none; None for a body whose length is not declared."""
    if "HTTP_TRANSFER_ENCODING" in environ:
        return None
    declared = str(environ.get("CONTENT_LENGTH") or "")
    if not declared and str(environ.get("SERVER_PROTOCOL", "HTTP/1.1")).startswith(("HTTP/0", "HTTP/1")):
        return "0"  # from HTTP/2 on, a body needs no header
    return declared or None


def _find_origin(environ: Mapping[str, Any], scheme: str) -> str | None:
    """On a unix socket there is none: some servers then put the Host header there, and no REMOTE_ADDR."""
    if not environ.get("REMOTE_ADDR"):
        return None
    return _build_origin(environ.get("SERVER_NAME"), str(environ.get("SERVER_PORT", "")), scheme)


@lru_cache(maxsize=64)
def _build_origin(name: str | None, port: str, scheme: str) -> str | None:
    if not name or not port.isdigit():
        return None
    host = f"[{name}]" if ":" in name and not name.startswith("[") else name
    usual = port == {"http": "80", "https": "443"}.get(scheme)
    return f"{scheme}://{host}" if usual else f"{scheme}://{host}:{port}"


def list_path_headers(environ: Mapping[str, Any]) -> PathHeaders:
    """List the headers that change what the path means: see `PATH_HEADERS`."""
    if environ.keys().isdisjoint(_PATH_HEADERS):
        return ()
    return [(name, str(environ[key])) for key, name in _PATH_HEADERS.items() if key in environ]


def find_path(environ: Mapping[str, Any]) -> tuple[str, str, str]:
    """The whole path, decoded; where the application is mounted, decoded; and the whole path, quoted."""
    root, path = str(environ.get("SCRIPT_NAME", "")), str(environ.get("PATH_INFO", ""))
    read = _read_short_path if len(root) + len(path) <= _MAX_KEPT else _read_path
    return read(root, path)


def _read_path(root: str, path: str) -> tuple[str, str, str]:
    """`find_path`.

    WSGI gives bytes as latin-1 text (PEP 3333). A request target that is not a path stays as it is: no rule
    matches it, and nothing is sold for it.
    """
    raw_root = root.encode("latin-1")
    raw_path = (raw_root if path.startswith("/") or not path else b"") + path.encode("latin-1")
    decoded_root = raw_root.decode(errors="replace")
    return raw_path.decode(errors="replace"), decoded_root, quote(raw_path, safe=_URL_SAFE)


_read_short_path = lru_cache(maxsize=1024)(_read_path)

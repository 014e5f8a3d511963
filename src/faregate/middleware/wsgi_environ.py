"""Convert a WSGI environ to core values; Django's `request.META` is one too. Pure."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from faregate.core.models import Header, Headers, Request

Environ = dict[str, Any]

_PAYMENT_HEADERS = (("PAYMENT-SIGNATURE", "HTTP_PAYMENT_SIGNATURE"), ("X-PAYMENT", "HTTP_X_PAYMENT"))
_CREDENTIAL_HEADERS = (
    ("Authorization", "HTTP_AUTHORIZATION"),
    ("Cookie", "HTTP_COOKIE"),
    ("Idempotency-Key", "HTTP_IDEMPOTENCY_KEY"),
)
_URL_SAFE = "/:@!$&'()*+,;=~-._"


def request_of(environ: Mapping[str, Any]) -> Request:
    """The request with those of its headers that the flow reads; its path quoted in one way."""
    path, query = _raw_path(environ), environ.get("QUERY_STRING", "")
    url = quote(path, safe=_URL_SAFE)
    headers = payment_headers(environ) + _headers(environ, _CREDENTIAL_HEADERS)
    return Request(environ["REQUEST_METHOD"], f"{url}?{query}" if query else url, headers)


def payment_headers(environ: Mapping[str, Any]) -> Headers:
    """A server joins doubled headers by a comma, which no proof has."""
    return _headers(environ, _PAYMENT_HEADERS)


def _headers(environ: Mapping[str, Any], names: tuple[Header, ...]) -> Headers:
    return tuple((name, str(environ[key])) for name, key in names if key in environ)


def length_of(environ: Mapping[str, Any]) -> str | None:
    """The declared length of the body, "0" if there is none; None for a body whose length is not declared."""
    if "HTTP_TRANSFER_ENCODING" in environ:
        return None
    declared = str(environ.get("CONTENT_LENGTH") or "")
    if not declared and str(environ.get("SERVER_PROTOCOL", "HTTP/1.1")).startswith(("HTTP/0", "HTTP/1")):
        return "0"  # from HTTP/2 on, a body needs no header
    return declared or None


def path_of(environ: Mapping[str, Any]) -> str:
    """The whole decoded path, with where the application is mounted; a target that is no path as it is."""
    return _raw_path(environ).decode(errors="replace")


def root_of(environ: Mapping[str, Any]) -> str:
    """The decoded path at which the application is mounted."""
    return str(environ.get("SCRIPT_NAME", "")).encode("latin-1").decode(errors="replace")


def origin_of(environ: Mapping[str, Any], scheme: str) -> str | None:
    """The address the server listens on, which no payer can choose.

    On a unix socket there is none: some servers then say the Host header in its place, and no
    REMOTE_ADDR.
    """
    name, port = environ.get("SERVER_NAME"), str(environ.get("SERVER_PORT", ""))
    if not name or not environ.get("REMOTE_ADDR") or not port.isdigit():
        return None
    host = f"[{name}]" if ":" in name and not name.startswith("[") else name
    usual = port == {"http": "80", "https": "443"}.get(scheme)
    return f"{scheme}://{host}" if usual else f"{scheme}://{host}:{port}"


def _raw_path(environ: Mapping[str, Any]) -> bytes:
    """WSGI says bytes as latin-1 text."""
    path = str(environ.get("PATH_INFO", ""))
    root = str(environ.get("SCRIPT_NAME", "")) if path.startswith("/") or not path else ""
    return f"{root}{path}".encode("latin-1")

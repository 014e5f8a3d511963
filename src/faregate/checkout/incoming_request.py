"""A payer's request, as an adapter reads it once, before the application can change it. Pure.

The body of a request that brings a payment is a part of what the payment is for: another body is another
request. Only bodies that are small and whose length is declared are read ahead; the handler then reads them
again.
"""

import re
from collections.abc import Callable
from hashlib import sha256

from faregate.core.models import Request
from faregate.frozen import frozen

MAX_COMPARED = 64 * 1024
"""Bytes. Of a larger body, or one without a length, no digest is made."""

CONDITIONS = (
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "range",
)
"""Headers that are not honoured with a payment: it buys the whole result, not a 206, a 304 or a 412."""
CONDITIONAL_METHODS = ("GET", "HEAD")
"""The methods for which they are dropped. A PUT with If-None-Match must not overwrite."""

_MAX_DIGITS = 18

# A client that sends a form again makes up another boundary.
_BOUNDARY = re.compile(r'(?i)multipart/[^;]*;.*?boundary="?([^";]+)')


@frozen
class IncomingRequest:
    """A request, as far as the paywall reads it.

    `request` is what the flow sees. `path` and `root_path` are decoded. `origin` is the address on which the
    server listens, which no payer can choose; `host` is the Host header, which a payer can. `content_length`
    is the declared length of the body, "0" if there is none; None for a body whose length is not declared.
    `accept` is the Accept header, its lines joined by commas. `is_upgrade` says whether the request asks for
    another protocol on its connection: by CONNECT, by an Upgrade header (`asks_upgrade`), or by the headers
    of websockets, which need no Upgrade on some servers. `is_forwarded`: it has the headers of a proxy.
    """

    request: Request
    path: str
    root_path: str
    origin: str | None
    host: str | None
    content_type: str
    content_length: str | None
    accept: str = ""
    is_upgrade: bool = False
    is_forwarded: bool = False


def asks_upgrade(upgrade: str) -> bool:
    """Return whether a handler could take over the connection of a request with this Upgrade header.

    Servers speak the protocols of `_OF_SERVERS` themselves or ignore them, and clients such as curl and Java
    offer them with ordinary requests. A `Connection: upgrade` alone asks for nothing: proxies add it to all.
    """
    protocols = (name.partition("/")[0].strip().lower() for name in upgrade.split(","))
    return any(name not in _OF_SERVERS for name in protocols)


_OF_SERVERS = frozenset(("", "h2", "h2c", "http", "tls"))


def digest_body(body: bytes, content_type: str) -> str:
    """Digest a body. Two multipart bodies that differ in their boundary alone have one digest."""
    boundary = _BOUNDARY.match(content_type)
    if boundary:
        body = body.replace(f"--{boundary[1]}".encode("latin-1", "replace"), b"--")
    return sha256(body).hexdigest()


EMPTY_DIGEST = sha256(b"").hexdigest()


def comparable_length(declared: str | None) -> int | None:
    """The length of a body that is read ahead, from its `Content-Length`; None for all others."""
    if declared is None or len(declared) > _MAX_DIGITS or not (declared.isascii() and declared.isdigit()):
        return None
    return length if (length := int(declared)) <= MAX_COMPARED else None


def read_body(read: Callable[[int], bytes], length: int) -> bytes | None:
    """Read a body of this length; None if it ends early."""
    chunks: list[bytes] = []
    while length > 0:
        try:
            chunk = read(length)
        except OSError:  # the client is gone
            return None
        if not chunk:
            return None
        chunks.append(chunk)
        length -= len(chunk)
    return b"".join(chunks)

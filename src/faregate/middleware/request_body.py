"""Digest the body of a request that brings a payment, so that another body is another request.

Only bodies that are small and whose length is declared are read ahead; the handler then reads them again.
"""

import re
from collections.abc import Callable
from hashlib import sha256

MAX_COMPARED = 64 * 1024
"""Bytes. Of a larger body, or one without a length, no digest is made."""

_MAX_DIGITS = 18


# A client that sends a form again makes up another boundary.
_BOUNDARY = re.compile(r'(?i)multipart/[^;]*;.*?boundary="?([^";]+)')


def digest_body(body: bytes, content_type: str) -> str:
    """Digest a body. Two multipart bodies that differ in their boundary alone have one digest."""
    found = _BOUNDARY.match(content_type)
    if found:
        body = body.replace(f"--{found[1]}".encode("latin-1", "replace"), b"--")
    return sha256(body).hexdigest()


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

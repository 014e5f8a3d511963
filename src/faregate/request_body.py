"""Digest the body of a request that brings a payment, so that another body is another request.

Only bodies that are small and whose length is declared are read ahead; the handler then reads them again.
"""

from collections.abc import Iterable
from hashlib import sha256

MAX_COMPARED = 64 * 1024
"""Bytes. Of a larger body, or one without a length, no digest is made."""


def digest_body(body: bytes) -> str:
    return sha256(body).hexdigest()


NO_BODY = digest_body(b"")


def is_comparable(length: str | None) -> bool:
    """Whether a body with this `Content-Length` is read ahead."""
    return length is not None and length.isascii() and length.isdigit() and int(length) <= MAX_COMPARED


def digest_parts(parts: Iterable[bytes]) -> str:
    return digest_body(b"".join(parts))

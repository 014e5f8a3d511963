"""The protocols of a transport, and how every transport turns a reply or an error into ours.

A transport sends one request and gives back one whole response, or raises `NoAnswer` (refused,
reset, timed out: what the service did is unknown) or `BadAnswer` (too large, coded, cut short, not
HTTP). It follows no redirect, repeats nothing, keeps no cookie, asks no proxy and reads no netrc.
"""

from typing import Protocol

from faregate.core.models import Headers, Response, header_values
from faregate.errors import BadAnswer, NoAnswer, ServiceError

MAX_REPLY_BYTES = 1024 * 1024
"""The largest reply of the service that is read. Replies of others have limits of their own."""
KEEP_ALIVE_SECONDS = 3.0
"""How long an idle connection may be used again: less than the 5 s after which uvicorn closes it."""


class ReplyTooLarge(BadAnswer):
    """The reply has more bytes than the transport reads."""


class Transport(Protocol):
    """A sync transport. `headers` contain the API key: do not log them."""

    def send(self, method: str, url: str, headers: Headers, body: bytes | None, seconds: float) -> Response:
        """Send one request and return its reply within `seconds`, counted from connect to last byte."""
        ...

    def close(self) -> None:
        """Close the connections of this process; the next call opens new ones."""
        ...


class AsyncTransport(Protocol):
    """An async transport. A class may be both."""

    async def asend(
        self, method: str, url: str, headers: Headers, body: bytes | None, seconds: float
    ) -> Response:
        """Send one request and return its reply within `seconds`, counted from connect to last byte."""
        ...

    async def aclose(self) -> None:
        """Close the connections of this process and event loop; the next call opens new ones."""
        ...


def build_response(status: int, headers: Headers, body: bytes, max_bytes: int) -> Response:
    """Build the response from a reply. Raises `ReplyTooLarge`, and `BadAnswer` if it is content-encoded.

    A transport stops reading once it has more than `max_bytes`, and leaves the check to this function.
    """
    if len(body) > max_bytes:
        raise ReplyTooLarge(f"HTTP {status}: the reply has more than {max_bytes} bytes")
    codings = header_values(headers, "content-encoding")
    if any(coding.strip().lower() != "identity" for coding in codings):
        raise BadAnswer(f"HTTP {status}: the reply is content-encoded, which was not requested")
    return Response(status, headers, body)


def build_no_answer(method: str, url: str, reason: str) -> ServiceError:
    return NoAnswer(f"{method} {url}: no answer: {reason:.200}")


def build_bad_answer(method: str, url: str, reason: str) -> ServiceError:
    return BadAnswer(f"{method} {url}: the reply is not a complete HTTP response: {reason:.200}")

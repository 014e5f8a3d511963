"""The messages of one HTTP/1.1 connection, without its socket: requests out, replies in (httptools)."""

from functools import lru_cache
from typing import NamedTuple
from urllib.parse import urlsplit

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from faregate.core.models import Headers
from faregate.transports.base import MAX_REPLY_BYTES

MAX_HEAD_BYTES = 100 * 1024

Reply = tuple[int, Headers, bytes]


class NoReply(ConnectionError):
    """The service closed the connection before the head of a reply was complete."""


class MalformedReply(Exception):
    """The bytes from the service are not HTTP, or end too early."""


class UnwritableRequest(ValueError):
    """HTTP does not allow this request. The message does not repeat it, because it contains the key."""


class Origin(NamedTuple):
    """What a connection leads to."""

    is_tls: bool
    host: str
    port: int


class ReplyReader:
    """Reads the replies of one connection, one after the other: `receive` what came until `reply` is there.

    A response without a length ends with the connection. Trailers are not a part of the reply. Informational
    responses (1xx) are skipped.
    """

    reply: Reply | None
    """The reply, once it is whole or too large."""

    def __init__(self, max_bytes: int = MAX_REPLY_BYTES) -> None:
        self._max_bytes = max_bytes
        self._parser = HttpResponseParser(self)
        self.start()

    def start(self) -> None:
        """Begin to read the next reply."""
        self.reply = None
        self._received = 0
        self._status = 0
        self._headers: list[tuple[str, str]] = []
        self._body: list[bytes] = []
        self._body_bytes = 0
        self._has_head = False
        self._keeps_alive = False

    @property
    def can_start(self) -> bool:
        """Whether the connection can carry another exchange: it stays open, and no byte is left over."""
        return self._keeps_alive

    def receive(self, data: bytes) -> None:
        """Take what came; nothing means that the service closed.

        Raises `NoReply`, and `MalformedReply` for what is not HTTP, or is cut short.
        """
        if self.reply is not None:
            # Bytes after a reply would be read as the reply to the next request.
            self._keeps_alive = False
        elif not data:
            self._end()
        else:
            self._feed(data)

    def _feed(self, data: bytes) -> None:
        self._received += 0 if self._has_head else len(data)
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade:
            raise MalformedReply("the service switched protocols, which was not requested") from None
        except HttpParserError as error:
            if self.reply is None:
                raise MalformedReply(str(error)) from None
            self._keeps_alive = False  # what followed the reply
        if self._received > MAX_HEAD_BYTES and not self._has_head:
            raise MalformedReply(f"the head of the reply has more than {MAX_HEAD_BYTES} bytes")
        if self._body_bytes > self._max_bytes:
            self._finish()
            self._keeps_alive = False

    def _end(self) -> None:
        if not self._has_head:
            raise NoReply("the service closed the connection without a reply")
        if any(name.lower() in ("content-length", "transfer-encoding") for name, _ in self._headers):
            raise MalformedReply("the service closed the connection in the middle of the reply")
        self._finish()

    def _finish(self) -> None:
        self.reply = self._status, tuple(self._headers), b"".join(self._body)

    # Callbacks of the parser

    def on_message_begin(self) -> None:
        if self.reply is not None:
            raise MalformedReply  # a second reply: stop reading, and keep the first

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._has_head:
            # The parser leaves the space after a value, which is no part of it (RFC 9110, 5.5).
            self._headers.append((name.decode("latin-1"), value.rstrip(b" \t").decode("latin-1")))

    def on_headers_complete(self) -> None:
        self._status = self._parser.get_status_code()
        if self._status < 200:
            self._headers.clear()
        else:
            self._has_head = True

    def on_body(self, data: bytes) -> None:
        self._body.append(data)
        self._body_bytes += len(data)

    def on_message_complete(self) -> None:
        if self._has_head:
            self._keeps_alive = self._parser.should_keep_alive()
            self._finish()


class RequestBytes(bytes):
    """The bytes of a request, with the key: tracebacks with locals do not show them."""

    def __repr__(self) -> str:
        return f"<a request of {len(self)} bytes>"


def encode_request(method: str, url: str, headers: Headers, body: bytes | None) -> RequestBytes:
    """The bytes of a request. Raises `UnwritableRequest` for one that HTTP does not allow."""
    authority, _, path = url.partition("://")[2].partition("/")
    lines = [f"{method} /{path} HTTP/1.1", f"Host: {authority}"]
    lines += [f"{name}: {value}" for name, value in headers]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    text = "".join(lines)
    # A line break in a value would begin a header of its own, or a second request.
    if " " in path or not (text.isascii() and text.isprintable()):
        raise UnwritableRequest("the request could not be written")
    return RequestBytes(("\r\n".join(lines) + "\r\n\r\n").encode() + (body or b""))


def find_origin(url: str) -> Origin:
    """Where a URL that `BaseURL` made leads to."""
    return _parse_origin(url[: url.index("/", url.index("://") + 3)])


@lru_cache(maxsize=100)
def _parse_origin(url: str) -> Origin:
    parts = urlsplit(url)
    is_tls = parts.scheme == "https"
    return Origin(is_tls, parts.hostname or "", parts.port or (443 if is_tls else 80))

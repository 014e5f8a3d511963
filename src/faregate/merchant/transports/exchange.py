"""What one HTTP/1.1 connection carries, without its socket: requests out, replies in (h11)."""

from functools import lru_cache
from typing import NamedTuple
from urllib.parse import urlsplit

import h11

from faregate.core.models import Headers
from faregate.merchant.transports.base import MAX_REPLY_BYTES

MAX_HEAD_BYTES = 100 * 1024

Reply = tuple[int, Headers, bytes]


class NoReply(ConnectionError):
    """The service closed the connection before the head of a reply was complete."""


class Origin(NamedTuple):
    """What a connection leads to."""

    is_tls: bool
    host: str
    port: int


class Exchange:
    """The exchanges of one connection, one after the other."""

    def __init__(self) -> None:
        self._state = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD_BYTES)
        self._status = 0
        self._headers: Headers = ()
        self._body = bytearray()

    def write_request(self, method: str, url: str, headers: Headers, body: bytes | None) -> bytes:
        """The bytes of a request. Raises `h11.LocalProtocolError` for one that HTTP does not allow."""
        authority, slash, path = url.partition("://")[2].partition("/")
        pairs = [("Host", authority), *headers]
        if body is not None:
            pairs.append(("Content-Length", str(len(body))))
        encoded = [(name.encode(), value.encode()) for name, value in pairs]
        events = [
            h11.Request(method=method, target=slash + path, headers=encoded),
            *([h11.Data(data=body)] if body else []),
            h11.EndOfMessage(),
        ]
        return b"".join([self._state.send(event) or b"" for event in events])

    def receive(self, data: bytes) -> None:
        """Take what came; nothing means that the service closed. Raises `NoReply`."""
        if not data and self._state.their_state is h11.SEND_RESPONSE:
            raise NoReply("the service closed the connection without a reply")
        self._state.receive_data(data)

    def read_reply(self) -> Reply | None:
        """The reply, once it is whole or too large; None before that.

        Raises `h11.RemoteProtocolError` for what is not HTTP, or is cut short.
        """
        while (event := self._state.next_event()) is not h11.NEED_DATA:
            if isinstance(event, h11.Response):
                self._status = event.status_code
                self._headers = _decode(event.headers.raw_items())
                self._body = bytearray()
            elif isinstance(event, h11.Data):
                self._body += event.data
            if isinstance(event, h11.EndOfMessage) or len(self._body) > MAX_REPLY_BYTES:
                return self._status, self._headers, bytes(self._body)
        return None

    def start_next(self) -> bool:
        """Make ready for another request. False if this connection can carry none."""
        state = self._state
        if state.our_state is not h11.DONE or state.their_state is not h11.DONE:
            return False
        if state.trailing_data[0]:
            # What follows the reply would be read as the reply to the next request.
            return False
        state.start_next_cycle()
        return True


def find_origin(url: str) -> Origin:
    """Where a URL that `BaseURL` made leads to."""
    return _parse_origin(url[: url.index("/", url.index("://") + 3)])


@lru_cache(maxsize=100)
def _parse_origin(url: str) -> Origin:
    parts = urlsplit(url)
    is_tls = parts.scheme == "https"
    return Origin(is_tls, parts.hostname or "", parts.port or (443 if is_tls else 80))


def _decode(headers: list[tuple[bytes, bytes]]) -> Headers:
    return tuple([(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers])

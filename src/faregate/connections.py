"""The HTTP connections of the service and the emulator: how long each may take, how large, and how many.

uvicorn has no options for this. With httptools it waits for the end of a request for ever, and takes headers
of any size. Its `limit_concurrency` would answer 503 to health checks too, as soon as idle connections reach
it.
"""

import asyncio
import itertools
import logging
import math
import sys
import time
from typing import Any, ClassVar, Final

from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

HEAD_SECONDS: Final = 10.0
"""Request line and headers arrive within this time."""
REQUEST_SECONDS: Final = 40.0
"""A body arrives within this time after its headers. The service itself answers a late body sooner, with the
reason."""
REST_SECONDS: Final = 2.0
"""How long the rest of a body is read after its request was answered: the client may still be sending it."""
TAKE_SECONDS: Final = 30.0
"""A connection is closed when its client reads nothing of a response for this long."""
MAX_HEAD: Final = 32 * 1024
"""Bytes of request line and headers; twice the 16 KiB that a proof may have."""
MAX_PIPELINED: Final = 16
"""Requests of one connection that wait for an earlier answer. uvicorn itself sets no limit."""
MAX_CONNECTIONS: Final = 1000
BACKLOG: Final = 64
"""Low, because the event loop accepts this many connections before the first of them is counted."""
_TOO_LARGE: Final = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
)
_WARNING_SECONDS: Final = 60.0
_log = logging.getLogger("faregate.service")
_turns = itertools.count()  # finer than the loop's clock


def count_allowed() -> int:
    """Return how many connections this process may have: `MAX_CONNECTIONS`, and half of its open files."""
    if sys.platform == "win32":
        return MAX_CONNECTIONS
    import resource

    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_CONNECTIONS if files == resource.RLIM_INFINITY else min(MAX_CONNECTIONS, max(1, files // 2))


class LimitedConnection(HttpToolsProtocol):
    """A connection of uvicorn with limits; the class is a value for `http` of `uvicorn.Config`.

    At the limit, a new connection replaces the connection that has waited longest for a request, or for the
    rest of one. Connections whose request is being answered stay.
    """

    warned_at: ClassVar = -_WARNING_SECONDS

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._allowed = count_allowed()
        self._head_size = 0
        self.turn: int | None = None
        """The place among the connections that wait for a request, or the rest of one: the lowest has waited
        longest. None while this connection does not wait for its client."""
        self._request_timer: asyncio.TimerHandle | None = None
        self._response_timer: asyncio.TimerHandle | None = None
        self._unread_size = 0

    # Called by the event loop

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_request_timer(HEAD_SECONDS)
        if len(self.connections) > self._allowed:
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        _cancel(self._request_timer)
        _cancel(self._response_timer)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._head_size += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._head_size > MAX_HEAD and self._request_timer is not None:
            self.send_400_response("")
        elif self._is_idle():  # empty lines before a request end the keep-alive timer of uvicorn
            self._start_request_timer(HEAD_SECONDS)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._start_response_timer()

    # Called by the parser

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._start_request_timer(HEAD_SECONDS)

    def on_headers_complete(self) -> None:
        if len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > MAX_HEAD:
            self._head_size = MAX_HEAD + 1
            raise ValueError("the head of the request is too large")  # ends the parser
        if len(self.pipeline) >= MAX_PIPELINED:
            raise ValueError("too many requests wait on this connection")
        super().on_headers_complete()
        self._head_size = 0
        self._start_request_timer(REQUEST_SECONDS)

    def on_body(self, body: bytes) -> None:
        self._head_size = 0  # what follows a body may be headers again
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._head_size = 0
        _cancel(self._request_timer)
        self._request_timer = self.turn = None
        super().on_message_complete()

    # Called by uvicorn

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.pipeline:
            self.flow.pause_reading()  # uvicorn reads on after each answer
        if self.transport.get_write_buffer_size():
            self._start_response_timer()
        if self._request_timer is None:
            self.turn = None if self._is_answering() else next(_turns)
        elif self.cycle.response_complete and self.cycle.more_body:
            self._start_request_timer(REST_SECONDS)

    def send_400_response(self, msg: str) -> None:
        if self._is_answering():
            self.transport.abort()  # an error must not be written into the earlier answer
        elif self._head_size > MAX_HEAD:
            self.transport.write(_TOO_LARGE)
            self.transport.close()
        else:
            super().send_400_response(msg)

    def _is_answering(self) -> bool:
        """Whether a request that has arrived is not answered yet."""
        if not self.cycle:  # the cycle of the latest request
            return False
        return bool(self.pipeline) or not (self.cycle.response_complete or self.cycle.more_body)

    def _is_idle(self) -> bool:
        """Whether no timer ends this connection, and no request is being answered."""
        timers = (self._request_timer, self.timeout_keep_alive_task)
        return not any(timers) and not self._is_answering()

    def _start_request_timer(self, seconds: float) -> None:
        _cancel(self._request_timer)
        self._request_timer = self.loop.call_later(seconds, self._end_request_wait)
        if self.turn is None:
            self.turn = next(_turns)

    def _end_request_wait(self) -> None:
        if self._is_answering():  # an earlier request
            self._start_request_timer(HEAD_SECONDS)
        else:
            self.transport.abort()

    def _start_response_timer(self) -> None:
        if self._response_timer is None:
            self._unread_size = self.transport.get_write_buffer_size()
            self._response_timer = self.loop.call_later(TAKE_SECONDS, self._check_response_progress)

    def _check_response_progress(self) -> None:
        self._response_timer = None
        unread_size = self.transport.get_write_buffer_size()
        if unread_size and unread_size >= self._unread_size:
            self.transport.abort()
        elif unread_size:
            self._start_response_timer()

    def _make_room(self) -> None:
        """Close the connection that has waited longest; this one if all others are being answered."""
        now = time.monotonic()
        if now - LimitedConnection.warned_at >= _WARNING_SECONDS:
            LimitedConnection.warned_at = now
            _log.warning(
                "all %d connections are taken: those that have waited longest are closed", self._allowed
            )
        limited = (other for other in self.connections if isinstance(other, LimitedConnection))
        oldest = min(limited, key=_get_turn)
        self.connections.discard(oldest)
        oldest.transport.abort()


def _get_turn(connection: LimitedConnection) -> float:
    return math.inf if connection.turn is None else connection.turn


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()

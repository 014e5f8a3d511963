"""Serve the app over HTTP with uvicorn, in one process. An operator starts as many processes as needed."""

import signal
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager

import uvicorn

from faregate.service.asgi import App

_SHUTDOWN_SECONDS = 15
"""Beyond the time that a completion waits: a call to a facilitator or a chain may be under way."""


def run(app: App, listener: socket.socket, *, complete_seconds: float) -> None:
    """Serve until SIGINT or SIGTERM; then stop accepting, finish running requests, and return."""
    server = build_server(app, complete_seconds=complete_seconds)
    with listener, _handling_signals(server):
        server.run(sockets=[listener])


@contextmanager
def _handling_signals(server: uvicorn.Server) -> Generator[None]:
    """End the server by a signal that comes before it listens to them, and not the process by a later one.

    After its shutdown uvicorn raises the signal again, for handlers that were there before.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(*_: object) -> None:
        server.should_exit = True

    kept = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)


def build_server(app: App, *, complete_seconds: float) -> uvicorn.Server:
    """Build the server, for `run` or for a thread of a test."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            lifespan="on",
            ws="none",
            proxy_headers=False,  # nothing here depends on where a request comes from
            timeout_graceful_shutdown=int(complete_seconds) + _SHUTDOWN_SECONDS,
            access_log=False,
            log_config=None,
            server_header=False,
        )
    )

"""Real servers on loopback for tests, each in a thread: uvicorn on asyncio, hypercorn on trio, Werkzeug."""

import asyncio
import math
import socket
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import Any

import hypercorn.config
import hypercorn.trio
import trio
import uvicorn
from werkzeug.serving import WSGIRequestHandler, make_server

from tests.support.waiting import eventually

TICK = 0.01
"""Seconds."""


class _Server(uvicorn.Server):
    """Ends when it is told to. Uvicorn itself takes up to 0.3 s, and hundreds of tests have a server."""

    async def main_loop(self) -> None:
        ticks = 0
        while not await self.on_tick(ticks):
            ticks += 1
            await asyncio.sleep(TICK)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        for listener in sockets or []:
            listener.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        limit = self.config.timeout_graceful_shutdown
        end = math.inf if limit is None else time.monotonic() + limit
        while (self.server_state.connections or self.server_state.tasks) and time.monotonic() < end:
            await asyncio.sleep(TICK / 10)
        for task in self.server_state.tasks:
            task.cancel()
        await self.lifespan.shutdown()


@contextmanager
def serving(app: Any, **config: Any) -> Generator[str]:
    """The app under uvicorn; gives its URL."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        settings = uvicorn.Config(app, log_level="critical", access_log=False, **config)
        server = _Server(settings)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            _start(lambda: server.started or not thread.is_alive())
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


@contextmanager
def serving_on_trio(app: Any) -> Generator[str]:
    """The app under hypercorn's trio worker; gives its URL."""
    config = hypercorn.config.Config()
    config.bind = ["127.0.0.1:0"]
    config.loglevel = "CRITICAL"
    binds: list[str] = []
    stop: list[tuple[Any, trio.Event]] = []

    async def main() -> None:
        event = trio.Event()
        stop.append((trio.lowlevel.current_trio_token(), event))
        async with trio.open_nursery() as nursery:
            serve = partial(hypercorn.trio.serve, app, config, shutdown_trigger=event.wait)
            binds.extend(await nursery.start(serve))

    thread = threading.Thread(target=lambda: trio.run(main))
    thread.start()
    try:
        _start(lambda: bool(binds) or not thread.is_alive())
        yield binds[0]
    finally:
        token, event = stop[0]
        token.run_sync_soon(event.set)
        thread.join()


@contextmanager
def serving_wsgi(app: Any) -> Generator[str]:
    """The app under Werkzeug's server, a thread per request; gives its URL."""
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=_Silent)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Silent(WSGIRequestHandler):
    def log(self, type: str, message: str, *args: Any) -> None:
        """Nothing: failed requests are some tests' very purpose."""


def _start(is_ready: Callable[[], bool]) -> None:
    if not eventually(is_ready):
        raise TimeoutError("the server did not start")

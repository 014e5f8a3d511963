"""Servers on loopback in threads of this process, beside those of `tests.servers.http`."""

import asyncio
import threading
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

import httpx
import hypercorn.asyncio
import hypercorn.config
from granian.constants import Interfaces
from granian.server.embed import Server

from tests.servers.http import serving, serving_on_trio
from tests.servers.store_server import free_port
from tests.support.waiting import eventually

Serve = Callable[[Any], AbstractContextManager[str]]


@contextmanager
def serving_on_hypercorn(app: Any, **settings: Any) -> Generator[str]:
    """The app under hypercorn on asyncio; gives its URL."""
    config = hypercorn.config.Config.from_mapping({"loglevel": "CRITICAL", **settings})
    config.bind = [f"127.0.0.1:{(port := free_port())}"]
    with _in_a_loop(lambda end: hypercorn.asyncio.serve(app, config, shutdown_trigger=end.wait)):
        yield _until_up(f"http://127.0.0.1:{port}")


@contextmanager
def serving_on_granian(app: Any) -> Generator[str]:
    """The app under Granian; gives its URL."""
    port = free_port()

    async def serve(end: asyncio.Event) -> None:
        server = Server(app, port=port, interface=Interfaces.ASGI, log_enabled=False)
        task = asyncio.create_task(server.serve())
        await end.wait()
        server.stop()  # type: ignore[no-untyped-call]
        await task

    with _in_a_loop(serve):
        yield _until_up(f"http://127.0.0.1:{port}")


@contextmanager
def _in_a_loop(serve: Callable[[asyncio.Event], Any]) -> Generator[None]:
    """Run until the end of the block, in a thread with an event loop."""
    stop: list[Callable[[], object]] = []

    async def main() -> None:
        end, loop = asyncio.Event(), asyncio.get_running_loop()
        stop.append(lambda: loop.call_soon_threadsafe(end.set))
        await serve(end)

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    try:
        yield
    finally:
        assert eventually(lambda: bool(stop))
        stop[0]()
        thread.join()


def _until_up(url: str) -> str:
    def answers() -> bool:
        try:
            httpx.get(f"{url}/nothing", trust_env=False, timeout=1)
        except httpx.TransportError:
            return False
        return True

    assert eventually(answers, 10)
    return url


SERVERS: dict[str, Serve] = {
    "uvicorn-httptools": partial(serving, lifespan="auto", http="httptools"),
    "uvicorn-h11": partial(serving, lifespan="auto", http="h11"),
    "hypercorn": serving_on_hypercorn,
    "hypercorn-trio": serving_on_trio,
    "granian": serving_on_granian,
}

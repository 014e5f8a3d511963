"""A server that speaks HTTP by hand, so that it can also speak it wrongly: one task per connection.

In a thread (`serving_by_hand`), or as all that a process does (`serve_for_ever`).
"""

import asyncio
import socket
import struct
import threading
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress

from faregate.core.models import Response, WireRequest

PATIENCE = 40.0
"""Seconds after which a call is given up, and a connection on which nobody asks."""


class ConnectionGone(Exception):
    """This connection is over."""


class Connection:
    """One connection, as who answers on it has it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @property
    def port(self) -> int:
        """The server's."""
        return int(self._writer.get_extra_info("sockname")[1])

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def answer(self, response: Response) -> None:
        """A whole reply; the connection stays."""
        await self.send(written(response))

    async def hang_up(self) -> None:
        """What was sent arrives, then the end: FIN."""
        raise ConnectionGone

    async def reset(self) -> None:
        """RST: what was sent may be lost."""
        end = self._writer.get_extra_info("socket")
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()
        raise ConnectionGone

    async def silence(self) -> None:
        """Nothing more, until the other side has enough."""
        while await self._reader.read(65536):
            pass
        raise ConnectionGone

    async def request(self) -> WireRequest | None:
        """The next request; None when there is none any more."""
        try:
            head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        except asyncio.IncompleteReadError:
            return None
        first, *rest = head.rstrip("\r\n").split("\r\n")
        method, path, _ = first.split(" ", 2)
        headers = tuple((name, value.strip()) for name, _, value in (one.partition(":") for one in rest))
        length = next((int(value) for name, value in headers if name.lower() == "content-length"), 0)
        return WireRequest(method, path, headers, await self._reader.readexactly(length))


def written(response: Response) -> bytes:
    """A reply as it should be."""
    lines = [f"HTTP/1.1 {response.status} Said", *(f"{name}: {value}" for name, value in response.headers)]
    lines.append(f"Content-Length: {len(response.body)}")
    return "\r\n".join((*lines, "", "")).encode("latin-1") + response.body


Answering = Callable[[Connection, WireRequest], Awaitable[None]]


async def _serve(answering: Answering, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    connection = Connection(reader, writer)
    try:
        while True:
            async with asyncio.timeout(PATIENCE):
                request = await connection.request()
                if request is None:
                    break
                await answering(connection, request)
    except (ConnectionGone, OSError, asyncio.IncompleteReadError, TimeoutError):
        pass
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def _serve_until(listener: socket.socket, answering: Answering, over: asyncio.Event) -> None:
    tasks: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(_serve(answering, reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(accept, sock=listener)
    await over.wait()
    server.close()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def serve_for_ever(listener: socket.socket, answering: Answering) -> None:
    async def main() -> None:
        await _serve_until(listener, answering, asyncio.Event())

    asyncio.run(main())


@contextmanager
def serving_by_hand(answering: Answering) -> Generator[int]:
    """Serve in a thread of its own until the block ends; gives the port."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    loop, over = asyncio.new_event_loop(), asyncio.Event()

    def main() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(_serve_until(listener, answering, over))

    thread = threading.Thread(target=main)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join()

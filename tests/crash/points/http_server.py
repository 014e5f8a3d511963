"""A small HTTP/1.1 server for the service's process: it can break off where a server of a library cannot."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus

from faregate.core.models import Response, WireRequest


@dataclass(frozen=True)
class Cut:
    """A reply that breaks off after some of its bytes; without any, the connection is just reset."""

    response: Response | None = None


Reply = Response | Cut
Answering = Callable[[WireRequest], Awaitable[Reply]]


async def serve(listener: socket.socket, answering: Answering) -> None:
    """On a listening socket, for ever."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (request := await _read(reader)) is not None:
                reply = await answering(request)
                if isinstance(reply, Cut):
                    await _cut(writer, reply)
                    return
                writer.write(_bytes_of(reply))
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the shop was killed
        finally:
            writer.close()

    server = await asyncio.start_server(talk, sock=listener)
    await server.serve_forever()


async def _read(reader: asyncio.StreamReader) -> WireRequest | None:
    head = await reader.readline()
    if not head:
        return None
    method, target, _ = head.decode("latin-1").split(" ")
    headers: list[tuple[str, str]] = []
    while line := (await reader.readline()).decode("latin-1").strip():
        name, _, value = line.partition(":")
        headers.append((name.strip(), value.strip()))
    length = next((int(value) for name, value in headers if name.lower() == "content-length"), 0)
    return WireRequest(method, target, tuple(headers), await reader.readexactly(length))


async def _cut(writer: asyncio.StreamWriter, reply: Cut) -> None:
    if reply.response is not None:
        whole = _bytes_of(reply.response)
        writer.write(whole[: len(whole) - len(reply.response.body) // 2 - 1])
        await writer.drain()
        return
    writer.transport.abort()


def _bytes_of(response: Response) -> bytes:
    kept = [(name, value) for name, value in response.headers if name.lower() != "content-length"]
    lines = [f"HTTP/1.1 {response.status} {HTTPStatus(response.status).phrase}"]
    lines += [f"{name}: {value}" for name, value in (*kept, ("Content-Length", str(len(response.body))))]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + response.body

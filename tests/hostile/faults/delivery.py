"""Ways of speaking that are wrong whatever is said: silence, drip, breaking off, no end."""

import asyncio

from faregate.core.models import Response
from tests.hostile.faults import Wrong
from tests.support.raw_server import Connection, written


def cut(reply: Response) -> bytes:
    """All but the end."""
    return written(reply)[:-3]


# Those that end with the caller's patience


async def silent(connection: Connection, reply: Response) -> None:
    await connection.silence()


async def stalled(connection: Connection, reply: Response) -> None:
    await connection.send(cut(reply))
    await connection.silence()


async def dripping(connection: Connection, reply: Response) -> None:
    for byte in written(reply):
        await connection.send(bytes([byte]))
        await asyncio.sleep(0.02)


async def interim_for_ever(connection: Connection, reply: Response) -> None:
    while True:
        await connection.send(b"HTTP/1.1 103 Early Hints\r\n\r\n")
        await asyncio.sleep(0.02)


async def switched(connection: Connection, reply: Response) -> None:
    await connection.send(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: tls\r\n\r\n")
    await connection.silence()


MUTE: dict[str, Wrong] = {
    "silent": silent,
    "stalled": stalled,
    "dripping": dripping,
    "interim for ever": interim_for_ever,
    "switched": switched,
}


# Those that end by themselves


async def hung_up(connection: Connection, reply: Response) -> None:
    await connection.hang_up()


async def reset(connection: Connection, reply: Response) -> None:
    await connection.reset()


async def reset_within(connection: Connection, reply: Response) -> None:
    await connection.send(cut(reply))
    await connection.reset()


async def endless_head(connection: Connection, reply: Response) -> None:
    await connection.send(b"HTTP/1.1 200 OK\r\n")
    while True:
        await connection.send(b"X-More: and more\r\n" * 1000)


async def endless_chunks(connection: Connection, reply: Response) -> None:
    await connection.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        await connection.send(b"10000\r\n" + b" " * 0x10000 + b"\r\n")


ENDING: dict[str, Wrong] = {
    "hung up": hung_up,
    "reset": reset,
    "reset within": reset_within,
    "endless head": endless_head,
    "endless chunks": endless_chunks,
}

"""Ways of speaking that are wrong whatever is said: silence, drip, breaking off, no end."""

import asyncio

from faregate.core.models import Response
from tests.hostile.faults import Wrong
from tests.hostile.raw_server import Line, written


def cut(reply: Response) -> bytes:
    """All but the end."""
    return written(reply)[:-3]


# Those that end with the caller's patience


async def silent(line: Line, reply: Response) -> None:
    await line.silence()


async def stalled(line: Line, reply: Response) -> None:
    await line.send(cut(reply))
    await line.silence()


async def dripping(line: Line, reply: Response) -> None:
    for byte in written(reply):
        await line.send(bytes([byte]))
        await asyncio.sleep(0.02)


async def interim_for_ever(line: Line, reply: Response) -> None:
    while True:
        await line.send(b"HTTP/1.1 103 Early Hints\r\n\r\n")
        await asyncio.sleep(0.02)


async def switched(line: Line, reply: Response) -> None:
    await line.send(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: tls\r\n\r\n")
    await line.silence()


MUTE: dict[str, Wrong] = {
    "silent": silent,
    "stalled": stalled,
    "dripping": dripping,
    "interim for ever": interim_for_ever,
    "switched": switched,
}


# Those that end by themselves


async def hung_up(line: Line, reply: Response) -> None:
    await line.hang_up()


async def reset(line: Line, reply: Response) -> None:
    await line.reset()


async def reset_within(line: Line, reply: Response) -> None:
    await line.send(cut(reply))
    await line.reset()


async def endless_head(line: Line, reply: Response) -> None:
    await line.send(b"HTTP/1.1 200 OK\r\n")
    while True:
        await line.send(b"X-More: and more\r\n" * 1000)


async def endless_chunks(line: Line, reply: Response) -> None:
    await line.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        await line.send(b"10000\r\n" + b" " * 0x10000 + b"\r\n")


ENDING: dict[str, Wrong] = {
    "hung up": hung_up,
    "reset": reset,
    "reset within": reset_within,
    "endless head": endless_head,
    "endless chunks": endless_chunks,
}

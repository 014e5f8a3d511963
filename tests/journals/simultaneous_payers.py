"""Many payers who ask at the very same moment, each on a connection of its own."""

import asyncio
from dataclasses import dataclass

AT_A_TIME = 16
"""Connections that are opened together: no server has to refuse any, and each process gets some."""
PROCESS = "x-process"
"""The header in which a server says which of its processes answers."""

Line = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True)
class Given:
    """What one of them was given."""

    status: int
    process: str
    body: bytes


async def ask_together(port: int, path: str, proofs: list[str]) -> list[Given]:
    """All connect first; then all ask."""
    limit = asyncio.Semaphore(AT_A_TIME)
    lines = await asyncio.gather(*(_connected(port, limit) for _ in proofs))
    for (_, writer), proof in zip(lines, proofs, strict=True):
        request = f"GET {path} HTTP/1.1\r\nHost: seller.example\r\nPAYMENT-SIGNATURE: {proof}\r\n"
        writer.write(f"{request}Connection: close\r\n\r\n".encode())
    answers = await asyncio.gather(*(_heard(reader) for reader, _ in lines))
    for _, writer in lines:
        writer.close()
    return answers


async def _connected(port: int, limit: asyncio.Semaphore) -> Line:
    async with limit:
        return await asyncio.open_connection("127.0.0.1", port)


async def _heard(reader: asyncio.StreamReader) -> Given:
    async with asyncio.timeout(60):
        said = await reader.read()
    head, _, body = said.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    process = next(line for line in lines if line.startswith(PROCESS))
    return Given(int(first.split(" ", 2)[1]), process, body)

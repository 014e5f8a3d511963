"""A proxy between buyers and a seller that loses answers."""

import asyncio
import contextlib
import random
import socket
from pathlib import Path

from tests.support.lines import append_line

_LONGEST_CUT = 3.0
"""Seconds after a request within which its connection is cut, if it is."""


class LossyProxy:
    """Forwards connections to a seller, and cuts some of them while the answer to a request is awaited.

    With `loses_results` paid results are lost instead, when the seller has sent them whole: it cannot know.
    Each loss is a line in the log `lost`.
    """

    def __init__(
        self, port: int, chance: random.Random, percent: int, lost: Path, *, loses_results: bool
    ) -> None:
        self._port, self._chance, self._percent, self._lost = port, chance, percent, lost
        self._loses_results = loses_results

    def run(self, listener: socket.socket) -> None:
        """Serve until the process is killed.

        In a process of its own: beside buyers who sign, a connection would be cut long after its time, when
        the seller has sent the answer.
        """
        asyncio.run(self._listen(listener))

    async def _listen(self, listener: socket.socket) -> None:
        server = await asyncio.start_server(self._serve, sock=listener)
        await server.serve_forever()

    async def _serve(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        try:
            seller, to_seller = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:
            to_client.close()
            return
        with contextlib.suppress(OSError, TimeoutError):
            while request := await client.read(65536):
                to_seller.write(request)
                await self._answer(seller, to_client)
        for writer in (to_seller, to_client):
            writer.transport.abort()

    async def _answer(self, seller: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        """Forward one answer: requests have no bodies, and an answer comes with the length of its own."""
        is_lost = self._chance.random() * 100 < self._percent
        patience = self._chance.uniform(0, _LONGEST_CUT) if is_lost and not self._loses_results else None
        try:
            async with asyncio.timeout(patience):
                head = await seller.readuntil(b"\r\n\r\n")
        except TimeoutError:
            append_line(self._lost)
            raise
        except asyncio.IncompleteReadError:
            raise ConnectionError("the seller was killed") from None
        length = next(
            (
                int(line.partition(b":")[2])
                for line in head.split(b"\r\n")
                if line.lower().startswith(b"content-length:")
            ),
            0,
        )
        try:
            body = await seller.readexactly(length)
        except asyncio.IncompleteReadError:
            raise ConnectionError("the seller was killed") from None
        if is_lost and self._loses_results and head.startswith(b"HTTP/1.1 200"):
            append_line(self._lost)
            raise ConnectionError("lost")
        to_client.write(head + body)
        await to_client.drain()

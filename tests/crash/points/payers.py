"""Payers on bare sockets: they send one proof, take whatever comes, and never read between the lines."""

import contextlib
import json
import selectors
import socket
import time
from dataclasses import dataclass, field
from typing import Any

from tests.crash.points.seller import CONTENT


@dataclass
class Use:
    """One request with the proof, and all that came of it."""

    connection: socket.socket
    port: int
    errand: bool = False
    said: bytearray = field(default_factory=bytearray)
    over: bool = False

    @property
    def status(self) -> int | None:
        """Of a head that came whole."""
        return int(self.said.split(b" ", 2)[1]) if b"\r\n\r\n" in self.said else None

    @property
    def headers(self) -> dict[str, str]:
        lines = self.said.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")[1:]
        return {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}

    @property
    def body(self) -> bytes:
        return bytes(self.said.partition(b"\r\n\r\n")[2])

    @property
    def whole(self) -> bool:
        return self.status is not None and len(self.body) >= int(self.headers.get("content-length", "0"))

    @property
    def content(self) -> bool:
        """Something of what is paid for is here."""
        return CONTENT.encode() in self.said

    @property
    def receipt(self) -> bool:
        return self.status is not None and bool(self.headers.get("payment-response"))

    @property
    def code(self) -> str:
        try:
            said: Any = json.loads(self.body)
        except ValueError:
            return ""
        return str(said.get("code", "")) if isinstance(said, dict) else ""


class Payers:
    """All uses of one proof in one trial."""

    def __init__(self, proof: str, target: str) -> None:
        self._asking = _request(target, f"PAYMENT-SIGNATURE: {proof}")
        self.open: list[Use] = []

    @property
    def sockets(self) -> list[socket.socket]:
        return [use.connection for use in self.open]

    def waits_for(self, port: int) -> bool:
        """A use of the proof there has no answer yet."""
        return any(use.port == port and not use.errand for use in self.open)

    def ask(self, port: int) -> None:
        """Use the proof, if anybody is there."""
        self._send(port, self._asking, errand=False)

    def run_errand(self, port: int, target: str) -> None:
        """Ask for what costs nothing."""
        self._send(port, _request(target), errand=True)

    def _send(self, port: int, request: bytes, errand: bool) -> None:
        with contextlib.suppress(OSError):
            connection = socket.create_connection(("127.0.0.1", port), timeout=5)
            connection.sendall(request)
            self.open.append(Use(connection, port, errand))

    def listen(self, seconds: float) -> list[Use]:
        """Take what comes, for so long at most; the uses that came to their end."""
        ended: list[Use] = []
        until = time.monotonic() + seconds
        while not ended and (left := until - time.monotonic()) > 0:
            with selectors.DefaultSelector() as selector:
                for use in self.open:
                    selector.register(use.connection, selectors.EVENT_READ, use)
                ready = [key.data for key, _ in selector.select(left)]
            ended = [use for use in ready if _took(use)]
        self.open = [use for use in self.open if not use.over]
        return [use for use in ended if not use.errand]

    def leave(self) -> None:
        for use in self.open:
            _end(use)
        self.open = []


def _request(target: str, *headers: str) -> bytes:
    lines = (f"GET {target} HTTP/1.1", "Host: seller.example", "Connection: close", *headers)
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def _took(use: Use) -> bool:
    try:
        came = use.connection.recv(65536)
    except OSError:
        came = b""
    use.said += came
    if not came or use.whole:
        _end(use)
    return use.over


def _end(use: Use) -> None:
    use.over = True
    use.connection.close()

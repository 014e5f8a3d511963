"""The emulator inside a seller's own process: what `FAREGATE_BASE_URL=emulator:` talks to.

A transport of the merchant client without HTTP in between, over one emulator per process.
"""

from functools import cache

from faregate.emulator.emulator import Emulator
from faregate.model import Headers, Response, WireRequest


class EmbeddedTransport:
    """Answers from an emulator in this process, blocking and async. Any origin is the emulator's."""

    def __init__(self, emulator: Emulator) -> None:
        self.emulator = emulator

    def send(self, method: str, url: str, headers: Headers, body: bytes | None, seconds: float) -> Response:
        path = "/" + url.split("/", 3)[3]
        return self.emulator.respond(WireRequest(method, path, headers, body))

    async def asend(
        self, method: str, url: str, headers: Headers, body: bytes | None, seconds: float
    ) -> Response:
        return self.send(method, url, headers, body, seconds)

    def close(self) -> None:
        """Nothing to close: the emulator lives as long as its process."""

    async def aclose(self) -> None:
        """Nothing to close."""


@cache
def embedded() -> EmbeddedTransport:
    """The process's own emulator, with its built-in world and test keys only."""
    return EmbeddedTransport(Emulator(allow_live=False))

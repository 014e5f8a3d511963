"""The emulator inside a seller's own process: what `FAREGATE_BASE_URL=emulator:` talks to.

A transport of the merchant client without HTTP in between, over one emulator per process.
"""

import time
from functools import cache

import anyio

from faregate.core.models import Headers, Response, WireRequest
from faregate.emulator.delivery import Delivery
from faregate.emulator.emulator import Emulator
from faregate.errors import BadAnswer, NoAnswer


class EmbeddedTransport:
    """Answers from an emulator in this process, blocking and async. Any origin is the emulator's."""

    def __init__(self, emulator: Emulator) -> None:
        self.emulator = emulator

    def send(self, method: str, url: str, headers: Headers, body: bytes | None, seconds: float) -> Response:
        delivery = self._deliver(method, url, headers, body)
        time.sleep(_delay(delivery, seconds))
        return _arrived(delivery)

    async def asend(
        self, method: str, url: str, headers: Headers, body: bytes | None, seconds: float
    ) -> Response:
        delivery = self._deliver(method, url, headers, body)
        await anyio.sleep(_delay(delivery, seconds))
        return _arrived(delivery)

    def close(self) -> None:
        """Nothing to close: the emulator lives as long as its process."""

    async def aclose(self) -> None:
        """Nothing to close."""

    def _deliver(self, method: str, url: str, headers: Headers, body: bytes | None) -> Delivery:
        path = "/" + url.split("/", 3)[3]
        return self.emulator.deliver(WireRequest(method, path, headers, body))


def _delay(delivery: Delivery, seconds: float) -> float:
    """The seconds to wait; one that the client would not wait for is not waited for either."""
    if delivery.delay >= seconds:
        raise NoAnswer("the emulator answered too late")
    return delivery.delay


def _arrived(delivery: Delivery) -> Response:
    match delivery.ending:
        case "silence" | "reset":
            raise NoAnswer("the emulator did not answer")
        case "cut":
            raise BadAnswer("the emulator broke off in the middle")
        case "whole":
            return delivery.response


@cache
def embedded() -> EmbeddedTransport:
    """The process's own emulator, with its built-in world and test keys only."""
    return EmbeddedTransport(Emulator(allow_live=False))

"""The diary: every call to the service, written down on receipt, before it is answered."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from faregate.emulator.delivery import Delivery
from faregate.model import Response, WireRequest

REMEMBERED: Final = 10_000


@dataclass(slots=True)
class RecordedCall:
    """One call. `number` counts them from 1; `delivery` is None until it is answered; `fault` is its name."""

    number: int
    at: datetime
    request: WireRequest
    delivery: Delivery | None = None
    fault: str | None = None

    @property
    def method(self) -> str:
        return self.request.method

    @property
    def path(self) -> str:
        """Without its query."""
        return self.request.path.partition("?")[0]

    @property
    def response(self) -> Response | None:
        return self.delivery.response if self.delivery else None

    @property
    def status(self) -> int | None:
        return self.delivery.response.status if self.delivery else None


class Diary:
    """The last 10,000 calls of one world, oldest first. `count` is of all there ever were."""

    def __init__(self) -> None:
        self.count = 0
        self._calls: deque[RecordedCall] = deque(maxlen=REMEMBERED)

    def __iter__(self) -> Iterator[RecordedCall]:
        return iter(self._calls)

    def received(self, request: WireRequest, at: datetime) -> RecordedCall:
        self.count += 1
        call = RecordedCall(self.count, at, request)
        self._calls.append(call)
        return call

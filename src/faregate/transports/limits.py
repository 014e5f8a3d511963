"""A bound on the calls under way, in front of a transport.

Every request without a proof makes a call, so strangers decide how many there are. Each needs a socket of
the process, and those that become ready at the same time block the event loop one after another.

Calls with priority have slots and a queue of their own: no number of other calls delays them. The client
gives it to those that finish a payment.

Modules for event loops are imported where they are used: a blocking process needs 50 modules less.
"""

from collections import deque
from collections.abc import Callable
from threading import Event, Lock
from time import monotonic
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from faregate.core.models import Headers, Response
from faregate.errors import TooManyCalls
from faregate.transports.base import AsyncTransport, Transport
from faregate.transports.pools import PerLoop, PerProcess

if TYPE_CHECKING:
    import anyio

MAX_CALLS = 250
"""Calls of one kind under way. Both kinds together leave half of the 1,024 files that a process often has."""
MAX_WAITING = 1000
"""Calls that wait for a slot. One more is refused at once."""
WAIT_SHARE = 0.5
"""The part of its deadline that a call may wait for a slot, so that it is not sent when it is too late."""
_WAITED = "this one has waited too long"


class Waiter(Protocol):
    """An event, of threads or of an event loop."""

    def set(self) -> None: ...

    def is_set(self) -> bool: ...


W = TypeVar("W", bound=Waiter)

HasPriority = Callable[[str], bool]
"""Whether the call of a URL must not wait for others."""


class CallLimiter(Generic[W]):
    """At most `slots` calls at once. Others wait in the order in which they came, `places` of them at most.

    A slot that becomes free is handed to the call that has waited longest; none can overtake it.
    """

    def __init__(self, slots: int, places: int, make_waiter: Callable[[], W]) -> None:
        self._slots = slots
        self._free = slots
        self._places = places
        self._make_waiter = make_waiter
        self._waiting: deque[W] = deque()
        self._lock = Lock()

    def enter(self) -> W | None:
        """Take a slot (None), or a place in the queue: its waiter is set when a slot is handed over.

        Raises `TooManyCalls` if there is no place.
        """
        with self._lock:
            if self._free:
                self._free -= 1
                return None
            if len(self._waiting) < self._places:
                self._waiting.append(waiter := self._make_waiter())
                return waiter
        raise self.too_many_calls(f"{self._places} wait")

    def leave(self) -> None:
        """Give the slot back."""
        with self._lock:
            if self._waiting:
                self._waiting.popleft().set()
            else:
                self._free += 1

    def withdraw(self, waiter: W) -> None:
        """Leave the queue. A slot that was handed over meanwhile goes to the next."""
        with self._lock:
            if not waiter.is_set():
                self._waiting.remove(waiter)
                return
        self.leave()

    def too_many_calls(self, wait: str) -> TooManyCalls:
        return TooManyCalls(f"not sent: {self._slots} calls to the service are under way, and {wait}")


class Limits(Generic[W]):
    """The limiters of one process, or of one event loop."""

    def __init__(
        self, slots: int, places: int, make_waiter: Callable[[], W], has_priority: HasPriority
    ) -> None:
        self._priority = CallLimiter(slots, places, make_waiter)
        self._others = CallLimiter(slots, places, make_waiter)
        self._has_priority = has_priority

    def limiter(self, url: str) -> CallLimiter[W]:
        return self._priority if self._has_priority(url) else self._others


def has_no_priority(_url: str) -> bool:
    return False


class DualTransport(Transport, AsyncTransport, Protocol):
    """The base of the built-in transports."""


class LimitedTransport:
    """A transport with at most `slots` calls of each of the two kinds at once.

    Each process and each event loop counts for itself. The time in the queue is part of the deadline.
    """

    def __init__(
        self,
        inner: DualTransport,
        slots: int = MAX_CALLS,
        places: int = MAX_WAITING,
        *,
        has_priority: HasPriority = has_no_priority,
    ) -> None:
        self._inner = inner
        self._limits = PerProcess(lambda: Limits(slots, places, Event, has_priority), lambda _: None)
        self._async_limits = PerLoop(lambda: Limits(slots, places, _make_event, has_priority), _adiscard)

    def send(self, method: str, url: str, headers: Headers, body: bytes | None, seconds: float) -> Response:
        moment = monotonic() + seconds
        limiter = self._limits.get().limiter(url)
        if (waiter := limiter.enter()) is not None:
            try:
                waiter.wait(seconds * WAIT_SHARE)
            except BaseException:
                limiter.withdraw(waiter)
                raise
            # If a slot arrives between these two lines, `withdraw` passes it on.
            if not waiter.is_set():
                limiter.withdraw(waiter)
                raise limiter.too_many_calls(_WAITED)
        try:
            return self._inner.send(method, url, headers, body, moment - monotonic())
        finally:
            limiter.leave()

    async def asend(
        self, method: str, url: str, headers: Headers, body: bytes | None, seconds: float
    ) -> Response:
        moment = monotonic() + seconds
        limiter = (await self._async_limits.get()).limiter(url)
        if (waiter := limiter.enter()) is not None:
            try:
                from anyio import move_on_after

                with move_on_after(seconds * WAIT_SHARE):
                    await waiter.wait()
            except BaseException:
                limiter.withdraw(waiter)
                raise
            if not waiter.is_set():
                limiter.withdraw(waiter)
                raise limiter.too_many_calls(_WAITED)
        try:
            return await self._inner.asend(method, url, headers, body, moment - monotonic())
        finally:
            limiter.leave()

    def close(self) -> None:
        self._inner.close()
        self._limits.close()

    async def aclose(self) -> None:
        await self._inner.aclose()
        await self._async_limits.close()


def _make_event() -> "anyio.Event":
    from anyio import Event

    return Event()


async def _adiscard(_limits: object) -> None:
    return None

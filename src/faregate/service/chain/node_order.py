"""The order in which peers are asked that stand in for each other: nodes of a chain, or facilitators.

A peer that failed rests: for a while it is asked only after the others, so that requests need not wait for it
each time. Times are in seconds, on a clock of the caller's.
"""

from collections.abc import Generator, Sequence
from threading import Lock
from typing import Final, Protocol, TypeVar

FIRST_REST: Final = 30.0
LONGEST_REST: Final = 300.0
_TRIAL: Final = 10.0
"""After its rest one request tries a peer. For so long the others still ask it last."""


class Rest:
    """Whether one peer rests. Any number of threads may share it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._seconds = FIRST_REST
        self._until: float | None = None
        self._is_tried = False

    def is_resting(self, now: float) -> bool:
        """Return whether the peer is to be asked after the others."""
        with self._lock:
            return self._until is not None and now < self._until

    def record_success(self) -> None:
        """End the rest: the peer answered."""
        with self._lock:
            self._until, self._seconds, self._is_tried = None, FIRST_REST, False

    def record_failure(self, now: float) -> None:
        """Begin a rest, each time twice as long as the one before, up to `LONGEST_REST`."""
        with self._lock:
            if self._until is not None and now < self._until and not self._is_tried:
                return  # a call that began before the rest, or that had no other peer
            self._until, self._is_tried = now + self._seconds, False
            self._seconds = min(2 * self._seconds, LONGEST_REST)

    def begin_trial(self, now: float) -> None:
        """Let others ask the peer last while this request finds out whether it answers again."""
        with self._lock:
            if self._until is not None and now >= self._until:
                self._until, self._is_tried = now + _TRIAL, True


class Peer(Protocol):
    """What `take_turns` orders."""

    @property
    def rest(self) -> Rest: ...


P = TypeVar("P", bound=Peer)


def take_turns(peers: Sequence[P], now: float) -> Generator[tuple[P, bool]]:
    """Yield the peers in the order to ask them, and whether each rests: as given, those that rest last."""
    turns = [(peer, peer.rest.is_resting(now)) for peer in peers]
    for peer, rests in sorted(turns, key=lambda turn: turn[1]):
        peer.rest.begin_trial(now)
        yield peer, rests

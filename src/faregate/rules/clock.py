"""A clock for snapshots: it never runs backwards, and writes come after every list already answered.

A list answered for `as_of` must never change afterwards. So a write is stamped later than every moment for
which a list was answered, by a microsecond if need be.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

Clock = Callable[[], datetime]
"""Gives the present with a zone."""

LAST_SECOND: Final = 253_402_300_799
"""The end of the year 9999 in Unix seconds, as far as a `datetime` goes: an authorization may end later."""

_TICK: Final = timedelta(microseconds=1)


class MonotonicClock:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._latest = datetime.min.replace(tzinfo=UTC)
        self._fence = self._latest

    def now(self) -> datetime:
        """Return the current time in UTC, never earlier than a stamp already given."""
        return max(self._clock().astimezone(UTC), self._latest)

    def tick(self) -> datetime:
        """Stamp a change: later than every list answered so far."""
        self._latest = max(self.now(), self._fence + _TICK)
        return self._latest

    def edit(self) -> datetime:
        """Stamp an edit by the seller: later than every earlier stamp, too.

        So its moment alone tells what was sold before the edit from what was sold after it.
        """
        self._latest = max(self.now(), self._fence + _TICK, self._latest + _TICK)
        return self._latest

    def snapshot(self, as_of: datetime | None) -> datetime | None:
        """Return the moment that a list shows, and fix it; None if it is in the future."""
        now = self.now()
        moment = now if as_of is None else as_of
        if moment > now:
            return None
        self._fence = max(self._fence, moment)
        return moment

    def state(self) -> tuple[datetime, datetime]:
        """Return the latest stamp, and the latest moment a list was answered for."""
        return self._latest, self._fence

    def restore(self, latest: datetime, fence: datetime) -> None:
        """Set both, forgetting later ones."""
        self._latest, self._fence = latest, fence

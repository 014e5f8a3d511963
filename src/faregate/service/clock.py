"""Moments that snapshots can trust. Pure; the clock is handed in.

A list answered for `as_of` must never change afterwards. So time never runs back, and whatever is
written after a snapshot was answered is stamped later than it, by a microsecond if need be.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

Clock = Callable[[], datetime]
"""Gives the present with a zone."""

_TICK = timedelta(microseconds=1)


class MonotonicClock:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._latest = datetime.min.replace(tzinfo=UTC)
        self._fence = self._latest

    def now(self) -> datetime:
        """The present, in UTC: never before anything already stamped."""
        return max(self._clock().astimezone(UTC), self._latest)

    def tick(self) -> datetime:
        """The moment of a change: after every snapshot answered so far."""
        self._latest = max(self.now(), self._fence + _TICK)
        return self._latest

    def edit(self) -> datetime:
        """The moment of an edit by the seller: after all that was stamped so far.

        So what was sold before the edit is told from what was sold after it by its moment alone.
        """
        self._latest = max(self.now(), self._fence + _TICK, self._latest + _TICK)
        return self._latest

    def snapshot(self, as_of: datetime | None) -> datetime | None:
        """The moment a list shows, from now on unchangeable; None if it lies in the future."""
        now = self.now()
        moment = now if as_of is None else as_of
        if moment > now:
            return None
        self._fence = max(self._fence, moment)
        return moment

    def state(self) -> tuple[datetime, datetime]:
        """When something was last stamped, and the latest moment a list was answered for."""
        return self._latest, self._fence

    def restore(self, latest: datetime, fence: datetime) -> None:
        """Another state comes back: what was stamped or shown later than in it never happened."""
        self._latest, self._fence = latest, fence

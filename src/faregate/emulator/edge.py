"""What the state machine may not have by itself: the real clock, and chance."""

import secrets
from datetime import UTC, datetime, timedelta

from faregate.emulator.identifiers import shaped_id


def system_clock() -> datetime:
    return datetime.now(UTC)


class ManualClock:
    """A clock that stands still until it is told to go: for tests."""

    def __init__(self, start: datetime | None = None) -> None:
        self._now = start or datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += timedelta(seconds=seconds)


def random_id(prefix: str, moment: datetime, /) -> str:
    """A new UUIDv7-shaped id: the milliseconds, then 74 random bits."""
    return shaped_id(prefix, moment, secrets.randbits(74))

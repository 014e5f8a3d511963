"""What the state machine may not have by itself: the real clock, and chance."""

import secrets
from datetime import UTC, datetime
from typing import Final

from faregate.emulator.clock import WorldClock
from faregate.service.identifiers import shaped_id

FIRST_MORNING: Final = datetime(2026, 1, 1, tzinfo=UTC)


def system_clock() -> datetime:
    return datetime.now(UTC)


class ManualClock(WorldClock):
    """A clock that stands still until it is told to go: for tests."""

    def __init__(self, start: datetime = FIRST_MORNING) -> None:
        super().__init__(system_clock, frozen_at=start)


def random_challenge() -> str:
    """A challenge of 256 random bits."""
    return secrets.token_hex(32)


def random_id(prefix: str, moment: datetime, /) -> str:
    """A new UUIDv7-shaped id: the milliseconds, then 74 random bits."""
    return shaped_id(prefix, moment, secrets.randbits(74))

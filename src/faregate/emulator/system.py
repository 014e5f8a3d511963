"""What the state machine may not have by itself: the real clock, and chance."""

import secrets
from datetime import UTC, datetime

from faregate.service.identifiers import build_id


def system_clock() -> datetime:
    return datetime.now(UTC)


def random_challenge() -> str:
    """A challenge of 256 random bits."""
    return secrets.token_hex(32)


def random_id(prefix: str, moment: datetime, /) -> str:
    """A new UUIDv7-shaped id: the milliseconds, then 74 random bits."""
    return build_id(prefix, moment, secrets.randbits(74))

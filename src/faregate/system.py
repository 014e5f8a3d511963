"""The real clock and real randomness. The service is given them, it never uses them itself."""

import secrets
from datetime import UTC, datetime

from faregate.service.identifiers import build_id


def system_clock() -> datetime:
    return datetime.now(UTC)


def random_challenge() -> str:
    """Return a challenge of 256 random bits."""
    return secrets.token_hex(32)


def random_id(prefix: str, moment: datetime, /) -> str:
    """Return a new id: the milliseconds, then 74 random bits."""
    return build_id(prefix, moment, secrets.randbits(74))

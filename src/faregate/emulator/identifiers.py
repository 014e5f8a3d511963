"""Public ids, `<prefix>_<32 hex>` with the shape of a UUIDv7 (spec: Identifier format). Pure."""

from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Protocol

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Ids(Protocol):
    """The id source: a new id of this prefix, made at this moment."""

    def __call__(self, prefix: str, moment: datetime, /) -> str: ...


def shaped_id(prefix: str, moment: datetime, entropy: int) -> str:
    """48 bits of milliseconds, the version 7, 12 bits, the variant, 62 bits: `entropy` gives the 74."""
    milliseconds = (moment - _EPOCH) // timedelta(milliseconds=1) & (1 << 48) - 1
    high = entropy >> 62 & 0xFFF
    low = entropy & (1 << 62) - 1
    number = milliseconds << 80 | 0x7 << 76 | high << 64 | 0b10 << 62 | low
    return f"{prefix}_{number:032x}"


def derived_id(prefix: str, moment: datetime, *parts: str) -> str:
    """The same id for the same parts, every time: for what the seller set up, not what happens."""
    digest = sha256("\0".join((prefix, *parts)).encode()).digest()
    return shaped_id(prefix, moment, int.from_bytes(digest[:10], "big"))


class CountedIds:
    """An id source that counts: the same story gives the same ids."""

    def __init__(self) -> None:
        self._count = 0

    def __call__(self, prefix: str, moment: datetime, /) -> str:
        self._count += 1
        return shaped_id(prefix, moment, self._count)

"""Ids, `<prefix>_<32 hex>` with the shape of a UUIDv7 (spec: Identifier format), and challenges. Pure."""

from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Protocol, runtime_checkable

from faregate.errors import ConfigurationError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Ids(Protocol):
    """The id source: a new id of this prefix, made at this moment."""

    def __call__(self, prefix: str, moment: datetime, /) -> str: ...


class Challenges(Protocol):
    """The source of challenges for instructions: a fresh one, 64 hex digits, with every call."""

    def __call__(self) -> str: ...


@runtime_checkable
class RewindableIds(Ids, Protocol):
    """An id source that a snapshot can take back to where it was."""

    def like(self, name: str) -> "RewindableIds": ...
    def state(self) -> int: ...
    def restore(self, state: int) -> None: ...


def build_id(prefix: str, moment: datetime, entropy: int) -> str:
    """48 bits of milliseconds, the version 7, 12 bits, the variant, 62 bits: `entropy` gives the 74."""
    milliseconds = (moment - _EPOCH) // timedelta(milliseconds=1) & (1 << 48) - 1
    high = entropy >> 62 & 0xFFF
    low = entropy & (1 << 62) - 1
    number = milliseconds << 80 | 0x7 << 76 | high << 64 | 0b10 << 62 | low
    return f"{prefix}_{number:032x}"


def derive_id(prefix: str, moment: datetime, *parts: str) -> str:
    """The same id for the same parts, every time: for what the seller set up, not what happens."""
    return build_id(prefix, moment, _hash_entropy(prefix, *parts))


class CountedIds:
    """An id source that counts: the same story gives the same ids."""

    seed = ""

    def __init__(self) -> None:
        self._count = 0

    def __call__(self, prefix: str, moment: datetime, /) -> str:
        self._count += 1
        return build_id(prefix, moment, self._entropy(prefix))

    def like(self, name: str) -> "CountedIds":
        """The source of another world, which counts for itself."""
        return CountedIds()

    def state(self) -> int:
        """How many ids it has given."""
        return self._count

    def restore(self, state: int) -> None:
        """The ids after this many come again. `ConfigurationError` if this cannot be a state."""
        if type(state) is not int or state < 0:
            raise ConfigurationError(f"the state of an id source is a number of ids, not {state!r}")
        self._count = state

    def _entropy(self, prefix: str) -> int:
        return self._count


class SeededIds(CountedIds):
    """An id source that looks like chance: the same seed and the same story give the same ids.

    The seed may be a number or a text; `7` and `"7"` are one.
    """

    def __init__(self, seed: int | str) -> None:
        super().__init__()
        self.seed = str(seed)

    def like(self, name: str) -> "SeededIds":
        """The source of another world: other ids, and always the same for its name."""
        return SeededIds(f"{self.seed}/{name}")

    def _entropy(self, prefix: str) -> int:
        return _hash_entropy(self.seed, str(self._count), prefix)


class SeededChallenges:
    """A source of challenges that the same seed repeats. It counts for itself: a 402 moves no ids."""

    def __init__(self, seed: str) -> None:
        self._seed = seed
        self._count = 0

    def __call__(self) -> str:
        self._count += 1
        return sha256("\0".join((self._seed, str(self._count), "challenge")).encode()).hexdigest()

    def state(self) -> int:
        """How many challenges it has given."""
        return self._count

    def restore(self, state: int) -> None:
        """The challenges after this many come again."""
        self._count = state


def _hash_entropy(*parts: str) -> int:
    return int.from_bytes(sha256("\0".join(parts).encode()).digest()[:10], "big")

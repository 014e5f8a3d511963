"""Ids, `<prefix>_<32 hex>` in the shape of a UUIDv7 (spec: Identifier format), and challenges."""

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hashlib import sha256
from typing import Protocol, runtime_checkable

from faregate.errors import ConfigurationError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Ids(Protocol):
    """A source of ids: called with a prefix and the moment of creation."""

    def __call__(self, prefix: str, moment: datetime, /) -> str: ...


class Challenges(Protocol):
    """A source of challenges for instructions: 64 fresh hex digits with every call."""

    def __call__(self) -> str: ...


@runtime_checkable
class RewindableIds(Ids, Protocol):
    """A source of ids that can return to an earlier state."""

    def like(self, name: str) -> "RewindableIds": ...
    def state(self) -> int: ...
    def restore(self, state: int) -> None: ...


def build_id(prefix: str, moment: datetime, entropy: int) -> str:
    """Build an id: 48 bits of milliseconds, version 7, 12 bits, variant, 62 bits; `entropy` fills the 74."""
    milliseconds = (moment - _EPOCH) // timedelta(milliseconds=1) & (1 << 48) - 1
    high = entropy >> 62 & 0xFFF
    low = entropy & (1 << 62) - 1
    number = milliseconds << 80 | 0x7 << 76 | high << 64 | 0b10 << 62 | low
    return f"{prefix}_{number:032x}"


# A suite of tests makes thousands of emulators, whose catalogs have the same ids.
@lru_cache(maxsize=1024)
def derive_id(prefix: str, moment: datetime, *parts: str) -> str:
    """Derive an id from the parts, the same every time: for what the seller sets up."""
    return build_id(prefix, moment, _hash_entropy(prefix, *parts))


class CountedIds:
    """Ids that count: the same sequence of calls gives the same ids."""

    seed = ""

    def __init__(self) -> None:
        self._count = 0

    def __call__(self, prefix: str, moment: datetime, /) -> str:
        self._count += 1
        return build_id(prefix, moment, self._entropy(prefix))

    def like(self, name: str) -> "CountedIds":
        """Return the source for another tenant, which counts for itself."""
        return CountedIds()

    def state(self) -> int:
        """Return how many ids were given."""
        return self._count

    def restore(self, state: int) -> None:
        """Continue after this many ids; `ConfigurationError` if this is not a count."""
        if type(state) is not int or state < 0:
            raise ConfigurationError(f"the state of an id source is a number of ids, not {state!r}")
        self._count = state

    def _entropy(self, prefix: str) -> int:
        return self._count


class SeededIds(CountedIds):
    """Ids that look random, repeatable by their seed. `7` and `"7"` are the same seed."""

    def __init__(self, seed: int | str) -> None:
        super().__init__()
        self.seed = str(seed)

    def like(self, name: str) -> "SeededIds":
        """Return the source for another tenant: other ids, repeatable by its name."""
        return SeededIds(f"{self.seed}/{name}")

    def _entropy(self, prefix: str) -> int:
        return _hash_entropy(self.seed, str(self._count), prefix)


class SeededChallenges:
    """Challenges that are repeatable by their seed. They are counted apart from ids, so a 402 shifts none."""

    def __init__(self, seed: str) -> None:
        self._seed = seed
        self._count = 0

    def __call__(self) -> str:
        self._count += 1
        return sha256("\0".join((self._seed, str(self._count), "challenge")).encode()).hexdigest()

    def state(self) -> int:
        """Return how many challenges were given."""
        return self._count

    def restore(self, state: int) -> None:
        """Continue after this many challenges."""
        self._count = state


def _hash_entropy(*parts: str) -> int:
    # The zero byte keeps `a`, `bc` apart from `ab`, `c`.
    return int.from_bytes(sha256("\0".join(parts).encode()).digest()[:10], "big")

"""What a test wishes of its emulator: `@pytest.mark.faregate(...)`, or the ini file for all tests."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Self

from faregate.emulator.clock import WorldClock
from faregate.emulator.emulator import Emulator
from faregate.emulator.system import random_id, system_clock
from faregate.errors import ConfigurationError
from faregate.service.builtin import TEST_KEY, keys_of
from faregate.service.config import Key, World
from faregate.service.identifiers import SeededIds


@dataclass(frozen=True, slots=True)
class Wishes:
    """`clock`: "real", "frozen" (it stands still at the present), or a moment at which it stands still.

    `seed` makes the ids the same in every run. With `strict` every call must be expected; with
    `invariants` the payers' answers are looked at when the test is over.
    """

    clock: str | datetime = "real"
    seed: int | str | None = None
    strict: bool = False
    invariants: bool = False

    @classmethod
    def of(cls, *said: Mapping[str, Any]) -> Self:
        """Later ones win. `ConfigurationError` for a name that there is not."""
        known = [field.name for field in fields(cls)]
        merged = {name: value for part in said for name, value in part.items()}
        for name in merged:
            if name not in known:
                raise ConfigurationError(
                    f"pytest.mark.faregate knows no {name!r}; it knows {', '.join(known)}"
                )
        return cls(**merged)

    def emulator(self, world: World, name: str) -> Emulator:
        """A new world; beside its own keys it has the usual one, and those of this name."""
        ids = random_id if self.seed is None else SeededIds(self.seed)
        return Emulator(with_keys(world, name), clock=self._clock(), ids=ids)

    def _clock(self) -> WorldClock:
        if isinstance(self.clock, datetime):
            return WorldClock(system_clock, frozen_at=self.clock)
        if self.clock not in ("real", "frozen"):
            raise ConfigurationError(
                f'the clock of a test is "real", "frozen" or a datetime, not {self.clock!r}'
            )
        clock = WorldClock(system_clock)
        if self.clock == "frozen":
            clock.freeze()
        return clock


def with_keys(world: World, name: str) -> World:
    """The same world, to be opened with the usual test key too, and with the keys of this name."""
    more = (Key(key=TEST_KEY), *keys_of(name))
    known = {key.key for key in world.keys}
    return world.model_copy(update={"keys": (*world.keys, *(key for key in more if key.key not in known))})

"""How a test wants its emulator: `@pytest.mark.faregate(...)`, or the ini file for all tests."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Self

from faregate.emulator.clock import EmulatorClock
from faregate.emulator.emulator import Emulator
from faregate.errors import ConfigurationError
from faregate.service.builtin import TEST_KEY, build_tenant_keys
from faregate.service.config import Account, Key
from faregate.service.identifiers import SeededIds
from faregate.system import random_id, system_clock


@dataclass(frozen=True, slots=True)
class EmulatorOptions:
    """`clock` is "real", "frozen" (at the present), or the moment at which it is frozen.

    `seed` makes ids the same in every run. `strict` requires that every call is expected. `invariants` checks
    the payers' answers when the test is over.
    """

    clock: str | datetime = "real"
    seed: int | str | None = None
    strict: bool = False
    invariants: bool = False

    @classmethod
    def merge(cls, *sources: Mapping[str, Any]) -> Self:
        """Merge options; a later source wins. Raises `ConfigurationError` for an unknown name."""
        known = [field.name for field in fields(cls)]
        merged = {name: value for source in sources for name, value in source.items()}
        for name in merged:
            if name not in known:
                raise ConfigurationError(
                    f"pytest.mark.faregate has no option {name!r}; its options are {', '.join(known)}"
                )
        return cls(**merged)

    def build_emulator(self, account: Account, name: str) -> Emulator:
        """Build an emulator that also accepts the usual test key and the keys of the tenant `name`."""
        ids = random_id if self.seed is None else SeededIds(self.seed)
        return Emulator(_add_keys(account, name), clock=self._build_clock(), ids=ids)

    def _build_clock(self) -> EmulatorClock:
        if isinstance(self.clock, datetime):
            return EmulatorClock(system_clock, frozen_at=self.clock)
        if self.clock not in ("real", "frozen"):
            raise ConfigurationError(f'the clock must be "real", "frozen" or a datetime, not {self.clock!r}')
        clock = EmulatorClock(system_clock)
        if self.clock == "frozen":
            clock.freeze()
        return clock


def _add_keys(account: Account, name: str) -> Account:
    known = {key.key for key in account.keys}
    extra = (key for key in (Key(key=TEST_KEY), *build_tenant_keys(name)) if key.key not in known)
    return account.model_copy(update={"keys": (*account.keys, *extra)})

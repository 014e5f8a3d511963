"""The active faults in their order, and named sets of them. The first that matches a call applies alone."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from threading import Lock
from types import MappingProxyType
from typing import Annotated, Final

from pydantic import AliasChoices, Field

from faregate.emulator.calls import CallInfo
from faregate.emulator.faults.models import Fault
from faregate.errors import ConfigurationError
from faregate.rules.account import FrozenModel

CLEAN: Final = "clean"
MODES: Final[Mapping[str, tuple[Fault, ...]]] = MappingProxyType(
    {
        "accept-then-time-out": (Fault(kind="silence", when="after", operation="complete", times=None),),
        "5xx-after-settle": (
            Fault(kind="status", status=502, when="after", operation="complete", times=None),
        ),
        "double-402": (Fault(kind="second-402", when="after", operation="complete", times=None),),
        "slow-answer": (Fault(kind="latency", seconds=2, operation="complete", times=None),),
        "reconcile-unavailable": (
            Fault(kind="silence", when="after", operation="complete", times=None),
            Fault(kind="status", status=503, operation="transaction", times=None),
            Fault(kind="status", status=503, operation="transactions", times=None),
        ),
        CLEAN: (),
    }
)
"""Faults that belong together, by the name of their mode, which lasts until another one is set.

They answer the question whether a client retries safely: in each but `clean` the payment is taken, and the
answer is easily misread.
"""


Count = Annotated[int, Field(strict=True, ge=0)]


@dataclass(slots=True)
class ActiveFault:
    """An active fault. `seen` counts the calls it could have affected, `applied` those it did."""

    id: str
    fault: Fault
    seen: int = 0
    applied: int = 0

    @property
    def is_spent(self) -> bool:
        """Whether it has applied as often as it should."""
        return self.fault.times is not None and self.applied >= self.fault.times

    def is_drawn(self) -> bool:
        """Whether it applies to the current call, by its probability; repeatable by its seed."""
        if self.fault.probability is None:
            return True
        # A hash instead of random numbers: repeatable, and independent of the order of other faults.
        thrown = sha256(f"{self.fault.seed}/{self.seen}".encode()).digest()
        return int.from_bytes(thrown[:8]) < self.fault.probability * 2**64


class ActiveFaultState(FrozenModel):
    id: str
    fault: Fault
    seen: Count
    applied: Annotated[Count, Field(validation_alias=AliasChoices("applied", "struck"))]
    """Files saved before this version call it `struck`."""


class FaultsState(FrozenModel):
    added: Count
    rules: tuple[ActiveFaultState, ...]


class Faults:
    """The faults of one emulator. Safe to change while calls are answered."""

    def __init__(self, mode: str) -> None:
        self._lock = Lock()
        self._added = 0
        self.rules: tuple[ActiveFault, ...] = ()
        """Those that can still apply, in their order; replaced as a whole."""
        self.set_mode(mode)

    def __iter__(self) -> Iterator[ActiveFault]:
        """Iterate over the faults that can still apply."""
        return iter(self.rules)

    def __len__(self) -> int:
        return len(self.rules)

    def add(self, fault: Fault) -> ActiveFault:
        """Add a fault after the others; the returned one counts how often it applied."""
        with self._lock:
            return self._add(fault)

    def remove(self, rule_id: str) -> bool:
        """Remove a fault; False if there is none of this id any more."""
        with self._lock:
            before = self.rules
            self.rules = tuple(rule for rule in before if rule.id != rule_id)
            return len(self.rules) < len(before)

    def clear(self) -> None:
        """Remove all faults."""
        with self._lock:
            self.rules = ()

    def set_mode(self, mode: str) -> None:
        """Replace all faults by those of this mode; `ConfigurationError` if there is none."""
        if mode not in MODES:
            raise ConfigurationError(f"there is no mode {mode!r}; there are {', '.join(MODES)}")
        with self._lock:
            self.rules = ()
            for fault in MODES[mode]:
                self._add(fault)

    @property
    def mode(self) -> str | None:
        """The mode with exactly these faults; None if there is none."""
        faults = tuple(rule.fault for rule in self.rules)
        return next((name for name, those in MODES.items() if those == faults), None)

    def first(self, info: CallInfo, fits: Callable[[Fault], bool]) -> ActiveFault | None:
        """Find the fault that applies to this call. `fits` says whether a fault can affect it."""
        for rule in self.rules:
            if rule.fault.matches(info) and fits(rule.fault):
                # Not under our lock: calls come one at a time, under that of the emulator.
                rule.seen += 1
                if rule.is_drawn():
                    return rule
        return None

    def count_application(self, rule: ActiveFault) -> None:
        """Count an application; a fault that is spent is removed."""
        with self._lock:
            rule.applied += 1
            if rule.is_spent:
                self.rules = tuple(other for other in self.rules if other is not rule)

    def state(self) -> FaultsState:
        with self._lock:
            rules = tuple(
                ActiveFaultState(id=rule.id, fault=rule.fault, seen=rule.seen, applied=rule.applied)
                for rule in self.rules
            )
            return FaultsState(added=self._added, rules=rules)

    def restore(self, state: FaultsState) -> None:
        """Replace all faults by those of this state."""
        with self._lock:
            self._added = state.added
            self.rules = tuple(
                ActiveFault(rule.id, rule.fault, rule.seen, rule.applied) for rule in state.rules
            )

    def _add(self, fault: Fault) -> ActiveFault:
        self._added += 1
        rule = ActiveFault(f"{fault.kind}-{self._added}", fault)
        self.rules = (*self.rules, rule)
        return rule

"""How many times the attacks tried, and what they got: said at the end of a run."""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import pytest


@dataclass
class Figures:
    """The figures of a run: tries and leaks by the name of the attack."""

    tries: Counter[str] = field(default_factory=Counter)
    leaks: Counter[str] = field(default_factory=Counter)

    def count(self, attack: str, leaks: Collection[object], tries: int = 1) -> None:
        """Record `tries` of an attack, and what leaked."""
        self.tries[attack] += tries
        self.leaks[attack] += len(leaks)

    def as_dict(self) -> dict[str, Any]:
        return {"tries": dict(self.tries), "leaks": dict(self.leaks)}

    def add(self, other: dict[str, Any]) -> None:
        """Add what another process counted."""
        self.tries.update(other["tries"])
        self.leaks.update(other["leaks"])

    def write_summary(self, reporter: pytest.TerminalReporter) -> None:
        tries, leaks = self.tries.total(), self.leaks.total()
        if not tries:
            return
        reporter.write_line(f"attacks: {tries} tries, {leaks} leaks", red=bool(leaks), green=not leaks)
        for attack, count in sorted(self.tries.items()):
            reporter.write_line(f"  {attack}: {count} tries, {self.leaks[attack]} leaks")


figures = Figures()

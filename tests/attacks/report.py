"""How many times the attacks tried, and what they got: said at the end of a run.

A plugin of pytest: with pytest-xdist, each worker tells the one that sums up.
"""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import pytest

OUTPUT = "attacks"


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


figures = Figures()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: object) -> None:
    """A worker of pytest-xdist is done."""
    output = getattr(node, "workeroutput", {}).get(OUTPUT)
    if output is not None:
        figures.add(output)


def pytest_sessionfinish(session: pytest.Session) -> None:
    output: dict[str, object] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        output[OUTPUT] = figures.as_dict()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    tries, leaks = figures.tries.total(), figures.leaks.total()
    if not tries:
        return
    terminalreporter.write_line(f"attacks: {tries} tries, {leaks} leaks", red=bool(leaks), green=not leaks)
    for attack, count in sorted(figures.tries.items()):
        terminalreporter.write_line(f"  {attack}: {count} tries, {figures.leaks[attack]} leaks")

"""What all cases came to, said at the end of a run, and as JSON in `HOSTILE_FIGURES`.

A plugin of pytest: with pytest-xdist, each worker tells the one that sums up.
"""

import json
import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.hostile.case import Case

FILE = "HOSTILE_FIGURES"
OUTPUT = "hostile"


@dataclass
class Tally:
    """The figures of a run."""

    cases: int = 0
    answers: int = 0
    faults: set[str] = field(default_factory=set)
    wrongs: Counter[str] = field(default_factory=Counter)

    def count(self, cases: list[Case]) -> None:
        self.cases += len(cases)
        self.answers += sum(case.visits for case in cases)
        self.faults |= {f"{case.call.name}: {case.fault.name}" for case in cases}
        self.wrongs.update(wrong.partition(" (")[0] for case in cases for wrong in case.wrongs)

    def told(self) -> dict[str, Any]:
        return {
            "cases": self.cases,
            "answers": self.answers,
            "faults": sorted(self.faults),
            "wrongs": dict(self.wrongs),
        }

    def add(self, told: dict[str, Any]) -> None:
        """What another process counted."""
        self.cases += told["cases"]
        self.answers += told["answers"]
        self.faults |= set(told["faults"])
        self.wrongs.update(told["wrongs"])


tally = Tally()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: object) -> None:
    """A worker of pytest-xdist is done."""
    told = getattr(node, "workeroutput", {}).get(OUTPUT)
    if told is not None:
        tally.add(told)


def pytest_sessionfinish(session: pytest.Session) -> None:
    output: dict[str, object] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        output[OUTPUT] = tally.told()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not tally.cases:
        return
    terminalreporter.write_line(
        f"hostile service: {tally.cases} cases of {len(tally.faults)} faults at calls, "
        f"{tally.answers} answers to payers, {sum(tally.wrongs.values())} wrong"
    )
    if path := os.environ.get(FILE):
        told = {**tally.told(), "faults": len(tally.faults)}
        Path(path).write_text(json.dumps(told) + "\n")

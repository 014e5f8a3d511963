"""What all cases came to, said at the end of a run, and as JSON in `HOSTILE_FIGURES`."""

import json
import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.hostile.case import Case

FILE = "HOSTILE_FIGURES"


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

    def as_dict(self) -> dict[str, Any]:
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

    def write_summary(self, reporter: pytest.TerminalReporter) -> None:
        if not self.cases:
            return
        reporter.write_line(
            f"hostile service: {self.cases} cases of {len(self.faults)} faults at calls, "
            f"{self.answers} answers to payers, {sum(self.wrongs.values())} wrong"
        )
        if path := os.environ.get(FILE):
            told = {**self.as_dict(), "faults": len(self.faults)}
            Path(path).write_text(json.dumps(told) + "\n")


tally = Tally()

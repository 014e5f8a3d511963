"""One line of the doctor: what was checked, how it is, and what to do about it."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    OK = "ok"
    WARNING = "warning"
    """It works, and may soon not."""
    ERROR = "error"
    """Payments cannot be verified, settled or proven."""


@dataclass(frozen=True, slots=True)
class Finding:
    """`remedy` is what to do, empty if all is well. Neither text has secrets."""

    level: Level
    subject: str
    text: str
    remedy: str = ""

    def __str__(self) -> str:
        remedy = f" {self.remedy}" if self.remedy else ""
        return f"{self.level.value:<8}{self.subject}: {self.text}{remedy}"


Findings = Iterator[Finding]


def report_ok(subject: str, text: str) -> Finding:
    return Finding(Level.OK, subject, text)


def warn(subject: str, text: str, remedy: str) -> Finding:
    return Finding(Level.WARNING, subject, f"{text}.", remedy)


def report_error(subject: str, text: str, remedy: str) -> Finding:
    return Finding(Level.ERROR, subject, f"{text}.", remedy)

"""The servers of a session, and the figures at its end."""

import json
import logging
import os
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.hostile.matrix import Tally
from tests.hostile.stand import House, house

FIGURES = "FAREGATE_HOSTILE_FIGURES"
"""Names a file for the figures, as JSON."""
EVERYTHING = "FAREGATE_HOSTILE_EVERYTHING"
"""Set: each fault at each call, in each window, on each stand."""

_tally = Tally()


@pytest.fixture(scope="session", name="houses")
def _house(tmp_path_factory: pytest.TempPathFactory) -> Generator[House]:
    with house(tmp_path_factory.mktemp("hostile")) as opened:
        yield opened


@pytest.fixture
def tally() -> Tally:
    return _tally


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same number of attempts, one right after the other; and a log that can be read."""
    monkeypatch.setattr("faregate.settle.COMPLETE_PAUSES", (0.0, 0.0))
    monkeypatch.setattr(logging.getLogger("faregate"), "level", logging.ERROR)


class Exceptions(logging.Handler):
    """What servers log when something was raised that nobody expected."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.seen.append(f"{record.name}: {record.getMessage()}")


@pytest.fixture
def exceptions() -> Generator[Exceptions]:
    handler = Exceptions()
    logging.getLogger().addHandler(handler)
    yield handler
    logging.getLogger().removeHandler(handler)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not _tally.cases:
        return
    terminalreporter.write_line(
        f"hostile service: {_tally.cases} cases of {len(_tally.pairs)} faults at calls, "
        f"{_tally.visits} answers to payers, {sum(_tally.wrongs.values())} wrong"
    )
    if path := os.environ.get(FIGURES):
        figures = {
            "cases": _tally.cases,
            "faults": len(_tally.pairs),
            "visits": _tally.visits,
            "wrongs": dict(_tally.wrongs),
        }
        Path(path).write_text(json.dumps(figures) + "\n")

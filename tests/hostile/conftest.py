"""The servers of a session, and what holds for each of its tests."""

import logging
from collections.abc import Generator

import pytest

from tests.hostile import report
from tests.hostile.harness import Harness, open_harness

EVERYTHING = "HOSTILE_EVERYTHING"
"""Set: each fault at each call, in each window, on each stand."""


@pytest.fixture(scope="session", name="harness")
def _harness(tmp_path_factory: pytest.TempPathFactory) -> Generator[Harness]:
    with open_harness(tmp_path_factory.mktemp("hostile")) as opened:
        yield opened


@pytest.fixture(scope="session", autouse=True)
def _figures(pytestconfig: pytest.Config) -> None:
    """Unless the run has them already."""
    if not pytestconfig.pluginmanager.has_plugin(report.__name__):
        pytestconfig.pluginmanager.register(report, report.__name__)


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """Attempt as often, without pauses; and log errors only, so that the log can be read."""
    monkeypatch.setattr("faregate.core.completion.COMPLETE_PAUSES", (0.0, 0.0))
    logger = logging.getLogger("faregate")
    before = logger.level
    # Not by setting the attribute: a logger remembers which levels it is enabled for.
    logger.setLevel(logging.ERROR)
    yield
    logger.setLevel(before)


class Exceptions(logging.Handler):
    """What servers log when something was raised that nobody expected."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.name == "faregate.settings":
            return  # an offer that the faulty contracts do not have
        self.seen.append(f"{record.name}: {record.getMessage()}")


@pytest.fixture
def exceptions() -> Generator[Exceptions]:
    handler = Exceptions()
    logging.getLogger().addHandler(handler)
    yield handler
    logging.getLogger().removeHandler(handler)

"""What holds for all tests: what could not be run on this machine is said at the end."""

import pytest

from tests.houses.shared import not_run


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for missing, tests in not_run.items():
        terminalreporter.write_line(f"NOT RUN: {tests} tests, because {missing}", yellow=True)

"""What holds for all tests: which of them keep together, and what could not be run on this machine."""

import gc
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import certifi
import pytest
from hypothesis import settings

import tests.support.key_files  # noqa: F401
from tests.attacks.report import Figures, figures
from tests.hostile.report import Tally, tally
from tests.servers.shared import not_run
from tests.support.products import find_left_out

# No example has to be done in 200 ms: the machine may be busy.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")

gc.disable()  # until all tests are collected: nothing of that is garbage

AUTHORITY = str(Path(__file__).parent / "support" / "authority.pem")
"""The only authority that clients trust. To read the usual ones takes each client 20 to 30 ms of CPU."""
os.environ["SSL_CERT_FILE"] = AUTHORITY  # for the processes that tests start, too
os.environ["FAREGATE_SETTLE_WAIT"] = "0"  # a payment that settles late is answered with 202 at once
certifi.where = lambda: AUTHORITY  # for clients that are told not to look at the environment

NOT_RUN = "not run"
FIGURES: dict[str, Figures | Tally] = {"attacks": figures, "hostile": tally}
"""What each process of the tests tells at its end, beside `NOT_RUN`, to the process that sums up."""
NOT_REPEATED = 8
"""The exit code where a test failed that must not pass by being repeated: see `scripts/_pytest`."""
MAY_REPEAT = dict.fromkeys(
    (
        *("tests/console", "tests/contract", "tests/crash", "tests/docs", "tests/e2e", "tests/examples"),
        *("tests/service/chain", "tests/probe", "tests/service", "tests/servers", "tests/telemetry"),
        *("tests/test_", "tests/cli", "tests/emulator", "tests/testing"),
        *(f"tests/adapters/test_{name}" for name in ("drain", "lifespan", "sweep", "mcp_transports")),
        *(f"tests/adapters/test_{name}" for name in ("django_edges", "http2_bodies", "settle_wait")),
        *(f"tests/journals/test_{name}" for name in ("django_servers", "gunicorn", "postgres", "redis")),
    ),
    "starts servers, databases or browsers, which a busy machine may not start in time",
)
"""The tests that may fail where the machine is too busy, by the beginning of their ids, with the cause."""
ALONE = ("running", "kind", "stack", "variant")
"""Parameters that have servers, or a long time, of their own."""
BROWSER = "tests/console/"
"""Its files share one browser."""
LONG = tuple(
    f"tests/{name}"
    for name in (
        *("crash", "hostile", "test_readme_install", "contract", "test_readme", "e2e", "testing", "console"),
        *("adapters/test_django_state", "attacks/test_theft", "attacks/test_state", "model", "x402"),
        "merchant/openapi",
    )
)
"""Begun first, in this order, so that none is left over when the other processes have nothing to do."""

SLOW = (
    *(
        f"tests/{name}"
        for name in (
            "attacks",
            "console",
            "contract",
            "crash",
            "e2e",
            "hostile",
            "model",
            "service/chain",
            "probe",
        )
    ),
    *(f"tests/{name}" for name in ("servers", "test_first_sale", "test_readme", "testing")),
    *(f"tests/adapters/test_{name}" for name in ("drain", "http2", "lifespan", "openapi")),
    *(f"tests/adapters/test_{name}" for name in ("django_placement", "django_state", "flask_placement")),
    *(f"tests/cli/test_{name}" for name in ("holds", "init", "journal", "routes", "sweep")),
    *(f"tests/emulator/test_{name}" for name in ("command", "control", "state_file", "tenants")),
    "tests/core/test_server_config",
    *(f"tests/journals/test_{name}" for name in ("django_servers", "gunicorn", "postgres", "redis")),
    *(f"tests/journals/test_{name}" for name in ("processes", "races")),
    *(f"tests/merchant/test_{name}" for name in ("cancellation", "isolation", "limits", "pools")),
    *(f"tests/service/test_{name}" for name in ("compose", "concurrency", "direct", "doctor")),
    *(f"tests/service/test_{name}" for name in ("list_counts", "reconcile", "serve", "service_page")),
    "tests/merchant/openapi/test_schemathesis",
    "tests/merchant/test_addresses",
    "tests/pay/test_cli",
    "tests/rules/test_settlement_model",
    "tests/test_request_cost",
    "tests/x402/test_eip712",
)
"""Left out by `--quick`: tests that start servers, processes or browsers of their own, and campaigns."""
SERVER_KINDS = ("redis", "postgres", "django-postgres", "django-mariadb")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="leave out what takes long: `SLOW` in conftest.py")
    parser.addoption(
        "--full", action="store_true", help="whole products where the suite takes a part of each"
    )


def pytest_configure(config: pytest.Config) -> None:
    for marker in (
        "full: for `--full` only, of a product of which the suite takes a part",
        "spread(parameter, class, every): the suite takes one value of each class (support/products.py)",
        "every_value: this test is run with all values that are spread",
    ):
        config.addinivalue_line("markers", marker)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # As a job in the background is started. The processes of tests would ignore Ctrl-C too.
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _turn(item: pytest.Item) -> int:
    """Return the place in `LONG`; for others, one after its end."""
    turns = (number for number, prefix in enumerate(LONG) if item.nodeid.startswith(prefix))
    return next(turns, len(LONG))


def _find_left_out(config: pytest.Config, items: list[pytest.Item]) -> set[pytest.Item]:
    left_out: set[pytest.Item] = set() if config.option.full else find_left_out(items)
    if config.option.quick:
        left_out.update(item for item in items if not is_quick(item))
    return left_out


def is_quick(item: pytest.Item) -> bool:
    """Whether `--quick` runs it."""
    called = getattr(item, "callspec", None)
    given = {} if called is None else called.params.values()
    return not item.nodeid.startswith(SLOW) and not any(
        kind in SERVER_KINDS for kind in given if isinstance(kind, str)
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With `-n`: the tests of a file run in one process, and those of one server, of whichever file.

    First, because pytest-xdist reads the groups in this very hook.
    """
    left_out = _find_left_out(config, items)
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]
    items.sort(key=_turn)
    for item in items:
        item.add_marker(pytest.mark.xdist_group(_group(item)))


def pytest_collection_finish() -> None:
    """Keep modules and tests out of garbage collections, which would take 0.3 s each.

    And what garbage there is: to collect it first would take as long. Collect seldom: a test makes many
    objects, and most are gone before anybody looks.
    """
    gc.enable()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: Any, ids: list[str]) -> None:
    """Groups that are ignored fail nothing, except now and then a test that met another one's leavings."""
    if node.config.option.dist == "loadgroup" and not all("@" in test for test in ids):
        pytest.exit("pytest-xdist ignores the groups of tests/conftest.py: is this pytest too new for it?", 4)


def _group(item: pytest.Item) -> str:
    place = item.nodeid.partition("::")[0]
    called = getattr(item, "callspec", None)
    given = {} if called is None else called.params
    if "running" in given:
        return f"stack {given['running'].name}"
    if place.startswith(BROWSER):
        return BROWSER
    return " ".join((place, *(str(given[name]) for name in ALONE if name in given)))


_failed: set[str] = set()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Take the group off that pytest-xdist adds to a test's id: `--last-failed` would not know the test."""
    if hasattr(report, "node"):
        report.nodeid = report.nodeid.rpartition("@")[0] or report.nodeid
    if report.failed:
        _failed.add(report.nodeid)


def _summarize() -> dict[str, Any]:
    return {NOT_RUN: dict(not_run), **{name: counted.as_dict() for name, counted in FIGURES.items()}}


def _add_summary(summary: Mapping[str, Any]) -> None:
    not_run.update(summary.get(NOT_RUN, {}))
    for name, counted in FIGURES.items():
        if name in summary:
            counted.add(summary[name])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: object) -> None:
    """A worker of pytest-xdist is done."""
    _add_summary(getattr(node, "workeroutput", {}))


@pytest.fixture(autouse=True)
def _no_prices_of_other_tests() -> None:
    """Forget the prices that are on no route: one process of the tests makes many."""
    if "faregate.routes.unsold_prices" in sys.modules:
        sys.modules["faregate.routes.unsold_prices"].__dict__["_unplaced"].clear()


@pytest.fixture(autouse=True)
def _no_results_of_other_tests() -> None:
    """Forget what was sold: one test gives away what another one sells."""
    if "faregate.checkout.copy_detection" in sys.modules:
        sys.modules["faregate.checkout.copy_detection"].__dict__["RESULTS"].forget()


def pytest_sessionfinish(session: pytest.Session) -> None:
    output: dict[str, object] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        output.update(_summarize())
    elif "RERUN_FAILED" in os.environ and session.exitstatus == pytest.ExitCode.TESTS_FAILED:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED if all(map(_may_repeat, _failed)) else NOT_REPEATED


def _may_repeat(test: str) -> bool:
    return test.startswith(tuple(MAY_REPEAT))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for counted in FIGURES.values():
        counted.write_summary(terminalreporter)
    for missing, count in not_run.items():
        terminalreporter.write_line(f"NOT RUN: {count} tests, because {missing}", yellow=True)

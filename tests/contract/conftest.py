"""A stack: a shop in a server process, the service behind it, and a payer. One of each per session."""

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from faregate.emulator import Emulator, Wallet
from faregate.rules.builtin_account import builtin_account
from tests.contract.handlers import CONTENT
from tests.contract.stacks import STACKS, Server, Stack, running
from tests.support.faulty_service import FaultyService
from tests.support.headers import decode_header
from tests.support.lines import read_lines
from tests.support.products import spread
from tests.support.usage_account import with_usage_price

NO_KEEPING = httpx.Limits(max_keepalive_connections=0)
"""A connection per request: they reach all processes, and none was closed by the server meanwhile."""


@dataclass(frozen=True)
class Line:
    """One line of the log that the handlers write."""

    kind: str
    place: str
    transaction: str | None
    at: float


@dataclass
class Running:
    """What lives as long as the session does."""

    stack: Stack
    server: Server
    service: FaultyService
    http: httpx.Client
    log: Path

    def lines(self, since: int) -> list[Line]:
        return [Line(**line) for line in read_lines(self.log, since)]


@dataclass
class Seller:
    """One test's view of it: a payer of its own, and what ran since the test began."""

    running: Running
    wallet: Wallet = field(default_factory=Wallet)
    mark: int = 0
    asked: int = 0

    def __post_init__(self) -> None:
        log = self.running.log
        self.mark = log.stat().st_size if log.exists() else 0
        self.asked = len(self.service.asked)

    @property
    def service(self) -> FaultyService:
        return self.running.service

    @property
    def stack(self) -> Stack:
        return self.running.stack

    @property
    def port(self) -> int:
        return self.running.server.port

    def get(self, path: str, proof: str | None = None, **options: Any) -> httpx.Response:
        headers = {} if proof is None else {"PAYMENT-SIGNATURE": proof}
        headers |= options.pop("headers", {})
        return self.running.http.request(options.pop("method", "GET"), path, headers=headers, **options)

    def proof_for(self, path: str, method: str = "GET") -> str:
        """A payment signed for what the shop asks on this path."""
        unpaid = self.get(path, method=method)
        assert unpaid.status_code == 402, unpaid.text
        return self.wallet.pay(unpaid.headers["payment-required"])

    def buy(self, path: str, **options: Any) -> httpx.Response:
        return self.get(path, self.proof_for(path, options.get("method", "GET")), **options)

    # The truth

    def runs(self, kind: str = "work") -> list[Line]:
        """What handlers did since this test began."""
        return [line for line in self.running.lines(self.mark) if line.kind == kind]

    def statuses(self) -> dict[str, str]:
        """The transactions of this test's payer, and how they stand."""
        payer = self.wallet.address.lower()
        items = self.service.list_transactions(newest=max(1, min(self.count("access"), 100)))
        return {item["id"]: item["status"] for item in items if item["payer"].lower() == payer}

    def outcome(self) -> str:
        """How the one transaction of this payer stands."""
        (status,) = self.statuses().values()
        return status

    def count(self, operation: str) -> int:
        """Calls of the service since this test began."""
        return self.service.asked[self.asked :].count(operation)


@pytest.fixture(
    scope="session",
    params=spread("running", STACKS, lambda stack: stack.adapter),
    ids=lambda stack: stack.name,
    name="running",
)
def _running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Generator[Running]:
    stack: Stack = request.param
    emulator = Emulator(with_usage_price(builtin_account()))
    service, folder = FaultyService(emulator), tmp_path_factory.mktemp(stack.name)
    with (
        service.serving() as url,
        running(stack, url, folder, FAREGATE_PAYMENT_IDENTIFIER="optional") as server,
        httpx.Client(base_url=server.url, timeout=30, trust_env=False, limits=NO_KEEPING) as http,
    ):
        yield Running(stack, server, service, http, folder / "executions")


@pytest.fixture
def seller(running: Running) -> Generator[Seller]:
    if running.server.has_ended():
        running.server.revive()
    yield Seller(running)
    running.service.faults.clear()
    running.service.delay = 0.0


def only(condition: Callable[[Stack], bool]) -> pytest.MarkDecorator:
    """A test for some stacks only: for the others it does not exist."""
    mark: pytest.MarkDecorator = pytest.mark.contract_only.with_args(condition)
    return mark


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "contract_only(condition): for the stacks of which this is true")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Before the suite takes its part (tests/conftest.py): that is of those that fit."""
    unfit = [item for item in items if not _fits(item)]
    config.hook.pytest_deselected(items=unfit)
    items[:] = [item for item in items if _fits(item)]


def _fits(item: pytest.Item) -> bool:
    called = getattr(item, "callspec", None)
    stack = None if called is None else called.params.get("running")
    return not isinstance(stack, Stack) or all(
        mark.args[0](stack) for mark in item.iter_markers("contract_only")
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failure shows what the server said."""
    report = yield
    running = getattr(item, "funcargs", {}).get("running")
    if report.failed and isinstance(running, Running):
        report.sections.append((f"what {running.stack.name} said", running.server.said()))
    return report


# What payers may be given


def assert_released(response: httpx.Response, content: str = CONTENT) -> None:
    assert response.status_code == 200, response.text
    assert content in response.text
    receipt = decode_header(response.headers["payment-response"])
    assert receipt["success"] is True
    assert response.headers["faregate-transaction"].startswith("txn_")
    assert "Faregate-Transaction" in response.headers["access-control-expose-headers"]


def assert_withheld(response: httpx.Response, status: int, code: str | None = None) -> None:
    assert response.status_code == status, response.text
    assert CONTENT not in response.text
    assert "payment-response" not in response.headers
    assert "x-own" not in response.headers
    assert response.headers.get_list("cache-control") == ["private, no-store"]
    told = response.headers.get("faregate-transaction")
    match response.headers.get("content-type", ""):
        case "application/json":
            assert told == response.json().get("transaction_id")
        case "text/html; charset=utf-8":
            assert told is None or told in response.text
        case _:
            assert told is None
    if code is not None:
        assert response.json()["code"] == code


def assert_instructions(response: httpx.Response) -> dict[str, Any]:
    """A 402 that can be paid; what it asks for."""
    assert_withheld(response, 402, "payment_required")
    required: dict[str, Any] = decode_header(response.headers["payment-required"])
    assert required["accepts"]
    return required


def assert_unconfirmed(response: httpx.Response, seller: Seller) -> None:
    assert_withheld(response, 503, "payment_unconfirmed")
    assert response.json()["transaction_id"] in seller.statuses()
    assert int(response.headers["retry-after"]) > 0
    assert "payment-required" not in response.headers

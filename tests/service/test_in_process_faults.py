"""Faults below an application with the service inside: a clear error or a 503, and nothing is lost."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from examples.chain.local import start_any_chain
from sqlalchemy import text
from starlette.testclient import TestClient

from faregate import ConfigurationError, Offer, Paywall
from faregate.core.models import Response
from faregate.emulator.wallet import Wallet
from faregate.fastapi import list_routes
from faregate.merchant.problems import UNAVAILABLE
from faregate.routes.check import check
from faregate.rules.http import HttpError
from faregate.service import in_process
from faregate.service.database.engine import Database
from tests.service.databases import DATABASES, empty_database
from tests.service.in_process import Buyer, build_environ, build_flask, open_paywall, open_storage_of
from tests.service.test_in_process import build_fastapi, count_sales, list_amounts
from tests.service.test_in_process_chain import on_chain
from tests.support.chain import LocalChain, chain, require_anvil
from tests.support.facilitators import run_facilitator
from tests.support.preloaded import PreloadedPython

__all__ = ["chain"]

ROOT = Path(__file__).parents[2]
FORKING = """
import os
import sys

from flask import Flask

from faregate.emulator.wallet import Wallet
from faregate.flask import Faregate
from tests.service.in_process import Buyer

app = Flask("shop")
paywall = Faregate(app)
app.get("/report")(paywall.paid("daily_report", price="0.05 USDC")(lambda: {"report": "sunny"}))


def sell() -> None:
    assert Buyer(app.test_client(), Wallet()).buy().status_code == 200


sell()
for _ in range(3):
    child = os.fork()
    if child == 0:
        sell()
        sys.exit(0)
    sell()
    assert os.waitpid(child, 0)[1] == 0
sell()
"""


def test_a_fork_sells_with_connections_of_its_own(tmp_path: Path) -> None:
    environ = build_environ(tmp_path)
    settings = {name: value for name, value in os.environ.items() if not name.startswith("FAREGATE_")}
    ran = subprocess.run(
        [sys.executable, "-c", FORKING],
        env=settings | environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert count_sales(environ) == (8, 8)
    with open_storage_of(environ) as storage, storage.database.read() as connection:
        assert connection.execute(text("PRAGMA integrity_check")).scalars().all() == ["ok"]


def test_a_database_that_was_removed_is_503(tmp_path: Path) -> None:
    """What was sold is in it: the application makes no new one."""
    environ = build_environ(tmp_path)
    with TestClient(build_fastapi(environ)) as client:
        buyer = Buyer(client, Wallet())
        asked = buyer.ask()
        assert buyer.pay(asked).status_code == 200
        for file in tmp_path.glob("shop.db*"):
            file.unlink()
        assert buyer.pay(asked).status_code == 503
        assert buyer.ask().status_code in (502, 503)


def test_a_node_of_another_chain_is_named_and_takes_nothing(tmp_path: Path, chain: LocalChain) -> None:
    require_anvil()
    with start_any_chain(8453) as other, run_facilitator(chain.url) as facilitator:
        environ = on_chain(tmp_path, other, facilitator.url)
        faults = check(list_routes(build_fastapi(environ)))
        assert any("SERVICE_RPC_TEST" in fault and "8453" in fault for fault in faults), faults
        with TestClient(build_fastapi(environ)) as client:
            assert Buyer(client, Wallet()).buy().status_code == 503
    assert count_sales(environ) == (0, 0)


# The database

STARTING = """
import os
import sys

from faregate import Offer
from faregate.emulator.wallet import Wallet
from tests.service.in_process import Buyer, build_flask, open_paywall

sys.stdin.readline()
with open_paywall(os.environ, Offer("daily_report", price="0.05 USDC")) as paywall:
    assert Buyer(build_flask(paywall).test_client(), Wallet()).buy().status_code == 200
"""


@contextmanager
def start_python(code: str, environ: Mapping[str, str]) -> Generator[PreloadedPython]:
    settings = {name: value for name, value in os.environ.items() if not name.startswith("FAREGATE_")}
    with PreloadedPython(["-c", code], settings | dict(environ), str(ROOT)) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("kind", DATABASES)
def test_one_of_many_workers_makes_the_tables(kind: str, tmp_path: Path) -> None:
    with empty_database(kind, tmp_path) as url, ExitStack() as stack:
        environ = build_environ(tmp_path, FAREGATE_SERVICE_DATABASE=url)
        workers = [stack.enter_context(start_python(STARTING, environ)) for _ in range(4)]
        for worker in workers:
            worker.stdin.write("now\n")
            worker.stdin.flush()
        assert [worker.wait(120) for worker in workers] == [0] * 4
        assert count_sales(environ) == (4, 4)
        assert list_amounts(environ) == [50_000]


@pytest.mark.parametrize("kind", DATABASES)
def test_an_older_worker_sells_on_when_a_newer_one_has_changed_the_database(
    kind: str, tmp_path: Path
) -> None:
    with empty_database(kind, tmp_path) as url:
        environ = build_environ(tmp_path, FAREGATE_SERVICE_DATABASE=url)
        with TestClient(build_fastapi(environ)) as client:
            buyer = Buyer(client, Wallet())
            assert buyer.buy().status_code == 200
            with open_storage_of(environ) as storage, storage.database.write() as connection:
                connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
            assert buyer.buy().status_code == 200
        with (
            pytest.raises(ConfigurationError, match="migration 9999, which this faregate does not know"),
            open_paywall(environ, Offer("daily_report", price="0.05 USDC")),
        ):
            pass
        assert count_sales(environ) == (2, 2)


@contextmanager
def locking(file: Path) -> Generator[None]:
    """Hold the only lock that writes to this file."""
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield


def test_a_locked_database_is_503_and_sells_when_it_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Database.__init__, "__kwdefaults__", {"pool_size": 10, "timeout": 0.3})
    environ = build_environ(tmp_path)
    with TestClient(build_fastapi(environ)) as client:
        buyer = Buyer(client, Wallet())
        proof = buyer.wallet.pay(buyer.ask().headers["payment-required"])
        with locking(tmp_path / "shop.db"):
            refused = buyer.send(proof)
            assert refused.status_code == 503
            assert refused.headers["retry-after"]
        assert buyer.send(proof).status_code == 200
    assert count_sales(environ) == (1, 1)


@pytest.mark.parametrize("framework", ["flask", "fastapi"])
def test_an_application_whose_first_request_finds_the_database_away_sells_later(
    framework: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Without a lifespan, the first request is the start. Its error was 500 for every page, for good."""
    monkeypatch.setattr(Database.__init__, "__kwdefaults__", {"pool_size": 10, "timeout": 0.3})
    environ = build_environ(tmp_path)
    with open_paywall(environ, Offer("daily_report", price="0.05 USDC")):
        pass
    with ExitStack() as opened:
        client: Any
        if framework == "flask":
            paywall = Paywall(environ=environ)
            opened.callback(paywall.close)
            client = build_flask(paywall).test_client()
        else:
            client = TestClient(build_fastapi(environ))  # used without `with`, it has no lifespan
        buyer = Buyer(client, Wallet())
        with locking(tmp_path / "shop.db"):
            for _ in range(2):
                assert buyer.ask().status_code == 503
            assert client.get("/free").status_code == 404
        assert buyer.buy().status_code == 200
    assert "paid requests get 503" in caplog.text
    assert count_sales(environ) == (1, 1)


@pytest.mark.parametrize("framework", ["flask", "fastapi"])
def test_a_database_that_goes_away_at_the_first_request_is_503(
    framework: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service is open by then, and answers itself. The price is in its catalog."""
    environ = build_environ(tmp_path)
    with open_paywall(environ, Offer("daily_report", price="0.05 USDC")):
        pass

    def respond_while_away(*_: Any) -> Response:
        return HttpError(UNAVAILABLE, "the service's database is away").response()

    with ExitStack() as opened:
        client: Any
        if framework == "flask":
            paywall = Paywall(environ=environ)
            opened.callback(paywall.close)
            client = build_flask(paywall, price=None).test_client()
        else:
            client = TestClient(build_fastapi(environ, price=None))
        buyer = Buyer(client, Wallet())
        with monkeypatch.context() as away:
            away.setattr(in_process, "respond", respond_while_away)
            for _ in range(2):
                assert buyer.ask().status_code == 503
        assert buyer.buy().status_code == 200
    assert count_sales(environ) == (1, 1)


FULL = """
import os
import resource

from faregate import Offer
from faregate.emulator.wallet import Wallet
from tests.service.in_process import Buyer, build_flask, open_paywall

with open_paywall(os.environ, Offer("daily_report", price="0.05 USDC")) as paywall:
    buyer = Buyer(build_flask(paywall).test_client(), Wallet())
    asked = buyer.ask()
    assert buyer.pay(asked).status_code == 200
    everything = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, everything[1]))
    proof = buyer.wallet.pay(asked.headers["payment-required"])
    for _ in range(3):
        refused = buyer.send(proof)
        assert refused.status_code == 503, (refused.status_code, refused.text)
    resource.setrlimit(resource.RLIMIT_FSIZE, everything)
    bought = buyer.send(proof)
    assert bought.status_code == 200, (bought.status_code, bought.text)
"""


def test_a_full_disk_is_503_and_sells_when_there_is_room(tmp_path: Path) -> None:
    """The process may write to no file. Room that its log has already may be enough for a sale."""
    environ = build_environ(tmp_path)
    with start_python(FULL, environ) as process:
        assert process.wait(120) == 0
    assert count_sales(environ) == (2, 2)


READ_ONLY = """
import os
import sys

from faregate import ConfigurationError, Offer, Paywall
from tests.service.in_process import open_paywall

os.seteuid(int(os.environ["WHO"]))
try:
    with open_paywall(os.environ, Offer("daily_report", price="0.05 USDC")):
        pass
except ConfigurationError as error:
    print(error)
"""


def test_a_folder_that_cannot_be_written_is_named_at_start(tmp_path: Path) -> None:
    """The administrator may write everywhere, so somebody else starts it."""
    (folder := tmp_path / "shop").mkdir(mode=0o555)
    who = "65534" if os.geteuid() == 0 else str(os.geteuid())
    for parent in (tmp_path, *tmp_path.parents[:3]):
        if os.stat(parent).st_uid == os.geteuid():
            parent.chmod(0o755)
    with start_python(READ_ONLY, build_environ(folder, WHO=who)) as process:
        said, _ = process.communicate(120)
    assert "cannot start" in said
    assert "shop.db" in said
    assert list(folder.iterdir()) == []

"""Faults below an application with the service inside: a clear error or a 503, and nothing is lost."""

import os
import subprocess
import sys
from pathlib import Path

from examples.chain.local import start_any_chain
from sqlalchemy import text
from starlette.testclient import TestClient

from faregate.emulator.wallet import Wallet
from faregate.fastapi import list_routes
from faregate.routes.check import check
from tests.service.in_process import Buyer, build_environ, open_books_of
from tests.service.test_in_process import build_fastapi, count_sales
from tests.service.test_in_process_chain import on_chain
from tests.support.chain import LocalChain, chain, require_anvil
from tests.support.facilitators import run_facilitator

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
    with open_books_of(environ) as books, books.database.read() as connection:
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
        assert any("rpc_test" in fault and "8453" in fault for fault in faults), faults
        with TestClient(build_fastapi(environ)) as client:
            assert Buyer(client, Wallet()).buy().status_code == 503
    assert count_sales(environ) == (0, 0)

"""An application with the service inside takes real payments: a local chain, the official facilitator."""

import base64
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
from examples.chain.facilitator import GAS_KEYS
from flask import Flask
from starlette.testclient import TestClient

from faregate.emulator.wallet import Wallet
from faregate.fastapi import list_routes
from faregate.flask import Faregate
from faregate.routes.check import check
from faregate.system import system_clock
from faregate.x402.eip712 import derive_address
from faregate.x402.tokens import TOKENS
from tests.service.in_process import PAY_TO, Buyer, build_environ, open_paywall
from tests.service.test_in_process import build_fastapi, count_sales
from tests.support.chain import USDC, ChainPayer, LocalChain, chain, payer, require_anvil, start_chain
from tests.support.facilitators import run_facilitator
from tests.support.waiting import eventually

__all__ = ["chain", "payer"]

NOWHERE = "http://127.0.0.1:9"
APP = """
import asyncio
from pathlib import Path

from fastapi import Depends, FastAPI
from faregate.fastapi import PaywallMiddleware, paid

app = FastAPI()
app.add_middleware(PaywallMiddleware)
runs = Path("runs")


@app.get("/report", dependencies=[Depends(paid("daily_report", price="0.05 USDC"))])
async def report() -> dict[str, str]:
    with runs.open("a") as file:
        file.write("run\\n")
    while not Path("go").exists():
        await asyncio.sleep(0.01)
    return {"report": "sunny"}
"""


def on_chain(folder: Path, chain: LocalChain, facilitator: str, **variables: str) -> dict[str, str]:
    return build_environ(
        folder,
        FAREGATE_SERVICE_PAYMENTS="facilitator",
        FAREGATE_SERVICE_RPC_TEST=chain.url,
        FAREGATE_SERVICE_FACILITATOR_TEST=facilitator,
        **variables,
    )


def sign_as(payer: ChainPayer) -> Wallet:
    return Wallet(payer.private_key, clock=system_clock)


def test_fastapi_and_flask_are_paid_on_the_chain(
    tmp_path: Path, chain: LocalChain, payer: ChainPayer
) -> None:
    with run_facilitator(chain.url) as facilitator:
        environ = on_chain(tmp_path, chain, facilitator.url)
        with TestClient(build_fastapi(environ)) as client:
            assert Buyer(client, sign_as(payer)).buy().json() == {"report": "sunny"}
        app, paywall = Flask("shop"), Faregate()
        app.get("/report")(paywall.paid("daily_report", price="0.05 USDC")(lambda: {"report": "sunny"}))
        with open_paywall(environ) as own:
            paywall.init_app(app, own)
            assert Buyer(app.test_client(), sign_as(payer)).buy().json == {"report": "sunny"}
    assert chain.get_balance(USDC, PAY_TO) == 100_000
    assert count_sales(environ) == (2, 2)


def test_a_live_application_is_paid_on_base(tmp_path: Path) -> None:
    require_anvil()
    token = TOKENS["live", "USDC"]
    with start_chain(token.chain) as base:
        payer = ChainPayer()
        base.mint(token, payer.address, 1_000_000)
        base.fund(derive_address(bytes.fromhex(GAS_KEYS[1][2:])))
        (gas_key := tmp_path / "gas.key").write_text(GAS_KEYS[1])
        gas_key.chmod(0o600)
        environ = build_environ(
            tmp_path,
            FAREGATE_ENVIRONMENT="live",
            FAREGATE_PUBLIC_URL="https://api.example.com",
            FAREGATE_JOURNAL_KEY=base64.b64encode(bytes(32)).decode(),
            FAREGATE_SERVICE_PAYMENTS="direct",
            FAREGATE_SERVICE_GAS_KEY=f"file:{gas_key}",
            FAREGATE_SERVICE_RPC_LIVE=base.url,
        )
        app = build_fastapi(environ)
        assert check(list_routes(app)) == []
        with TestClient(app) as client:
            assert Buyer(client, sign_as(payer)).buy().json() == {"report": "sunny"}
        assert base.get_balance(token, PAY_TO) == 50_000
    assert count_sales(environ) == (1, 1)


def test_a_facilitator_that_is_down_costs_nobody_anything(
    tmp_path: Path, chain: LocalChain, payer: ChainPayer
) -> None:
    """The application starts, asks its price, and answers a payment with 503: the payer tries again."""
    environ = on_chain(tmp_path, chain, NOWHERE)
    with TestClient(build_fastapi(environ)) as client:
        buyer = Buyer(client, sign_as(payer))
        asked = buyer.ask()
        proof = buyer.wallet.pay(asked.headers["payment-required"])
        refused = buyer.send(proof)
        assert refused.status_code == 503
        assert refused.headers["retry-after"]
    assert count_sales(environ) == (0, 0)
    with run_facilitator(chain.url) as facilitator:
        environ = on_chain(tmp_path, chain, facilitator.url)
        with TestClient(build_fastapi(environ)) as client:
            assert Buyer(client, sign_as(payer)).send(proof).status_code == 200
    assert chain.get_balance(USDC, PAY_TO) == 50_000


def test_work_that_an_older_copy_shows_as_cut_off_is_not_paid_for_again(
    tmp_path: Path, chain: LocalChain, payer: ChainPayer
) -> None:
    """The copy was made while the work ran. Its payment has settled since, and its result was delivered."""
    file, copy = tmp_path / "shop.db", tmp_path / "copy.db"

    def copy_database() -> None:
        with closing(sqlite3.connect(file)) as original, closing(sqlite3.connect(copy)) as target:
            original.backup(target)
            target.execute("UPDATE journal SET owner = ''")  # it dies before the copy is restored
            target.commit()

    with run_facilitator(chain.url) as facilitator:
        environ = on_chain(tmp_path, chain, facilitator.url)
        with TestClient(build_fastapi(environ, while_working=copy_database)) as client:
            buyer = Buyer(client, sign_as(payer))
            proof = buyer.wallet.pay(buyer.ask().headers["payment-required"])
            assert buyer.send(proof).json() == {"report": "sunny"}
        for name in ("shop.db", "shop.db-wal", "shop.db-shm"):
            (tmp_path / name).unlink(missing_ok=True)
        shutil.copy(copy, file)
        assert count_sales(environ) == (1, 0)
        # Nobody knows whether it was paid: that is no reason to ask for another payment.
        away = environ | {"FAREGATE_SERVICE_RPC_TEST": NOWHERE}
        with TestClient(build_fastapi(away)) as client:
            assert Buyer(client, buyer.wallet).send(proof).status_code == 503
        # Other settings make a service of its own, as in another process.
        back = environ | {"FAREGATE_SERVICE_RPC_TEST": f"{chain.url}/"}
        with TestClient(build_fastapi(back)) as client:
            again = Buyer(client, buyer.wallet).send(proof)
            assert (again.status_code, again.json()["code"]) == (409, "proof_already_used")
    assert chain.get_balance(USDC, PAY_TO) == 50_000
    assert count_sales(environ) == (1, 1)


def test_a_node_that_is_away_is_503_and_no_402(tmp_path: Path, chain: LocalChain, payer: ChainPayer) -> None:
    with run_facilitator(chain.url) as facilitator:
        environ = on_chain(tmp_path, chain, facilitator.url) | {"FAREGATE_SERVICE_RPC_TEST": NOWHERE}
        with TestClient(build_fastapi(environ)) as client:
            assert Buyer(client, sign_as(payer)).buy().status_code == 503
    assert count_sales(environ) == (0, 0)


@contextmanager
def run_app(folder: Path, environ: dict[str, str]) -> Generator[tuple[str, subprocess.Popen[bytes]]]:
    """Serve the application with uvicorn in a process of its own."""
    (folder / "shop.py").write_text(APP)
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    command = [sys.executable, "-m", "uvicorn", "shop:app", "--fd", str(listener.fileno())]
    settings = {name: value for name, value in os.environ.items() if not name.startswith("FAREGATE_")}
    process = subprocess.Popen(
        command, cwd=folder, env=settings | environ, pass_fds=(listener.fileno(),), start_new_session=True
    )
    listener.close()
    try:
        assert eventually(lambda: _answers(url))
        yield url, process
    finally:
        process.kill()
        process.wait()


def _answers(url: str) -> bool:
    try:
        # Its own page: for /openapi.json the service is asked, which would start its workers.
        return httpx.get(f"{url}/nothing", timeout=5, trust_env=False).status_code == 404
    except httpx.HTTPError:
        return False


def test_a_killed_process_loses_no_payment(tmp_path: Path, chain: LocalChain, payer: ChainPayer) -> None:
    """It dies with a payment that is not settled. The next one settles it before any request comes."""
    (folder := tmp_path / "app").mkdir()
    buyer = Buyer(None, sign_as(payer))
    with run_facilitator(chain.url) as facilitator:
        environ = on_chain(tmp_path, chain, facilitator.url, FAREGATE_SERVICE_COMPLETE_SECONDS="0.2")
        with (
            run_app(folder, environ) as (url, process),
            httpx.Client(base_url=url, trust_env=False) as client,
        ):
            buyer.client = client
            proof = buyer.wallet.pay(buyer.ask().headers["payment-required"])
            with ThreadPoolExecutor(1) as pool:
                buying = pool.submit(client.get, "/report", headers={"PAYMENT-SIGNATURE": proof}, timeout=60)
                assert eventually((folder / "runs").exists)
                facilitator.kill()
                (folder / "go").touch()
                assert buying.result().status_code == 202
            process.send_signal(signal.SIGKILL)
            process.wait()
    assert count_sales(environ) == (1, 0)
    with run_facilitator(chain.url) as facilitator:
        environ = on_chain(tmp_path, chain, facilitator.url)
        with run_app(folder, environ) as (url, _), httpx.Client(base_url=url, trust_env=False) as client:
            assert eventually(lambda: count_sales(environ) == (1, 1))
            buyer.client = client
            assert eventually(lambda: buyer.send(proof).status_code == 200)
    assert (folder / "runs").read_text() == "run\n"
    assert chain.get_balance(USDC, PAY_TO) == 50_000


def test_a_check_asks_the_node_and_the_facilitator(
    tmp_path: Path, chain: LocalChain, payer: ChainPayer
) -> None:
    with run_facilitator(chain.url) as facilitator:
        app = build_fastapi(on_chain(tmp_path, chain, facilitator.url))
        assert check(list_routes(app)) == []
    [fault] = check(list_routes(app))
    assert fault.startswith("FAREGATE_SERVICE_FACILITATOR_TEST 127.0.0.1:")
    assert fault.endswith("or check FAREGATE_SERVICE_AUTH_HOOK.")
    environ = on_chain(tmp_path, chain, facilitator.url) | {"FAREGATE_SERVICE_RPC_TEST": NOWHERE}
    faults = check(list_routes(build_fastapi(environ)))
    assert any("as FAREGATE_SERVICE_RPC_TEST." in fault for fault in faults), faults

"""`faregate service serve` and `work` as processes: sales, restarts, signals, and no secrets in logs."""

import csv
import io
import json
import re
import resource
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import takewhile
from pathlib import Path

import httpx
import pytest
from examples.chain.facilitator import GAS_KEYS

from faregate.emulator import Wallet
from faregate.system import open_listener, system_clock
from tests.service.command import CATALOG, build_environment, call, running
from tests.service.shops import Shop, open_shop
from tests.support.chain import USDC, ChainPayer, LocalChain, chain, payer
from tests.support.facilitators import run_facilitator
from tests.support.headers import decode_header
from tests.support.waiting import eventually

__all__ = ["chain", "payer"]

SERVE = ("serve", "--port", "0", "--json", "--log-level", "debug", "--log-format", "json")
PAY_TO = "0x1111111111111111111111111111111111111111"


@pytest.fixture
def catalog(tmp_path: Path) -> str:
    (tmp_path / "catalog.toml").write_text(CATALOG)
    return "catalog.toml"


def find_free_port() -> int:
    with open_listener() as listener:
        port: int = listener.getsockname()[1]
        return port


def ask_worker(port: str, path: str) -> int:
    return httpx.get(f"http://127.0.0.1:{port}/{path}", trust_env=False).status_code


def list_statuses(shop: Shop) -> list[str]:
    """The status of each transaction, by a list: that counts as no read, and settles nothing."""
    return [one["status"] for one in shop.call("GET", "/transactions").json()["items"]]


def test_a_sale_with_nothing_configured(tmp_path: Path) -> None:
    with running(tmp_path, *SERVE) as (line, process, log):
        shop = open_shop(line)
        shop.name = "Daily report"
        sold, proof = shop.authorize(Wallet.test("good", clock=system_clock))
        done = shop.complete(sold, proof)
        assert (done.status_code, done.json()["status"]) == (200, "succeeded")
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    told = log.read_text()
    entries = [json.loads(entry) for entry in told.splitlines()]
    assert {"operation": "complete", "status": 200}.items() <= entries[-1].items()
    for secret in (shop.key, shop.key[-20:], proof, proof[:40], sold[4:20] + "?"):
        assert secret not in told
    listed = call(tmp_path, "export").stdout
    (row,) = csv.DictReader(io.StringIO(listed))
    assert (row["id"], row["status"], row["resource"]) == (sold, "succeeded", "daily_report")
    exported = call(tmp_path, "export", "--format", "jsonl", "--output", "out.jsonl")
    assert exported.returncode == 0
    (one,) = (tmp_path / "out.jsonl").read_text().splitlines()
    assert json.loads(one)["amount_atomic"] == row["amount_atomic"] == "50000"


def test_a_full_disk_is_not_ready_until_there_is_room(tmp_path: Path) -> None:
    """It can still be read, and was called ready while every sale was answered 503."""
    with running(tmp_path, *SERVE) as (line, process, _log):
        page = f"{json.loads(line)['url']}/readyz"
        assert httpx.get(page, trust_env=False).status_code == 200
        unlimited = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (1, unlimited[1]))
        assert eventually(lambda: httpx.get(page, trust_env=False).status_code == 503)
        assert "could not be read or written" in httpx.get(page, trust_env=False).text
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, unlimited)
        assert eventually(lambda: httpx.get(page, trust_env=False).status_code == 200)


def test_the_second_start_keeps_everything(tmp_path: Path, catalog: str) -> None:
    with running(tmp_path, *SERVE, "--catalog", catalog) as (line, _, _log):
        shop = open_shop(line)
        sold, proof = shop.authorize(Wallet.test("good", clock=system_clock))
    with running(tmp_path, *SERVE, "--catalog", catalog) as (line, _, _log):
        assert json.loads(line)["test_key"] is None
        again = open_shop(line, shop.key)
        assert again.read(sold)["status"] == "authorized"
        assert again.complete(sold, proof).json()["status"] == "succeeded"


def test_a_real_payment_through_a_facilitator(
    tmp_path: Path, chain: LocalChain, payer: ChainPayer, catalog: str
) -> None:
    with run_facilitator(chain.url) as facilitator:
        real = ("--payments", "facilitator", "--rpc-test", chain.url, "--facilitator-test", facilitator.url)
        with running(tmp_path, *SERVE, "--catalog", catalog, *real) as (line, process, log):
            shop = open_shop(line)
            sold, proof = shop.authorize(Wallet(payer.private_key, clock=system_clock))
            done = shop.complete(sold, proof)
            assert (done.status_code, done.json()["status"]) == (200, "succeeded")
            receipt = chain.get_receipt(done.json()["transaction_hash"])
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
    assert receipt is not None
    assert chain.get_balance(USDC, PAY_TO) == 5
    told = log.read_text()
    signature = decode_header(proof)["payload"]["signature"]
    for secret in (shop.key, proof[:40], signature, signature[2:40]):
        assert secret not in told


def test_a_real_payment_with_the_own_gas_account(
    tmp_path: Path, chain: LocalChain, payer: ChainPayer, catalog: str
) -> None:
    real = ("--payments", "direct", "--rpc-test", chain.url, "--gas-key", "env:GAS")
    chain.set_automine(False)
    words = (*SERVE, "--catalog", catalog, *real, "--complete-seconds", "1")
    with running(tmp_path, *words, GAS=GAS_KEYS[1]) as (line, _, log):
        shop = open_shop(line)
        sold, proof = shop.authorize(Wallet(payer.private_key, clock=system_clock))
        assert shop.complete(sold, proof).status_code == 202
        chain.mine()
        assert shop.wait_for_end(sold)["status"] == "succeeded"
        assert eventually(lambda: "gas_balance_eth" in httpx.get(f"{shop.url}/metrics", trust_env=False).text)
    assert chain.get_balance(USDC, PAY_TO) == 5
    assert GAS_KEYS[1][2:] not in log.read_text()


def test_workers_of_another_process_settle(
    tmp_path: Path, chain: LocalChain, payer: ChainPayer, catalog: str
) -> None:
    real = ("--payments", "direct", "--rpc-test", chain.url, "--gas-key", "env:GAS")
    chain.set_automine(False)
    serve = (*SERVE, "--catalog", catalog, *real, "--complete-seconds", "0.5", "--workers", "0")
    (tmp_path / "worker").mkdir()
    database = f"sqlite:///{tmp_path / 'faregate-service.db'}"
    metrics = str(find_free_port())
    work = ("work", "--database", database, "--metrics-port", metrics, *real)
    with running(tmp_path, *serve, GAS=GAS_KEYS[1]) as (line, _, _log):
        shop = open_shop(line)
        sold, proof = shop.authorize(Wallet(payer.private_key, clock=system_clock))
        assert shop.complete(sold, proof).status_code == 202

        def mine_and_list() -> list[str]:
            # More than once: on a slow machine the transfer is sent after the 202.
            chain.mine()
            return list_statuses(shop)

        with running(tmp_path / "worker", *work, GAS=GAS_KEYS[1]) as (_, worker, _worker_log):
            assert eventually(lambda: mine_and_list() == ["succeeded"])
            told = httpx.get(f"http://127.0.0.1:{metrics}/metrics", trust_env=False).text
            assert 'faregate_service_settlements_total{result="succeeded"} 1.0' in told
            pages = {path: ask_worker(metrics, path) for path in ("healthz", "readyz", "merchant/v1/payers")}
            assert pages == {"healthz": 200, "readyz": 200, "merchant/v1/payers": 404}
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(30) == 0


def test_workers_whose_metrics_port_is_taken_do_not_start(tmp_path: Path) -> None:
    """The command ends by itself; it went on without metrics, and SIGTERM did not end it."""
    assert call(tmp_path, "init").returncode == 0
    with open_listener() as listener:
        port = str(listener.getsockname()[1])
        command = [sys.executable, "-m", "faregate", "service", "work", "--metrics-port", port]
        ended = subprocess.run(
            command, cwd=tmp_path, env=build_environment(), capture_output=True, text=True, timeout=30
        )
    assert ended.returncode == 1
    assert "cannot listen on 127.0.0.1" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_real_payments_need_an_address_of_the_seller(tmp_path: Path, chain: LocalChain) -> None:
    with running(tmp_path, *SERVE) as (line, _, _log):
        assert line
    told = call(
        tmp_path,
        "serve",
        "--payments",
        "direct",
        "--rpc-test",
        chain.url,
        "--gas-key",
        "env:GAS",
        GAS=GAS_KEYS[1],
    )
    assert told.returncode == 1
    assert "has no address of its own" in told.stderr


def test_the_console_is_announced_and_shows_the_nodes_of_its_environment(
    tmp_path: Path, chain: LocalChain, catalog: str
) -> None:
    secret = "s3cr3t-path-of-a-node"
    real = ("--payments", "direct", "--gas-key", "env:GAS", "--rpc-test", f"{chain.url}/{secret}")
    live = ("--rpc-live", "http://live.example/v2")
    words = ("serve", "--port", "0", "--catalog", catalog, *real, *live)
    with running(tmp_path, *words, GAS=GAS_KEYS[1]) as (_, process, _log):
        lines = [*takewhile(lambda line: "FAREGATE_BASE_URL" not in line, process.stdout)]
        (announced,) = [line for line in lines if "console" in line]
        url = re.findall(r"http://\S+", announced)[0]
        assert url.endswith("/console")
        key = re.findall(r"svc_test_\w+", call(tmp_path, "key", "create", GAS=GAS_KEYS[1]).stdout)[0]
        with httpx.Client(trust_env=False, follow_redirects=True) as client:
            client.post(f"{url}/login", data={"key": key})
            page = client.get(url.removesuffix("/console"), headers={"Accept": "text/html"})
    assert page.url.path == "/console"
    assert httpx.URL(chain.url).netloc.decode() in page.text
    assert "live.example" not in page.text
    assert secret not in page.text


def test_two_processes_share_one_database(tmp_path: Path, catalog: str, empty_url: str) -> None:
    words = (*SERVE, "--database", empty_url)
    (tmp_path / "other").mkdir()
    with (
        running(tmp_path, *words, "--catalog", catalog) as (line, _, _log),
        running(tmp_path / "other", *words) as (other_line, _, _other_log),
    ):
        shop = open_shop(line)
        other = open_shop(other_line, shop.key)
        sold, proof = shop.authorize(Wallet.test("good", clock=system_clock))
        assert other.complete(sold, proof).json()["status"] == "succeeded"
        assert shop.read(sold)["status"] == "succeeded"
        assert list_statuses(shop) == list_statuses(other) == ["succeeded"]


def test_a_completion_that_waits_is_answered_before_the_end(
    tmp_path: Path, chain: LocalChain, payer: ChainPayer, catalog: str
) -> None:
    real = ("--payments", "direct", "--rpc-test", chain.url, "--gas-key", "env:GAS")
    chain.set_automine(False)
    words = (*SERVE, "--catalog", catalog, *real, "--complete-seconds", "4")
    with running(tmp_path, *words, GAS=GAS_KEYS[1]) as (line, process, log), ThreadPoolExecutor(1) as callers:
        shop = open_shop(line)
        sold, proof = shop.authorize(Wallet(payer.private_key, clock=system_clock))
        waiting = callers.submit(shop.complete, sold, proof)
        assert eventually(lambda: list_statuses(shop) == ["settling"])
        process.send_signal(signal.SIGTERM)
        answer = waiting.result()
        assert answer.status_code == 202
        assert answer.json()["status"] in ("settling", "reconciling")
        assert process.wait(60) == 0
        assert "Traceback" not in log.read_text()

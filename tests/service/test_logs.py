"""The log of real processes: each line names account, key id and transaction, and no line has a secret."""

import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from examples.chain.facilitator import GAS_KEYS

from faregate.emulator import Wallet
from faregate.system import system_clock
from tests.service.command import CATALOG, call, running
from tests.service.shops import Shop, open_shop
from tests.support.chain import ChainPayer, LocalChain, chain, payer
from tests.support.headers import decode_header
from tests.support.waiting import eventually

__all__ = ["chain", "payer"]

GUESS = "svc_test_guess0123456789abcdef0123456789abcdef"


def find_key_id(folder: Path, database: str = "sqlite:///faregate-service.db") -> str:
    listed = call(folder, "key", "list", "--database", database).stdout
    (found,) = re.findall(r"key_[0-9a-f]{32}", listed)
    return str(found)


def serve(folder: Path, log_format: str, *words: str) -> tuple[str, ...]:
    (folder / "catalog.toml").write_text(CATALOG.replace("[seller]\n", '[seller]\nid = "my-shop"\n'))
    logs = ("--log-level", "debug", "--log-format", log_format)
    return ("serve", "--port", "0", "--json", "--catalog", "catalog.toml", *logs, *words)


def make_wrong_requests(shop: Shop, proof: str) -> None:
    """Requests that carry secrets where they do not belong."""
    with httpx.Client(base_url=shop.url, trust_env=False) as client:
        for path in (
            f"/merchant/v1/transactions/{shop.key}",
            f"/merchant/v1/transactions/{shop.key}/complete",
            f"/merchant/v1/transactions?key={shop.key}",
            f"/{shop.key}?proof={proof}",
            f"/console/{shop.key}",
        ):
            client.get(path, headers={"Authorization": f"Bearer {shop.key}"})
            client.post(path, headers={"Authorization": f"Bearer {GUESS}", "PAYMENT-SIGNATURE": proof})
        client.post("/merchant/v1/access", content=shop.key, headers={"Authorization": f"Basic {shop.key}"})
        client.get(f"/merchant/v1/payers?{proof}", headers={"Authorization": shop.key, "X-Key": shop.key})
        client.post("/console/login", data={"key": shop.key})


def check_secrets(log: str, shop: Shop, proof: str) -> None:
    signature = decode_header(proof)["payload"]["signature"]
    for secret in (shop.key, shop.key[-20:], GUESS, GUESS[-20:], proof, proof[:40], signature[2:40]):
        assert secret not in log


def read_lines(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


def test_lines_of_requests_and_attempts_name_account_key_and_transaction(
    tmp_path: Path, chain: LocalChain, payer: ChainPayer
) -> None:
    real = ("--payments", "direct", "--rpc-test", chain.url, "--gas-key", "env:GAS")
    with running(tmp_path, *serve(tmp_path, "json", *real), GAS=GAS_KEYS[1]) as (line, _, log):
        shop = open_shop(line)
        sold, proof = shop.authorize(Wallet(payer.private_key, clock=system_clock))
        assert shop.complete(sold, proof).json()["status"] == "succeeded"
        shop.read(sold)
        make_wrong_requests(shop, proof)
        key = find_key_id(tmp_path)
        assert eventually(lambda: any(one.get("status") == 401 for one in read_lines(log)))
        lines = read_lines(log)
    caller = {"account": "my-shop", "environment": "test", "key": key}
    about = {**caller, "transaction": sold}
    first, second = [one for one in lines if one.get("operation") == "access" and one["status"] in (200, 402)]
    assert caller.items() <= first.items()
    assert "transaction" not in first
    assert about.items() <= second.items()
    for operation in ("complete", "transaction"):
        matching = [one for one in lines if one.get("operation") == operation and one["status"] == 200]
        assert [about.items() <= one.items() for one in matching] == [True]
    attempts = [one for one in lines if one["message"].startswith("settlement attempt on txn_")]
    # The one that was made in the request has its key.
    assert about.items() <= attempts[0].items()
    refused = [one for one in lines if one.get("status") == 401]
    assert refused
    assert all("account" not in one and "key" not in one for one in refused)
    check_secrets(log.read_text(), shop, proof)
    assert GAS_KEYS[1][2:] not in log.read_text()


def test_lines_of_workers_name_account_and_transaction(
    tmp_path: Path, chain: LocalChain, payer: ChainPayer
) -> None:
    real = ("--payments", "direct", "--rpc-test", chain.url, "--gas-key", "env:GAS")
    (tmp_path / "worker").mkdir()
    database = f"sqlite:///{tmp_path / 'faregate-service.db'}"
    words = serve(tmp_path, "json", *real, "--workers", "0", "--complete-seconds", "0.2")
    work = ("work", "--database", database, "--log-format", "json", *real)
    chain.set_automine(False)
    with running(tmp_path, *words, GAS=GAS_KEYS[1]) as (line, _, log):
        shop = open_shop(line)
        sold, proof = shop.authorize(Wallet(payer.private_key, clock=system_clock))
        assert shop.complete(sold, proof).status_code == 202
        # A process that ends within its attempt leaves the lease of it.
        assert eventually(lambda: '"result": "postponed"' in log.read_text())
    # The process that took the completion is gone.
    with running(tmp_path / "worker", *work, GAS=GAS_KEYS[1]) as (_, _worker, log):

        def has_settled() -> bool:
            chain.mine()
            return '"result": "succeeded"' in log.read_text()

        assert eventually(has_settled)
        told = log.read_text()
    (settled,) = [one for one in read_lines(log) if one.get("result") == "succeeded"]
    assert {
        "account": "my-shop",
        "environment": "test",
        "transaction": sold,
    }.items() <= settled.items()
    check_secrets(told, shop, proof)


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_a_refused_key_is_named_by_its_id(tmp_path: Path, log_format: str) -> None:
    words = serve(tmp_path, log_format, "--rate-limit", "0.01")
    with running(tmp_path, *words) as (line, _, log):
        shop = open_shop(line)
        statuses = [shop.call("GET", "/payers").status_code for _ in range(4)]
        assert statuses[-1] == 429
        key = find_key_id(tmp_path)
        assert eventually(lambda: "429" in log.read_text())
        told = log.read_text()
        shown = httpx.get(f"{shop.url}/metrics", trust_env=False).text
    (refused, *_) = [line for line in told.splitlines() if "429" in line]
    assert key in refused
    assert f'faregate_service_rate_limited_total{{key="{key}"}}' in shown
    assert shop.key not in told + shown

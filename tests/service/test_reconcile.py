"""`faregate service reconcile` against a real chain, which is reorganised after a payment."""

import json
import sqlite3
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest
from examples.chain.facilitator import GAS_KEYS

from faregate.emulator import Wallet
from faregate.rules.payments import PaymentRefused, PaymentSettled, SettlementPending
from faregate.rules.records import SettlementRecord, Transaction
from faregate.service.commands.reconcile import compare
from faregate.system import system_clock
from faregate.x402.headers import parse_payment
from tests.service.command import CATALOG, call, running
from tests.service.shops import Shop, open_shop
from tests.support.chain import USDC, ChainPayer, LocalChain, chain, payer

__all__ = ["chain", "payer"]
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def direct(chain: LocalChain, tmp_path: Path) -> tuple[str, ...]:
    (tmp_path / "catalog.toml").write_text(CATALOG)
    return ("--payments", "direct", "--rpc-test", chain.url, "--gas-key", "env:GAS")


def sell(shop: Shop, payer: ChainPayer) -> str:
    sold, proof = shop.authorize(Wallet(payer.private_key, clock=system_clock))
    shop.complete(sold, proof)
    return sold


def test_books_and_chain_agree_until_the_chain_is_another(
    tmp_path: Path, chain: LocalChain, payer: ChainPayer, direct: tuple[str, ...]
) -> None:
    serve = ("serve", "--port", "0", "--json", "--catalog", "catalog.toml", *direct)
    with running(tmp_path, *serve, GAS=GAS_KEYS[1]) as (line, _, _log):
        shop = open_shop(line)
        sold = sell(shop, payer)
        assert shop.wait_for_end(sold)["status"] == "succeeded"
    told = call(tmp_path, "reconcile", sold, *direct, GAS=GAS_KEYS[1])
    assert told.returncode == 0, told.stdout
    assert told.stdout.startswith(f"ok        {sold}: succeeded in the books; settled on the chain by 0x")
    told = call(tmp_path, "reconcile", *direct, GAS=GAS_KEYS[1])
    assert told.returncode == 0
    assert "1 payment, 0 open; authorized 0.000005 USDC; settled 0.000005 USDC; " in told.stdout
    assert told.stdout.endswith("on the chain 0.000005 USDC; no differences.\n")
    chain.reorganise(1)
    told = call(tmp_path, "reconcile", sold, *direct, GAS=GAS_KEYS[1])
    assert told.returncode == 1
    assert told.stdout.startswith(f"DIFFERENT {sold}: succeeded in the books; not proven by the chain")
    chain.advance_time(60)
    told = call(tmp_path, "reconcile", *direct, GAS=GAS_KEYS[1])
    assert told.returncode == 1
    assert f"DIFFERENT {sold}: 0.000005 USDC, succeeded in the books by 0x" in told.stdout
    assert "; not on the chain: the authorization is unused\n" in told.stdout
    assert told.stdout.endswith("on the chain nothing; differences: 1 unpaid (-0.000005 USDC).\n")


def test_an_older_copy_and_a_seller_who_reported_failure(
    tmp_path: Path, chain: LocalChain, payer: ChainPayer, direct: tuple[str, ...]
) -> None:
    """Both payments settle: one was lost with the newer books, the other reported as failed."""
    serve = ("serve", "--port", "0", "--json", "--catalog", "catalog.toml", "--database", "sqlite:///a.db")
    wallet = Wallet(payer.private_key, clock=system_clock)
    with running(tmp_path, *serve, *direct, GAS=GAS_KEYS[1]) as (line, _, _log):
        shop = open_shop(line)
        kept, proof = shop.authorize(wallet)
        call(tmp_path, "init", "--database", "sqlite:///a.db")
        copy_database(tmp_path / "a.db", tmp_path / "b.db")
        shop.complete(kept, proof)
        lost = sell(shop, payer)
        refused, refused_proof = shop.authorize(wallet)
        shop.fail(refused, refused_proof)
        assert shop.wait_for_end(lost)["status"] == "succeeded"
    chain.settle(USDC, parse_payment(refused_proof))
    chain.advance_time(60)
    told = call(tmp_path, "reconcile", "--json", "--database", "sqlite:///a.db", *direct, GAS=GAS_KEYS[1])
    assert told.returncode == 1
    [charged, result] = map(json.loads, told.stdout.splitlines())
    assert (charged["kind"], charged["transaction"], charged["excess"]) == ("charged", refused, 5)
    assert result["differences"]["charged"] == 1
    assert result["assets"]["USDC"] == {
        "authorized_atomic": "15",
        "settled_atomic": "10",
        "refunded_atomic": "0",
        "on_chain_atomic": "15",
        "excess_atomic": {"charged": "5"},
    }
    told = call(tmp_path, "reconcile", "--all", "--database", "sqlite:///b.db", *direct, GAS=GAS_KEYS[1])
    assert told.returncode == 1
    assert (
        f"DIFFERENT {kept}: 0.000005 USDC, authorized in the books; settled on the chain by 0x" in told.stdout
    )
    assert told.stdout.endswith(
        "on the chain 0.000015 USDC; differences: 2 missing (+0.00001 USDC), 1 charged (+0.000005 USDC).\n"
    )


def copy_database(source: Path, target: Path) -> None:
    with sqlite3.connect(source) as books, sqlite3.connect(target) as copy:
        books.backup(copy)


def test_a_chain_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    nobody = ("--payments", "facilitator", "--facilitator-test", "http://127.0.0.1:9")
    assert call(tmp_path, "init").returncode == 0
    told = call(tmp_path, "reconcile", *nobody, "--rpc-test", "http://127.0.0.1:9")
    assert (told.returncode, told.stdout) == (3, "")
    assert "not everything was compared" in told.stderr


def test_what_cannot_be_compared_is_an_error(tmp_path: Path) -> None:
    assert call(tmp_path, "init").returncode == 0
    told = call(tmp_path, "reconcile")
    assert told.returncode == 1
    assert "Payments are simulated" in told.stderr
    told = call(tmp_path, "reconcile", "--since", "yesterday")
    assert told.returncode == 1
    assert "--since yesterday: write a date or a time, such as 2026-11-30." in told.stderr


def test_open_payments_are_compared(
    tmp_path: Path, chain: LocalChain, payer: ChainPayer, direct: tuple[str, ...]
) -> None:
    chain.set_automine(False)
    words = ("--workers", "0", "--complete-seconds", "0.5", "--catalog", "catalog.toml", *direct)
    with running(tmp_path, "serve", "--port", "0", "--json", *words, GAS=GAS_KEYS[1]) as (line, _, _log):
        sold = sell(open_shop(line), payer)
    told = call(tmp_path, "reconcile", *direct, GAS=GAS_KEYS[1])
    assert (told.returncode, f"{sold}: settling in the books; not proven by the chain" in told.stdout) == (
        0,
        True,
    )
    chain.mine()
    told = call(tmp_path, "reconcile", *direct, GAS=GAS_KEYS[1])
    assert f"{sold}: settling in the books; settled on the chain by 0x" in told.stdout


def test_an_unknown_transaction_is_an_error(tmp_path: Path) -> None:
    assert call(tmp_path, "init").returncode == 0
    told = call(tmp_path, "reconcile", "txn_x")
    assert told.returncode == 1
    assert "There is no transaction txn_x" in told.stderr


@dataclass
class Ended:
    """Stands for a transaction in the books."""

    status: str
    settled: SettlementRecord | None = None
    submitted_at: datetime | None = None
    id: str = "txn_1"


def settled_by(transaction_hash: str) -> SettlementRecord:
    return SettlementRecord(NOW, transaction_hash, "", "")


@pytest.mark.parametrize(
    ("books", "seen", "is_different"),
    [
        (Ended("succeeded", settled_by("0x1"), NOW), PaymentSettled("0x1"), False),
        (Ended("succeeded", settled_by("0x1"), NOW), PaymentSettled("0x2"), True),
        (Ended("succeeded", settled_by("0x1"), NOW), PaymentRefused("cancelled"), True),
        (Ended("succeeded", settled_by("0x1"), NOW), SettlementPending(), True),
        (Ended("failed", submitted_at=NOW), PaymentSettled("0x1"), True),
        (Ended("failed", submitted_at=NOW), PaymentRefused("expired"), False),
        (Ended("settling", submitted_at=NOW), PaymentSettled("0x1"), False),
        (Ended("authorized"), PaymentSettled("0x1"), True),
        (Ended("authorized"), SettlementPending(), False),
    ],
)
def test_what_counts_as_different(books: Ended, seen: Any, is_different: bool) -> None:
    assert compare(cast(Transaction, books), seen).is_different is is_different

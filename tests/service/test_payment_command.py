"""`faregate service payment show | retry | park` against a real chain."""

import json
from pathlib import Path
from typing import Any

import pytest
from examples.chain.facilitator import GAS_KEYS

from faregate.emulator import Wallet
from faregate.system import system_clock
from tests.service.command import CATALOG, call, running
from tests.service.shops import open_shop
from tests.support.chain import ChainPayer, LocalChain, chain, payer
from tests.support.waiting import eventually

__all__ = ["chain", "payer"]


@pytest.fixture
def direct(chain: LocalChain, tmp_path: Path) -> tuple[str, ...]:
    (tmp_path / "catalog.toml").write_text(CATALOG)
    return ("--payments", "direct", "--rpc-test", chain.url, "--gas-key", "env:GAS")


@pytest.fixture
def stuck(tmp_path: Path, chain: LocalChain, payer: ChainPayer, direct: tuple[str, ...]) -> str:
    """A payment that was sent, and that no block takes."""
    chain.set_automine(False)
    words = ("--workers", "0", "--complete-seconds", "0.5", "--catalog", "catalog.toml", *direct)
    with running(tmp_path, "serve", "--port", "0", "--json", *words, GAS=GAS_KEYS[1]) as (line, _, log):
        shop = open_shop(line)
        sold, proof = shop.authorize(Wallet(payer.private_key, clock=system_clock))
        assert shop.complete(sold, proof).status_code == 202
        # A process that ends within its attempt leaves the lease of it.
        assert eventually(lambda: "settlement attempt" in log.read_text())
    return sold


def show(folder: Path, *words: str, **settings: str) -> Any:
    told = call(folder, "payment", *words, "--json", **settings)
    assert told.returncode == 0, told.stderr
    return json.loads(told.stdout)


def test_a_parked_payment_is_credited_when_the_chain_has_it(
    tmp_path: Path, chain: LocalChain, stuck: str, direct: tuple[str, ...]
) -> None:
    parked = show(tmp_path, "park", stuck, "--reason", " the node is asked \n")
    assert (parked["parked"], parked["parked_reason"]) == (True, "the node is asked")
    assert parked == show(tmp_path, "show", stuck)
    assert (parked["status"], parked["next_attempt_at"], len(parked["attempts"])) == ("settling", None, 1)
    again = call(tmp_path, "payment", "park", stuck, "--reason", "twice")
    assert (again.returncode, "is parked already" in again.stderr) == (1, True)
    chain.mine()
    found = show(tmp_path, "retry", stuck, *direct, GAS=GAS_KEYS[1])
    assert (found["status"], found["parked"], len(found["attempts"])) == ("succeeded", False, 2)
    assert found["receipt"]["payment"]["transaction_hash"] == found["transaction_hash"]
    assert chain.get_receipt(found["transaction_hash"]) is not None
    for action in (("park", stuck, "--reason", "late"), ("retry", stuck, *direct)):
        told = call(tmp_path, "payment", *action, GAS=GAS_KEYS[1])
        assert (told.returncode, f"{stuck} has ended: succeeded" in told.stderr) == (1, True)


def test_a_retry_that_proves_nothing_ends_nothing(
    tmp_path: Path, stuck: str, direct: tuple[str, ...]
) -> None:
    found = show(tmp_path, "retry", stuck, *direct, GAS=GAS_KEYS[1])
    assert (found["status"], found["receipt"], len(found["attempts"])) == ("reconciling", None, 2)
    assert found["next_attempt_at"] is not None


def test_text_shows_the_same(tmp_path: Path, stuck: str) -> None:
    told = call(tmp_path, "payment", "show", stuck).stdout
    lines = dict(line.split(maxsplit=1) for line in told.splitlines())
    shown = show(tmp_path, "show", stuck)
    assert (lines["id"], lines["status"]) == (stuck, "settling")
    assert lines["attempt"].startswith(f"number 1, started_at {shown['attempts'][0]['started_at']}, answer")
    assert "signature" not in told


def test_mistakes_are_told(tmp_path: Path, stuck: str, direct: tuple[str, ...]) -> None:
    told = call(tmp_path, "payment", "show", "txn_x")
    assert (told.returncode, "There is no transaction txn_x in sqlite" in told.stderr) == (1, True)
    told = call(tmp_path, "payment", "park", stuck, "--reason", " ")
    assert (told.returncode, "--reason must be a text of 1 to 500" in told.stderr) == (1, True)
    told = call(
        tmp_path,
        "payment",
        "retry",
        stuck,
        *direct[:2],
        "--rpc-live",
        direct[3],
        *direct[4:],
        GAS=GAS_KEYS[1],
    )
    assert told.returncode == 1
    assert f"{stuck} is a test payment: set payments and rpc_test" in told.stderr


def test_simulated_settings_end_no_real_payment(tmp_path: Path, stuck: str) -> None:
    found = show(tmp_path, "retry", stuck)
    assert (found["status"], found["receipt"]) == ("reconciling", None)

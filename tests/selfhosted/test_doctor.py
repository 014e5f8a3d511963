"""`faregate service doctor` against a real chain and the official facilitator."""

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from examples.chain.facilitator import GAS_KEYS, FacilitatorProcess

from tests.selfhosted.command import CATALOG, call
from tests.support.chain import LocalChain, chain
from tests.support.facilitators import run_facilitator

__all__ = ["chain"]


@pytest.fixture
def facilitator(chain: LocalChain) -> Generator[FacilitatorProcess]:
    with run_facilitator(chain.url) as facilitator:
        yield facilitator


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A folder with a database, a catalog that was applied, and a key."""
    (tmp_path / "catalog.toml").write_text(CATALOG)
    for words in (["init"], ["apply", "catalog.toml"], ["key", "create"]):
        assert call(tmp_path, *words).returncode == 0
    return tmp_path


def diagnose(folder: Path, *words: str, **settings: str) -> tuple[int, list[dict[str, Any]]]:
    told = call(folder, "doctor", "--json", *words, **settings)
    return told.returncode, json.loads(told.stdout)["findings"]


def find_errors(findings: list[dict[str, Any]]) -> list[str]:
    return [f"{one['subject']}: {one['text']}" for one in findings if one["level"] == "error"]


def test_a_new_folder_lacks_tables(tmp_path: Path) -> None:
    status, findings = diagnose(tmp_path)
    assert status == 1
    assert findings[0]["remedy"] == "Run `faregate service init`."


def test_a_simulation_works_and_pays_nobody(shop: Path) -> None:
    status, findings = diagnose(shop)
    assert status == 0
    assert [one["subject"] for one in findings if one["level"] == "warning"] == ["payments"]


def test_a_facilitator_and_a_chain_in_order(
    shop: Path, chain: LocalChain, facilitator: FacilitatorProcess
) -> None:
    words = ("--payments", "facilitator", "--rpc-test", chain.url, "--facilitator-test", facilitator.url)
    status, findings = diagnose(shop, *words)
    assert (status, find_errors(findings)) == (0, [])
    texts = "\n".join(one["text"] for one in findings)
    for said in ("is a node of chain 84532", "USDC is at", "EURC is at", "settles on eip155:84532"):
        assert said in texts


def test_what_cannot_be_reached_is_named_without_its_key(shop: Path, chain: LocalChain) -> None:
    words = ("--payments", "facilitator", "--facilitator-test", "http://127.0.0.1:1")
    rpc = f"{chain.url} http://127.0.0.1:1/v2/s3cr3tkey"
    told = call(shop, "doctor", *words, FAREGATE_SERVICE_RPC_TEST=rpc)
    assert told.returncode == 1
    assert "error   rpc_test 127.0.0.1" in told.stdout
    assert "error   facilitator_test 127.0.0.1:1" in told.stdout
    assert "s3cr3tkey" not in told.stdout + told.stderr


def test_a_node_of_another_chain_is_an_error(shop: Path, chain: LocalChain) -> None:
    words = ("--payments", "direct", "--rpc-live", chain.url, "--gas-key", "env:GAS")
    _, findings = diagnose(shop, *words, GAS=GAS_KEYS[0])
    assert any("chain 84532, not of 8453" in text for text in find_errors(findings))


def test_an_empty_gas_account_is_an_error(shop: Path, chain: LocalChain) -> None:
    words = ("--payments", "direct", "--rpc-test", chain.url, "--gas-key", "env:GAS")
    status, findings = diagnose(shop, *words, GAS=GAS_KEYS[0])
    assert (status, find_errors(findings)) == (0, [])
    status, findings = diagnose(shop, *words, GAS="0x" + "17" * 32)
    assert status == 1
    assert any("send it some" in text for text in find_errors(findings))


def test_a_gas_key_that_cannot_be_read_is_a_line_with_the_setting(shop: Path) -> None:
    words = ("--payments", "direct", "--rpc-test", "http://127.0.0.1:1", "--gas-key", "file:nowhere.key")
    status, findings = diagnose(shop, *words)
    assert status == 1
    assert find_errors(findings) == [
        "payments: gas_key: the file nowhere.key cannot be read: No such file or directory."
    ]


def test_a_clock_that_is_wrong_is_a_warning(shop: Path, chain: LocalChain) -> None:
    chain.call("evm_increaseTime", 3600)
    chain.call("evm_mine")
    words = ("--payments", "direct", "--rpc-test", chain.url, "--gas-key", "env:GAS")
    _, findings = diagnose(shop, *words, GAS=GAS_KEYS[0])
    assert any("ahead of this machine's clock" in one["text"] for one in findings)

"""`faregate service doctor` against a real chain and the official facilitator."""

import json
import logging
import os
import resource
import sqlite3
import subprocess
import sys
from collections.abc import Generator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from examples.chain.facilitator import GAS_KEYS, FacilitatorProcess

from faregate.service.commands.doctor import Level, check_database
from faregate.service.database.clock import Stamps
from faregate.service.database.engine import Database
from faregate.service.database.upgrade import upgrade
from faregate.service.runtime import Runtime
from faregate.service.settings import Settings
from faregate.service.storage import Storage
from faregate.system import system_clock
from tests.service.command import CATALOG, call
from tests.service.sales import open_store, submit
from tests.support.chain import LocalChain, chain
from tests.support.facilitators import run_facilitator
from tests.support.rpc_proxy import fail_with, serve_rpc_proxy

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


def test_a_database_that_takes_no_writes_is_an_error(shop: Path) -> None:
    """As on a full disk: it can still be read, and a process that only reads calls it well."""
    [file] = shop.glob("*.db")
    with closing(sqlite3.connect(file)) as open_elsewhere:  # so that its log is there
        open_elsewhere.execute("SELECT count(*) FROM accounts").fetchone()
        ran = subprocess.run(
            [sys.executable, "-m", "faregate", "service", "doctor", "--json"],
            cwd=shop,
            env={**os.environ, "FAREGATE_SERVICE_DATABASE": f"sqlite:///{file}"},
            preexec_fn=allow_no_files_to_grow,
            capture_output=True,
            check=False,
        )
    findings = json.loads(ran.stdout)["findings"]
    assert find_errors(findings)[0].startswith("database: reading works, and writing does not: sqlite://")
    assert ran.returncode == 1


def allow_no_files_to_grow() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, 1))


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


def test_a_node_without_logs_proves_no_payment(shop: Path, chain: LocalChain) -> None:
    with serve_rpc_proxy(chain.url) as node:
        node.change["eth_getLogs"] = fail_with(-32601, "the method does not exist")
        words = ("--payments", "direct", "--rpc-test", node.url, "--gas-key", "env:GAS")
        status, findings = diagnose(shop, *words, GAS=GAS_KEYS[1])
    assert status == 1
    [error] = find_errors(findings)
    assert "eth_getLogs" in error


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


def test_functions_that_settings_name_may_be_in_this_folder(shop: Path) -> None:
    (shop / "shop_hooks.py").write_text("def sign(method, url): ...\ndef open_key(): return object()\n")
    words = ("--rpc-test", "http://127.0.0.1:1", "--facilitator-test", "https://127.0.0.1:1")
    _, findings = diagnose(shop, "--payments", "facilitator", *words, "--auth-hook", "shop_hooks.sign")
    assert [text.partition(":")[0] for text in find_errors(findings)] == [
        "rpc_test 127.0.0.1",
        "facilitator_test 127.0.0.1",
    ]
    for key, told in (("open_key", "it failed with"), ("sing", "has no attribute 'sing'")):
        words = ("--rpc-test", "http://127.0.0.1:1", "--gas-key", f"call:shop_hooks.{key}")
        _, findings = diagnose(shop, "--payments", "direct", *words)
        [error] = find_errors(findings)
        assert error.startswith(f"payments: gas_key: shop_hooks.{key} ")
        assert told in error


def test_open_payments_that_no_process_settles_are_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """They are of an environment whose node is not set, and would wait for ever."""
    url = f"sqlite:///{tmp_path / 'service.db'}"
    upgrade(url)
    database = Database(url)
    submit(open_store(database))
    nowhere = ("http://127.0.0.1:1",)
    settings = Settings(database=url, payments="facilitator", rpc_live=nowhere, facilitator_live=nowhere)
    text = "1 open payment waits in test, because rpc_test is not set."
    [found] = [one for one in check_database(settings) if one.subject == "open payments"]
    assert (found.level, found.text) == (Level.WARNING, text)
    runtime = Runtime(settings, Storage(database, Stamps(database, system_clock)), {})
    with caplog.at_level(logging.WARNING, "faregate.service"):
        runtime.warn_of_unserved()
    runtime.end()
    assert text in caplog.text
    served = replace(settings, rpc_test=nowhere, facilitator_test=nowhere)
    assert not [one for one in check_database(served) if one.subject == "open payments"]
    database.close()


@pytest.mark.every_value
def test_a_clock_apart_from_the_databases_is_a_warning(
    url: str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(database=url)
    assert not any("machine's clock" in one.text for one in check_database(settings))
    monkeypatch.setattr(
        "faregate.service.commands.doctor.system_clock", lambda: system_clock() + timedelta(hours=1)
    )
    told = [one.text for one in check_database(settings) if "machine's clock" in one.text]
    assert len(told) == (0 if database.is_sqlite else 1)
    assert all("seconds ahead of that of the database" in text for text in told)


def test_a_clock_that_is_wrong_is_a_warning(shop: Path, chain: LocalChain) -> None:
    chain.call("evm_increaseTime", 3600)
    chain.call("evm_mine")
    words = ("--payments", "direct", "--rpc-test", chain.url, "--gas-key", "env:GAS")
    _, findings = diagnose(shop, *words, GAS=GAS_KEYS[0])
    [ahead] = [one for one in findings if "ahead of this machine's clock" in one["text"]]
    assert "the node is wrong" in ahead["remedy"]

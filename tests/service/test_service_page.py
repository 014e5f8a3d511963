"""What the pages of the service say is so: their commands run, on a local chain for Base Sepolia."""

import csv
import io
import re
import shlex
from argparse import ArgumentParser
from collections.abc import Mapping
from pathlib import Path

import pytest
from examples.chain.facilitator import GAS_KEYS

from faregate.commands import fill_parser
from faregate.rules.account import Account
from faregate.rules.catalog import build_catalog
from faregate.service.chain_metrics import ChainCollector
from faregate.service.cli import SERVICE
from faregate.service.database.engine import Database
from faregate.service.database.payment_rows import record_reconciliation
from faregate.service.database.reports import PendingPayments
from faregate.service.database.upgrade import upgrade
from faregate.service.metrics import ServiceMetrics
from faregate.service.process_metrics import ProcessCollector
from faregate.service.settings import SETTINGS, Settings, make_settings
from faregate.system import system_clock
from tests.support.chain import USDC, ChainPayer, LocalChain
from tests.support.facilitators import run_facilitator
from tests.support.forked_commands import write_commands
from tests.support.shell import Terminal, find_blocks

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/service.md").read_text()
OPERATING = (ROOT / "docs/service-operating.md").read_text()
SETTINGS_PAGE = (ROOT / "docs/service-settings.md").read_text()
RECIPIENT = "0x5e11e75E11e75e11E75E11E75E11e75E11E75E11"
PRICE = 50_000


def find_block(kind: str, text: str) -> str:
    [found] = [block for block in find_blocks(PAGE, kind) if text in block]
    return found


def prepare(folder: Path, chain: LocalChain) -> Terminal:
    """What the reader brings: an address, and a payer with test USDC."""
    (folder / "catalog.toml").write_text(find_block("toml", "pay_to").replace("0xYOUR_ADDRESS", RECIPIENT))
    (folder / "shop.py").write_text(find_block("python", "daily_report"))
    payer = ChainPayer()
    chain.mint(USDC, payer.address, 10 * PRICE)
    (folder / "payer.key").write_text(payer.private_key)
    (folder / "payer.key").chmod(0o600)
    write_commands(folder)
    return open_terminal(folder, {"FAREGATE_SERVICE_PORT": "0"})


def open_terminal(folder: Path, environ: Mapping[str, str] | None = None) -> Terminal:
    return Terminal(folder, environ, programs=folder / "commands")


def buy(folder: Path, service: str, key: str) -> str:
    """Steps 4 and 5 of the page."""
    shop = find_block("sh", "uvicorn shop:app").replace("http://127.0.0.1:8402", service)
    *exports, start = without_activation(shop).replace("svc_test_...", key).splitlines()
    seller = open_terminal(folder, {"UVICORN_PORT": "0"})
    seller.run("\n".join(exports))
    with seller.start(start) as url:
        pay = without_activation(find_block("sh", "faregate pay")).replace("http://127.0.0.1:8000", url)
        return open_terminal(folder).run(pay)


def without_activation(block: str) -> str:
    return block.replace(". .venv/bin/activate\n", "")


def test_the_page_leads_to_a_payment(chain: LocalChain, tmp_path: Path) -> None:
    terminal = prepare(tmp_path, chain)
    with run_facilitator(chain.url) as facilitator:
        block = find_block("sh", "faregate service serve")
        block = block.replace("https://x402.org/facilitator", facilitator.url)
        *lines, start = block.replace("https://sepolia.base.org", chain.url).splitlines()
        said = terminal.run("\n".join(lines))
        # A slow machine is warned that this chain's last block is old: it makes one only for a transaction.
        shown = find_block("text", "is a node of chain").splitlines()
        assert len(re.findall(r"^(?:ok|warning) +", said, re.MULTILINE)) >= len(shown), said
        [key] = re.findall(r"svc_test_\w+", said)
        with terminal.start(start) as service:
            result = buy(tmp_path, service, key)

    assert result == '{"report":"Sunny, with a chance of receipts."}'
    assert chain.get_balance(USDC, RECIPIENT) == PRICE
    exported = open_terminal(tmp_path).run(without_activation(find_block("sh", "faregate service export")))
    [row] = csv.DictReader(io.StringIO(exported))
    assert (row["status"], row["amount_atomic"]) == ("succeeded", str(PRICE))
    receipt = chain.get_receipt(row["transaction_hash"])
    assert receipt is not None
    assert receipt["status"] == "0x1"


@pytest.mark.full
def test_the_page_leads_to_a_payment_without_a_facilitator(chain: LocalChain, tmp_path: Path) -> None:
    terminal = prepare(tmp_path, chain)
    (tmp_path / "gas.key").write_text(GAS_KEYS[1])
    (tmp_path / "gas.key").chmod(0o600)
    terminal.run(find_block("sh", "GAS_KEY").replace("https://sepolia.base.org", chain.url))
    lines = [line for line in find_block("sh", "service serve").splitlines() if line.startswith("faregate")]
    said = terminal.run("\n".join(lines[:-1]))
    [key] = re.findall(r"svc_test_\w+", said)
    with terminal.start(lines[-1]) as service:
        buy(tmp_path, service, key)

    assert chain.get_balance(USDC, RECIPIENT) == PRICE


@pytest.mark.parametrize("page", [PAGE, OPERATING], ids=["service", "operating"])
def test_each_command_is_one_of_ours(page: str) -> None:
    parser = ArgumentParser(exit_on_error=True)
    fill_parser(parser, SERVICE)
    lines = "\n".join(find_blocks(page, "sh")).splitlines()
    commands = [line for line in lines if line.startswith("faregate service ")]

    assert commands
    for command in commands:
        parser.parse_args(shlex.split(command, comments=True)[2:])


def test_the_catalog_of_the_operating_page_is_valid() -> None:
    [block] = find_blocks(OPERATING, "toml")
    keys = '[[keys]]\nkey = "svc_test_x"\n'
    account = Account.from_toml(block.replace("0xYOUR_ADDRESS", RECIPIENT) + keys)

    assert list(build_catalog(account, "live").listings) == ["daily_report", "token_meter"]


def test_each_setting_is_explained_with_its_default() -> None:
    table = SETTINGS_PAGE.partition("## Settings")[2].partition("## Commands")[0]
    rows = re.findall(r"^\| (`.+?`) \|(.*?)\|", table, re.MULTILINE)
    told: dict[str, str] = {}
    for names, defaults in rows:
        listed = re.findall(r"`(\w+)`", names)
        values = re.findall(r"`(.+?)`", defaults) or [""] * len(listed)
        told.update(zip(listed, values, strict=True))

    assert set(told) == {*SETTINGS, "database_file"}
    for name, default in told.items():
        if default:
            assert str(getattr(make_settings({name: default}), name)) == str(getattr(Settings(), name))


def test_the_line_for_cron_compares_and_says_nothing_but_differences(
    chain: LocalChain, tmp_path: Path
) -> None:
    [line] = [block for block in find_blocks(OPERATING, "text") if block.startswith("17 2 * * * faregate ")]
    command = line.removeprefix("17 2 * * * faregate ")
    for place in ("/etc/faregate", "/var/log/faregate"):
        command = command.replace(place, str(tmp_path))
    # A file as systemd reads it, too: nothing in it is exported.
    settings = {"PAYMENTS": "facilitator", "FACILITATOR_TEST": chain.url, "RPC_TEST": chain.url}
    settings["DATABASE"] = f"sqlite:///{tmp_path / 'service.db'}"
    lines = [f"FAREGATE_SERVICE_{name}={value}\n" for name, value in settings.items()]
    (tmp_path / "service.env").write_text("".join(lines))
    (tmp_path / "catalog.toml").write_text(find_block("toml", "pay_to").replace("0xYOUR_ADDRESS", RECIPIENT))
    terminal = Terminal(tmp_path, programs=write_commands(tmp_path))
    terminal.run("set -a; . ./service.env; faregate service init; faregate service apply catalog.toml --yes")
    cron = open_terminal(tmp_path)
    assert cron.run(command) == ""
    assert "0 payments, 0 open; " in (tmp_path / "audit.log").read_text()
    payer = ChainPayer()
    chain.mint(USDC, payer.address, PRICE)
    chain.settle(USDC, payer.authorize(USDC, RECIPIENT, PRICE))
    assert "differences: 1 missing (+0.05 USDC)." in cron.run(command)


def open_database(folder: Path) -> Database:
    """A database of which one environment was compared with its chain."""
    url = f"sqlite:///{folder / 'service.db'}"
    upgrade(url)
    database = Database(url)
    record_reconciliation(database, "test", system_clock(), {"differences": {"missing": 2}})
    return database


def test_each_metric_that_is_named_exists(tmp_path: Path) -> None:
    made = ServiceMetrics(
        collectors=(
            ChainCollector(open_database(tmp_path), system_clock),
            ProcessCollector(list, list, dict),
        ),
        clock=system_clock,
        read_pending=lambda: PendingPayments(0, 1, None),
        read_gas_balances=lambda: {"test": 1.0},
    )
    made.count_request("access", 200, 0.1)
    made.count_attempt("postponed")
    shown = made.render().decode()
    named = set(re.findall(r"`(faregate_service_\w+)", OPERATING))

    assert len(named) >= 6
    assert 'faregate_service_loose_payments{state="open"} 0.0' in shown
    assert 'faregate_service_differences{environment="test",kind="missing"} 2.0' in shown
    assert [name for name in named if name not in shown] == []

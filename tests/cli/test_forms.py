"""What people read in a terminal, and what programs read in a pipe."""

import json
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.support.terminals import in_pipe, in_terminal
from tests.support.unfinished_payments import Seller, selling

SHOP = """
from faregate.wsgi import PaywallMiddleware

app = PaywallMiddleware(lambda environ, start: [], offers={"/reports": "daily_report"})
"""
SELLING = {"FAREGATE_BASE_URL": "emulator:"}


@pytest.fixture(scope="module")
def seller(tmp_path_factory: pytest.TempPathFactory) -> Generator[Seller]:
    with selling(tmp_path_factory.mktemp("journal")) as seller:
        seller.held()
        yield seller


@pytest.fixture
def shop(tmp_path: Path) -> list[str]:
    (tmp_path / "shop.py").write_text(SHOP)
    return ["shop:app", "--app-dir", str(tmp_path)]


@pytest.mark.parametrize(
    ("command", "begins", "member"),
    [("routes", "ACCESS  METHODS", "routes"), ("check", "All is well", "sells")],
)
def test_an_application_is_described_as_text_or_as_json(
    command: str, begins: str, member: str, shop: list[str]
) -> None:
    words = [command, *shop]
    assert in_terminal(words, SELLING).stdout.startswith(begins)
    assert member in json.loads(in_pipe(words, SELLING).stdout)
    assert member in json.loads(in_terminal([*words, "--json"], SELLING).stdout)
    assert in_pipe([*words, "--text"], SELLING).stdout.startswith(begins)


@pytest.mark.parametrize(
    ("action", "begins", "member"), [("keys", "KEY ", "keys"), ("addresses", "UNFINISHED ", "unfinished")]
)
def test_a_journal_is_described_as_text_or_as_json(
    action: str, begins: str, member: str, seller: Seller
) -> None:
    words = ["journal", action]
    assert in_terminal(words, seller.environ).stdout.startswith(begins)
    assert member in json.loads(in_pipe(words, seller.environ).stdout)
    assert in_pipe([*words, "--text"], seller.environ).stdout.startswith(begins)


def test_holds_are_text_in_a_pipe_that_asks_for_it(seller: Seller) -> None:
    listed = in_pipe(["holds", "list", "--text"], seller.environ)
    shown = in_pipe(["holds", "show", seller.sales[0].id, "--text"], seller.environ)
    assert listed.stdout.startswith("TRANSACTION ")
    assert "\nNext: " in shown.stdout


@pytest.mark.parametrize("words", [["journal", "keys"], ["holds", "list"], ["holds", "show", "txn_1"]])
def test_one_form_at_a_time(words: list[str], seller: Seller) -> None:
    asked = in_pipe([*words, "--json", "--text"], seller.environ)
    assert (asked.status, asked.stdout) == (2, "")
    assert asked.stderr == "faregate: Use either --json or --text.\n"

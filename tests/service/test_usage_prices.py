"""What the service shows of prices that follow the use, and when it asks before it changes one."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from flask import Flask, request

from faregate import Usage
from faregate.cli import main
from faregate.emulator.wallet import Wallet
from faregate.errors import ConfigurationError
from faregate.flask import Faregate, payment
from faregate.rules.account import Revision
from faregate.service.database.accounts import list_accounts
from faregate.service.database.apply import ChangeKind
from faregate.service.database.clock import Stamps
from faregate.service.database.engine import Database
from faregate.service.database.publish import publish_prices
from faregate.service.database.reports import Revenue, add_days, export_transactions
from faregate.service.database.types import to_datetime
from faregate.service.in_process import InProcessService
from faregate.x402.declared_prices import DeclaredPrice
from tests.service.databases import MovedClock
from tests.service.in_process import Buyer, build_environ, open_paywall, open_storage_of
from tests.service.test_apply import ONE, apply, read

RATED = ONE + 'usage = { rates = { pages = "100" } }\n'
PRICE = Usage(at_most="0.01 USDC", rates={"pages": "0.0001 USDC"})


def test_other_rates_are_another_price_that_needs_consent(
    database: Database, stamps: Stamps, clock: MovedClock
) -> None:
    apply(database, stamps, RATED)
    assert apply(database, stamps, RATED) == []
    clock.move(60)
    [change] = apply(database, stamps, RATED.replace('"100"', '"101"'))
    assert (change.kind, change.needs_consent) == (ChangeKind.REVISED, True)
    assert change.detail.startswith("revision 2: up to 0.01 USDC by other rates, acr_")
    clock.move(60)
    [change] = apply(database, stamps, ONE)
    assert change.needs_consent
    assert change.detail.startswith("revision 3: 0.01 USDC instead of up to 0.01 USDC, acr_")
    assert [one.rules.calculation_mode for one in read(database).listings["report"].revisions] == [
        "usage",
        "usage",
        "fixed",
    ]


def test_a_price_by_use_comes_back_as_it_was_published(database: Database, stamps: Stamps) -> None:
    apply(database, stamps, RATED.replace('"100"', '"0.000000000001"'))
    [revision] = read(database).listings["report"].revisions
    written = {"pages": "0.000000000001"}
    values = [{"name": "pages", "unit": "page", "required": True}]
    assert revision.rules == Revision.model_validate(
        {"amount": 10_000, "values": values, "usage": {"rates": written}}
    )
    assert revision.price_label == "up to 0.01 USDC"


def test_code_and_catalog_must_say_the_same_rates(database: Database, stamps: Stamps) -> None:
    apply(database, stamps, RATED)
    with database.read() as connection:
        [account] = list_accounts(connection)
    [same] = publish_prices(database, stamps, account, {"report": DeclaredPrice(PRICE)}).values()
    assert same.number == 1
    other = Usage(at_most="0.01 USDC", rates={"pages": "0.0002 USDC"})
    fault = r"sold for up to 0\.01 USDC in the code, and for up to 0\.01 USDC by other rates in the catalog"
    with pytest.raises(ConfigurationError, match=fault):
        publish_prices(database, stamps, account, {"report": DeclaredPrice(other)})


@pytest.fixture
def sold(tmp_path: Path) -> tuple[dict[str, str], str]:
    """An application's settings and its metrics, after uses of 12 pages and of 101, which is one too many."""
    environ = build_environ(tmp_path)
    app, extension = Flask("seller"), Faregate()

    @app.get("/report")
    @extension.paid("report", price=PRICE)
    def report() -> dict[str, Any]:
        payment.report(pages=int(request.args["pages"]))
        return {}

    with open_paywall(environ) as paywall:
        extension.init_app(app, paywall)
        buyer = Buyer(app.test_client(), Wallet())
        for pages in (12, 101):
            assert buyer.buy(f"/report?pages={pages}").status_code == 200
        service = paywall._embedded
        assert isinstance(service, InProcessService)
        metrics = service._open().runtime.metrics.render().decode()
    return environ, metrics


def test_books_sum_and_show_what_was_used(sold: tuple[dict[str, str], str]) -> None:
    environ, metrics = sold
    with open_storage_of(environ) as storage:
        [account] = storage.list_accounts()
        days = Revenue(storage.database, storage.stamps).list_days(
            account, to_datetime(storage.stamps.now()), 1
        )
        assert sum(add_days(days).revenue.values()) == 1200 + 10_000
        exported = [*export_transactions(storage.database, account.id)]
    assert [one.amount_atomic for one in exported] == [1200, 10_000]
    assert re.search(r"^faregate_service_exceeded_maximums_total 1\.0$", metrics, re.MULTILINE)


def test_commands_show_the_maximum_and_what_was_used(
    sold: tuple[dict[str, str], str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    environ, _ = sold
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert main(["transactions", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    amounts = [(one["authorized_atomic"], one["settled_atomic"]) for one in listed]
    assert sorted(amounts) == [(10_000, 1200), (10_000, 10_000)]
    used = next(one["id"] for one in listed if one["settled_atomic"] == 1200)
    assert main(["receipt", used, "--text"]) == 0
    shown = capsys.readouterr().out
    assert "0.0012 USDC" in shown
    assert "up to 0.01 USDC (usage)" in shown
    assert main(["service", "payment", "show", used, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["amount_atomic"], found["used_atomic"]) == ("10000", "1200")

"""The service inside an application's process: `FAREGATE_BASE_URL=service:`."""

import base64
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest
from fastapi import Depends, FastAPI
from flask import Flask
from sqlalchemy import func, select, text
from starlette.testclient import TestClient

from faregate import ConfigurationError, Offer, Paywall
from faregate.core.claim_types import PendingPayment
from faregate.core.models import Request, Response, WorkSucceeded
from faregate.core.results import AccessGranted, CompletionPaid
from faregate.emulator.wallet import Wallet
from faregate.errors import TransactionNotFound
from faregate.fastapi import PaywallMiddleware, list_routes, paid
from faregate.flask import Faregate
from faregate.merchant import wire
from faregate.routes.check import check
from faregate.service import in_process
from faregate.service.database.schema import api_keys, transactions
from tests.service.in_process import PAY_TO, Buyer, build_environ, open_paywall, open_storage_of

PRICED = Offer("daily_report", price="0.05 USDC")


def build_fastapi(
    environ: dict[str, str],
    price: str | None = "0.05 USDC",
    while_working: Callable[[], object] = lambda: None,
) -> FastAPI:
    app = FastAPI()
    app.add_middleware(PaywallMiddleware, paywall=Paywall(environ=environ))

    @app.get("/report", dependencies=[Depends(paid("daily_report", price=price))])
    async def report() -> dict[str, str]:
        while_working()
        return {"report": "sunny"}

    return app


def read_terms(asked: Any) -> dict[str, Any]:
    terms: dict[str, Any] = json.loads(base64.b64decode(asked.headers["payment-required"]))["accepts"][0]
    return terms


def count_sales(environ: dict[str, str]) -> tuple[int, int]:
    """Count the transactions, and those that have succeeded."""
    with open_storage_of(environ) as storage, storage.database.read() as connection:
        ended = select(transactions.c.final_status)
        statuses = list(connection.execute(ended).scalars())
    return len(statuses), statuses.count("succeeded")


def test_fastapi_sells_with_a_price_in_code(tmp_path: Path) -> None:
    environ = build_environ(tmp_path)
    with TestClient(build_fastapi(environ)) as client:
        buyer = Buyer(client, Wallet())
        asked = buyer.ask()
        assert asked.status_code == 402
        assert (read_terms(asked)["amount"], read_terms(asked)["payTo"]) == ("50000", PAY_TO)
        proof = buyer.wallet.pay(asked.headers["payment-required"])
        first, second = buyer.send(proof), buyer.send(proof)
        assert first.json() == second.json() == {"report": "sunny"}
        assert first.headers["payment-response"] == second.headers["payment-response"]
        forged = buyer.send(proof[:-8] + "AAAAAAA=")
        assert forged.status_code == 402
    assert count_sales(environ) == (1, 1)


def test_flask_sells_with_a_price_in_code(tmp_path: Path) -> None:
    environ = build_environ(tmp_path)
    app, paywall = Flask("shop"), Faregate()

    @app.get("/report")
    @paywall.paid("daily_report", price="0.05 EURC")
    def report() -> dict[str, str]:
        return {"report": "sunny"}

    with open_paywall(environ) as own:
        paywall.init_app(app, own)
        buyer = Buyer(app.test_client(), Wallet())
        assert buyer.buy().json == {"report": "sunny"}
    assert count_sales(environ) == (1, 1)


def test_the_journal_is_in_the_database_of_the_service(tmp_path: Path) -> None:
    environ = build_environ(tmp_path)
    with TestClient(build_fastapi(environ)) as client:
        assert Buyer(client, Wallet()).buy().status_code == 200
    with open_storage_of(environ) as storage, storage.database.read() as connection:
        assert connection.execute(text("SELECT state FROM journal")).scalars().all() == ["settled"]
        assert connection.execute(select(func.count()).select_from(api_keys)).scalar_one() == 0
    assert {one.name.partition("-")[0] for one in tmp_path.iterdir()} == {"shop.db"}


def test_a_journal_of_ones_own_stays_possible(tmp_path: Path) -> None:
    other = f"sqlite:///{tmp_path / 'journal.db'}"
    environ = build_environ(tmp_path, FAREGATE_JOURNAL=other)
    with open_paywall(environ) as paywall:
        assert paywall.settings.journal == other


@pytest.mark.parametrize(
    ("journal", "is_warned"),
    [
        ("redis://cache.internal/0", True),
        ("postgresql://shop@db.internal/shop", True),
        ("unix:///run/redis.sock", False),
        ("", False),
    ],
)
def test_machines_with_a_journal_in_common_are_warned_of_books_of_their_own(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, journal: str, is_warned: bool
) -> None:
    """Each such machine would accept the same payment, and the chain prove its transfer to all of them."""
    Paywall(environ=build_environ(tmp_path, FAREGATE_JOURNAL=journal))
    assert ("name one database for all" in caplog.text) is is_warned
    caplog.clear()
    shared = "postgresql://shop@db.internal/books"
    Paywall(environ=build_environ(tmp_path, FAREGATE_JOURNAL=journal, FAREGATE_SERVICE_DATABASE=shared))
    assert "name one database for all" not in caplog.text


def test_work_runs_on_trio_too(tmp_path: Path) -> None:
    environ = build_environ(tmp_path)

    async def resolve() -> str:
        paywall = Paywall(environ=environ)
        try:
            revision = await paywall.async_backend.resolve_offer(PRICED)  # type: ignore[misc]
            return str(revision.asset)
        finally:
            await paywall.aclose()

    assert anyio.run(resolve, backend="trio") == "USDC"
    assert anyio.run(resolve) == "USDC"


def trace_commits(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bool]]:
    """Collect the first words of what is written from now on, and whether its commit is synced."""
    commits: list[tuple[str, bool]] = []

    class Traced(sqlite3.Connection):
        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            self.written, self.is_synced, self.before = "", True, ""
            self.set_trace_callback(self._trace)

        def _trace(self, statement: str) -> None:
            # SQLite tells of a statement again for each trigger that it may fire.
            is_repeated, self.before = statement == self.before, statement
            if is_repeated:
                return
            words = statement.split()
            if words[:2] == ["PRAGMA", "synchronous"]:
                self.is_synced = words[-1] == "FULL"
            elif words[0] in ("INSERT", "UPDATE"):
                self.written = words[1] if words[0] == "UPDATE" else words[2]
            if self.written and (words[0] == "COMMIT" or not self.in_transaction):
                commits.append((self.written, self.is_synced))
                self.written = ""

    connect = sqlite3.connect
    for module in (sqlite3, sqlite3.dbapi2):
        monkeypatch.setattr(
            module, "connect", lambda *given, **named: connect(*given, factory=Traced, **named)
        )
    return commits


@pytest.mark.parametrize("has_own_journal", [False, True])
def test_what_is_about_to_be_sent_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_own_journal: bool
) -> None:
    """The rest is synced by the journal of the same file before work begins, and by the attempt then."""
    commits = trace_commits(monkeypatch)
    environ = build_environ(tmp_path)
    if has_own_journal:
        environ["FAREGATE_JOURNAL"] = f"sqlite:///{tmp_path / 'journal.db'}"
    with TestClient(build_fastapi(environ)) as client:
        asked = Buyer(client, Wallet()).ask()
        commits.clear()
        assert Buyer(client, Wallet()).pay(asked).status_code == 200
    authorized, completed, ended = ((table, has_own_journal) for table in ("payers", *["transactions"] * 2))
    sold = [commit for commit in commits if commit[0] in ("payers", "transactions", "attempts")]
    assert sold == [authorized, completed, ("attempts", True), ended]
    assert ("journal", True) in commits[commits.index(authorized) : commits.index(completed)]
    # The claim, the transaction before work begins, the outcome before it is reported, and the settlement.
    assert [is_synced for table, is_synced in commits if table == "journal"] == [
        *(False, True, has_own_journal, False)
    ]


# Prices


def test_a_changed_price_is_a_new_revision_and_the_old_code_sells_at_its_own(tmp_path: Path) -> None:
    environ = build_environ(tmp_path)
    with (
        TestClient(build_fastapi(environ)) as before,
        TestClient(build_fastapi(environ, "0.10 USDC")) as after,
    ):
        old, new = Buyer(before, Wallet()), Buyer(after, Wallet())
        for _ in range(2):
            assert (read_terms(old.ask())["amount"], read_terms(new.ask())["amount"]) == ("50000", "100000")
            assert old.buy().status_code == new.buy().status_code == 200
    assert list_amounts(environ) == [50_000, 100_000]


def test_starting_again_publishes_nothing(tmp_path: Path) -> None:
    environ = build_environ(tmp_path)
    for price in ("0.05 USDC", "0.10 USDC", "0.05 USDC", "0.10 USDC", "0.050 USD"):
        with open_paywall(environ, Offer("daily_report", price=price)):
            pass
    assert list_amounts(environ) == [50_000, 100_000]


def test_a_payment_of_the_old_price_is_completed_by_code_with_a_new_one(tmp_path: Path) -> None:
    """The worker that had it authorized was killed before its journal knew the transaction."""
    environ = build_environ(tmp_path)
    with TestClient(build_fastapi(environ)) as before:
        buyer = Buyer(before, Wallet())
        instructions = buyer.ask().headers["payment-required"]
        proof = buyer.wallet.pay(instructions)
    url = json.loads(base64.b64decode(instructions))["resource"]["url"]
    with open_paywall(environ, PRICED) as paywall:
        revision: Any = paywall.backend.resolve_offer(PRICED)
        unpaid = Request("GET", "/report")
        request = paywall.build_request(PRICED, unpaid, url)
        access: Any = paywall.backend.call_access(request, revision, proof)
        assert isinstance(access, AccessGranted)
    with TestClient(build_fastapi(environ, "0.10 USDC")) as after:
        buyer.client = after
        paid_for, again = buyer.send(proof), buyer.send(proof)
        assert paid_for.json() == again.json() == {"report": "sunny"}
    assert count_sales(environ) == (1, 1)


def test_what_newer_code_has_sold_is_completed_by_a_process_with_the_old_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As its sweep does, although the new price was published after it had read the account last."""
    environ, wallet, url = build_environ(tmp_path), Wallet(), "https://seller.example/report"
    with open_paywall(environ, PRICED) as before:

        def call_access(paywall: Paywall, revision: Any, proof: str | None) -> Any:
            request = paywall.build_request(PRICED, Request("GET", "/report"), url)
            return paywall.backend.call_access(request, revision, proof)

        asked = call_access(before, before.backend.resolve_offer(PRICED), None)
        proof = wallet.pay(asked.response.first("payment-required"))
        monkeypatch.setattr(in_process, "_opened", {})  # another process
        dearer = Offer("daily_report", price="0.10 USDC")
        with open_paywall(environ, dearer) as after:
            revision: Any = after.backend.resolve_offer(dearer)
            access = call_access(after, revision, proof)
        lease: Any = None
        payment = PendingPayment(lease, proof, access.transaction_id, revision.revision_id)
        completed = before.backend.call_complete(payment, WorkSucceeded(Response(200)))
        assert isinstance(completed, CompletionPaid)
    assert count_sales(environ) == (1, 1)


def test_an_open_402_stays_payable_at_its_price(tmp_path: Path) -> None:
    """The code with the new price answers in its place, and the code with the old one still runs beside."""
    environ = build_environ(tmp_path)
    with TestClient(build_fastapi(environ)) as before:
        buyer = Buyer(before, Wallet())
        asked, late = buyer.ask(), buyer.ask()
        with TestClient(build_fastapi(environ, "0.10 USDC")) as after:
            buyer.client = after
            asked_anew = buyer.ask()
            proof = buyer.wallet.pay(asked.headers["payment-required"])
            first, again = buyer.send(proof), buyer.send(proof)
            assert first.json() == again.json() == {"report": "sunny"}
            assert read_settled(first) == read_settled(again) == "50000"
            buyer.client = before
            assert read_settled(buyer.pay(asked_anew)) == "100000"
            end_open_prices(environ)
            buyer.client = after
            refused = buyer.pay(late)
            assert refused.status_code == 402
            assert read_terms(refused)["amount"] == "100000"
    assert count_sales(environ) == (2, 2)


def test_a_payment_of_no_price_is_refused_while_an_old_one_is_open(tmp_path: Path) -> None:
    environ = build_environ(tmp_path)
    with (
        TestClient(build_fastapi(environ)) as before,
        TestClient(build_fastapi(environ, "0.10 USDC")) as after,
    ):
        assert Buyer(before, Wallet()).ask().status_code == 402
        buyer = Buyer(after, Wallet())
        asked = json.loads(base64.b64decode(buyer.ask().headers["payment-required"]))
        asked["accepts"][0]["amount"] = "1"
        proof = buyer.wallet.pay(base64.b64encode(json.dumps(asked).encode()).decode())
        refused = buyer.send(proof)
        assert refused.status_code == 402
        assert read_terms(refused)["amount"] == "100000"
    assert count_sales(environ) == (0, 0)


def read_settled(bought: Any) -> str:
    """The amount that the proof of a payment names."""
    assert bought.status_code == 200, bought.text
    return str(json.loads(base64.b64decode(bought.headers["payment-response"]))["amount"])


def end_open_prices(environ: dict[str, str]) -> None:
    """As if the prices had been published an hour earlier; the processes read them again."""
    with open_storage_of(environ) as storage, storage.database.write() as connection:
        connection.execute(text("UPDATE resource_versions SET valid_from = valid_from - 3600000000"))
        connection.execute(text("UPDATE accounts SET catalog_changes = catalog_changes + 1"))


def list_amounts(environ: dict[str, str]) -> list[int]:
    """The prices of all revisions in test, in their order."""
    with open_storage_of(environ) as storage, storage.database.read() as connection:
        rows = connection.execute(
            text(
                "SELECT amount FROM revisions JOIN accounts ON accounts.id = revisions.account "
                "WHERE environment = 'test' ORDER BY resource, number"
            )
        )
        return [int(amount) for amount in rows.scalars()]


def test_two_prices_for_one_name_fail_at_start(tmp_path: Path) -> None:
    environ = build_environ(tmp_path)
    with (
        pytest.raises(ConfigurationError, match=r"'daily_report' is sold for 0.05 USDC and for 0.10 USDC"),
        open_paywall(environ, PRICED, Offer("daily_report", price="0.10 USDC")),
    ):
        pass
    assert not (tmp_path / "shop.db").exists()


def test_a_name_without_a_price_fails_at_start_and_names_both_ways(tmp_path: Path) -> None:
    with (
        pytest.raises(ConfigurationError, match=r"Nothing is sold as 'report'.*price='0.05 USDC'.*CATALOG"),
        open_paywall(build_environ(tmp_path), Offer("report")),
    ):
        pass


CATALOG = """
[seller]
name = "Shop"
pay_to = "{pay_to}"

[[resources]]
key = "daily_report"
name = "Daily report"
[[resources.revisions]]
amount = "50000"
[[resources]]
key = "weekly_report"
name = "Weekly report"
[[resources.revisions]]
amount = "70000"
"""


def write_catalog(folder: Path, pay_to: str = PAY_TO) -> str:
    (folder / "catalog.toml").write_text(CATALOG.format(pay_to=pay_to))
    return str(folder / "catalog.toml")


def test_a_catalog_has_prices_too(tmp_path: Path) -> None:
    environ = build_environ(tmp_path, FAREGATE_SERVICE_CATALOG=write_catalog(tmp_path))
    with open_paywall(environ, PRICED, Offer("weekly_report")) as paywall:
        assert paywall.find_asset("weekly_report") == "USDC"
    assert list_amounts(environ) == [50_000, 70_000]


def test_a_price_that_contradicts_the_catalog_fails_at_start(tmp_path: Path) -> None:
    environ = build_environ(tmp_path, FAREGATE_SERVICE_CATALOG=write_catalog(tmp_path))
    with (
        pytest.raises(ConfigurationError, match=r"sold for 0.06 USDC in the code, and for 0.05 USDC in the"),
        open_paywall(environ, Offer("daily_report", price="0.06 USDC")),
    ):
        pass
    assert list_amounts(environ) == [50_000, 70_000]


def test_another_address_than_the_catalogs_fails_at_start(tmp_path: Path) -> None:
    other = "0x857b06519E91e3A54538791bDbb0E22373e36b66"
    environ = build_environ(tmp_path, FAREGATE_SERVICE_CATALOG=write_catalog(tmp_path, other))
    with (
        pytest.raises(ConfigurationError, match=f"PAY_TO is {PAY_TO}, and the catalog"),
        open_paywall(environ, PRICED),
    ):
        pass


def test_a_price_needs_a_service_in_this_process() -> None:
    environ = {"FAREGATE_BASE_URL": "http://127.0.0.1:9", "FAREGATE_API_KEY": "svc_test_x"}
    with pytest.raises(ConfigurationError, match="the price of a service elsewhere is set in your account"):
        Paywall(environ=environ).expect_offers([PRICED])


def test_the_emulator_asks_the_price_of_the_code(payer: Any) -> None:
    app = build_fastapi({"FAREGATE_BASE_URL": "emulator:"}, "0.07 USDC")
    with TestClient(app) as client:
        asked = client.get("/report")
        assert read_terms(asked)["amount"] == "70000"
        assert payer.get(client, "/report").paid


# What is missing or wrong


def list_missing(folder: Path, **variables: str) -> list[str]:
    environ = build_environ(folder, **{"FAREGATE_SERVICE_PAY_TO": "", **variables})
    with pytest.raises(ConfigurationError) as raised:
        Paywall(environ=environ)
    _, *lines = str(raised.value).splitlines()
    return [line.partition(":")[0].strip() for line in lines]


def test_the_test_network_needs_an_address_alone(tmp_path: Path) -> None:
    assert list_missing(tmp_path, FAREGATE_SERVICE_PAYMENTS="") == ["FAREGATE_SERVICE_PAY_TO"]
    environ = build_environ(tmp_path, FAREGATE_SERVICE_PAYMENTS="")
    [made] = [Paywall(environ=environ)]
    settings = made._embedded._settings
    assert settings.payments == "facilitator"
    assert (settings.rpc_test, settings.facilitator_test) == (
        ("https://sepolia.base.org",),
        ("https://x402.org/facilitator",),
    )
    assert settings.environments == ("test",)


def test_real_money_needs_everything_named(tmp_path: Path) -> None:
    live = {"FAREGATE_ENVIRONMENT": "live", "FAREGATE_SERVICE_PAYMENTS": "", "FAREGATE_SERVICE_DATABASE": ""}
    assert list_missing(tmp_path, **live) == [
        "FAREGATE_SERVICE_PAY_TO",
        "FAREGATE_SERVICE_DATABASE",
        "FAREGATE_SERVICE_RPC_LIVE",
        "FAREGATE_SERVICE_FACILITATOR_LIVE",
        "FAREGATE_PUBLIC_URL",
        "FAREGATE_JOURNAL_KEY",
    ]
    direct = {**live, "FAREGATE_SERVICE_PAYMENTS": "direct"}
    assert "FAREGATE_SERVICE_GAS_KEY" in list_missing(tmp_path, **direct)


LIVE = {
    "FAREGATE_ENVIRONMENT": "live",
    "FAREGATE_SERVICE_PAYMENTS": "",
    "FAREGATE_SERVICE_PAY_TO": PAY_TO,
    "FAREGATE_SERVICE_RPC_LIVE": "https://node.example",
    "FAREGATE_SERVICE_FACILITATOR_LIVE": "https://facilitator.example",
    "FAREGATE_PUBLIC_URL": "https://shop.example",
    "FAREGATE_JOURNAL_KEY": base64.b64encode(bytes(32)).decode(),
}


@pytest.mark.parametrize(
    "absent",
    [
        "FAREGATE_SERVICE_PAY_TO",
        "FAREGATE_SERVICE_DATABASE",
        "FAREGATE_SERVICE_RPC_LIVE",
        "FAREGATE_SERVICE_FACILITATOR_LIVE",
        "FAREGATE_PUBLIC_URL",
        "FAREGATE_JOURNAL_KEY",
    ],
)
def test_real_money_needs_each_one(absent: str, tmp_path: Path) -> None:
    assert list_missing(tmp_path, **LIVE | {absent: ""}) == [absent]
    Paywall(environ=build_environ(tmp_path, **LIVE)).close()


def test_simulated_payments_are_never_live(tmp_path: Path) -> None:
    environ = build_environ(
        tmp_path,
        FAREGATE_ENVIRONMENT="live",
        FAREGATE_PUBLIC_URL="https://shop.example",
        FAREGATE_JOURNAL_KEY=base64.b64encode(bytes(32)).decode(),
        FAREGATE_SERVICE_RPC_LIVE="http://127.0.0.1:9",
    )
    with pytest.raises(ConfigurationError, match="PAYMENTS is simulated, which moves no money"):
        Paywall(environ=environ)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        (PAY_TO.replace("B", "b"), "FAREGATE_SERVICE_PAY_TO is mistyped"),
        ("0x12", "FAREGATE_SERVICE_PAY_TO must be an address"),
    ],
)
def test_the_address_is_checked(tmp_path: Path, address: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Paywall(environ=build_environ(tmp_path, FAREGATE_SERVICE_PAY_TO=address))


def test_a_newer_database_is_an_error_that_says_so(tmp_path: Path) -> None:
    environ = build_environ(tmp_path)
    with open_paywall(environ, PRICED):
        pass
    with open_storage_of(environ) as storage, storage.database.write() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with (
        pytest.raises(ConfigurationError, match="migration 9999, which this faregate does not know"),
        open_paywall(environ, PRICED),
    ):
        pass


def test_a_folder_that_is_not_there_is_named_at_start(tmp_path: Path) -> None:
    environ = build_environ(tmp_path / "absent")
    with pytest.raises(ConfigurationError, match="absent"), open_paywall(environ, PRICED):
        pass


def test_paywalls_with_the_same_settings_share_a_service(tmp_path: Path) -> None:
    environ = build_environ(tmp_path)
    with open_paywall(environ, PRICED) as first, open_paywall(environ, PRICED) as second:
        assert first._embedded is second._embedded
    assert in_process._opened


def read_address(environ: dict[str, str]) -> str:
    with open_storage_of(environ) as storage:
        return storage.find_account("test", None).pay_to


def test_only_an_application_that_starts_decides_which_address_is_paid(tmp_path: Path) -> None:
    """A sweep with older settings, and a check, sent the payments of the running shop elsewhere."""
    other = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
    environ, older = build_environ(tmp_path), build_environ(tmp_path, FAREGATE_SERVICE_PAY_TO=other)
    for settings, address in ((older, other), (environ, PAY_TO)):
        with TestClient(build_fastapi(settings)) as client:
            asked = client.get("/report")
        assert read_terms(asked)["payTo"] == read_address(environ) == address
    with TestClient(build_fastapi(environ)) as client:
        sweeper = Paywall(environ=older)
        with pytest.raises(TransactionNotFound):  # a sweep asks how each payment stands
            sweeper.call(wire.get_transaction(f"txn_{'0' * 12}7{'0' * 3}8{'0' * 15}"))
        sweeper.close()
        assert check(list_routes(build_fastapi(older))) == []
        assert read_terms(client.get("/report"))["payTo"] == PAY_TO
    with TestClient(build_fastapi(older)) as client:
        assert read_terms(client.get("/report"))["payTo"] == other


def test_a_journal_of_an_older_version_ends_the_start_before_the_tables_change(tmp_path: Path) -> None:
    """Else neither version starts, and the file that has all payments was to be moved away."""
    environ = build_environ(tmp_path)
    with TestClient(build_fastapi(environ)) as client:
        assert Buyer(client, Wallet()).buy().status_code == 200
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        connection.execute("PRAGMA user_version = 1")
        connection.execute("UPDATE alembic_version SET version_num = '0013'")
        connection.commit()
        with pytest.raises(ConfigurationError, match=r"of version 1.*set FAREGATE_JOURNAL to a new file"):
            anyio.run(Paywall(environ=environ).astart)
        [version] = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    assert version == "0013"

"""`faregate holds`: what people see of what is owed, and what they can and cannot do about it."""

import base64
import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from faregate.cli import main
from faregate.cli.holds import make_printable
from faregate.core.claim_types import Claimant
from faregate.errors import JournalError
from faregate.journals.payment_info import PaymentInfo, PaymentStatus
from faregate.journals.sqlite import SqliteJournal
from faregate.maintenance.customer_answers import explain
from tests.adapters.asgi import CONTENT
from tests.merchant.samples import SETTLEMENT
from tests.support.faulty_service import answers, changes
from tests.support.preloaded import run_preloaded
from tests.support.replies import with_fields
from tests.support.unfinished_payments import DAY, UNKNOWN, Sale, Seller, selling

Run = Callable[..., tuple[int, str]]
REFUSED = "completion was refused: 404 transaction_not_found"


@pytest.fixture
def seller(tmp_path: Path) -> Generator[Seller]:
    with selling(tmp_path) as seller:
        yield seller


@pytest.fixture
def holds(
    seller: Seller, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Generator[Run]:
    """The command, in this process: how it ended and what it said. Never a proof, never content."""
    for name, value in seller.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("faregate.cli.terminal.is_stdout_terminal", lambda: True)
    said: list[str] = []

    def run(*words: str) -> tuple[int, str]:
        code = main(["holds", *words])
        said.append("".join(capsys.readouterr()))
        return code, said[-1]

    yield run
    for secret in (CONTENT, *(sale.proof for sale in seller.sales)):
        assert not [one for one in said if secret in one]


def served(sale: Sale) -> tuple[int, bytes]:
    sent = sale.comes_back()
    return sent[0]["status"], sent[1]["body"]


# What is owed


def test_nothing_is_owed(holds: Run) -> None:
    assert holds("list") == (0, "No unfinished payments.\n")
    code, said = holds("list", "--json")
    assert (code, json.loads(said)["holds"]) == (0, [])


def test_a_table_with_what_is_stuck_first(seller: Seller, holds: Run) -> None:
    stuck, held = seller.stuck(ago=600), seller.held(ago=3600)
    code, said = holds("list")
    assert code == 0
    head, first, second, _, summary = said.splitlines()
    assert head.split("  ")[0] == "TRANSACTION"
    assert re.fullmatch(rf"{stuck.id}  stuck +10m +- +\d +\d\d B  {REFUSED}", first), first
    assert re.fullmatch(rf"{held.id}  work done, unsettled  1h 0m  now +\d +\d\d B  -", second), second
    assert summary == "1 stuck, 1 held for the sweep, 0 being served now."
    assert held.id not in holds("list", "--stuck")[1]


def test_what_is_being_served_is_shown_when_asked_for(seller: Seller, holds: Run) -> None:
    running = "txn_" + "0" * 12 + "7" + "0" * 3 + "8" + "0" * 15
    journal: Any = seller.paywall().journal
    journal.record_transaction(journal.claim("a proof", Claimant("GET /")).lease, running, "acr", 60.0)
    code, said = holds("list")
    assert (code, said) == (0, "0 stuck, 0 held for the sweep, 1 being served now.\n")
    assert re.search(rf"{running}  running  \ds +in \dm", holds("list", "--all")[1])


def test_lists_for_machines(seller: Seller, holds: Run) -> None:
    stuck, held = seller.stuck(), seller.held()
    code, said = holds("list", "--json", "--all")
    found = json.loads(said)
    assert (code, found["stuck"], found["held"], found["running"], found["more"]) == (0, 1, 1, 0, False)
    first, second = found["holds"]
    assert (first["transaction_id"], first["state"], first["reason"]) == (stuck.id, "stuck", REFUSED)
    assert first["next_try"] is None
    assert len(CONTENT) < first["size"] < 100
    assert (second["transaction_id"], second["reason"]) == (held.id, None)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", second["next_try"])
    assert set(first) == {
        "transaction_id", "revision_id", "address", "state", "reason", "readable", "since", "next_try",
        "kept_until", "attempts", "size",
    }  # fmt: skip


def test_one_of_them(seller: Seller, holds: Run) -> None:
    stuck = seller.stuck(ago=2 * DAY + 7200)
    code, page = holds("show", stuck.id)
    summary, step, _, *rest = page.splitlines()
    lines = dict(line.split(maxsplit=1) for line in rest)
    assert (code, summary) == (0, f"The service gives no final answer: {REFUSED}.")
    assert f"holds retry {stuck.id}" in step
    assert (lines["transaction"], lines["status"], lines["request"]) == (stuck.id, "stuck", "GET /")
    assert lines["since"].endswith("Z (2d 2h ago)")
    code, said = holds("show", stuck.id, "--json")
    [payment] = json.loads(said)["payments"]
    assert (code, payment["status"], payment["reason"]) == (0, "stuck", REFUSED)


def test_a_customer_is_answered_by_transaction_hash_and_address(seller: Seller, holds: Run) -> None:
    """Neither an API key nor the service is needed to look."""
    sale = seller.held()
    assert seller.paywall().sweep().settled == 1
    [found] = json.loads(holds("show", sale.id, "--json")[1])["payments"]
    assert (found["status"], found["request"]) == ("not_fetched", "GET /")
    for quoted in (found["payer"], found["transaction_hash"]):
        code, page = holds("show", quoted)
        assert (code, page.splitlines()[0]) == (0, "Paid, and the result was not fetched yet.")
        assert sale.id in page
    assert served(sale) == (200, CONTENT.encode())
    assert holds("show", sale.id)[1].startswith("Paid, and the result was delivered on ")


def test_nothing_known_says_what_is_kept_and_who_else_to_ask(holds: Run) -> None:
    code, said = holds("show", "txn_unheard-of")
    assert (code, said.splitlines()[0][:62]) == (
        3,
        "This journal has no payment with the transaction txn_unheard-o",
    )
    assert "faregate receipt txn_unheard-of" in said
    code, said = holds("show", f"0x{'0' * 40}", "--json")
    assert (code, json.loads(said)["payments"]) == (3, [])
    assert f"faregate transactions --payer 0x{'0' * 40}" in said
    assert "faregate transactions --json" in holds("show", f"0x{'0' * 64}")[1]


def test_one_whose_key_is_missing_names_what_can_end_it(
    seller: Seller, holds: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    sale = seller.held()
    monkeypatch.setenv("FAREGATE_JOURNAL_KEY", base64.b64encode(b"another key that has 32 bytes in").decode())
    code, page = holds("show", sale.id)
    assert (code, "FAREGATE_JOURNAL_KEY=NEW,OLD" in page) == (0, True)
    assert f"holds discard {sale.id}, with --unpaid" in page
    assert "holds retry" not in page  # it could not read the row


def test_what_is_no_reference_is_a_wrong_call(holds: Run) -> None:
    code, said = holds("show", "0x12")
    assert (code, "neither a transaction" in said) == (2, True)


def test_to_look_needs_no_api_key(seller: Seller, holds: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    stuck = seller.stuck()
    for name in ("FAREGATE_API_KEY", "FAREGATE_BASE_URL"):
        monkeypatch.delenv(name)
    assert holds("list", "--stuck")[1].splitlines()[1].startswith(stuck.id)
    assert "request      GET /" in holds("show", stuck.id)[1]
    assert holds("retry", stuck.id)[0] == 1
    monkeypatch.delenv("FAREGATE_JOURNAL_KEY")
    code, said = holds("list")
    assert (code, said.startswith("faregate: The journal is encrypted: set FAREGATE_JOURNAL_KEY")) == (
        1,
        True,
    )


def test_a_payment_at_another_address_is_found_and_shown(
    seller: Seller, holds: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = seller.held()
    monkeypatch.setenv("FAREGATE_BASE_URL", "https://moved.example")
    code, said = holds("show", held.id)
    assert (code, "This payment is kept under test http://" in said) == (0, True)


def test_what_is_paid_and_not_fetched_is_listed(seller: Seller, holds: Run) -> None:
    sale = seller.held()
    assert seller.paywall().sweep().settled == 1
    _, row, _, summary = holds("list")[1].splitlines()
    assert re.fullmatch(rf"{sale.id}  paid, not fetched .* kept until \S+Z", row), row
    assert summary == "No unfinished payments. 1 paid and not fetched."
    found = json.loads(holds("list", "--unfetched", "--json")[1])
    assert (found["unfetched"], [one["transaction_id"] for one in found["holds"]]) == (1, [sale.id])
    assert sale.id not in holds("list", "--stuck")[1]


def test_a_url_cannot_give_orders_to_the_terminal() -> None:
    assert make_printable("GET /\x1b[2J\x9b?q=\xfc") == "GET /\\x1b[2J\\x9b?q=\xfc"


def test_every_status_has_an_answer() -> None:
    view: Any = SimpleNamespace(own=None)
    for status in PaymentStatus:
        payment = PaymentInfo("", status, "txn_1", "", "", "", "", 0.0, 1.0, 2.0, 0.0, "why", 0, 0, 3)
        summary, step = explain(payment, view)
        assert "{" not in summary + step


@pytest.mark.parametrize("action", [("retry",), ("discard", "--yes")])
def test_what_is_not_owed_is_said(seller: Seller, holds: Run, action: tuple[str, ...]) -> None:
    settled = seller.held()
    assert seller.paywall().sweep().looked_at == 1
    for unknown in (settled.id, "txn_unheard-of"):
        code, said = holds(*action, unknown)
        assert (code, said) == (
            1,
            f"faregate: There is no unfinished payment {unknown}: "
            "it has ended, or this journal never had it.\n",
        )


@pytest.mark.parametrize("wrong", [(), ("mend",), ("show",), ("discard",)])
def test_a_wrong_call_is_a_usage_error(holds: Run, wrong: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as end:
        holds(*wrong)
    assert end.value.code == 2


@pytest.mark.parametrize("wrong", [("discard", "x", "--paid", "--unpaid"), ("list", "--all", "--stuck")])
def test_options_that_exclude_each_other(holds: Run, wrong: tuple[str, ...]) -> None:
    code, said = holds(*wrong)
    assert (code, said.startswith("faregate: Use ")) == (2, True)


def test_nobody_can_look_into_the_memory_of_another(holds: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAREGATE_JOURNAL", "memory:")
    code, said = holds("list")
    assert code == 1
    assert said.startswith("faregate: The memory journal is in the seller's own process")


# Release


def test_what_the_service_proves_now_is_settled_and_waits_for_its_payer(seller: Seller, holds: Run) -> None:
    sale = seller.stuck()
    code, said = holds("retry", sale.id)
    assert (code, said) == (0, "Settled: its payer gets the result with the same payment.\n")
    assert served(sale) == (200, CONTENT.encode())
    assert (sale.plain.runs, seller.statuses()) == (1, {sale.id: "succeeded"})


def test_a_held_one_is_asked_for_before_its_time(seller: Seller, holds: Run) -> None:
    sale = seller.held(ago=0)
    assert seller.paywall().sweep().looked_at == 0
    assert holds("retry", sale.id)[0] == 0


def test_what_still_settles_is_kept(seller: Seller, holds: Run) -> None:
    sale = seller.stuck()
    seller.service.fails("transaction", changes(with_fields(status="settling", receipt=None)))
    assert holds("retry", sale.id) == (1, "Kept: the payment is still settling.\n")
    assert seller.state(sale) == "stuck"


def test_what_is_refused_again_is_kept(seller: Seller, holds: Run) -> None:
    sale = seller.stuck()
    seller.service.fails("transaction", UNKNOWN)
    seller.service.fails("complete", UNKNOWN)
    code, said = holds("retry", sale.id)
    assert (code, said.splitlines()[0]) == (1, f"Kept: {REFUSED}.")
    assert seller.state(sale) == "stuck"


def test_nothing_is_released_on_a_receipt_alone(seller: Seller, holds: Run) -> None:
    """The service says that it was paid, and will not prove it."""
    sale = seller.stuck()
    seller.service.fails("complete", answers(409, {"code": "conflict", "message": "Done already."}))
    code, said = holds("retry", sale.id)
    assert (code, said.splitlines()[0]) == (1, "Kept: completion was refused: 409 conflict.")
    assert seller.statuses() == {sale.id: "succeeded"}
    seller.service.fails("complete", answers(409, {"code": "conflict", "message": "Done already."}))
    assert served(sale)[0] == 409
    assert seller.state(sale) == "stuck"
    assert holds("retry", sale.id)[0] == 0


def test_a_service_that_does_not_answer_changes_nothing(seller: Seller, holds: Run) -> None:
    sale = seller.stuck()
    seller.service.fails("transaction", answers(500, {"code": "internal_error", "message": "Sorry."}))
    code, said = holds("retry", sale.id)
    assert (code, said.startswith("Kept: ")) == (1, True)
    assert seller.state(sale) == "stuck"


def test_a_payment_that_failed_is_closed(seller: Seller, holds: Run) -> None:
    sale = seller.stuck()
    seller.service.fails(
        "transaction", changes(with_fields(status="failed", receipt=None, **dict.fromkeys(SETTLEMENT)))
    )
    assert holds("retry", sale.id) == (0, "Closed: nothing was charged (payment_failed).\n")
    assert served(sale)[0] == 402


def test_a_payment_that_is_open_after_all_is_its_payers_to_use(seller: Seller, holds: Run) -> None:
    sale = seller.waiting()
    assert holds("retry", sale.id)[1].startswith("Kept: the payment is still open")
    assert served(sale) == (200, CONTENT.encode())
    assert seller.statuses() == {sale.id: "succeeded"}


def test_a_payment_that_settled_without_us_is_closed_as_paid(seller: Seller, holds: Run) -> None:
    sale = seller.waiting()
    seller.settles(sale)
    assert holds("retry", sale.id) == (0, "Closed: it was paid, and there is no result to deliver.\n")
    assert served(sale)[0] == 409
    [ended] = json.loads(holds("show", sale.id, "--json")[1])["payments"]
    assert ended["summary"] == "Paid, and there is no result to deliver. No work was done for it here."
    [found] = json.loads(holds("show", ended["transaction_hash"], "--json")[1])["payments"]
    assert (found["transaction_id"], found["reason"]) == (sale.id, "not_started")
    assert sale.plain.runs == 0


def test_one_that_somebody_works_on_is_left_to_them(seller: Seller, holds: Run) -> None:
    sale = seller.held()
    journal: Any = seller.paywall().journal
    assert journal.lease_hold(sale.id) is not None
    assert holds("show", sale.id)[0] == 0
    assert holds("retry", sale.id)[0] == 1
    assert holds("retry", sale.id)[1].startswith(
        f"faregate: {sale.id} is being worked on; it is free again in "
    )


def test_what_the_journal_could_not_write_is_not_called_final(
    seller: Seller, holds: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    sale = seller.stuck()

    def full(*_: Any) -> None:
        raise JournalError("there is no room on the disk")

    with monkeypatch.context() as patch:
        patch.setattr(SqliteJournal, "record_settlement", full)
        code, said = holds("retry", sale.id)
    assert (code, said.splitlines()[0]) == (
        1,
        "It has ended at the service, but the journal could not record that: run this again later.",
    )


# Drop


def test_a_stuck_one_is_given_up_and_its_payer_not_asked_again(seller: Seller, holds: Run) -> None:
    sale = seller.stuck()
    code, said = holds("discard", sale.id, "--yes")
    assert code == 0
    assert re.search(r"Its result \(\d\d B\) and its proof will be lost\.", said)
    assert "409 proof_already_used and is not asked to pay again" in said
    assert said.endswith("Discarded.\n")
    assert holds("list") == (0, "No unfinished payments.\n")
    assert served(sale)[0] == 409
    assert seller.paywall(ago=-DAY).sweep().looked_at == 0


def test_one_that_was_not_charged_may_be_paid_anew(seller: Seller, holds: Run) -> None:
    sale = seller.stuck()
    code, said = holds("discard", sale.id, "--unpaid", "--yes")
    assert (code, "the payer has paid twice" in said) == (0, True)
    assert served(sale)[0] == 402


def test_what_the_sweep_still_works_on_is_not_given_up(seller: Seller, holds: Run) -> None:
    sale = seller.held()
    code, said = holds("discard", sale.id, "--yes")
    assert (code, said.startswith(f"faregate: {sale.id} is not stuck (work done, unsettled)")) == (1, True)
    assert f"use holds retry {sale.id}" in said
    assert seller.state(sale) == "ok"


def test_without_a_terminal_it_must_be_said_that_it_is_meant(seller: Seller) -> None:
    sale = seller.stuck()
    asked = seller.run("holds", "discard", sale.id)
    said, complaint = asked.communicate(input="y\n", timeout=30)
    assert (asked.returncode, said, "add --yes" in complaint) == (2, "", True)
    assert seller.state(sale) == "stuck"


@pytest.mark.parametrize(("answer", "code", "state"), [("n", 1, "stuck"), ("", 1, "stuck"), ("y", 0, None)])
def test_on_a_terminal_one_is_asked(seller: Seller, answer: str, code: int, state: str | None) -> None:
    sale = seller.stuck()
    terminal, inside = pty.openpty()
    command = [sys.executable, "-m", "faregate", "holds", "discard", sale.id]
    asked = subprocess.Popen(
        command, env=os.environ | seller.environ, stdin=inside, stdout=subprocess.PIPE, text=True
    )
    os.write(terminal, f"{answer}\n".encode())
    said, _ = asked.communicate(timeout=30)
    os.close(terminal)
    os.close(inside)
    assert (asked.returncode, seller.state(sale)) == (code, state)
    assert "Discard it? [y/N]" in said


# The same from Flask and Django

FLASK = """
from flask import Flask
from faregate.flask import Faregate
from faregate.core.claim_types import Claimant

app = Flask(__name__)
Faregate(app)
"""

MANAGE = """
import sys
from django.conf import settings
from django.core.management import execute_from_command_line

settings.configure(INSTALLED_APPS=["faregate.django"], ROOT_URLCONF=__name__, SECRET_KEY="x" * 50)
urlpatterns = []
execute_from_command_line(["manage.py", "faregate_" + sys.argv[1], *sys.argv[2:]])
"""

FRONTS = {"flask": ["-m", "flask", "--app", "shop", "faregate"], "django": ["manage.py"]}


@pytest.mark.parametrize("front", FRONTS)
def test_frameworks_have_the_same_commands(seller: Seller, tmp_path: Path, front: str) -> None:
    (tmp_path / "shop.py").write_text(FLASK)
    (tmp_path / "manage.py").write_text(MANAGE)

    def run(*words: str) -> tuple[int, str, str]:
        done = run_preloaded([*FRONTS[front], *words], os.environ | seller.environ, tmp_path)
        return done.returncode, done.stdout, done.stderr

    stuck, held = seller.stuck(), seller.held()
    code, said, _ = run("holds", "list")
    assert (code, [one["transaction_id"] for one in json.loads(said)["holds"]]) == (0, [stuck.id, held.id])
    assert run("sweep", "--json")[:2] == (
        0,
        '{"looked_at": 1, "settled": 1, "failed": 0, "held": 0, "expired": 0, "stuck": {}}\n',
    )
    code, _, complaint = run("holds", "discard", stuck.id)
    assert (code, "add --yes" in complaint) == (2, True)
    [shown] = json.loads(run("holds", "show", held.id)[1])["payments"]
    assert shown["summary"] == "Paid, and the result was not fetched yet."
    code, _, complaint = run("holds", "retry", held.id)
    assert (code, "There is no unfinished payment" in complaint, "Traceback" in complaint) == (1, True, False)
    assert run("holds", "retry", stuck.id)[:2] == (
        0,
        "Settled: its payer gets the result with the same payment.\n",
    )


@pytest.mark.parametrize(
    ("app", "settings", "says"),
    [
        (
            "from flask import Flask\napp = Flask(__name__)\n",
            {},
            "This Flask app has no paywall: call Faregate(app)",
        ),
        (FLASK, {"FAREGATE_BASE_URL": ""}, "Where is the merchant service? Set FAREGATE_BASE_URL"),
    ],
)
def test_flask_says_what_keeps_an_app_from_its_commands(
    app: str, settings: dict[str, str], says: str, seller: Seller, tmp_path: Path
) -> None:
    (tmp_path / "shop.py").write_text(app)
    words = [*FRONTS["flask"], "holds", "list"]
    done = run_preloaded(words, os.environ | seller.environ | settings, tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"Error: {says}")
    assert "Traceback" not in done.stderr

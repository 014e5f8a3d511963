"""Keys and backends of one process: who may call, what is settled by whom, and how long a caller waits."""

import json
import threading
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from sqlalchemy import Engine, event

from faregate.core.models import Response, WireRequest
from faregate.emulator import Wallet
from faregate.rules.app import respond
from faregate.rules.builtin_account import builtin_account
from faregate.rules.dependencies import Dependencies
from faregate.rules.payments import Attempt, Reservation, SettlementPending
from faregate.rules.records import Transaction
from faregate.service import served_accounts
from faregate.service.commands.setup import apply_seller
from faregate.service.database.clock import Stamps
from faregate.service.database.engine import Database, LostConnection
from faregate.service.database.keys import create_key
from faregate.service.database.sql_store import SqlStore
from faregate.service.database.upgrade import upgrade
from faregate.service.runtime import Runtime
from faregate.service.settings import Settings
from faregate.service.settlement_workers import CompletionWaiters, Settlements
from faregate.service.simulated_payments import SimulatedPayments
from faregate.service.storage import Storage
from faregate.system import system_clock
from faregate.x402.headers import build_payment_required, parse_payment
from faregate.x402.tokens import Environment
from tests.service import sales
from tests.service.sales import resolve
from tests.support.waiting import PATIENCE, eventually
from tests.support.watched_backend import Around, Call, watch


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    url = f"sqlite:///{tmp_path / 'service.db'}"
    upgrade(url)
    database = Database(url)
    storage = Storage(database, Stamps(database, system_clock))
    apply_seller(storage, builtin_account())
    return storage


def make_key(storage: Storage, environment: Environment) -> str:
    account = storage.find_account(environment, None)
    with storage.database.write() as connection:
        return create_key(connection, account, system_clock()).secret


def build_access_call(storage: Storage, account: SqlStore) -> WireRequest:
    context = resolve(account)
    instructions = build_payment_required(context.terms, context.request.resource, "pay", "ab" * 32)
    headers = (
        ("Authorization", f"Bearer {make_key(storage, 'test')}"),
        ("Content-Type", "application/json"),
        ("PAYMENT-SIGNATURE", Wallet().pay(instructions)),
    )
    return WireRequest("POST", "/merchant/v1/access", headers, context.request.model_dump_json().encode())


def ask(runtime: Runtime, key: str) -> int:
    headers = (("Authorization", f"Bearer {key}"),)
    return respond(WireRequest("GET", "/merchant/v1/payers", headers), runtime.accounts).status


def test_live_keys_are_refused_where_payments_are_simulated(storage: Storage) -> None:
    runtime = Runtime(Settings(), storage, {})
    assert ask(runtime, make_key(storage, "test")) == 200
    assert ask(runtime, make_key(storage, "live")) == 401
    assert ask(runtime, "svc_test_unknown") == 401
    runtime.end()


def test_a_database_that_is_away_is_503() -> None:
    database = Database("postgresql://nobody@127.0.0.1:1/none", timeout=2)
    runtime = Runtime(Settings(), Storage(database, Stamps(database, system_clock)), {})
    assert ask(runtime, "svc_test_any") == 503
    assert not runtime.check_readiness().is_ready
    assert b"faregate_service_database_up 0.0" in runtime.metrics.render()
    runtime.end()


def test_a_database_without_tables_is_not_ready(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'new.db'}")
    runtime = Runtime(Settings(), Storage(database, Stamps(database, system_clock)), {})
    assert "lacks migrations" in runtime.check_readiness().reason
    runtime.end()


def test_a_database_that_takes_no_writes_is_not_ready(storage: Storage, tmp_path: Path) -> None:
    hurried = Database(f"sqlite:///{tmp_path / 'service.db'}", timeout=0.2)
    runtime = Runtime(Settings(), Storage(hurried, Stamps(hurried, system_clock)), {})
    with storage.database.write():
        assert "has been writing" in runtime.check_readiness().reason
    assert runtime.check_readiness().is_ready
    runtime.end()


def watch_calls(patch: pytest.MonkeyPatch, around: Around) -> None:
    """Have `around` make the calls of the rules, in every runtime that is made from now on."""
    patch.setattr(served_accounts, "Dependencies", lambda *parts: watch(Dependencies(*parts), around))


def test_a_database_that_goes_away_after_the_key_was_found_is_503(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def tear(call: Call) -> Any:
        if call.name == "list_payers":
            raise LostConnection("the connection ended")
        return call.perform()

    watch_calls(monkeypatch, tear)
    runtime = Runtime(Settings(), storage, {})
    assert ask(runtime, make_key(storage, "test")) == 503
    runtime.end()


def test_a_proof_whose_payment_was_faster_finds_its_transaction(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two calls bring one proof. While the second is verified, the transfer of the first happens."""
    answers: list[Response] = []

    def verify_late(call: Call) -> Any:
        if call.name == "verify" and not answers:
            answers.append(Response(0))
            answers[0] = respond(access, runtime.accounts)
            payment, terms = call.positional
            SimulatedPayments(storage.database, account.account.id).send(
                payment, terms, Attempt(system_clock())
            )
        return call.perform()

    watch_calls(monkeypatch, verify_late)
    runtime = Runtime(Settings(), storage, {})
    account = next(store for store in runtime.accounts.open_stores() if store.environment == "test")
    access = build_access_call(storage, account)
    late = respond(access, runtime.accounts)
    [first] = answers
    assert (first.status, late.status) == (200, 200)
    assert late.body == first.body
    runtime.end()


def test_funds_that_another_payment_took_meanwhile_are_refused(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its balance was read, and then another payment of the payer was authorized, and settled."""

    def spend(call: Call) -> Any:
        verdict = call.perform()
        if call.name != "verify":
            return verdict
        payment = call.positional[0]
        sales.settle(account, payment.payer)
        return replace(verdict, funds=payment.value)

    watch_calls(monkeypatch, spend)
    runtime = Runtime(Settings(), storage, {})
    account = next(store for store in runtime.accounts.open_stores() if store.environment == "test")
    late = respond(build_access_call(storage, account), runtime.accounts)
    assert late.status == 402
    assert b"the payer has not enough USDC" in late.body
    runtime.end()


def test_a_payment_that_ended_meanwhile_is_counted_once(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its transfer had left the balance that was read, and then the books learned of it."""
    verified: list[dict[str, Any]] = []

    def end_first(call: Call) -> Any:
        verdict = call.perform()
        if call.name != "verify":
            return verdict
        if not verified:
            assert account.begin_attempt(first) is not None
            account.record_settled(first, sales.HASH, None)
        verified.append(dict(call.named or {}))
        return replace(verdict, funds=call.positional[0].value)

    watch_calls(monkeypatch, end_first)
    runtime = Runtime(Settings(), storage, {})
    account = next(store for store in runtime.accounts.open_stores() if store.environment == "test")
    access = build_access_call(storage, account)
    first = sales.submit(account, parse_payment(dict(access.headers)["PAYMENT-SIGNATURE"]).payer)
    assert respond(access, runtime.accounts).status == 200
    assert verified[0]["reservations"] == (Reservation(first.payment.nonce, first.payment.value),)
    assert [each["committed"] for each in verified] == [first.payment.value, 0]
    runtime.end()


def test_an_open_payment_is_not_verified_again(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own transfer may have emptied the payer: the payer is told to wait, and not to pay again."""
    verified: list[Call] = []

    def count(call: Call) -> Any:
        if call.name == "verify":
            verified.append(call)
        return call.perform()

    watch_calls(monkeypatch, count)
    runtime = Runtime(Settings(), storage, {})
    account = next(store for store in runtime.accounts.open_stores() if store.environment == "test")
    access = build_access_call(storage, account)
    assert respond(access, runtime.accounts).status == 200
    open_one = account.find_by_proof(dict(access.headers)["PAYMENT-SIGNATURE"])
    assert open_one is not None
    recorded = account.record_outcome(open_one, sales.succeeded(open_one))
    assert recorded is not None
    attempt = account.begin_attempt(recorded)
    assert attempt is not None
    account.postpone(recorded, attempt, SettlementPending(), None)
    assert (respond(access, runtime.accounts).status, len(verified)) == (202, 1)
    runtime.end()


def test_between_the_report_and_the_settlement_callers_are_told_to_wait(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither work nor a result is released meanwhile, and nobody else settles it."""
    answers: list[Response] = []

    def ask_meanwhile(call: Call) -> Any:
        if call.name == "find_settlement_rule":
            answers.extend(respond(each, runtime.accounts) for each in (complete, access, get))
        return call.perform()

    watch_calls(monkeypatch, ask_meanwhile)
    runtime = Runtime(Settings(), storage, {})
    account = next(store for store in runtime.accounts.open_stores() if store.environment == "test")
    access = build_access_call(storage, account)
    allowed = json.loads(respond(access, runtime.accounts).body)["transaction_id"]
    path = f"/merchant/v1/transactions/{allowed}"
    body = sales.succeeded(account.find_transaction(allowed) or cast(Any, None)).model_dump_json().encode()
    complete = WireRequest("POST", f"{path}/complete", access.headers, body)
    get = WireRequest("GET", path, access.headers)
    first = respond(complete, runtime.accounts)
    assert (first.status, json.loads(first.body)["status"]) == (200, "succeeded")
    assert [answer.status for answer in answers] == [202, 202, 200]
    assert [json.loads(answers[n].body)["status"] for n in (0, 2)] == ["settling"] * 2
    assert respond(complete, runtime.accounts) == first
    runtime.end()


def test_workers_ask_once_while_nothing_is_due_however_many_sellers_there_are(
    storage: Storage, request: pytest.FixtureRequest
) -> None:
    account = builtin_account()
    for seller_id in (account.seller.id, *(f"shop-{number}" for number in range(20))):
        seller = account.seller.model_copy(update={"id": seller_id or "first"})
        apply_seller(storage, account.model_copy(update={"seller": seller}))
    runtime = Runtime(Settings(), storage, {})
    asked: list[str] = []

    def watch(_c: object, _u: object, statement: str, *_: object) -> None:
        if statement.startswith("SELECT"):
            asked.append(statement)

    event.listen(Engine, "before_cursor_execute", watch)
    request.addfinalizer(lambda: event.remove(Engine, "before_cursor_execute", watch))
    assert runtime.accounts.take() is None
    assert len(asked) == 1
    runtime.end()


class _Known:
    """Stands for a transaction, and for the store that finds it."""

    id = "txn_1"
    settled = None

    def __init__(self, status: str) -> None:
        self.status = status

    def find_transaction(self, _: str) -> "_Known":
        return self


def settle(known: _Known, seconds: float, gate: threading.Event) -> str:
    """Settle by an operation that waits for the gate; return the status that the caller gets."""
    settlements = Settlements(
        threads=1, complete_seconds=seconds, waiters=CompletionWaiters(), observe=lambda _: None
    )
    transaction = cast(Transaction, known)

    def settle_slowly(_: Dependencies) -> Transaction:
        gate.wait(2 * PATIENCE)
        return transaction

    backend = Dependencies(cast(Any, known), cast(Any, None))
    found = settlements.settle(settle_slowly, transaction, backend)
    was_open = gate.is_set()
    gate.set()
    settlements.close()
    return found.status if was_open else f"{found.status}, before the gate"


def test_a_completion_waits_no_longer_than_it_may() -> None:
    assert settle(_Known("settling"), 0.3, threading.Event()) == "settling, before the gate"


def test_a_completion_returns_when_its_payment_has_ended() -> None:
    gate = threading.Event()
    gate.set()
    began = time.monotonic()
    assert settle(_Known("succeeded"), 4 * PATIENCE, gate) == "succeeded"
    assert time.monotonic() - began < 2 * PATIENCE


@dataclass
class _Timeline:
    """A clock that only waiting moves, and the store and the waiters of a payment that never ends."""

    now_seconds: float = 1000.0
    submitted_at: datetime | None = None
    status: str = "settling"
    id: str = "txn_1"

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.now_seconds, UTC)

    def find_transaction(self, _: str) -> "_Timeline":
        return self

    def wait(self, _: str, seconds: float) -> None:
        self.now_seconds += seconds


@pytest.mark.parametrize(
    ("submitted_ago", "waited"), [(None, 10), (0, 10), (4, 6), (10, 0), (12, 0), (-5, 10)]
)
def test_a_late_caller_waits_no_longer_than_the_first(submitted_ago: int | None, waited: float) -> None:
    timeline = _Timeline()
    if submitted_ago is not None:
        timeline.submitted_at = timeline.now() - timedelta(seconds=submitted_ago)
    settlements = Settlements(
        threads=1,
        complete_seconds=10,
        waiters=cast(Any, timeline),
        observe=lambda _: None,
        clock=lambda: timeline.now_seconds,
    )
    backend = Dependencies(cast(Any, timeline), cast(Any, None))
    assert settlements.wait(cast(Transaction, timeline), backend).status == "settling"
    assert timeline.now_seconds - 1000 == waited
    settlements.close()


def test_waiting_completions_leave_threads_for_other_calls() -> None:
    gate = threading.Event()
    settlements = Settlements(
        threads=4, complete_seconds=2 * PATIENCE, waiters=CompletionWaiters(), observe=lambda _: None
    )
    known = _Known("settling")
    transaction = cast(Transaction, known)

    def settle_slowly(_: Dependencies) -> Transaction:
        gate.wait(2 * PATIENCE)
        return transaction

    def complete() -> None:
        settlements.settle(settle_slowly, transaction, Dependencies(cast(Any, known), cast(Any, None)))

    waiting = [threading.Thread(target=complete) for _ in range(4)]
    for thread in waiting:
        thread.start()
    assert eventually(lambda: sum(thread.is_alive() for thread in waiting) == 3)
    assert not eventually(lambda: sum(thread.is_alive() for thread in waiting) < 3, 1)
    known.status = "succeeded"
    gate.set()
    for thread in waiting:
        thread.join()
    settlements.close()

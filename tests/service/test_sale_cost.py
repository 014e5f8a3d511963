"""What one sale has the database do, counted: these figures are the same on any machine."""

import sqlite3
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from faregate.core.models import WireRequest
from faregate.emulator import Wallet
from faregate.rules.app import respond
from faregate.rules.builtin_account import builtin_account
from faregate.rules.payments import Attempt, PaymentSent, PaymentSettled, PaymentVerified
from faregate.service.commands.setup import apply_seller
from faregate.service.database.clock import Stamps
from faregate.service.database.engine import Database
from faregate.service.database.keys import create_key
from faregate.service.database.upgrade import upgrade
from faregate.service.environment_payments import EnvironmentPayments
from faregate.service.runtime import Runtime
from faregate.service.settings import Settings
from faregate.service.storage import Storage
from faregate.system import system_clock
from faregate.x402.headers import build_payment_required
from faregate.x402.models import SignedPayment, Terms
from tests.service.sales import resolve

NOWHERE = "http://127.0.0.1:9"


class Settled:
    """Payments that are good, and settled at once."""

    def verify(self, payment: SignedPayment, terms: Terms, **_: Any) -> PaymentVerified:
        return PaymentVerified(payment.payer, 1, 10**12)

    def look(self, payment: SignedPayment, terms: Terms, attempt: Attempt) -> PaymentSettled:
        return PaymentSettled(attempt.hashes[-1])

    def get_gas_account(self, terms: Terms) -> None:
        return None

    def send(self, payment: SignedPayment, terms: Terms, attempt: Attempt) -> PaymentSent:
        return PaymentSent(payment.nonce, "HTTP 200 success")


@dataclass
class Trace:
    """What connections of SQLite did: statements, and whether each commit was synced."""

    statements: list[str] = field(default_factory=list[str])
    synced: list[bool] = field(default_factory=list[bool])

    def connect(self, *given: Any, **named: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = _connect(*given, **named)
        is_synced = True

        def trace(statement: str) -> None:
            nonlocal is_synced
            self.statements.append(statement)
            if statement.startswith("PRAGMA synchronous"):
                is_synced = "FULL" in statement
            commits = statement.startswith(("INSERT", "UPDATE")) and not connection.in_transaction
            if statement == "COMMIT" or commits:
                self.synced.append(is_synced)

        connection.set_trace_callback(trace)
        return connection


_connect = sqlite3.connect


@pytest.mark.parametrize(
    ("is_synced_by_journal", "synced"),
    [(False, [True] * 4), (True, [False, True, False, False])],
    ids=["alone", "beside the journal"],
)
def test_a_sale_is_four_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_synced_by_journal: bool, synced: list[bool]
) -> None:
    """The authorization; the outcome and the first attempt; the answer to what was sent; and the receipt.

    Beside a journal in the same file, only what is about to be sent is synced: the journal syncs the rest.
    """
    trace = Trace()
    for module in (sqlite3, sqlite3.dbapi2):
        monkeypatch.setattr(module, "connect", trace.connect)
    url = f"sqlite:///{tmp_path / 'service.db'}"
    upgrade(url)
    database = Database(url)
    storage = Storage(database, Stamps(database, system_clock))
    apply_seller(storage, builtin_account())
    account = storage.find_account("test", None)
    with database.write() as connection:
        key = create_key(connection, account, system_clock()).secret
    settings = Settings(payments="facilitator", rpc_test=(NOWHERE,), facilitator_test=(NOWHERE,))
    payments: Any = EnvironmentPayments("test", Settled(), None)  # type: ignore[arg-type]
    runtime = Runtime(settings, storage, {"test": payments}, is_synced_by_journal=is_synced_by_journal)
    [store] = runtime.accounts.open_stores()
    context, wallet = resolve(store), Wallet()

    def sell() -> None:
        proof = wallet.pay(build_payment_required(context.terms, context.request.resource, "pay", "ab" * 32))
        headers = (("Authorization", f"Bearer {key}"), ("PAYMENT-SIGNATURE", proof))
        body = context.request.model_dump_json().encode()
        made = respond(WireRequest("POST", "/merchant/v1/access", headers, body), runtime.accounts)
        assert made.status == 200, made
        transaction = store.find_by_proof(proof)
        assert transaction is not None
        trace.statements.clear()
        path = f"/merchant/v1/transactions/{transaction.id}/complete"
        given = b'{"revision_id": "%s", "outcome": "succeeded", "values": {}}' % context.revision.id.encode()
        ended = respond(WireRequest("POST", path, headers, given), runtime.accounts)
        assert ended.status == 200, ended

    sell()
    trace.synced.clear()
    sell()
    assert trace.synced == synced
    kinds = [statement.split()[0] for statement in trace.statements]
    assert kinds == [
        *("SELECT", "SELECT"),  # the key; the transaction
        *("BEGIN", "UPDATE", "INSERT", "COMMIT"),  # the outcome, and the attempt
        *("UPDATE", "UPDATE"),  # what it was answered; the receipt
    ]
    runtime.end()
    database.close()

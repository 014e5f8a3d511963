"""Several calls complete one real payment at once: one attempt is made, and all wait for its result."""

import json
import threading
import time
from collections import Counter
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from faregate.core.models import Response, WireRequest
from faregate.emulator import Wallet
from faregate.rules.app import respond
from faregate.rules.builtin_account import builtin_account
from faregate.rules.payments import PaymentSent, PaymentSettled, PaymentVerified, SettlementPending
from faregate.service.commands.setup import apply_seller
from faregate.service.database.clock import Stamps
from faregate.service.database.engine import Database
from faregate.service.database.keys import create_key
from faregate.service.environment_payments import EnvironmentPayments
from faregate.service.runtime import Runtime
from faregate.service.settings import Settings
from faregate.service.settlement_workers import CompletionWaiters
from faregate.service.storage import Storage
from faregate.system import system_clock
from faregate.x402.headers import build_payment_required
from tests.service.sales import HASH, resolve, succeeded
from tests.support.waiting import eventually

pytestmark = pytest.mark.every_value
CALLERS = 6
CHAIN = "http://127.0.0.1:1"


@dataclass
class SlowPayments:
    """A facilitator that answers once `gate` is set, and a chain that then has the transfer."""

    gate: threading.Event = field(default_factory=threading.Event)
    sent: list[str] = field(default_factory=list[str])
    settles: bool = True

    def verify(self, payment: Any, terms: Any, **_: Any) -> PaymentVerified:
        return PaymentVerified(payment.payer, 1)

    def get_gas_account(self, terms: Any) -> None:
        return None

    def sign(self, *_: Any) -> None:
        return None

    def send(self, payment: Any, terms: Any, attempt: Any) -> PaymentSent:
        self.sent.append(payment.nonce)
        self.gate.wait(20)
        return PaymentSent(HASH if self.settles else None, "sent")

    def list_facilitators(self, token: Any, now: Any) -> tuple[str, ...]:
        return ()

    def is_used(self, payment: Any, terms: Any) -> bool:
        return False

    def look(self, payment: Any, terms: Any, attempt: Any) -> PaymentSettled | SettlementPending:
        return PaymentSettled(HASH) if HASH in attempt.hashes else SettlementPending()


@dataclass
class Shop:
    runtime: Runtime
    payments: SlowPayments
    key: str

    def authorize(self) -> WireRequest:
        """Let a payer pay; return the call that completes its transaction."""
        [store] = [one for one in self.runtime.accounts.open_stores() if one.environment == "test"]
        context = resolve(store)
        instructions = build_payment_required(context.terms, context.request.resource, "pay", "ab" * 32)
        headers = (
            ("Authorization", f"Bearer {self.key}"),
            ("PAYMENT-SIGNATURE", Wallet().pay(instructions)),
        )
        body = context.request.model_dump_json().encode()
        allowed = self.call(WireRequest("POST", "/merchant/v1/access", headers, body))
        made = json.loads(allowed.body)["transaction_id"]
        found = store.find_transaction(made)
        assert found is not None
        path = f"/merchant/v1/transactions/{made}/complete"
        return WireRequest("POST", path, headers, succeeded(found).model_dump_json().encode())

    def call(self, request: WireRequest) -> Response:
        return respond(request, self.runtime.accounts)


def open_shop(database: Database, complete_seconds: float, payments: SlowPayments | None = None) -> Shop:
    storage = Storage(database, Stamps(database, system_clock))
    apply_seller(storage, builtin_account())
    with database.write() as connection:
        key = create_key(connection, storage.find_account("test", None), system_clock()).secret
    payments = payments or SlowPayments()
    of_test = EnvironmentPayments("test", payments, cast(Any, None))
    settings = Settings(
        payments="facilitator",
        facilitator_test=(CHAIN,),
        rpc_test=(CHAIN,),
        complete_seconds=complete_seconds,
        threads=16,
    )
    return Shop(Runtime(settings, storage, {"test": of_test}), payments, key)


@pytest.fixture
def shop(database: Database) -> Generator[Shop]:
    made = open_shop(database, 10)
    yield made
    made.payments.gate.set()
    made.runtime.end()


def test_all_callers_get_the_result_of_one_attempt(shop: Shop) -> None:
    complete = shop.authorize()
    with ThreadPoolExecutor(CALLERS) as pool:
        calls = [pool.submit(shop.call, complete) for _ in range(CALLERS)]
        time.sleep(0.5)
        assert not any(call.done() for call in calls)
        shop.payments.gate.set()
        answers = [call.result() for call in calls]
    assert [answer.status for answer in answers] == [200] * CALLERS
    assert answers == [answers[0]] * CALLERS
    assert len(shop.payments.sent) == 1


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Waits of half a second at most, by thread: a slow machine makes them fewer, and never more."""
    counted = Counter[str]()
    wait = CompletionWaiters.wait

    def count(self: CompletionWaiters, transaction_id: str, seconds: float) -> None:
        counted[threading.current_thread().name] += 1
        wait(self, transaction_id, seconds)

    monkeypatch.setattr(CompletionWaiters, "wait", count)
    return counted


def test_a_late_caller_waits_no_longer_than_the_first(database: Database, waits: Counter[str]) -> None:
    shop = open_shop(database, 2.0)
    complete = shop.authorize()
    caller = threading.current_thread().name
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(shop.call, complete)
        assert eventually(lambda: len(shop.payments.sent) == 1)
        time.sleep(1.25)
        late = shop.call(complete)
        assert late.status == first.result().status == 202
    assert waits[caller] <= 3, "those of a first caller are four or five"
    waits.clear()
    assert shop.call(complete).status == 202
    assert waits[caller] == 0
    shop.payments.gate.set()
    shop.runtime.end()
    assert len(shop.payments.sent) == 1


def test_reading_a_transaction_waits_for_nothing(shop: Shop, waits: Counter[str]) -> None:
    complete = shop.authorize()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(shop.call, complete)
        assert eventually(lambda: len(shop.payments.sent) == 1)
        path = complete.path.removesuffix("/complete")
        found = shop.call(WireRequest("GET", path, complete.headers))
        assert json.loads(found.body)["status"] == "settling"
        assert waits[threading.current_thread().name] == 0
        shop.payments.gate.set()

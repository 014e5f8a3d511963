"""A seller reports that work was cut off: the chain is asked whether its payment has settled before."""

import json
from collections.abc import Generator
from dataclasses import replace
from typing import Any

import pytest

from faregate.core.models import Response, WireRequest
from faregate.rules.payments import PaymentRefused, PaymentSettled, PaymentsUnavailable, SettlementPending
from faregate.service.database.engine import Database
from tests.service.sales import HASH
from tests.service.test_repeated_completions import Shop, SlowPayments, open_shop

pytestmark = pytest.mark.every_value
SETTLED = PaymentSettled(HASH)


class OtherChain(SlowPayments):
    """A chain that says what it is told to say of each authorization; `used` may be an error."""

    used: bool | Exception = True
    seen: object = SETTLED

    def is_used(self, payment: Any, terms: Any) -> bool:
        if isinstance(self.used, Exception):
            raise self.used
        return self.used

    def look(self, payment: Any, terms: Any, attempt: Any) -> Any:
        return self.seen


@pytest.fixture
def chain() -> OtherChain:
    return OtherChain()


@pytest.fixture
def shop(database: Database, chain: OtherChain) -> Generator[Shop]:
    made = open_shop(database, 10, chain)
    yield made
    made.runtime.end()


def report(shop: Shop, complete: WireRequest, failure_code: str = "interrupted") -> Response:
    revision = json.loads(complete.body or b"{}")["revision_id"]
    failed = {"revision_id": revision, "outcome": "failed", "failure_code": failure_code}
    return shop.call(replace(complete, body=json.dumps(failed).encode()))


def test_a_payment_that_has_settled_succeeds(shop: Shop) -> None:
    complete = shop.authorize()
    for _ in range(2):
        answer = report(shop, complete)
        assert (answer.status, json.loads(answer.body)["status"]) == (200, "succeeded")
        assert answer.first("payment-response")
    assert shop.payments.sent == []


@pytest.mark.parametrize(
    ("used", "seen"), [(False, SETTLED), (True, PaymentRefused("the payer cancelled the authorization"))]
)
def test_a_payment_that_has_not_settled_fails(
    shop: Shop, chain: OtherChain, used: bool, seen: object
) -> None:
    chain.used, chain.seen = used, seen
    answer = report(shop, shop.authorize())
    assert (answer.status, json.loads(answer.body)["status"]) == (200, "failed")


@pytest.mark.parametrize(
    ("used", "seen"), [(PaymentsUnavailable("no node"), SETTLED), (True, SettlementPending())]
)
def test_nothing_is_decided_while_the_chain_proves_nothing(
    shop: Shop, chain: OtherChain, used: bool | Exception, seen: object
) -> None:
    chain.used, chain.seen = used, seen
    complete = shop.authorize()
    answer = report(shop, complete)
    assert (answer.status, answer.first("retry-after")) == (503, "1")
    path = complete.path.removesuffix("/complete")
    read = shop.call(WireRequest("GET", path, complete.headers))
    assert json.loads(read.body)["status"] == "authorized"
    chain.used = False
    assert json.loads(report(shop, complete).body)["status"] == "failed"


def test_of_work_that_failed_before_its_seller_nothing_is_asked(shop: Shop, chain: OtherChain) -> None:
    chain.used = PaymentsUnavailable("no node")
    answer = report(shop, shop.authorize(), "handler_error")
    assert (answer.status, json.loads(answer.body)["status"]) == (200, "failed")

"""Every kind of fault over a real socket: what the seller sees, and what the service has done by then."""

from collections.abc import Iterator
from dataclasses import replace
from time import monotonic

import httpx
import pytest

from faregate.core.instructions import are_unguessable
from faregate.emulator import Fault, SettlementRule
from faregate.x402.headers import remove_challenge

from .seller import Purchase, Shop, assert_error, decoded

BROKEN = (httpx.ReadError, httpx.RemoteProtocolError)


@pytest.fixture
def hasty(shop: Shop) -> Iterator[Shop]:
    """A seller who does not wait for long."""
    with httpx.Client(base_url=shop.http.base_url, timeout=0.2, trust_env=False) as client:
        yield replace(shop, http=client)


def status_of(shop: Shop, bought: Purchase) -> str:
    return str(shop.transaction(bought)["status"])


def test_latency_is_after_the_service_has_acted(shop: Shop, hasty: Shop) -> None:
    first, second = shop.buy(), shop.buy()
    shop.emulator.faults.add(Fault(kind="latency", seconds=0.3, operation="complete", times=2))
    began = monotonic()
    assert shop.complete(first).json()["status"] == "succeeded"
    assert monotonic() - began >= 0.3
    with pytest.raises(httpx.ReadTimeout):
        hasty.complete(second)
    assert status_of(shop, second) == "succeeded"


@pytest.mark.parametrize(("when", "status"), [("before", "authorized"), ("after", "succeeded")])
def test_silence(shop: Shop, hasty: Shop, when: str, status: str) -> None:
    bought = shop.buy()
    shop.emulator.faults.add(Fault.model_validate({"kind": "silence", "when": when, "operation": "complete"}))
    with pytest.raises(httpx.ReadTimeout):
        hasty.complete(bought)
    assert status_of(shop, bought) == status
    assert shop.emulator.calls()[-2].fault == "silence-1"
    assert shop.complete(bought).json()["status"] == "succeeded"


@pytest.mark.parametrize(("when", "status"), [("before", "authorized"), ("after", "succeeded")])
def test_reset(shop: Shop, when: str, status: str) -> None:
    bought = shop.buy()
    shop.emulator.faults.add(Fault.model_validate({"kind": "reset", "when": when, "operation": "complete"}))
    with pytest.raises(httpx.ReadError, match="reset by peer"):
        shop.complete(bought)
    assert status_of(shop, bought) == status
    assert shop.complete(bought).json()["status"] == "succeeded"


def test_cut(shop: Shop) -> None:
    bought = shop.buy()
    shop.emulator.faults.add(Fault(kind="cut", operation="complete"))
    with pytest.raises(httpx.RemoteProtocolError, match="without sending complete message body"):
        shop.complete(bought)
    assert status_of(shop, bought) == "succeeded"


def test_too_many_requests(shop: Shop) -> None:
    proof = shop.proof()
    shop.emulator.faults.add(Fault(kind="status", status=429, retry_after=17, operation="access"))
    refused = shop.access(proof=proof)
    assert_error(refused, 429, "invalid_request")
    assert refused.headers["retry-after"] == "17"
    assert shop.listed("/transactions")["count"] == 0
    assert shop.access(proof=proof).status_code == 200


@pytest.mark.parametrize(("when", "status"), [("before", "authorized"), ("after", "succeeded")])
@pytest.mark.parametrize("code", [500, 502, 503, 504, 599])
def test_server_errors(shop: Shop, when: str, status: str, code: int) -> None:
    bought = shop.buy()
    told = {"kind": "status", "status": code, "when": when, "operation": "complete"}
    shop.emulator.faults.add(Fault.model_validate(told))
    assert_error(shop.complete(bought), code, "internal_error")
    assert status_of(shop, bought) == status


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, "invalid_request"),
        (401, "unauthenticated"),
        (402, "payment_required"),
        (403, "forbidden"),
        (404, "transaction_not_found"),
        (409, "invalid_request"),
        (422, "invalid_request"),
    ],
)
def test_other_errors_have_the_contracts_codes(shop: Shop, status: int, code: str) -> None:
    bought = shop.buy()
    shop.emulator.faults.add(Fault(kind="status", status=status, operation="complete"))
    assert_error(shop.complete(bought), status, code)
    assert status_of(shop, bought) == "authorized"


def test_who_has_paid_is_asked_again_at_access(shop: Shop) -> None:
    proof, unpaid = shop.proof(), shop.access()
    shop.emulator.faults.add(Fault(kind="second-402"))
    assert assert_error(shop.access(), 402, "payment_required") == unpaid.json()["message"]
    assert shop.emulator.faults
    again = shop.access(proof=proof)
    assert_error(again, 402, "payment_required")
    assert remove_challenge(again.headers["payment-required"]) == remove_challenge(
        unpaid.headers["payment-required"]
    )
    assert are_unguessable(again.headers["payment-required"], unpaid.headers["payment-required"])
    assert shop.listed("/transactions")["items"][0]["status"] == "authorized"
    assert shop.access(proof=proof).json()["transaction_id"]


def test_what_is_free_is_not_asked_for(shop: Shop) -> None:
    proof = shop.proof()
    rule = shop.emulator.faults.add(Fault(kind="second-402"))
    assert shop.access("free_notes", proof).json()["transaction_id"] is None
    assert rule.seen == 0


@pytest.mark.parametrize(("when", "status"), [("before", "authorized"), ("after", "succeeded")])
def test_who_has_paid_is_asked_again_at_complete(shop: Shop, when: str, status: str) -> None:
    first = shop.instructions()
    bought = shop.buy()
    shop.emulator.faults.add(Fault.model_validate({"kind": "second-402", "when": when}))
    again = shop.complete(bought)
    assert_error(again, 402, "payment_required")
    second = again.headers["payment-required"]
    [accepts, others] = (decoded(remove_challenge(one))["accepts"] for one in (first, second))
    assert accepts == others
    assert are_unguessable(first, second)
    assert status_of(shop, bought) == status


def test_garbage(shop: Shop) -> None:
    bought = shop.buy()
    shop.emulator.faults.add(Fault(kind="garbage", operation="complete"))
    answer = shop.complete(bought)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert int(answer.headers["content-length"]) == len(answer.content) > 0
    with pytest.raises(ValueError, match=r"codec|Expecting"):
        answer.json()
    assert status_of(shop, bought) == "succeeded"


def test_a_missing_header(shop: Shop) -> None:
    bought = shop.buy()
    shop.emulator.faults.add(Fault(kind="missing-header", header="Payment-Response"))
    assert shop.access().status_code == 402
    answer = shop.complete(bought)
    assert answer.json()["payment_response"]
    assert "payment-response" not in answer.headers
    assert "payment-response" in shop.complete(bought).headers


@pytest.mark.parametrize("value", [None, "bm90IHRoaXM="])
def test_a_doubled_header_is_twice_on_the_wire(shop: Shop, value: str | None) -> None:
    bought = shop.buy()
    shop.emulator.faults.add(Fault(kind="doubled-header", header="PAYMENT-RESPONSE", value=value))
    answer = shop.complete(bought)
    first = answer.json()["payment_response"]
    found = [told for name, told in answer.headers.raw if name == b"payment-response"]
    assert found == [first.encode(), (value or first).encode()]


def test_a_changed_body(shop: Shop) -> None:
    bought = shop.buy()
    shop.emulator.faults.add(Fault(kind="changed-body", operation="complete", fields={"status": "söttling"}))
    changed = shop.complete(bought)
    assert changed.json() == {**shop.complete(bought).json(), "status": "söttling"}
    assert "payment-response" in changed.headers


# Reads that are behind


def behind(shop: Shop, seconds: float | None = None) -> None:
    shop.emulator.faults.clear()
    shop.emulator.faults.add(Fault(kind="stale-read", seconds=seconds))


def test_a_transaction_as_it_was_before_the_last_change(shop: Shop) -> None:
    shop.emulator.settle_after("text_summary", SettlementRule(after_reads=2, via="reconciling"))
    bought = shop.buy()
    open_ = shop.transaction(bought)
    shop.complete(bought)
    behind(shop)
    assert shop.transaction(bought) == open_
    assert shop.transaction(bought)["status"] == "succeeded"
    behind(shop)
    assert shop.transaction(bought) == {**open_, "status": "reconciling"}
    assert "receipt" in shop.transaction(bought)


def test_a_copy_has_not_heard_of_a_new_transaction(shop: Shop) -> None:
    bought = shop.buy()
    behind(shop)
    assert_error(shop.get(f"/transactions/{bought.id}"), 404, "transaction_not_found")
    assert status_of(shop, bought) == "authorized"


def test_so_many_seconds_ago(shop: Shop) -> None:
    bought = shop.buy()
    shop.clock.advance(10)
    shop.complete(bought)
    shop.clock.advance(10)
    final = shop.transaction(bought)
    for seconds, status in ((5, "succeeded"), (15, "authorized")):
        behind(shop, seconds)
        assert status_of(shop, bought) == status
    behind(shop, 5)
    assert shop.transaction(bought) == final
    behind(shop, 25)
    assert shop.get(f"/transactions/{bought.id}").status_code == 404


def test_lists_are_those_of_an_earlier_moment(shop: Shop) -> None:
    bought = shop.buy()
    before = shop.listed("/transactions?status=authorized")
    shop.clock.advance(10)
    shop.complete(bought)
    behind(shop)
    stale = shop.listed("/transactions?status=authorized")
    assert (stale["items"], stale["count"]) == (before["items"], 1)
    assert shop.listed(f"/transactions?status=authorized&as_of={before['as_of']}") == before
    assert shop.listed("/transactions?status=authorized")["count"] == 0
    behind(shop, 3600)
    assert shop.listed("/payers")["count"] == 0
    assert shop.listed("/payers")["count"] == 1
    behind(shop, 60)
    assert shop.listed("/resources")["count"] == 7


def test_a_list_of_one_moment_is_not_behind(shop: Shop) -> None:
    shop.buy()
    now = shop.listed("/transactions")
    behind(shop)
    assert shop.listed(f"/transactions?as_of={now['as_of']}") == now
    assert shop.get("/transactions", key="svc_test_nobody").status_code == 401
    assert shop.emulator.faults


# A complete that may not be repeated


@pytest.mark.parametrize(("status", "code"), [(409, "invalid_request"), (404, "transaction_not_found")])
def test_a_repeated_complete_is_refused(shop: Shop, status: int, code: str) -> None:
    bought = shop.buy()
    shop.emulator.faults.add(Fault(kind="refused-repeat", status=status, times=2))
    first = shop.complete(bought)
    assert first.json()["status"] == "succeeded"
    for _ in range(2):
        assert_error(shop.complete(bought), status, code)
    assert shop.complete(bought).content == first.content


def test_a_refused_repeat_moves_nothing(shop: Shop) -> None:
    shop.emulator.settle_after("text_summary", SettlementRule(after_reads=1))
    bought = shop.buy()
    shop.emulator.faults.add(Fault(kind="refused-repeat"))
    shop.complete(bought)
    assert shop.complete(bought).status_code == 409
    assert shop.listed("/transactions")["items"][0]["status"] == "settling"

"""Every kind of fault over a real socket: what the seller sees, and what the service has done by then."""

from collections.abc import Iterator
from dataclasses import replace
from time import monotonic

import httpx
import pytest

from faregate.emulator import Fault, SettlementRule
from faregate.x402.headers import remove_challenge
from faregate.x402.instructions import are_unpredictable
from tests.support.headers import decode_header

from .seller import ApiClient, Purchase, assert_error

BROKEN = (httpx.ReadError, httpx.RemoteProtocolError)


@pytest.fixture
def hasty(api: ApiClient) -> Iterator[ApiClient]:
    """A seller who does not wait for long."""
    with httpx.Client(base_url=api.http.base_url, timeout=0.2, trust_env=False) as client:
        yield replace(api, http=client)


def status_of(api: ApiClient, bought: Purchase) -> str:
    return str(api.transaction(bought)["status"])


def test_latency_is_after_the_service_has_acted(api: ApiClient, hasty: ApiClient) -> None:
    first, second = api.buy(), api.buy()
    api.emulator.faults.add(Fault(kind="latency", seconds=0.3, operation="complete", times=2))
    began = monotonic()
    assert api.complete(first).json()["status"] == "succeeded"
    assert monotonic() - began >= 0.3
    with pytest.raises(httpx.ReadTimeout):
        hasty.complete(second)
    assert status_of(api, second) == "succeeded"


@pytest.mark.parametrize(("when", "status"), [("before", "authorized"), ("after", "succeeded")])
def test_silence(api: ApiClient, hasty: ApiClient, when: str, status: str) -> None:
    bought = api.buy()
    api.emulator.faults.add(Fault.model_validate({"kind": "silence", "when": when, "operation": "complete"}))
    with pytest.raises(httpx.ReadTimeout):
        hasty.complete(bought)
    assert status_of(api, bought) == status
    assert api.emulator.calls()[-2].fault == "silence-1"
    assert api.complete(bought).json()["status"] == "succeeded"


@pytest.mark.parametrize(("when", "status"), [("before", "authorized"), ("after", "succeeded")])
def test_reset(api: ApiClient, when: str, status: str) -> None:
    bought = api.buy()
    api.emulator.faults.add(Fault.model_validate({"kind": "reset", "when": when, "operation": "complete"}))
    with pytest.raises(httpx.ReadError, match="reset by peer"):
        api.complete(bought)
    assert status_of(api, bought) == status
    assert api.complete(bought).json()["status"] == "succeeded"


def test_cut(api: ApiClient) -> None:
    bought = api.buy()
    api.emulator.faults.add(Fault(kind="cut", operation="complete"))
    with pytest.raises(httpx.RemoteProtocolError, match="without sending complete message body"):
        api.complete(bought)
    assert status_of(api, bought) == "succeeded"


def test_too_many_requests(api: ApiClient) -> None:
    proof = api.proof()
    api.emulator.faults.add(Fault(kind="status", status=429, retry_after=17, operation="access"))
    refused = api.access(proof=proof)
    assert_error(refused, 429, "invalid_request")
    assert refused.headers["retry-after"] == "17"
    assert api.listed("/transactions")["count"] == 0
    assert api.access(proof=proof).status_code == 200


@pytest.mark.parametrize(("when", "status"), [("before", "authorized"), ("after", "succeeded")])
@pytest.mark.parametrize("code", [500, 502, 503, 504, 599])
def test_server_errors(api: ApiClient, when: str, status: str, code: int) -> None:
    bought = api.buy()
    told = {"kind": "status", "status": code, "when": when, "operation": "complete"}
    api.emulator.faults.add(Fault.model_validate(told))
    assert_error(api.complete(bought), code, "internal_error")
    assert status_of(api, bought) == status


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
def test_other_errors_have_the_contracts_codes(api: ApiClient, status: int, code: str) -> None:
    bought = api.buy()
    api.emulator.faults.add(Fault(kind="status", status=status, operation="complete"))
    assert_error(api.complete(bought), status, code)
    assert status_of(api, bought) == "authorized"


def test_who_has_paid_is_asked_again_at_access(api: ApiClient) -> None:
    proof, unpaid = api.proof(), api.access()
    api.emulator.faults.add(Fault(kind="second-402"))
    assert assert_error(api.access(), 402, "payment_required") == unpaid.json()["message"]
    assert api.emulator.faults
    again = api.access(proof=proof)
    assert_error(again, 402, "payment_required")
    assert remove_challenge(again.headers["payment-required"]) == remove_challenge(
        unpaid.headers["payment-required"]
    )
    assert are_unpredictable(again.headers["payment-required"], unpaid.headers["payment-required"])
    assert api.listed("/transactions")["items"][0]["status"] == "authorized"
    assert api.access(proof=proof).json()["transaction_id"]


def test_what_is_free_is_not_asked_for(api: ApiClient) -> None:
    proof = api.proof()
    rule = api.emulator.faults.add(Fault(kind="second-402"))
    assert api.access("free_notes", proof).json()["transaction_id"] is None
    assert rule.seen == 0


@pytest.mark.parametrize(("when", "status"), [("before", "authorized"), ("after", "succeeded")])
def test_who_has_paid_is_asked_again_at_complete(api: ApiClient, when: str, status: str) -> None:
    first = api.instructions()
    bought = api.buy()
    api.emulator.faults.add(Fault.model_validate({"kind": "second-402", "when": when}))
    again = api.complete(bought)
    assert_error(again, 402, "payment_required")
    second = again.headers["payment-required"]
    [accepts, others] = (decode_header(remove_challenge(one))["accepts"] for one in (first, second))
    assert accepts == others
    assert are_unpredictable(first, second)
    assert status_of(api, bought) == status


def test_garbage(api: ApiClient) -> None:
    bought = api.buy()
    api.emulator.faults.add(Fault(kind="garbage", operation="complete"))
    answer = api.complete(bought)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert int(answer.headers["content-length"]) == len(answer.content) > 0
    with pytest.raises(ValueError, match=r"codec|Expecting"):
        answer.json()
    assert status_of(api, bought) == "succeeded"


def test_a_missing_header(api: ApiClient) -> None:
    bought = api.buy()
    api.emulator.faults.add(Fault(kind="missing-header", header="Payment-Response"))
    assert api.access().status_code == 402
    answer = api.complete(bought)
    assert answer.json()["payment_response"]
    assert "payment-response" not in answer.headers
    assert "payment-response" in api.complete(bought).headers


@pytest.mark.parametrize("value", [None, "bm90IHRoaXM="])
def test_a_doubled_header_is_twice_on_the_wire(api: ApiClient, value: str | None) -> None:
    bought = api.buy()
    api.emulator.faults.add(Fault(kind="doubled-header", header="PAYMENT-RESPONSE", value=value))
    answer = api.complete(bought)
    first = answer.json()["payment_response"]
    found = [told for name, told in answer.headers.raw if name == b"payment-response"]
    assert found == [first.encode(), (value or first).encode()]


def test_a_changed_body(api: ApiClient) -> None:
    bought = api.buy()
    api.emulator.faults.add(Fault(kind="changed-body", operation="complete", fields={"status": "söttling"}))
    changed = api.complete(bought)
    assert changed.json() == {**api.complete(bought).json(), "status": "söttling"}
    assert "payment-response" in changed.headers


# Reads that are behind


def behind(api: ApiClient, seconds: float | None = None) -> None:
    api.emulator.faults.clear()
    api.emulator.faults.add(Fault(kind="stale-read", seconds=seconds))


def test_a_transaction_as_it_was_before_the_last_change(api: ApiClient) -> None:
    api.service.settle_after("text_summary", SettlementRule(after_reads=2, via="reconciling"))
    bought = api.buy()
    open_ = api.transaction(bought)
    api.complete(bought)
    behind(api)
    assert api.transaction(bought) == open_
    assert api.transaction(bought)["status"] == "succeeded"
    behind(api)
    assert api.transaction(bought) == {**open_, "status": "reconciling"}
    assert "receipt" in api.transaction(bought)


def test_a_copy_has_not_heard_of_a_new_transaction(api: ApiClient) -> None:
    bought = api.buy()
    behind(api)
    assert_error(api.get(f"/transactions/{bought.id}"), 404, "transaction_not_found")
    assert status_of(api, bought) == "authorized"


def test_so_many_seconds_ago(api: ApiClient) -> None:
    bought = api.buy()
    api.clock.advance(10)
    api.complete(bought)
    api.clock.advance(10)
    final = api.transaction(bought)
    for seconds, status in ((5, "succeeded"), (15, "authorized")):
        behind(api, seconds)
        assert status_of(api, bought) == status
    behind(api, 5)
    assert api.transaction(bought) == final
    behind(api, 25)
    assert api.get(f"/transactions/{bought.id}").status_code == 404


def test_lists_are_those_of_an_earlier_moment(api: ApiClient) -> None:
    bought = api.buy()
    before = api.listed("/transactions?status=authorized")
    api.clock.advance(10)
    api.complete(bought)
    behind(api)
    stale = api.listed("/transactions?status=authorized")
    assert (stale["items"], stale["count"]) == (before["items"], 1)
    assert api.listed(f"/transactions?status=authorized&as_of={before['as_of']}") == before
    assert api.listed("/transactions?status=authorized")["count"] == 0
    behind(api, 3600)
    assert api.listed("/payers")["count"] == 0
    assert api.listed("/payers")["count"] == 1
    behind(api, 60)
    assert api.listed("/resources")["count"] == 7


def test_a_list_of_one_moment_is_not_behind(api: ApiClient) -> None:
    api.buy()
    now = api.listed("/transactions")
    behind(api)
    assert api.listed(f"/transactions?as_of={now['as_of']}") == now
    assert api.get("/transactions", key="svc_test_nobody").status_code == 401
    assert api.emulator.faults


# A complete that may not be repeated


@pytest.mark.parametrize(("status", "code"), [(409, "invalid_request"), (404, "transaction_not_found")])
def test_a_repeated_complete_is_refused(api: ApiClient, status: int, code: str) -> None:
    bought = api.buy()
    api.emulator.faults.add(Fault(kind="refused-repeat", status=status, times=2))
    first = api.complete(bought)
    assert first.json()["status"] == "succeeded"
    for _ in range(2):
        assert_error(api.complete(bought), status, code)
    assert api.complete(bought).content == first.content


def test_a_refused_repeat_moves_nothing(api: ApiClient) -> None:
    api.service.settle_after("text_summary", SettlementRule(after_reads=1))
    bought = api.buy()
    api.emulator.faults.add(Fault(kind="refused-repeat"))
    api.complete(bought)
    assert api.complete(bought).status_code == 409
    assert api.listed("/transactions")["items"][0]["status"] == "settling"

"""Every situation of the flow (`docs/flow.md`), through every adapter on every server.

What only shared code can get wrong, as each odd answer of the service, is `thorough`: asked of two stacks.
"""

import base64
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from faregate.emulator import SettlementRule, Wallet
from tests.contract.conftest import (
    Seller,
    assert_instructions,
    assert_released,
    assert_unconfirmed,
    assert_withheld,
    only,
)
from tests.core.flow_script import OTHER_TXN
from tests.support.faulty_service import Fault, answers, changes, lost_after, lost_before
from tests.support.headers import decode_header
from tests.support.replies import with_fields, with_status, without
from tests.support.waiting import eventually

thorough = only(lambda stack: stack.is_reference)

NOT_PROVEN: dict[str, Fault] = {
    "no PAYMENT-RESPONSE": changes(without("PAYMENT-RESPONSE")),
    "another transaction": changes(with_fields(transaction_id=OTHER_TXN)),
    "no receipt": changes(with_fields(receipt=None)),
    "pay again": answers(402, {"code": "x", "message": "pay"}, ("PAYMENT-REQUIRED", "cGF5IGFnYWlu")),
}
"""Completions that do not prove the payment, and that an adapter could take for a proof."""
NOT_PROVEN_EITHER: dict[str, Fault] = {
    "two PAYMENT-RESPONSE": changes(lambda reply: reply.plus(("PAYMENT-RESPONSE", "c2Vjb25k"))),
    "empty receipt": changes(with_fields(receipt={})),
    "no transaction": changes(with_fields(transaction_id=None)),
    "status is a list": changes(with_fields(status=["succeeded"])),
    "garbage": answers(200, b"garbage"),
    "empty object": answers(200, {}),
    "204": answers(204, b""),
    "302": answers(302, b"", ("Location", "https://elsewhere.example/")),
    "cut off before": lost_before,
    "cut off after": lost_after,
}
UNPROVEN = [
    *(pytest.param(fault, id=name) for name, fault in NOT_PROVEN.items()),
    *(pytest.param(fault, id=name, marks=thorough) for name, fault in NOT_PROVEN_EITHER.items()),
]
ODD_ACCESS: list[tuple[Fault, int]] = [
    (answers(200, b""), 502),
    (answers(200, b"[" * 100_000), 502),
    (answers(200, {}), 502),
    (answers(200, {"transaction_id": ""}), 502),
    (answers(200, {"transaction_id": 0}), 502),
    (answers(200, {"transaction_id": False}), 502),
    (answers(200, {"transaction_id": []}), 502),
    (answers(200, {"transaction_id": "txn_../../x"}), 502),
    (answers(200, {"transaction_id": OTHER_TXN + "\n"}), 502),
    (answers(200, {"transaction_id": None, "pad": "x" * 2_000_000}), 502),
    (answers(201, {"transaction_id": None}), 502),
    (answers(204, b""), 502),
    (answers(302, b"", ("Location", "https://elsewhere.example/")), 502),
    (answers(402, {"code": "payment_required", "message": "pay"}), 502),
    (answers(402, {}, ("PAYMENT-REQUIRED", "a"), ("PAYMENT-REQUIRED", "b")), 502),
    (answers(402, {}, ("PAYMENT-REQUIRED", "x" * 20_000)), 502),
    (answers(403, {"code": "forbidden", "message": "no"}), 502),
    (answers(422, {"code": "invalid_request", "message": "no"}), 502),
    (answers(429, {"code": "slow_down", "message": "no"}, ("Retry-After", "30")), 503),
    (answers(503, b"down"), 503),
]
BODY = b'{"code":"payment_required" ,  "message":"odd"}'


def test_no_proof_gets_payment_instructions(seller: Seller) -> None:
    required = assert_instructions(seller.get("/paid"))
    assert required["resource"]["url"] == "https://seller.example/paid"
    assert seller.runs() == []


def test_instructions_are_relayed_byte_for_byte(seller: Seller) -> None:
    header = "bm90IGV2ZW4ganNvbg=="
    seller.service.fails("access", answers(402, BODY, ("PAYMENT-REQUIRED", header), ("Retry-After", "17")))
    response = seller.get("/paid")
    assert (response.headers["payment-required"], response.content) == (header, BODY)
    assert response.headers["retry-after"] == "17"


@pytest.mark.parametrize("proof", [None, "cHJvb2Y="])
def test_a_free_request_gets_the_result_without_payment(seller: Seller, proof: str | None) -> None:
    response = seller.get("/free", proof)
    assert (response.status_code, "payment-response" in response.headers) == (200, False)
    assert response.json() == {"result": "paid content"}
    assert (len(seller.runs()), seller.count("complete")) == (1, 0)


@thorough
def test_a_known_free_execution_is_closed(seller: Seller) -> None:
    rex = "rex_0190aaaaaaaa7aaa8aaaaaaaaaaaaaaa"
    seller.service.fails("access", answers(200, {"transaction_id": None, "resource_execution_id": rex}))
    assert seller.get("/free").json() == {"result": "paid content"}
    assert seller.count("execution") == 1


def test_pending_access_is_relayed(seller: Seller) -> None:
    proof = seller.proof_for("/paid")
    pending = answers(202, {"code": "settling", "message": "wait", "transaction_id": OTHER_TXN})
    seller.service.fails("access", pending)
    response = seller.get("/paid", proof)
    assert_withheld(response, 202)
    assert response.json()["transaction_id"] == OTHER_TXN
    assert seller.runs() == []


def test_a_refused_proof_gets_fresh_instructions(seller: Seller) -> None:
    response = seller.get("/paid", "bm90IGEgcHJvb2Y=")
    assert_instructions(response)
    assert seller.runs() == []
    assert_released(seller.get("/paid", seller.wallet.pay(response.headers["payment-required"])))


def assert_unavailable(response: httpx.Response, status: int) -> None:
    assert_withheld(response, status, "payment_service_unavailable")
    assert set(response.json()) == {"code", "message"}
    assert ("svc_" in response.text, "retry-after" in response.headers) == (False, status == 503)


@pytest.mark.parametrize(
    ("fault", "status"),
    [
        (answers(200, b"<html>"), 502),
        (answers(401, {"code": "unauthenticated", "message": "svc_x is wrong"}), 502),
        (answers(500, {"code": "internal_error", "message": "svc_x"}), 503),
        *(pytest.param(*one, marks=thorough) for one in ODD_ACCESS),
    ],
)
def test_odd_access_answers_502_or_503(seller: Seller, fault: Fault, status: int) -> None:
    seller.service.fails("access", fault)
    assert_unavailable(seller.get("/paid"), status)
    proof = seller.proof_for("/paid")
    seller.service.fails("access", fault)
    assert_unavailable(seller.get("/paid", proof), status)
    assert seller.runs() == []
    assert_released(seller.get("/paid", proof))


def test_unanswered_access_answers_503(seller: Seller) -> None:
    proof = seller.proof_for("/paid")
    seller.service.fails("access", lost_before, lost_after)
    assert_withheld(seller.get("/paid", proof), 503, "payment_service_unavailable")
    assert seller.runs() == []
    assert_released(seller.get("/paid", proof))
    assert seller.outcome() == "succeeded"


@thorough
def test_one_lost_answer_of_access_is_not_noticed(seller: Seller) -> None:
    proof = seller.proof_for("/paid")
    seller.service.fails("access", lost_after)
    assert_released(seller.get("/paid", proof))
    assert seller.outcome() == "succeeded"


def test_an_unknown_offer_answers_502(seller: Seller) -> None:
    assert_withheld(seller.get("/unknown"), 502, "payment_service_unavailable")
    assert seller.runs() == []


def test_a_transaction_without_a_proof_answers_502(seller: Seller) -> None:
    seller.service.fails("access", answers(200, {"transaction_id": OTHER_TXN}))
    assert_withheld(seller.get("/paid"), 502)
    assert seller.runs() == []


@pytest.mark.parametrize(
    ("path", "outcome", "facts"),
    [
        ("/paid", "delivered", "status 200, 50000 atomic USDC"),
        ("/late", "held", "settling"),
        ("/do?what=raise", "failed", ""),
    ],
)
def test_a_sale_is_one_line_in_the_log(seller: Seller, path: str, outcome: str, facts: str) -> None:
    seller.buy(path)
    [transaction] = seller.statuses()
    log = seller.running.server.log

    def read_lines() -> list[str]:
        return [line for line in log.read_text(errors="replace").splitlines() if transaction in line]

    def find_sales() -> list[str]:
        return [line for line in read_lines() if "INFO faregate.sale: " in line]

    assert eventually(lambda: len(find_sales()) > 0)
    [line] = find_sales()
    assert f" {outcome}: " in line
    assert facts in line
    assert "GET" in line


def test_a_raising_handler_answers_500_uncharged(seller: Seller) -> None:
    response = seller.buy("/do?what=raise")
    assert (response.status_code, "payment-response" in response.headers) == (500, False)
    assert ("secret" in response.text, "paid content" in response.text) == (False, False)
    assert (seller.outcome(), len(seller.runs())) == ("failed", 1)


@pytest.mark.parametrize("status", [304, 400, 404, 503])
def test_a_status_that_is_not_billable_is_not_charged(seller: Seller, status: int) -> None:
    """An error is the handler's own. Anything else could carry the result, and is withheld."""
    path = f"/do?what=status-{status}"
    proof = seller.proof_for(path)
    response = seller.get(path, proof)
    if status < 400:
        assert_withheld(response, 500, "not_billable")
    else:
        assert (response.status_code, response.headers["x-mine"]) == (status, "1")
    assert "payment-response" not in response.headers
    assert seller.outcome() == "failed"
    assert_instructions(seller.get(path, proof))
    assert len(seller.runs()) == 1


def test_a_stream_that_breaks_off_answers_500_uncharged(seller: Seller) -> None:
    response = seller.buy("/do?what=stream-raises")
    assert (response.status_code, "payment-response" in response.headers) == (500, False)
    assert "paid" not in response.text
    assert seller.outcome() == "failed"


def test_a_result_that_is_too_large_answers_500(seller: Seller) -> None:
    assert_withheld(seller.buy("/small?what=big-101"), 500, "result_too_large")
    assert seller.outcome() == "failed"


def test_a_result_that_is_shorter_than_its_length_says_answers_500(seller: Seller) -> None:
    assert_withheld(seller.buy("/do?what=cut-13"), 500, "result_cut_short")
    assert seller.outcome() == "failed"


def test_a_result_as_large_as_it_may_be_is_sold(seller: Seller) -> None:
    assert len(seller.buy("/small?what=big-100").content) == 100
    assert seller.outcome() == "succeeded"


def test_work_that_is_too_slow_answers_500(seller: Seller) -> None:
    assert_withheld(seller.buy("/hurried?what=sleep-0.4"), 500, "work_timed_out")
    assert seller.outcome() == "failed"


@pytest.mark.parametrize(
    ("values", "outcome"),
    [
        ({"input_tokens": "12"}, "succeeded"),
        ({"input_tokens": 1, "unheard_of": 1}, "failed"),
        pytest.param({"input_tokens": "12.5", "output_tokens": 3}, "succeeded", marks=thorough),
        pytest.param({}, "failed", marks=thorough),
        pytest.param({"input_tokens": 0.5}, "failed", marks=thorough),
        pytest.param({"input_tokens": -1}, "failed", marks=thorough),
    ],
)
def test_reported_values_decide_the_outcome(seller: Seller, values: dict[str, Any], outcome: str) -> None:
    response = seller.buy(f"/metered?what={quote('report-' + json.dumps(values))}")
    if outcome == "succeeded":
        assert_released(response)
    else:
        assert (response.status_code, "payment-response" in response.headers) == (500, False)
    assert seller.outcome() == outcome


def test_a_proven_payment_releases_the_result(seller: Seller) -> None:
    response = seller.buy("/paid")
    assert_released(response)
    assert response.headers["x-own"] == "1"
    assert response.headers.get_list("cache-control") == ["private, no-store"]
    assert response.headers["content-length"] == str(len(response.content))
    (run,) = seller.runs()
    assert {run.transaction: "succeeded"} == seller.statuses()
    assert seller.count("complete") == 1


@pytest.mark.parametrize(
    "fault",
    [
        changes(with_fields(status="settling")),
        changes(with_status(202)),
        pytest.param(changes(with_fields(status="reconciling")), marks=thorough),
        pytest.param(changes(with_fields(status="some_day_invented")), marks=thorough),
    ],
)
def test_a_completion_that_is_not_final_answers_202(seller: Seller, fault: Fault) -> None:
    proof = seller.proof_for("/paid")
    seller.service.fails("complete", fault)
    response = seller.get("/paid", proof)
    assert_withheld(response, 202)
    assert response.json()["transaction_id"] in seller.statuses()
    assert int(response.headers["retry-after"]) > 0
    assert_released(seller.get("/paid", proof))
    assert len(seller.runs()) == 1


def test_a_payment_that_settles_late_is_delivered_then(seller: Seller) -> None:
    proof = seller.proof_for("/late")
    responses = [seller.get("/late", proof) for _ in range(3)]
    assert [response.status_code for response in responses] == [202, 202, 200]
    assert_withheld(responses[0], 202)
    assert_released(responses[-1])
    assert len(seller.runs()) == 1


@pytest.mark.parametrize("fault", UNPROVEN)
def test_an_unproven_result_is_held_and_delivered_later(seller: Seller, fault: Fault) -> None:
    proof = seller.proof_for("/paid")
    seller.service.fails("complete", fault, fault, fault)
    assert_unconfirmed(seller.get("/paid", proof), seller)
    assert_released(seller.get("/paid", proof))
    assert (len(seller.runs()), seller.outcome()) == (1, "succeeded")


def test_a_lost_completion_is_held_and_delivered_later(seller: Seller) -> None:
    proof = seller.proof_for("/paid")
    seller.service.fails("complete", lost_after, *[NOT_PROVEN["no receipt"]] * 2)
    assert_unconfirmed(seller.get("/paid", proof), seller)
    assert_released(seller.get("/paid", proof))
    assert (len(seller.runs()), seller.outcome()) == (1, "succeeded")


@pytest.mark.parametrize(
    "fault", [*UNPROVEN[:1], *(pytest.param(*one.values, marks=thorough) for one in UNPROVEN[1:])]
)
def test_a_retried_completion_delivers_at_once(seller: Seller, fault: Fault) -> None:
    proof = seller.proof_for("/paid")
    seller.service.fails("complete", fault)
    assert_released(seller.get("/paid", proof))
    assert seller.count("complete") == 2


def test_a_payment_that_fails_after_the_work_gets_fresh_instructions(seller: Seller) -> None:
    seller.service.emulator.settle_after(seller.wallet.address, SettlementRule(after_reads=0, to="failed"))
    proof = seller.proof_for("/paid")
    for _ in range(2):
        assert_instructions(seller.get("/paid", proof))
    assert (len(seller.runs()), seller.outcome()) == (1, "failed")


def test_a_payment_that_fails_late_gets_fresh_instructions(seller: Seller) -> None:
    proof = seller.proof_for("/never")
    assert_withheld(seller.get("/never", proof), 202)
    assert_instructions(seller.get("/never", proof))
    assert len(seller.runs()) == 1


@pytest.mark.parametrize("status", [401, 403, 429])
def test_a_refused_completion_is_relayed_and_held(seller: Seller, status: int) -> None:
    proof = seller.proof_for("/paid")
    seller.service.fails("complete", answers(status, {"code": "secret", "message": "svc_x"}))
    response = seller.get("/paid", proof)
    assert_withheld(response, status)
    assert "svc_" not in response.text
    assert_released(seller.get("/paid", proof))


@thorough
def test_a_failing_completion_is_relayed_and_held(seller: Seller) -> None:
    proof = seller.proof_for("/paid")
    seller.service.fails("complete", *[answers(500, {"code": "internal_error", "message": "no"})] * 3)
    assert_withheld(seller.get("/paid", proof), 500)
    assert seller.count("complete") == 3
    assert_released(seller.get("/paid", proof))


def test_an_unknown_transaction_is_relayed_and_held(seller: Seller) -> None:
    """Even this may be about another transaction: the payer comes back, and is not asked to pay again."""
    proof = seller.proof_for("/paid")
    seller.service.fails("complete", answers(404, {"code": "transaction_not_found", "message": "no"}))
    assert_withheld(seller.get("/paid", proof), 404)
    assert_released(seller.get("/paid", proof))
    assert len(seller.runs()) == 1


def test_reading_the_transaction_never_releases(seller: Seller) -> None:
    proof = seller.proof_for("/paid")
    silent = NOT_PROVEN["no PAYMENT-RESPONSE"]
    seller.service.fails("complete", *[silent] * 6)
    assert_unconfirmed(seller.get("/paid", proof), seller)
    assert seller.outcome() == "succeeded"
    assert_unconfirmed(seller.get("/paid", proof), seller)
    assert_released(seller.get("/paid", proof))


@pytest.mark.parametrize(
    "fault",
    [answers(500, {}), *(pytest.param(one, marks=thorough) for one in (lost_before, answers(404, {})))],
)
def test_an_unknown_standing_is_held_as_unconfirmed(seller: Seller, fault: Fault) -> None:
    proof = seller.proof_for("/paid")
    seller.service.fails("complete", *[NOT_PROVEN["no receipt"]] * 3)
    assert_unconfirmed(seller.get("/paid", proof), seller)
    seller.service.fails("transaction", fault)
    assert_unconfirmed(seller.get("/paid", proof), seller)
    assert_released(seller.get("/paid", proof))


@thorough
def test_a_standing_that_cannot_be_read_leads_to_complete(seller: Seller) -> None:
    """A paid result was held for ever because of a field that nobody needs."""
    proof = seller.proof_for("/paid")
    seller.service.fails("complete", *[lost_after] * 3)
    assert_unconfirmed(seller.get("/paid", proof), seller)
    seller.service.fails("transaction", answers(200, b"x"))
    assert_released(seller.get("/paid", proof))
    assert len(seller.runs()) == 1


def test_the_same_proof_while_the_first_is_running_answers_409(seller: Seller) -> None:
    path = "/do?what=sleep-0.5"
    proof = seller.proof_for(path)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(seller.get, path, proof)
        assert eventually(lambda: len(seller.runs()) == 1)
        second = seller.get(path, proof)
        assert_released(first.result())
    assert_withheld(second, 409, "payment_in_progress")
    assert int(second.headers["retry-after"]) > 0
    assert len(seller.runs()) == 1


def test_a_proof_used_again_gets_the_same_result_byte_for_byte(seller: Seller) -> None:
    proof = seller.proof_for("/do?what=cookies")
    first = seller.get("/do?what=cookies", proof)
    assert len(first.headers.get_list("set-cookie")) == 2
    calls = len(seller.service.asked)
    for _ in range(3):
        again = seller.get("/do?what=cookies", proof)
        assert again.content == first.content
        assert not again.headers.get_list("set-cookie")
        assert comparable(again.headers.multi_items()) == comparable(first.headers.multi_items())
    assert_withheld(seller.get("/do?what=cookies", proof), 409, "proof_already_used")
    # Each process finds out once whether somebody else could know the proof.
    assert set(seller.service.asked[calls:]) <= {"contracts", "access"}
    assert len(seller.runs()) == 1


def comparable(headers: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """But for the date, and for cookies, which are for the first answer alone."""
    return sorted(pair for pair in headers if pair[0] not in ("date", "set-cookie"))


@pytest.mark.parametrize(
    ("path", "method"),
    [("/paid?q=2", "GET"), ("/late", "GET"), ("/paid", "POST"), ("/mount/inner/paid", "GET")],
)  # fmt: skip
def test_the_same_proof_for_another_request_answers_409(seller: Seller, path: str, method: str) -> None:
    proof = seller.proof_for("/paid")
    assert_released(seller.get("/paid", proof))
    assert_withheld(seller.get(path, proof, method=method), 409, "proof_already_used")
    assert len(seller.runs()) == 1


def encode_anew(proof: str) -> str:
    return base64.b64encode(json.dumps(decode_header(proof), indent=1).encode()).decode()


@pytest.mark.parametrize("path", ["/paid", pytest.param("/paid?q=2", marks=thorough)])
def test_another_encoding_of_a_delivered_payment_is_never_asked_to_pay(seller: Seller, path: str) -> None:
    proof = seller.proof_for("/paid")
    assert_released(seller.get("/paid", proof))
    response = seller.get(path, encode_anew(proof))
    assert_withheld(response, 409, "proof_already_used")
    # A stranger can read a settled authorization on the chain.
    assert "transaction_id" not in response.json()
    assert len(seller.runs()) == 1
    assert_released(seller.get("/paid", proof))


def test_another_encoding_of_a_payment_that_is_running_is_never_asked_to_pay(seller: Seller) -> None:
    path = "/do?what=sleep-0.5"
    proof = seller.proof_for(path)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(seller.get, path, proof)
        assert eventually(lambda: len(seller.runs()) == 1)
        second = seller.get(path, encode_anew(proof))
        assert_released(first.result())
    assert_withheld(second, 409, "payment_in_progress")
    assert len(seller.runs()) == 1


def test_another_encoding_of_a_held_payment_is_never_asked_to_pay(seller: Seller) -> None:
    proof = seller.proof_for("/paid")
    seller.service.fails("complete", *[lost_after] * 3)
    assert_unconfirmed(seller.get("/paid", proof), seller)
    assert_withheld(seller.get("/paid", encode_anew(proof)), 409, "payment_in_progress")
    assert_released(seller.get("/paid", proof))
    assert len(seller.runs()) == 1


def test_another_encoding_of_a_payment_that_failed_gets_instructions(seller: Seller) -> None:
    """Nothing was charged, so a new payment is right."""
    path = "/do?what=status-503"
    proof = seller.proof_for(path)
    assert seller.get(path, proof).status_code == 503
    assert_instructions(seller.get(path, encode_anew(proof)))


def test_many_payers_at_once_each_get_their_own(seller: Seller) -> None:
    def buy(wallet: Wallet) -> tuple[str, str]:
        unpaid = seller.get("/paid")
        response = seller.get("/paid", wallet.pay(unpaid.headers["payment-required"]))
        assert_released(response)
        payer = decode_header(response.headers["payment-response"])["payer"]
        return payer, wallet.address

    with ThreadPoolExecutor(8) as pool:
        pairs = list(pool.map(buy, [Wallet() for _ in range(16)]))
    assert all(payer.lower() == wallet.lower() for payer, wallet in pairs)
    assert len({run.transaction for run in seller.runs()}) == 16

"""Every row of the flow (`docs/flow.md`), through every adapter on every server.

What only shared code can get wrong, as each odd answer of the service, is `thorough`: asked of two stacks.
"""

import base64
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from faregate.emulator import Settlement, Wallet
from tests.contract.conftest import (
    Shop,
    assert_instructions,
    assert_released,
    assert_unconfirmed,
    assert_withheld,
    only,
)
from tests.core.flow_script import OTHER_TXN
from tests.support.faulty_service import Fault, answers, changes, lost_after, lost_before, with_body, without
from tests.support.waiting import eventually

thorough = only(lambda stack: stack.is_reference)

NOT_PROVEN: dict[str, Fault] = {
    "no PAYMENT-RESPONSE": without("PAYMENT-RESPONSE"),
    "another transaction": with_body(transaction_id=OTHER_TXN),
    "no receipt": with_body(receipt=None),
    "pay again": answers(402, {"code": "x", "message": "pay"}, ("PAYMENT-REQUIRED", "cGF5IGFnYWlu")),
}
"""Completions that do not prove the payment, and that an adapter could take for a proof."""
NOT_PROVEN_EITHER: dict[str, Fault] = {
    "two PAYMENT-RESPONSE": changes(lambda reply: reply.plus(("PAYMENT-RESPONSE", "c2Vjb25k"))),
    "empty receipt": with_body(receipt={}),
    "no transaction": with_body(transaction_id=None),
    "status is a list": with_body(status=["succeeded"]),
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


def test_row_1_no_proof(shop: Shop) -> None:
    required = assert_instructions(shop.get("/paid"))
    assert required["resource"]["url"] == "https://seller.example/paid"
    assert shop.runs() == []


def test_row_1_is_relayed_byte_for_byte(shop: Shop) -> None:
    header = "bm90IGV2ZW4ganNvbg=="
    shop.service.fails("access", answers(402, BODY, ("PAYMENT-REQUIRED", header), ("Retry-After", "17")))
    response = shop.get("/paid")
    assert (response.headers["payment-required"], response.content) == (header, BODY)
    assert response.headers["retry-after"] == "17"


@pytest.mark.parametrize("proof", [None, "cHJvb2Y="])
def test_row_2_free(shop: Shop, proof: str | None) -> None:
    response = shop.get("/free", proof)
    assert (response.status_code, "payment-response" in response.headers) == (200, False)
    assert response.json() == {"result": "paid content"}
    assert (len(shop.runs()), shop.count("complete")) == (1, 0)


@thorough
def test_row_2_a_known_execution_is_closed(shop: Shop) -> None:
    rex = "rex_0190aaaaaaaa7aaa8aaaaaaaaaaaaaaa"
    shop.service.fails("access", answers(200, {"transaction_id": None, "resource_execution_id": rex}))
    assert shop.get("/free").json() == {"result": "paid content"}
    assert shop.count("execution") == 1


def test_row_3_access_pending(shop: Shop) -> None:
    proof = shop.proof_for("/paid")
    pending = answers(202, {"code": "settling", "message": "wait", "transaction_id": OTHER_TXN})
    shop.service.fails("access", pending)
    response = shop.get("/paid", proof)
    assert_withheld(response, 202)
    assert response.json()["transaction_id"] == OTHER_TXN
    assert shop.runs() == []


def test_row_4_a_refused_proof(shop: Shop) -> None:
    response = shop.get("/paid", "bm90IGEgcHJvb2Y=")
    assert_instructions(response)
    assert shop.runs() == []
    assert_released(shop.get("/paid", shop.wallet.pay(response.headers["payment-required"])))


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
def test_row_5_odd_access(shop: Shop, fault: Fault, status: int) -> None:
    shop.service.fails("access", fault)
    assert_unavailable(shop.get("/paid"), status)
    proof = shop.proof_for("/paid")
    shop.service.fails("access", fault)
    assert_unavailable(shop.get("/paid", proof), status)
    assert shop.runs() == []
    assert_released(shop.get("/paid", proof))


def test_row_5_access_unanswered(shop: Shop) -> None:
    proof = shop.proof_for("/paid")
    shop.service.fails("access", lost_before, lost_after)
    assert_withheld(shop.get("/paid", proof), 503, "payment_service_unavailable")
    assert shop.runs() == []
    assert_released(shop.get("/paid", proof))
    assert shop.outcome() == "succeeded"


@thorough
def test_row_5_one_lost_answer_is_not_noticed(shop: Shop) -> None:
    proof = shop.proof_for("/paid")
    shop.service.fails("access", lost_after)
    assert_released(shop.get("/paid", proof))
    assert shop.outcome() == "succeeded"


def test_row_5_nothing_is_sold_under_this_name(shop: Shop) -> None:
    assert_withheld(shop.get("/unknown"), 502, "payment_service_unavailable")
    assert shop.runs() == []


def test_row_6_a_transaction_without_a_proof(shop: Shop) -> None:
    shop.service.fails("access", answers(200, {"transaction_id": OTHER_TXN}))
    assert_withheld(shop.get("/paid"), 502)
    assert shop.runs() == []


def test_row_7_a_raising_handler(shop: Shop) -> None:
    response = shop.buy("/do?what=raise")
    assert (response.status_code, "payment-response" in response.headers) == (500, False)
    assert ("secret" in response.text, "paid content" in response.text) == (False, False)
    assert (shop.outcome(), len(shop.runs())) == ("failed", 1)


@pytest.mark.parametrize("status", [304, 400, 404, 503])
def test_row_7_not_billable(shop: Shop, status: int) -> None:
    path = f"/do?what=status-{status}"
    proof = shop.proof_for(path)
    response = shop.get(path, proof)
    assert (response.status_code, response.headers["x-mine"]) == (status, "1")
    assert "payment-response" not in response.headers
    assert shop.outcome() == "failed"
    assert_instructions(shop.get(path, proof))
    assert len(shop.runs()) == 1


def test_row_7_a_stream_that_breaks_off(shop: Shop) -> None:
    response = shop.buy("/do?what=stream-raises")
    assert (response.status_code, "payment-response" in response.headers) == (500, False)
    assert "paid" not in response.text
    assert shop.outcome() == "failed"


def test_row_7_too_large(shop: Shop) -> None:
    assert_withheld(shop.buy("/small?what=big-101"), 500, "result_too_large")
    assert shop.outcome() == "failed"


def test_row_7_as_large_as_it_may_be(shop: Shop) -> None:
    assert len(shop.buy("/small?what=big-100").content) == 100
    assert shop.outcome() == "succeeded"


def test_row_7_too_slow(shop: Shop) -> None:
    assert_withheld(shop.buy("/hurried?what=sleep-0.4"), 500, "work_timed_out")
    assert shop.outcome() == "failed"


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
def test_row_7_reported_values(shop: Shop, values: dict[str, Any], outcome: str) -> None:
    response = shop.buy(f"/metered?what={quote('report-' + json.dumps(values))}")
    if outcome == "succeeded":
        assert_released(response)
    else:
        assert (response.status_code, "payment-response" in response.headers) == (500, False)
    assert shop.outcome() == outcome


def test_row_8_paid(shop: Shop) -> None:
    response = shop.buy("/paid")
    assert_released(response)
    assert response.headers["x-own"] == "1"
    assert response.headers.get_list("cache-control") == ["private, no-store"]
    assert response.headers["content-length"] == str(len(response.content))
    (run,) = shop.runs()
    assert {run.transaction: "succeeded"} == shop.statuses()
    assert shop.count("complete") == 1


@pytest.mark.parametrize(
    "fault",
    [
        with_body(status="settling"),
        changes(lambda reply: replace(reply, status=202)),
        pytest.param(with_body(status="reconciling"), marks=thorough),
        pytest.param(with_body(status="some_day_invented"), marks=thorough),
    ],
)
def test_row_9_anything_not_final_is_202(shop: Shop, fault: Fault) -> None:
    proof = shop.proof_for("/paid")
    shop.service.fails("complete", fault)
    response = shop.get("/paid", proof)
    assert_withheld(response, 202)
    assert response.json()["transaction_id"] in shop.statuses()
    assert int(response.headers["retry-after"]) > 0
    assert_released(shop.get("/paid", proof))
    assert len(shop.runs()) == 1


def test_row_9_then_13_a_payment_that_settles_late(shop: Shop) -> None:
    proof = shop.proof_for("/late")
    responses = [shop.get("/late", proof) for _ in range(3)]
    assert [response.status_code for response in responses] == [202, 202, 200]
    assert_withheld(responses[0], 202)
    assert_released(responses[-1])
    assert len(shop.runs()) == 1


@pytest.mark.parametrize("fault", UNPROVEN)
def test_row_10_then_13_unproven_is_held_and_delivered_later(shop: Shop, fault: Fault) -> None:
    proof = shop.proof_for("/paid")
    shop.service.fails("complete", fault, fault, fault)
    assert_unconfirmed(shop.get("/paid", proof), shop)
    assert_released(shop.get("/paid", proof))
    assert (len(shop.runs()), shop.outcome()) == (1, "succeeded")


def test_row_10_a_lost_answer(shop: Shop) -> None:
    proof = shop.proof_for("/paid")
    shop.service.fails("complete", lost_after, *[NOT_PROVEN["no receipt"]] * 2)
    assert_unconfirmed(shop.get("/paid", proof), shop)
    assert_released(shop.get("/paid", proof))
    assert (len(shop.runs()), shop.outcome()) == (1, "succeeded")


@pytest.mark.parametrize(
    "fault", [*UNPROVEN[:1], *(pytest.param(*one.values, marks=thorough) for one in UNPROVEN[1:])]
)
def test_row_10_a_retry_within_the_bound_delivers_at_once(shop: Shop, fault: Fault) -> None:
    proof = shop.proof_for("/paid")
    shop.service.fails("complete", fault)
    assert_released(shop.get("/paid", proof))
    assert shop.count("complete") == 2


def test_row_11_a_payment_that_fails_after_the_work(shop: Shop) -> None:
    shop.service.emulator.settle_after(shop.wallet.address, Settlement(after_reads=0, to="failed"))
    proof = shop.proof_for("/paid")
    for _ in range(2):
        assert_instructions(shop.get("/paid", proof))
    assert (len(shop.runs()), shop.outcome()) == (1, "failed")


def test_row_11_by_way_of_13_a_payment_that_fails_late(shop: Shop) -> None:
    proof = shop.proof_for("/never")
    assert_withheld(shop.get("/never", proof), 202)
    assert_instructions(shop.get("/never", proof))
    assert len(shop.runs()) == 1


@pytest.mark.parametrize("status", [401, 403, 429])
def test_row_12_held(shop: Shop, status: int) -> None:
    proof = shop.proof_for("/paid")
    shop.service.fails("complete", answers(status, {"code": "secret", "message": "svc_x"}))
    response = shop.get("/paid", proof)
    assert_withheld(response, status)
    assert "svc_" not in response.text
    assert_released(shop.get("/paid", proof))


@thorough
def test_row_12_a_failing_service(shop: Shop) -> None:
    proof = shop.proof_for("/paid")
    shop.service.fails("complete", *[answers(500, {"code": "internal_error", "message": "no"})] * 3)
    assert_withheld(shop.get("/paid", proof), 500)
    assert shop.count("complete") == 3
    assert_released(shop.get("/paid", proof))


def test_row_12_not_for_good(shop: Shop) -> None:
    """Even this may be about another transaction: the payer comes back, and is not asked to pay again."""
    proof = shop.proof_for("/paid")
    shop.service.fails("complete", answers(404, {"code": "transaction_not_found", "message": "no"}))
    assert_withheld(shop.get("/paid", proof), 404)
    assert_released(shop.get("/paid", proof))
    assert len(shop.runs()) == 1


def test_row_13_a_get_informs_and_never_releases(shop: Shop) -> None:
    proof = shop.proof_for("/paid")
    silent = NOT_PROVEN["no PAYMENT-RESPONSE"]
    shop.service.fails("complete", *[silent] * 6)
    assert_unconfirmed(shop.get("/paid", proof), shop)
    assert shop.outcome() == "succeeded"
    assert_unconfirmed(shop.get("/paid", proof), shop)
    assert_released(shop.get("/paid", proof))


@pytest.mark.parametrize(
    "fault",
    [answers(500, {}), *(pytest.param(one, marks=thorough) for one in (lost_before, answers(404, {})))],
)
def test_row_13_standing_unknown_is_row_10(shop: Shop, fault: Fault) -> None:
    proof = shop.proof_for("/paid")
    shop.service.fails("complete", *[NOT_PROVEN["no receipt"]] * 3)
    assert_unconfirmed(shop.get("/paid", proof), shop)
    shop.service.fails("transaction", fault)
    assert_unconfirmed(shop.get("/paid", proof), shop)
    assert_released(shop.get("/paid", proof))


@thorough
def test_row_13_a_standing_that_cannot_be_read_leads_to_complete(shop: Shop) -> None:
    """A paid result was held for ever because of a field that nobody needs."""
    proof = shop.proof_for("/paid")
    shop.service.fails("complete", *[lost_after] * 3)
    assert_unconfirmed(shop.get("/paid", proof), shop)
    shop.service.fails("transaction", answers(200, b"x"))
    assert_released(shop.get("/paid", proof))
    assert len(shop.runs()) == 1


def test_row_14_the_same_proof_while_the_first_is_running(shop: Shop) -> None:
    path = "/do?what=sleep-0.5"
    proof = shop.proof_for(path)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(shop.get, path, proof)
        assert eventually(lambda: len(shop.runs()) == 1)
        second = shop.get(path, proof)
        assert_released(first.result())
    assert_withheld(second, 409, "payment_in_progress")
    assert int(second.headers["retry-after"]) > 0
    assert len(shop.runs()) == 1


def test_row_15_the_same_result_byte_for_byte(shop: Shop) -> None:
    proof = shop.proof_for("/do?what=cookies")
    first = shop.get("/do?what=cookies", proof)
    assert len(first.headers.get_list("set-cookie")) == 2
    calls = len(shop.service.asked)
    for _ in range(3):
        again = shop.get("/do?what=cookies", proof)
        assert again.content == first.content
        assert not again.headers.get_list("set-cookie")
        assert comparable(again.headers.multi_items()) == comparable(first.headers.multi_items())
    assert_withheld(shop.get("/do?what=cookies", proof), 409, "proof_already_used")
    # Each process finds out once whether somebody else could know the proof.
    assert set(shop.service.asked[calls:]) <= {"contracts", "access"}
    assert len(shop.runs()) == 1


def comparable(headers: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """But for the date, and for cookies, which are for the first answer alone."""
    return sorted(pair for pair in headers if pair[0] not in ("date", "set-cookie"))


@pytest.mark.parametrize(
    ("path", "method"),
    [("/paid?q=2", "GET"), ("/late", "GET"), ("/paid", "POST"), ("/mount/inner/paid", "GET")],
)  # fmt: skip
def test_row_16_another_request(shop: Shop, path: str, method: str) -> None:
    proof = shop.proof_for("/paid")
    assert_released(shop.get("/paid", proof))
    assert_withheld(shop.get(path, proof, method=method), 409, "proof_already_used")
    assert len(shop.runs()) == 1


def test_row_16_another_encoding_of_the_same_payment_runs_nothing(shop: Shop) -> None:
    proof = shop.proof_for("/paid")
    assert_released(shop.get("/paid", proof))
    encoded = base64.b64encode(json.dumps(json.loads(base64.b64decode(proof)), indent=1).encode()).decode()
    response = shop.get("/paid", encoded)
    assert response.status_code in (402, 409)
    assert ("paid content" in response.text, len(shop.runs())) == (False, 1)


def test_many_payers_at_once_each_get_their_own(shop: Shop) -> None:
    def buy(wallet: Wallet) -> tuple[str, str]:
        unpaid = shop.get("/paid")
        response = shop.get("/paid", wallet.pay(unpaid.headers["payment-required"]))
        assert_released(response)
        payer = json.loads(base64.b64decode(response.headers["payment-response"]))["payer"]
        return payer, wallet.address

    with ThreadPoolExecutor(8) as pool:
        pairs = list(pool.map(buy, [Wallet() for _ in range(16)]))
    assert all(payer.lower() == wallet.lower() for payer, wallet in pairs)
    assert len({run.transaction for run in shop.runs()}) == 16

"""Every row of DESIGN section 4 over real servers: a payer, the seller's server, the service."""

import base64
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import httpx
import pytest
from starlette.responses import JSONResponse, Response

from faregate.emulator import Settlement, Wallet
from tests.adapters.conftest import Shop
from tests.adapters.faulty_service import Fault, answers, changes, lost_after, lost_before, with_body, without
from tests.adapters.sellers import answering, raising, reporting, sleeping, streaming
from tests.core.flow_script import OTHER_TXN

CONTENT = "paid content"


def assert_released(response: httpx.Response) -> None:
    assert response.status_code == 200, response.text
    assert CONTENT in response.text
    receipt = json.loads(base64.b64decode(response.headers["payment-response"]))
    assert receipt["success"] is True


def assert_withheld(response: httpx.Response, status: int, code: str | None = None) -> None:
    assert response.status_code == status, response.text
    assert CONTENT not in response.text
    assert "payment-response" not in response.headers
    assert "x-own" not in response.headers
    assert response.headers["cache-control"] == "private, no-store"
    if code is not None:
        assert response.json()["code"] == code


def assert_fresh_instructions(response: httpx.Response) -> None:
    assert_withheld(response, 402, "payment_required")
    required = json.loads(base64.b64decode(response.headers["payment-required"]))
    assert required["accepts"]


def assert_unconfirmed(response: httpx.Response, shop: Shop) -> None:
    assert_withheld(response, 503, "payment_unconfirmed")
    assert response.json()["transaction_id"] in shop.statuses()
    assert int(response.headers["retry-after"]) > 0
    assert "payment-required" not in response.headers


def test_row_1_no_proof(shop: Shop) -> None:
    response = shop.get("/paid")
    assert_fresh_instructions(response)
    required = json.loads(base64.b64decode(response.headers["payment-required"]))
    assert required["resource"]["url"] == "https://seller.example/paid"
    assert shop.work.runs == 0


def test_row_1_the_instructions_are_relayed_byte_for_byte(shop: Shop) -> None:
    header, body = "bm90IGV2ZW4ganNvbg==", b'{"code":"payment_required" ,  "message":"odd"}'
    shop.service.fails("access", answers(402, body, ("PAYMENT-REQUIRED", header), ("Retry-After", "17")))
    response = shop.get("/paid")
    assert (response.headers["payment-required"], response.content) == (header, body)
    assert response.headers["retry-after"] == "17"


def test_row_2_free(shop: Shop) -> None:
    for proof in (None, "cHJvb2Y="):
        response = shop.get("/free", proof)
        assert (response.status_code, "payment-response" in response.headers) == (200, False)
        assert CONTENT in response.text
    assert shop.service.count("complete") == 0


def test_row_2_a_known_execution_is_closed(shop: Shop) -> None:
    rex = "rex_0190aaaaaaaa7aaa8aaaaaaaaaaaaaaa"
    shop.service.fails("access", answers(200, {"transaction_id": None, "resource_execution_id": rex}))
    assert CONTENT in shop.get("/free").text
    assert shop.service.count("execution") == 1


def test_row_3_access_pending(shop: Shop) -> None:
    """The seller forgot the sale (another process, a restart) while its payment is settling."""
    proof = shop.proof_for("/late")
    assert_withheld(shop.get("/late", proof), 202)
    (transaction_id,) = shop.statuses()
    shop.paywall.journal.__init__()  # type: ignore[misc]  # an empty journal
    for _ in range(2):
        response = shop.get("/late", proof)
        assert_withheld(response, 202)
        assert response.json()["transaction_id"] == transaction_id
    assert (shop.work.runs, shop.service.count("transaction")) == (1, 1)
    response = shop.get("/late", proof)
    assert_withheld(response, 409, "proof_already_used")
    assert response.json()["transaction_id"] == transaction_id
    assert shop.work.runs == 1


def test_row_4_a_refused_proof(shop: Shop) -> None:
    response = shop.get("/paid", "bm90IGEgcHJvb2Y=")
    assert_fresh_instructions(response)
    assert shop.work.runs == 0
    assert_released(shop.get("/paid", shop.wallet.pay(response.headers["payment-required"])))


ODD_ACCESS: list[tuple[Fault, int]] = [
    (answers(200, b"<html>"), 502),
    (answers(200, b""), 502),
    (answers(200, b"[" * 100_000), 502),
    (answers(200, {}), 502),
    (answers(200, {"transaction_id": ""}), 502),
    (answers(200, {"transaction_id": 0}), 502),
    (answers(200, {"transaction_id": False}), 502),
    (answers(200, {"transaction_id": []}), 502),
    (answers(200, {"transaction_id": "txn_../../x"}), 502),
    (answers(200, {"transaction_id": OTHER_TXN + "\n"}), 502),
    (answers(201, {"transaction_id": None}), 502),
    (answers(204, b""), 502),
    (answers(302, b"", ("Location", "https://elsewhere.example/")), 502),
    (answers(401, {"code": "unauthenticated", "message": "svc_test_emulator is wrong"}), 502),
    (answers(402, {"code": "payment_required", "message": "pay"}), 502),
    (answers(402, {}, ("PAYMENT-REQUIRED", "a"), ("PAYMENT-REQUIRED", "b")), 502),
    (answers(402, {}, ("PAYMENT-REQUIRED", "x" * 20_000)), 502),
    (answers(403, {"code": "forbidden", "message": "no"}), 502),
    (answers(422, {"code": "invalid_request", "message": "no"}), 502),
    (answers(429, {"code": "slow_down", "message": "no"}, ("Retry-After", "30")), 503),
    (answers(500, {"code": "internal_error", "message": "secret trace"}), 503),
    (answers(503, b"down"), 503),
    (answers(200, {"transaction_id": None, "pad": "x" * 2_000_000}), 502),
]


@pytest.mark.parametrize("proven", [False, True])
@pytest.mark.parametrize(("fault", "status"), ODD_ACCESS, ids=range(len(ODD_ACCESS)))
def test_row_5_odd_access(shop: Shop, fault: Fault, status: int, proven: bool) -> None:
    proof = shop.proof_for("/paid") if proven else None
    shop.service.fails("access", fault)
    response = shop.get("/paid", proof)
    assert_withheld(response, status, "payment_service_unavailable")
    assert set(response.json()) == {"code", "message"}
    assert "svc_" not in response.text
    assert ("retry-after" in response.headers) == (status == 503)
    assert shop.work.runs == 0
    if proof:
        assert_released(shop.get("/paid", proof))


@pytest.mark.parametrize("fault", [lost_before, lost_after])
def test_row_5_access_unanswered(shop: Shop, fault: Fault) -> None:
    proof = shop.proof_for("/paid")
    shop.service.fails("access", fault, fault)
    assert_withheld(shop.get("/paid", proof), 503, "payment_service_unavailable")
    assert shop.work.runs == 0
    assert_released(shop.get("/paid", proof))
    assert list(shop.statuses().values()) == ["succeeded"]


def test_row_5_one_lost_answer_is_not_noticed(shop: Shop) -> None:
    proof = shop.proof_for("/paid")
    shop.service.fails("access", lost_after)
    assert_released(shop.get("/paid", proof))
    assert len(shop.statuses()) == 1


def test_row_5_something_unknown_is_for_sale(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    response = shop.get("/unknown")
    assert_withheld(response, 502, "payment_service_unavailable")
    assert "no_such_thing" in caplog.text
    assert "daily_report" in caplog.text
    assert shop.work.runs == 0


def test_row_6_a_transaction_without_a_proof(shop: Shop) -> None:
    shop.service.fails("access", answers(200, {"transaction_id": OTHER_TXN}))
    assert_withheld(shop.get("/paid"), 502)
    assert shop.work.runs == 0


@pytest.mark.parametrize("status", [304, 400, 404, 500, 503])
def test_row_7_not_billable(shop: Shop, status: int) -> None:
    answer = Response(
        b"" if status == 304 else b"mine", status, {"PAYMENT-RESPONSE": "forged", "x-mine": "1"}
    )
    shop.work.behave = answering(lambda: answer)
    proof = shop.proof_for("/paid")
    response = shop.get("/paid", proof)
    assert (response.status_code, response.headers["x-mine"]) == (status, "1")
    assert "payment-response" not in response.headers
    assert list(shop.statuses().values()) == ["failed"]
    assert_fresh_instructions(shop.get("/paid", proof))
    assert shop.work.runs == 1


def test_row_7_a_raising_handler(shop: Shop) -> None:
    shop.work.behave = raising(ZeroDivisionError("secret"))
    response = shop.get("/paid", shop.proof_for("/paid"))
    assert (response.status_code, "payment-response" in response.headers) == (500, False)
    assert "secret" not in response.text
    assert list(shop.statuses().values()) == ["failed"]


@pytest.mark.parametrize("chunks", [(), (b"first",), (b"first", b"second")])
def test_row_7_a_stream_that_breaks_off(shop: Shop, chunks: tuple[bytes, ...]) -> None:
    shop.work.behave = answering(streaming(*chunks, error=RuntimeError("broke off")))
    response = shop.get("/paid", shop.proof_for("/paid"))
    assert response.status_code == 500
    assert "first" not in response.text
    assert list(shop.statuses().values()) == ["failed"]


def test_row_7_too_large(shop: Shop) -> None:
    shop.work.behave = answering(streaming(b"x" * 60, b"x" * 60))
    assert_withheld(shop.get("/small", shop.proof_for("/small")), 500, "result_too_large")
    assert list(shop.statuses().values()) == ["failed"]
    shop.work.behave = answering(streaming(b"x" * 50, b"x" * 50))
    assert shop.get("/small", shop.proof_for("/small")).text == "x" * 100


def test_row_7_too_slow(shop: Shop) -> None:
    shop.work.behave = sleeping(5)
    began = time.monotonic()
    assert_withheld(shop.get("/hurried", shop.proof_for("/hurried")), 500, "work_timed_out")
    assert time.monotonic() - began < 3
    assert list(shop.statuses().values()) == ["failed"]


@pytest.mark.parametrize(
    ("values", "sold"),
    [
        ({"input_tokens": 12}, True),
        ({"input_tokens": "12.5", "output_tokens": 3}, True),
        ({}, False),
        ({"input_tokens": 1, "unheard_of": 1}, False),
        ({"input_tokens": 0.5}, False),
        ({"input_tokens": -1}, False),
    ],
)
def test_row_7_reported_values(shop: Shop, values: dict[str, Any], sold: bool) -> None:
    shop.work.behave = reporting(values)
    response = shop.get("/metered", shop.proof_for("/metered"))
    if sold:
        assert_released(response)
    else:
        assert response.status_code == 500
        assert "payment-response" not in response.headers
    assert list(shop.statuses().values()) == ["succeeded" if sold else "failed"]


def test_row_8_paid(shop: Shop) -> None:
    response = shop.get("/paid", shop.proof_for("/paid"))
    assert_released(response)
    assert response.headers["x-own"] == "1"
    assert response.headers["cache-control"] == "private, no-store"
    assert list(shop.statuses().values()) == ["succeeded"]


def test_row_8_repeated_headers_survive_and_payment_headers_of_the_handler_do_not(shop: Shop) -> None:
    answer = JSONResponse(
        {"result": CONTENT}, headers={"PAYMENT-REQUIRED": "forged", "Cache-Control": "public"}
    )
    answer.set_cookie("a", "1")
    answer.set_cookie("b", "2")
    shop.work.behave = answering(lambda: answer)
    response = shop.get("/paid", shop.proof_for("/paid"))
    assert len(response.headers.get_list("set-cookie")) == 2
    assert "payment-required" not in response.headers
    assert response.headers.get_list("cache-control") == ["private, no-store"]


NOT_PROVEN: list[Fault] = [
    without("PAYMENT-RESPONSE"),
    changes(lambda reply: reply.plus(("PAYMENT-RESPONSE", "c2Vjb25k"))),
    with_body(receipt=None),
    with_body(receipt={}),
    with_body(transaction_id=OTHER_TXN),
    with_body(transaction_id=None),
    with_body(status=["succeeded"]),
    answers(200, b"garbage"),
    answers(200, {}),
    answers(204, b""),
    answers(302, b"", ("Location", "https://elsewhere.example/")),
    answers(402, {"code": "payment_required", "message": "pay"}, ("PAYMENT-REQUIRED", "cGF5IGFnYWlu")),
    lost_before,
    lost_after,
]


@pytest.mark.parametrize("fault", NOT_PROVEN, ids=range(len(NOT_PROVEN)))
def test_row_10_then_13_an_unproven_payment_is_held_and_delivered_later(shop: Shop, fault: Fault) -> None:
    proof = shop.proof_for("/paid")
    shop.service.fails("complete", fault, fault, fault)
    assert_unconfirmed(shop.get("/paid", proof), shop)
    assert_released(shop.get("/paid", proof))
    assert shop.work.runs == 1
    assert list(shop.statuses().values()) == ["succeeded"]


@pytest.mark.parametrize("fault", NOT_PROVEN, ids=range(len(NOT_PROVEN)))
def test_row_10_a_retry_within_the_bound_delivers_at_once(shop: Shop, fault: Fault) -> None:
    proof = shop.proof_for("/paid")
    shop.service.fails("complete", fault)
    assert_released(shop.get("/paid", proof))
    assert shop.service.count("complete") == 2


SETTLING: list[Fault] = [
    with_body(status="settling"),
    with_body(status="reconciling"),
    with_body(status="some_day_invented"),
    changes(lambda reply: replace(reply, status=202)),
]


@pytest.mark.parametrize("fault", SETTLING, ids=range(len(SETTLING)))
def test_row_9_anything_not_final_is_202(shop: Shop, fault: Fault) -> None:
    proof = shop.proof_for("/paid")
    shop.service.fails("complete", fault)
    response = shop.get("/paid", proof)
    assert_withheld(response, 202)
    assert response.json()["transaction_id"] in shop.statuses()
    assert "retry-after" in response.headers
    assert_released(shop.get("/paid", proof))
    assert shop.work.runs == 1


def test_row_9_then_13_a_payment_that_settles_late(shop: Shop) -> None:
    proof = shop.proof_for("/late")
    seen = []
    for _ in range(5):
        response = shop.get("/late", proof)
        seen.append(response.status_code)
        if response.status_code == 200:
            break
        assert_withheld(response, 202)
    assert_released(response)
    assert seen == [202, 202, 200]
    assert shop.work.runs == 1


def test_row_11_a_payment_that_fails_after_the_work(shop: Shop) -> None:
    shop.service.emulator.settle_after("daily_report", Settlement(after_reads=0, to="failed"))
    proof = shop.proof_for("/paid")
    assert_fresh_instructions(shop.get("/paid", proof))
    assert shop.work.runs == 1
    assert_fresh_instructions(shop.get("/paid", proof))
    assert shop.work.runs == 1


def test_row_11_by_way_of_13_a_payment_that_fails_late(shop: Shop) -> None:
    proof = shop.proof_for("/never")
    assert_withheld(shop.get("/never", proof), 202)
    assert_fresh_instructions(shop.get("/never", proof))
    assert shop.work.runs == 1


@pytest.mark.parametrize("status", [401, 403, 429])
def test_row_12_held(shop: Shop, status: int) -> None:
    proof = shop.proof_for("/paid")
    shop.service.fails("complete", answers(status, {"code": "secret", "message": "svc_test_emulator"}))
    response = shop.get("/paid", proof)
    assert_withheld(response, status)
    assert "svc_" not in response.text
    assert_released(shop.get("/paid", proof))


def test_row_12_a_failing_service(shop: Shop) -> None:
    proof = shop.proof_for("/paid")
    fault = answers(500, {"code": "internal_error", "message": "no"})
    shop.service.fails("complete", fault, fault, fault)
    assert_withheld(shop.get("/paid", proof), 500)
    assert shop.service.count("complete") == 3
    assert_released(shop.get("/paid", proof))


def test_row_12_not_for_good(shop: Shop) -> None:
    """Even this may be about another transaction: the payer comes back, and is not asked to pay again."""
    proof = shop.proof_for("/paid")
    shop.service.fails("complete", answers(404, {"code": "transaction_not_found", "message": "no"}))
    assert_withheld(shop.get("/paid", proof), 404)
    assert_released(shop.get("/paid", proof))
    assert shop.work.runs == 1


@pytest.mark.parametrize("fault", [lost_before, answers(500, {}), answers(404, {})])
def test_row_13_standing_unknown_is_row_10(shop: Shop, fault: Fault) -> None:
    proof = shop.proof_for("/paid")
    shop.service.fails("complete", lost_after, lost_after, lost_after)
    assert_unconfirmed(shop.get("/paid", proof), shop)
    shop.service.fails("transaction", fault)
    assert_unconfirmed(shop.get("/paid", proof), shop)
    assert_released(shop.get("/paid", proof))


def test_row_13_a_standing_that_cannot_be_read_leads_to_complete(shop: Shop) -> None:
    """A paid result was held for ever because of a field that nobody needs."""
    proof = shop.proof_for("/paid")
    shop.service.fails("complete", lost_after, lost_after, lost_after)
    assert_unconfirmed(shop.get("/paid", proof), shop)
    shop.service.fails("transaction", answers(200, b"x"))
    assert_released(shop.get("/paid", proof))
    assert shop.work.runs == 1


def test_row_13_a_get_informs_and_never_releases(shop: Shop) -> None:
    proof = shop.proof_for("/paid")
    silence = [lost_after] * 3
    shop.service.fails("complete", *silence, *silence)
    assert_unconfirmed(shop.get("/paid", proof), shop)
    assert list(shop.statuses().values()) == ["succeeded"]
    assert_unconfirmed(shop.get("/paid", proof), shop)


def test_rows_14_and_15_one_proof_many_times_at_once(shop: Shop) -> None:
    shop.work.behave = sleeping(1.5)
    proof = shop.proof_for("/paid")
    with ThreadPoolExecutor(20) as pool:
        responses = list(pool.map(lambda _: shop.get("/paid", proof), range(20)))
    by_status = sorted(response.status_code for response in responses)
    assert by_status == [200] + [409] * 19
    assert {r.json()["code"] for r in responses if r.status_code == 409} == {"payment_in_progress"}
    assert all("retry-after" in r.headers for r in responses if r.status_code == 409)
    assert shop.work.runs == 1
    assert shop.service.count("complete") == 1


def test_row_15_the_same_result_byte_for_byte(shop: Shop) -> None:
    proof = shop.proof_for("/paid")
    first = shop.get("/paid", proof)
    calls = len(shop.service.asked)
    for _ in range(3):
        again = shop.get("/paid", proof)
        assert again.content == first.content
        assert dict(again.headers) | {"date": ""} == dict(first.headers) | {"date": ""}
    assert_withheld(shop.get("/paid", proof), 409, "proof_already_used")
    # Once: whether somebody else could know the proof.
    assert shop.service.asked[calls:] == ["access", "access"]
    assert shop.work.runs == 1


@pytest.mark.parametrize(
    ("path", "method"), [("/paid?q=2", "GET"), ("/late", "GET"), ("/paid", "POST"), ("/metered", "GET")]
)
def test_row_16_another_request(shop: Shop, path: str, method: str) -> None:
    proof = shop.proof_for("/paid")
    assert_released(shop.get("/paid", proof))
    calls = len(shop.service.asked)
    contracts = shop.service.count("contracts")
    assert_withheld(shop.get(path, proof, method=method), 409, "proof_already_used")
    assert len(shop.service.asked) - calls == shop.service.count("contracts") - contracts
    assert shop.work.runs == 1


def test_row_16_another_encoding_of_the_same_payment_runs_nothing(shop: Shop) -> None:
    proof = shop.proof_for("/paid")
    assert_released(shop.get("/paid", proof))
    encoded = base64.b64encode(json.dumps(json.loads(base64.b64decode(proof)), indent=1).encode()).decode()
    assert encoded != proof
    response = shop.get("/paid", encoded)
    assert response.status_code in (402, 409)
    assert CONTENT not in response.text
    assert shop.work.runs == 1


def test_row_16_two_encodings_at_once_run_the_work_once(shop: Shop) -> None:
    shop.work.behave = sleeping(1.5)
    proof = shop.proof_for("/paid")
    payload = json.loads(base64.b64decode(proof))
    encodings = [base64.b64encode(json.dumps(payload, indent=i).encode()).decode() for i in range(1, 9)]
    with ThreadPoolExecutor(9) as pool:
        responses = list(pool.map(lambda p: shop.get("/paid", p), [proof, *encodings]))
    assert [response.status_code for response in responses].count(200) == 1
    assert shop.work.runs == 1


def test_many_payers_at_once_each_get_their_own(shop: Shop) -> None:
    def buy(_: int) -> httpx.Response:
        wallet = Wallet()
        unpaid = shop.get("/paid")
        return shop.get("/paid", wallet.pay(unpaid.headers["payment-required"]))

    with ThreadPoolExecutor(16) as pool:
        responses = list(pool.map(buy, range(48)))
    assert {response.status_code for response in responses} == {200}
    assert len({response.headers["payment-response"] for response in responses}) == 48
    assert shop.work.runs == 48


def test_a_sync_handler_runs_in_a_thread(shop: Shop) -> None:
    response = shop.get("/threaded", shop.proof_for("/threaded"))
    assert response.json() == {"result": "from a thread"}
    assert "payment-response" in response.headers
    assert threading.get_ident() not in shop.work.seen

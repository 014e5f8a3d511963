"""What a reply proves: every part of row 8 taken away in turn, every odd reply named."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from faregate.core.models import Response
from faregate.core.results import (
    AccessFailed,
    AccessFree,
    AccessGranted,
    AccessPending,
    AccessUnpaid,
    CompletionPaid,
    CompletionPending,
    CompletionRejected,
    CompletionUnknown,
    CompletionUnpaid,
    TransactionSettled,
    TransactionState,
)
from faregate.errors import ApiError, BadAnswer
from faregate.merchant.interpret import (
    parse_access,
    parse_completion,
    parse_payer,
    parse_transaction_state,
)
from tests.core.flow_script import OTHER_TXN, TXN
from tests.core.replies import COMPLETED, DETAIL, SOLD
from tests.merchant.samples import SETTLEMENT

ERROR = {"code": "c", "message": "m"}
UNAUTHENTICATED = {"code": "unauthenticated", "message": "m"}
SAID = "access was answered with"
INSTRUCTIONS = ("PAYMENT-REQUIRED", "aW5zdHI=")


def changed(reply: Response, change: Callable[[Any], Any], status: int = 200) -> Response:
    body = json.loads(reply.body)
    change(body)
    return replace(reply, status=status, body=json.dumps(body).encode())


def answer(status: int, body: Any, *headers: tuple[str, str]) -> Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Response(status, headers, content)


def test_a_whole_proof_is_proof() -> None:
    proven = parse_completion(COMPLETED, SOLD)
    assert isinstance(proven, CompletionPaid)
    assert proven == CompletionPaid(COMPLETED.first("payment-response") or "", proven.receipt)
    assert json.loads(proven.receipt)["transaction_id"] == SOLD


def test_a_reply_that_is_wholly_about_another_transaction_proves_nothing() -> None:
    assert isinstance(parse_completion(COMPLETED, OTHER_TXN), CompletionUnknown)


def drop(*names: str) -> Callable[[Any], Any]:
    return lambda body: [body.pop(name) for name in names]


def put(**fields: Any) -> Callable[[Any], Any]:
    return lambda body: body.update(fields)


@pytest.mark.parametrize(
    "change",
    [
        put(receipt=None),
        drop("receipt"),
        put(receipt={}),
        put(receipt="yes"),
        put(transaction_id=OTHER_TXN),
        put(transaction_id=None),
        put(transaction_id=SOLD + "\n"),
        put(transaction_id=SOLD.upper()),
        drop("transaction_id"),
    ],
)
def test_a_missing_part_of_the_body_is_unproven(change: Callable[[Any], Any]) -> None:
    assert isinstance(parse_completion(changed(COMPLETED, change), SOLD), CompletionUnknown)


@pytest.mark.parametrize("change", [drop("status"), put(status=None), put(status=["succeeded"])])
def test_a_body_that_is_not_the_contracts_is_a_bad_answer(change: Callable[[Any], Any]) -> None:
    with pytest.raises(BadAnswer):
        parse_completion(changed(COMPLETED, change), SOLD)


@pytest.mark.parametrize(
    "change",
    [
        drop("payment_response"),
        drop("transaction_hash"),
        put(transaction_hash=None, payment_response=7),
        lambda body: body["receipt"].pop("payment"),
        lambda body: body["receipt"].update(seller=None, issued_at="yesterday"),
    ],
)
def test_what_no_decision_needs_is_not_judged(change: Callable[[Any], Any]) -> None:
    """A payment that succeeded must not be held for ever because of a field that nobody reads."""
    proven = parse_completion(changed(COMPLETED, change), SOLD)
    assert isinstance(proven, CompletionPaid)
    assert json.loads(proven.receipt) == json.loads(changed(COMPLETED, change).body)["receipt"]


@pytest.mark.parametrize("value", ["", " ", "a b", "x" * 16_385, "caf\xe9", "a\r\nb", "a\x00b"])
def test_a_payment_response_that_could_not_be_relayed_is_unproven(value: str) -> None:
    headers = tuple(pair for pair in COMPLETED.headers if pair[0].lower() != "payment-response")
    reply = replace(COMPLETED, headers=(*headers, ("Payment-Response", value)))
    assert isinstance(parse_completion(reply, SOLD), CompletionUnknown)
    assert isinstance(parse_completion(replace(reply, headers=headers), SOLD), CompletionUnknown)


def test_two_payment_responses_are_none() -> None:
    assert isinstance(parse_completion(COMPLETED.plus(("payment-response", "Yg==")), SOLD), CompletionUnknown)


def test_unknown_fields_are_tolerated() -> None:
    assert isinstance(parse_completion(changed(COMPLETED, put(novelty=1)), SOLD), CompletionPaid)


@pytest.mark.parametrize(
    "status", ["settling", "reconciling", "authorized", "SUCCEEDED", "succeeded ", "", "novel"]
)
def test_any_other_status_is_settling_and_nothing_early_is_relayed(status: str) -> None:
    assert parse_completion(changed(COMPLETED, put(status=status)), SOLD) == CompletionPending(Response(202))
    clean = changed(COMPLETED, put(status=status, receipt=None, payment_response=None, transaction_hash=None))
    assert parse_completion(clean, SOLD) == CompletionPending(replace(clean, status=202))


def test_202_needs_no_more_than_the_transaction_id() -> None:
    minimal = answer(202, {"transaction_id": SOLD})
    assert parse_completion(minimal, SOLD) == CompletionPending(minimal)
    assert isinstance(parse_completion(answer(202, {"transaction_id": OTHER_TXN}), SOLD), CompletionUnknown)
    assert isinstance(parse_completion(answer(202, b"<html>"), SOLD), CompletionUnknown)


@pytest.mark.parametrize("status", ["succeeded", "failed", "settling"])
def test_202_is_settling_whatever_its_body_says(status: str) -> None:
    assert isinstance(parse_completion(changed(COMPLETED, put(status=status), 202), SOLD), CompletionPending)


def test_failed_is_not_paid() -> None:
    clean = put(status="failed", receipt=None, payment_response=None, transaction_hash=None)
    headers = tuple(pair for pair in COMPLETED.headers if pair[0].lower() != "payment-response")
    failed = replace(changed(COMPLETED, clean), headers=headers)
    assert parse_completion(failed, SOLD) == CompletionUnpaid()
    signs = [put(receipt=json.loads(COMPLETED.body)["receipt"]), put(payment_response="eA==")]
    for sign in [*signs, put(transaction_hash="0x" + "a" * 64)]:
        assert isinstance(parse_completion(changed(failed, sign), SOLD), CompletionUnknown)
    assert isinstance(parse_completion(failed.plus(("PAYMENT-RESPONSE", "eA==")), SOLD), CompletionUnknown)


@pytest.mark.parametrize("status", [100, 201, 204, 206, 301, 302, 304, 307, 402])
def test_a_status_that_means_nothing_here_is_unproven(status: int) -> None:
    assert isinstance(parse_completion(replace(COMPLETED, status=status), SOLD), CompletionUnknown)


@pytest.mark.parametrize(
    ("status", "final"),
    [
        (400, True),
        (401, False),
        (403, False),
        (404, True),
        (408, False),
        (409, True),
        (410, True),
        (422, True),
        (423, False),
        (429, False),
        (599, False),
    ],
)
def test_a_refusal_and_what_it_is_about(status: int, final: bool) -> None:
    refusal = parse_completion(answer(status, ERROR, ("Retry-After", "5")), SOLD)
    assert refusal == CompletionRejected(status, "c", "5")
    assert isinstance(refusal, CompletionRejected)
    assert refusal.is_about_the_transaction is final


@pytest.mark.parametrize("status", [100, 201, 302, 399, 402, 600, 999])
def test_a_status_that_cannot_be_relayed_proves_nothing(status: int) -> None:
    assert isinstance(parse_completion(answer(status, ERROR), SOLD), CompletionUnknown)


def test_a_name_that_is_said_twice_is_nothing_said() -> None:
    """Readers differ in which of two values they take: one of them says that it is free."""
    with pytest.raises(BadAnswer, match="two values"):
        parse_access(answer(200, b'{"transaction_id":"%s","transaction_id":null}' % TXN.encode()))


@pytest.mark.parametrize(
    ("reply", "meaning"),
    [
        (answer(200, {"transaction_id": TXN}), AccessGranted(TXN)),
        (answer(200, {"transaction_id": None}), AccessFree(None)),
        (answer(200, {"transaction_id": None, "novelty": 1}), AccessFree(None)),
        (answer(401, UNAUTHENTICATED), AccessFailed(502, f"{SAID} 401 unauthenticated")),
        (answer(499, ERROR), AccessFailed(502, f"{SAID} 499 c")),
        (answer(500, b"trace"), AccessFailed(503, f"{SAID} 500 unreadable")),
        (answer(429, ERROR, ("Retry-After", "9")), AccessFailed(503, f"{SAID} 429 c", "9")),
        (answer(429, ERROR, ("Retry-After", "9" * 5000)), AccessFailed(503, f"{SAID} 429 c")),
        (answer(302, b""), AccessFailed(502, f"{SAID} 302 unreadable")),
    ],
)  # fmt: skip
def test_access(reply: Response, meaning: Any) -> None:
    assert parse_access(reply) == meaning


def test_access_that_a_payer_can_act_on() -> None:
    payable = answer(402, {"code": "payment_required", "message": "m"}, INSTRUCTIONS)
    assert parse_access(payable) == AccessUnpaid(payable)
    for headers in ((), (INSTRUCTIONS, INSTRUCTIONS), (("PAYMENT-REQUIRED", ""),)):
        assert isinstance(parse_access(replace(payable, headers=headers)), AccessFailed)
    pending = answer(202, {"transaction_id": TXN, "status": "settling"})
    assert parse_access(pending) == AccessPending(pending, TXN)
    assert parse_access(answer(202, b"?")) == AccessPending(Response(202), None)
    for early in ({"payment_response": "eA=="}, {"receipt": json.loads(COMPLETED.body)["receipt"]}):
        told = answer(202, {"transaction_id": TXN, **early})
        assert parse_access(told) == AccessPending(Response(202), TXN)


@pytest.mark.parametrize(
    "body", [b"", b"null", b"[]", b"{}", b'{"transaction_id": ""}', b'{"transaction_id": 0}', b"[" * 99_999]
)
def test_access_that_is_not_the_contracts(body: bytes) -> None:  # fmt: skip
    with pytest.raises(BadAnswer):
        parse_access(answer(200, body))


@pytest.mark.parametrize("execution", [7, "", "rex_1", None, [], {"id": "x"}])
def test_a_field_that_decides_nothing_refuses_no_payment(execution: Any) -> None:
    """The contract does not name it: an id of another shape refused every paid request."""
    extra = {"resource_execution_id": execution, "expires_at": None}
    assert parse_access(answer(200, {"transaction_id": SOLD, **extra})) == AccessGranted(SOLD)
    assert parse_access(answer(200, {"transaction_id": None, **extra})) == AccessFree(None)


@pytest.mark.parametrize("payer", [None, "", 7, [], "unknown", "0x0", "0x" + "g" * 40, "0x" + "a" * 41])
def test_a_payer_that_is_no_address_is_not_compared(payer: object) -> None:
    with pytest.raises(BadAnswer, match="names no payer"):
        parse_payer(changed(DETAIL, put(payer=payer)), SOLD)


def test_a_payer_in_another_case_is_the_same() -> None:
    address = "0x" + "aB" * 20
    assert parse_payer(changed(DETAIL, put(payer=address)), SOLD) == address.lower()


def test_standing() -> None:
    assert isinstance(parse_transaction_state(DETAIL, SOLD), TransactionSettled)
    assert parse_transaction_state(changed(DETAIL, drop("receipt")), SOLD) is TransactionState.CONTRADICTORY
    assert (
        parse_transaction_state(changed(DETAIL, put(status="failed")), SOLD) is TransactionState.CONTRADICTORY
    )
    signs = ("receipt", *SETTLEMENT)
    clean = changed(DETAIL, lambda body: (body.update(status="failed"), [body.pop(sign) for sign in signs]))
    assert parse_transaction_state(clean, SOLD) is TransactionState.FAILED
    for sign in signs:
        told = json.loads(DETAIL.body)[sign]
        assert (
            parse_transaction_state(changed(clean, put(**{sign: told})), SOLD)
            is TransactionState.CONTRADICTORY
        )
    for status, standing in [
        ("authorized", TransactionState.AUTHORIZED),
        ("settling", TransactionState.PENDING),
        ("reconciling", TransactionState.PENDING),
        ("novel", TransactionState.UNRECOGNIZED),
    ]:
        assert parse_transaction_state(changed(DETAIL, put(status=status)), SOLD) is standing
    with pytest.raises(BadAnswer):
        parse_transaction_state(DETAIL, OTHER_TXN)
    with pytest.raises(ApiError):
        parse_transaction_state(answer(404, {"code": "transaction_not_found", "message": "m"}), SOLD)

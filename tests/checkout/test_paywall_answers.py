"""What another paywall of this process has answered to the same request."""

from time import monotonic

import pytest

from faregate.checkout.paywall_answers import AnswerRecord
from faregate.core.models import Headers, Request


def ask(*proofs: str) -> Request:
    return Request("GET", "/report", tuple(("payment-signature", proof) for proof in proofs), "")


def name(transaction: str) -> Headers:
    return (("Faregate-Transaction", transaction),)


@pytest.fixture
def record() -> AnswerRecord:
    record = AnswerRecord()
    record.add(ask("proof"), 200, name("txn_1"))
    return record


def test_an_answer_to_this_request_is_recognised(record: AnswerRecord) -> None:
    assert record.has(ask("proof"), 200, name("txn_1"), monotonic() - 60)


@pytest.mark.parametrize(
    ("request_", "status", "headers"),
    [
        (ask("other"), 200, name("txn_1")),
        (ask(), 200, name("txn_1")),
        (ask("proof", "proof"), 200, name("txn_1")),
        (ask("proof"), 201, name("txn_1")),
        (ask("proof"), 200, name("txn_2")),
        (ask("proof"), 200, ()),
    ],
)
def test_another_one_is_not(record: AnswerRecord, request_: Request, status: int, headers: Headers) -> None:
    assert not record.has(request_, status, headers, monotonic() - 60)


def test_an_answer_from_before_the_request_may_be_a_copy(record: AnswerRecord) -> None:
    assert not record.has(ask("proof"), 200, name("txn_1"), monotonic())


def test_answers_without_a_proof_or_a_transaction_are_not_remembered() -> None:
    record = AnswerRecord()
    record.add(ask(), 402, name("txn_1"))
    record.add(ask("proof"), 402, ())
    for headers in (name("txn_1"), name(""), ()):
        for request in (ask("proof"), ask()):
            assert not record.has(request, 402, headers, 0)


def test_the_oldest_answers_are_forgotten(record: AnswerRecord) -> None:
    for number in range(2, 1025):
        record.add(ask("proof"), 200, name(f"txn_{number}"))
    assert record.has(ask("proof"), 200, name("txn_1"), 0)
    record.add(ask("proof"), 200, name("txn_1"))  # again: now it is the newest one
    record.add(ask("proof"), 200, name("txn_1025"))
    assert record.has(ask("proof"), 200, name("txn_1"), 0)
    assert not record.has(ask("proof"), 200, name("txn_2"), 0)

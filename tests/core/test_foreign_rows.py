"""Rows that were taken over, were begun under another API key, or whose transaction is no longer granted."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

import pytest

from faregate.core import responses
from faregate.core.claims import Claimed, PendingPayment, Resumable, SettlementWrite
from faregate.core.completion import complete_success
from faregate.core.flow import serve
from faregate.core.models import Response, WorkFailed
from faregate.core.recovery import recover, sweep
from faregate.core.results import (
    AccessGranted,
    AccessUnpaid,
    CompletionRejected,
    CompletionUnpaid,
    OtherSellersPayment,
    Settlement,
    TransactionSettled,
    TransactionState,
)
from faregate.core.steps import (
    CallAccess,
    CallComplete,
    GetTransaction,
    LeaseNext,
    MarkStuck,
    Postpone,
    RecordFinal,
    RecordOutcome,
    RecordSettlement,
    ScheduleRetry,
)
from faregate.errors import BadAnswer, Forbidden, NoAnswer, TransactionNotFound
from faregate.events import Authorized, Released, Settled, Worked
from faregate.merchant.interpret import parse_access, parse_completion, parse_transaction_state
from tests.core.flow_script import (
    ACR,
    COMPLETE,
    ENTRY,
    GOOD,
    LEASE_HELD,
    NOTE,
    PAID,
    PROOF,
    RECEIPT,
    RULES,
    TXN,
    WORKED,
    Raise,
    accessed,
    claimed,
    found,
    play,
    sale,
    told,
)

NEEDED = AccessUnpaid(Response(402, (("PAYMENT-REQUIRED", "bmVlZGVk"),), b'{"code":"payment_required"}'))
HELD = replace(ENTRY, outcome=GOOD)
FOREIGN = replace(HELD, foreign=True)
INTERRUPTED = WorkFailed("interrupted")


def code(response: Response) -> Any:
    return json.loads(response.body)["code"]


def answer(settlement: Settlement) -> Response:
    return responses.build_settlement(settlement, TXN)


# The lease was lost, and somebody else delivered


def test_who_was_overtaken_hands_nothing_out() -> None:
    lost = (
        RecordSettlement(LEASE_HELD, PAID.payment_response, RECEIPT, True),
        SettlementWrite.DELIVERED_ELSEWHERE,
    )
    response = play(serve(sale()), *WORKED, (COMPLETE, PAID), lost)
    assert (response.status, code(response)) == (409, "payment_in_progress")
    # Who delivered has told it.
    events = told(serve(sale()), *WORKED, (COMPLETE, PAID), lost)
    assert not any(isinstance(event, Settled) for event in events)


def test_a_settlement_that_another_worker_recorded_is_told_once() -> None:
    again = (RecordSettlement(LEASE_HELD, PAID.payment_response, RECEIPT, True), SettlementWrite.REPEATED)
    events = told(serve(sale()), *WORKED, (COMPLETE, PAID), again)
    assert [type(event) for event in events] == [Authorized, Worked, Released]


def test_an_end_that_another_worker_records_is_told_by_them() -> None:
    failed = WorkFailed("interrupted")
    ended = (
        (GetTransaction(TXN), TransactionState.FAILED),
        (RecordFinal(LEASE_HELD, reason=failed.code), False),
    )
    events = told(recover(replace(HELD, outcome=failed), awaited=False), *ended)
    assert events == []


def test_a_sweep_that_was_overtaken_has_nothing_to_hand_out() -> None:
    lost = (
        RecordSettlement(LEASE_HELD, PAID.payment_response, RECEIPT, False),
        SettlementWrite.DELIVERED_ELSEWHERE,
    )
    play(complete_success(HELD, GOOD, repeated=True, awaited=False), (CallComplete(HELD, GOOD), PAID), lost)


# A transaction was learned of without work, and access grants it no more


def test_what_is_granted_no_more_is_looked_at_and_ended() -> None:
    """It was answered with 409 for as long as its payer asked, and kept from the sweep."""
    known = claimed(Claimed(LEASE_HELD, TXN, ACR))
    entry = PendingPayment(LEASE_HELD, PROOF, TXN, ACR)
    script = (
        known,
        found(),
        accessed(NEEDED),
        (RecordOutcome(LEASE_HELD, INTERRUPTED), True),
        (GetTransaction(TXN), TransactionState.AUTHORIZED),
        (CallComplete(entry, INTERRUPTED), CompletionUnpaid()),
        (RecordFinal(LEASE_HELD, reason="interrupted"), True),
        found(),
        (CallAccess(sale(), RULES, None), NEEDED),
    )
    response = play(serve(sale()), *script)
    assert (response.status, json.loads(response.body)["transaction_id"]) == (402, TXN)


def test_what_was_paid_meanwhile_is_not_asked_for_again() -> None:
    script = (
        claimed(Claimed(LEASE_HELD, TXN, ACR)),
        found(),
        accessed(NEEDED),
        (RecordOutcome(LEASE_HELD, INTERRUPTED), True),
        (GetTransaction(TXN), TransactionSettled(RECEIPT)),
        NOTE,
        (RecordFinal(LEASE_HELD, paid=True, reason="interrupted", receipt=RECEIPT), True),
    )
    assert play(serve(sale()), *script).status == 409


def test_what_is_granted_again_is_worked_for() -> None:
    begun = (claimed(Claimed(LEASE_HELD, TXN, ACR)), found(), accessed(AccessGranted(TXN)))
    script = (*begun, *WORKED[3:], (COMPLETE, PAID))
    done = (RecordSettlement(LEASE_HELD, PAID.payment_response, RECEIPT, True), SettlementWrite.FIRST)
    assert play(serve(sale()), *script, done).status == 200


# Begun under another API key


@pytest.mark.parametrize(
    "answer",
    [TransactionNotFound(404, "transaction_not_found", ""), Forbidden(403, "forbidden", ""), NoAnswer("")],
)
def test_another_sellers_row_is_left_alone(answer: Exception) -> None:
    """Its proof is sent to nobody, and nothing is decided about it."""
    script = ((GetTransaction(TXN), Raise(answer)), NOTE, (Postpone(LEASE_HELD), None))
    assert play(recover(FOREIGN, awaited=False), *script) == OtherSellersPayment()
    response = play(serve(sale()), claimed(Resumable(FOREIGN)), *script)
    assert (response.status, code(response)) == (503, "payment_unconfirmed")


def test_a_row_from_before_the_api_key_was_changed_is_ones_own() -> None:
    script = (
        (GetTransaction(TXN), TransactionState.AUTHORIZED),
        (GetTransaction(TXN), TransactionState.AUTHORIZED),
        (CallComplete(FOREIGN, GOOD), PAID),
        (RecordSettlement(LEASE_HELD, PAID.payment_response, RECEIPT, True), SettlementWrite.FIRST),
    )
    assert play(serve(sale()), claimed(Resumable(FOREIGN)), *script).status == 200


def test_a_sweep_goes_on_after_a_row_that_is_not_its_own() -> None:
    gone = (GetTransaction(TXN), Raise(TransactionNotFound(404, "transaction_not_found", "")))
    script = ((LeaseNext(), FOREIGN), gone, NOTE, (Postpone(LEASE_HELD), None), (LeaseNext(), None))
    assert play(sweep(), *script).looked_at == 1


# Reading answers


def reply(status: int, body: Any, *headers: tuple[str, str]) -> Response:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Response(status, headers, raw)


@pytest.mark.parametrize("missing", [{}, {"payer": None}, {"payer": 7, "created_at": "soon"}])
def test_a_payment_that_succeeded_is_known_by_id_status_and_receipt(missing: dict[str, Any]) -> None:
    detail = {"id": TXN, "status": "succeeded", "receipt": {"id": "anything"}, **missing}
    assert parse_transaction_state(reply(200, detail), TXN) == TransactionSettled('{"id":"anything"}')


@pytest.mark.parametrize("outcome", [GOOD, INTERRUPTED])
def test_a_transaction_that_cannot_be_read_is_completed_and_not_waited_for(outcome: Any) -> None:
    entry = replace(HELD, outcome=outcome)
    looked = ((GetTransaction(TXN), Raise(BadAnswer("not JSON"))), NOTE)
    said = (CallComplete(entry, outcome), PAID if outcome is GOOD else CompletionUnpaid())
    end = (
        (RecordSettlement(LEASE_HELD, PAID.payment_response, RECEIPT, False), SettlementWrite.FIRST)
        if outcome is GOOD
        else (RecordFinal(LEASE_HELD, reason="interrupted"), True)
    )
    play(recover(entry, awaited=False), *looked, said, end)


@pytest.mark.parametrize("body", [b"<html>404</html>", b"{}", b'{"message": "no route"}', b""])
@pytest.mark.parametrize("status", [400, 404, 409, 410, 422])
def test_what_a_proxy_says_sticks_no_sale(status: int, body: bytes) -> None:
    refused = parse_completion(reply(status, body), TXN)
    assert refused == CompletionRejected(status, "unreadable", None, is_readable=False)
    script = (
        (GetTransaction(TXN), TransactionState.AUTHORIZED),
        (CallComplete(HELD, GOOD), refused),
        NOTE,
        (ScheduleRetry(LEASE_HELD), True),
    )
    assert answer(play(recover(HELD, awaited=True), *script)).status == status


def test_what_the_service_says_itself_does() -> None:
    refused = parse_completion(reply(404, {"code": "transaction_not_found", "message": "gone"}), TXN)
    reason = "completion was refused: 404 transaction_not_found"
    looked = ((GetTransaction(TXN), TransactionState.NOT_FOUND), (CallComplete(HELD, GOOD), refused))
    stuck = (NOTE, (MarkStuck(LEASE_HELD, reason), None), NOTE)
    assert answer(play(recover(HELD, awaited=True), *looked, *stuck)).status == 404


def test_a_page_of_a_proxy_refuses_no_revision() -> None:
    assert type(parse_access(reply(422, b"<html>"))).__name__ == "AccessFailed"


@pytest.mark.parametrize(
    ("said", "relayed"),
    [
        ("7", "7"),
        (
            format_datetime(datetime(2026, 11, 22, 10, tzinfo=UTC), usegmt=True),
            "Sun, 22 Nov 2026 10:00:00 GMT",
        ),
        ("Sun, 22 Nov 2026 10:00:00 +0100", None),
        ("soon", None),
        ("99999", None),
        ("-1", None),
        ("Sun, 99 Nov 2026 10:00:00 GMT", None),
    ],
)
def test_when_to_come_back_is_relayed(said: str, relayed: str | None) -> None:
    error = {"code": "busy", "message": ""}
    assert parse_completion(reply(503, error, ("Retry-After", said)), TXN) == CompletionRejected(
        503, "busy", relayed
    )

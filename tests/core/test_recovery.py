"""Payments that a first attempt left open: found by their payer (situation 13 of docs/flow.md) or a sweep."""

from dataclasses import replace
from typing import Any

import pytest

from faregate.core.claims import (
    Lease,
    Resumable,
    SettlementWrite,
)
from faregate.core.flow import serve
from faregate.core.models import WorkFailed
from faregate.core.recovery import SweepReport, sweep
from faregate.core.results import (
    CompletionRejected,
    CompletionUnknown,
    CompletionUnpaid,
    TransactionSettled,
    TransactionState,
)
from faregate.core.steps import (
    AbandonClaim,
    CallComplete,
    GetTransaction,
    LeaseNext,
    MarkStuck,
    RecordFinal,
    RecordOutcome,
    RecordSettlement,
    RecordTransaction,
    ScheduleRetry,
)
from faregate.errors import (
    Forbidden,
    NoAnswer,
    TransactionNotFound,
)
from faregate.events import Stuck, Swept
from tests.core.flow_parts import (
    BACK,
    COMPLETE_HELD,
    FRESH_402,
    HELD,
    PAUSES,
    SALVAGED,
    STANDING,
    WAITING,
    assert_402_anew,
    assert_nothing_left,
    assert_unconfirmed,
    body,
)
from tests.core.flow_script import (
    ACR,
    COMPLETE,
    ENTRY,
    LEASE_HELD,
    NOTE,
    PAID,
    PROOF,
    RECEIPT,
    RESULT,
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

# Situation 13

OPEN_AS_YET = (GetTransaction(TXN), TransactionState.AUTHORIZED)


@pytest.mark.parametrize(
    "standing",
    [
        TransactionSettled(RECEIPT),
        TransactionState.AUTHORIZED,
        TransactionState.UNRECOGNIZED,
        TransactionState.CONTRADICTORY,
    ],
)
def test_a_held_result_is_released_by_a_repeated_complete(standing: TransactionState) -> None:
    response = play(
        serve(sale()),
        *BACK,
        (STANDING, standing),
        (COMPLETE_HELD, PAID),
        (RecordSettlement(LEASE_HELD, PAID.payment_response, RECEIPT, True), SettlementWrite.FIRST),
    )
    assert (response.body, response.first("payment-response")) == (RESULT.body, PAID.payment_response)


def test_a_get_alone_never_releases() -> None:
    unproven = (COMPLETE_HELD, CompletionUnknown("no header"))
    response = play(
        serve(sale()),
        *BACK,
        (STANDING, TransactionSettled(RECEIPT)),
        unproven,
        PAUSES[0],
        unproven,
        PAUSES[1],
        unproven,
        NOTE,
        (ScheduleRetry(LEASE_HELD), True),
    )
    assert_unconfirmed(response)


@pytest.mark.parametrize("standing", [TransactionSettled(RECEIPT), TransactionState.NOT_FOUND])
@pytest.mark.parametrize(
    "refusal", [CompletionRejected(409, "invalid_request"), CompletionRejected(404, "transaction_not_found")]
)
def test_a_service_that_refuses_to_repeat_leaves_the_result_to_people(
    refusal: CompletionRejected, standing: TransactionState
) -> None:
    response = play(
        serve(sale()),
        *BACK,
        (STANDING, standing),
        (COMPLETE_HELD, refusal),
        NOTE,
        (MarkStuck(LEASE_HELD, f"completion was refused: {refusal.status} {refusal.code}"), None),
        NOTE,
    )
    assert response.status == refusal.status
    assert_nothing_left(response)


def test_a_held_payment_that_still_settles_is_202() -> None:
    response = play(
        serve(sale()), *BACK, (STANDING, TransactionState.PENDING), (ScheduleRetry(LEASE_HELD), True)
    )
    assert (response.status, body(response)["transaction_id"]) == (202, TXN)


def test_a_held_payment_that_failed_gets_fresh_instructions() -> None:
    failed = ((STANDING, TransactionState.FAILED), (RecordFinal(LEASE_HELD, reason="payment_failed"), True))
    assert_402_anew(play(serve(sale()), *BACK, *failed, *FRESH_402))


def test_an_unknown_standing_is_held_as_unconfirmed() -> None:
    lost = (STANDING, Raise(NoAnswer("timeout")))
    assert_unconfirmed(play(serve(sale()), *BACK, lost, NOTE, (ScheduleRetry(LEASE_HELD), True)))


def test_interrupted_work_is_failed_and_never_run_again() -> None:
    failed = WorkFailed("interrupted")
    response = play(
        serve(sale()),
        claimed(Resumable(ENTRY)),
        (RecordOutcome(LEASE_HELD, failed), True),
        OPEN_AS_YET,
        (CallComplete(ENTRY, failed), CompletionUnpaid()),
        (RecordFinal(LEASE_HELD, reason="interrupted"), True),
        *FRESH_402,
    )
    assert_402_anew(response)


def test_a_failure_that_is_not_acknowledged_gets_no_fresh_402() -> None:
    failed = WorkFailed("handler_error")
    entry = replace(ENTRY, outcome=failed)
    silent = (CallComplete(entry, failed), CompletionUnknown("silence"))
    response = play(
        serve(sale()),
        claimed(Resumable(entry)),
        OPEN_AS_YET,
        silent,
        PAUSES[0],
        silent,
        PAUSES[1],
        silent,
        NOTE,
        (ScheduleRetry(LEASE_HELD), True),
    )
    assert_unconfirmed(response)


REFUSED = CompletionRejected(404, "transaction_not_found")
REPORTED = replace(ENTRY, outcome=WorkFailed("interrupted"))


@pytest.mark.parametrize(
    "open_as_yet", [TransactionState.AUTHORIZED, TransactionState.NOT_FOUND, TransactionState.UNRECOGNIZED]
)
def test_a_failure_is_told_again_unless_the_service_knows_of_an_end(open_as_yet: TransactionState) -> None:
    telling = (CallComplete(REPORTED, WorkFailed("interrupted")), CompletionUnpaid())
    told_again = (
        claimed(Resumable(REPORTED)),
        (STANDING, open_as_yet),
        telling,
        (RecordFinal(LEASE_HELD, reason="interrupted"), True),
    )
    assert_402_anew(play(serve(sale()), *told_again, *FRESH_402))


def test_a_failure_waits_until_it_is_known_how_the_payment_stands() -> None:
    lost = ((STANDING, Raise(NoAnswer("timeout"))), NOTE, (ScheduleRetry(LEASE_HELD), True))
    assert_unconfirmed(play(serve(sale()), claimed(Resumable(REPORTED)), *lost))


def test_a_key_that_may_not_look_completes_all_the_same() -> None:
    """Whether a key may read transactions is the seller's setup; what is owed does not wait for it."""
    hidden = (STANDING, Raise(Forbidden(403, "forbidden", "no")))
    paid = (RecordSettlement(LEASE_HELD, PAID.payment_response, RECEIPT, True), SettlementWrite.FIRST)
    assert play(serve(sale()), *BACK, hidden, (COMPLETE_HELD, PAID), paid).body == RESULT.body
    telling = (CallComplete(REPORTED, WorkFailed("interrupted")), CompletionUnpaid())
    told_again = (
        claimed(Resumable(REPORTED)),
        hidden,
        telling,
        (RecordFinal(LEASE_HELD, reason="interrupted"), True),
    )
    assert_402_anew(play(serve(sale()), *told_again, *FRESH_402))


def test_a_failure_that_the_service_has_is_not_told_again() -> None:
    known = (
        claimed(Resumable(REPORTED)),
        (STANDING, TransactionState.FAILED),
        (RecordFinal(LEASE_HELD, reason="interrupted"), True),
    )
    assert_402_anew(play(serve(sale()), *known, *FRESH_402))


def test_a_payment_that_others_completed_ends_as_paid_though_our_work_failed() -> None:
    paid = (
        (STANDING, TransactionSettled(RECEIPT)),
        NOTE,
        (RecordFinal(LEASE_HELD, paid=True, reason="interrupted", receipt=RECEIPT), True),
    )
    response = play(serve(sale()), claimed(Resumable(REPORTED)), *paid)
    assert (response.status, body(response)["code"]) == (409, "proof_already_used")


def test_a_payment_that_others_completed_is_waited_for() -> None:
    """It is not reported as failed into a settlement, and not given up either."""
    for standing in (TransactionState.PENDING, TransactionState.CONTRADICTORY):
        settling = ((STANDING, standing), (ScheduleRetry(LEASE_HELD), True))
        assert_unconfirmed(play(serve(sale()), claimed(Resumable(REPORTED)), *settling))


def test_a_failure_that_is_refused_at_first_is_held() -> None:
    """As in row 12: a refusal does not say that nothing was charged."""
    failed = WorkFailed("interrupted")
    response = play(
        serve(sale()),
        claimed(Resumable(ENTRY)),
        (RecordOutcome(LEASE_HELD, failed), True),
        OPEN_AS_YET,
        (CallComplete(ENTRY, failed), REFUSED),
        NOTE,
        (ScheduleRetry(LEASE_HELD), True),
    )
    assert_unconfirmed(response)


def test_a_failure_that_is_refused_again_is_left_to_people() -> None:
    failed = WorkFailed("handler_error")
    entry = replace(ENTRY, outcome=failed)
    response = play(
        serve(sale()),
        claimed(Resumable(entry)),
        OPEN_AS_YET,
        (CallComplete(entry, failed), REFUSED),
        NOTE,
        (MarkStuck(LEASE_HELD, "completion was refused: 404 transaction_not_found"), None),
        NOTE,
    )
    assert_unconfirmed(response)


def test_a_settled_payment_that_was_reported_failed_is_never_released() -> None:
    failed = WorkFailed("handler_error")
    entry = replace(ENTRY, outcome=failed)
    response = play(
        serve(sale()),
        claimed(Resumable(entry)),
        OPEN_AS_YET,
        (CallComplete(entry, failed), PAID),
        NOTE,
        (RecordFinal(LEASE_HELD, paid=True, reason="handler_error", receipt=RECEIPT), True),
    )
    assert (response.status, body(response)["code"]) == (409, "proof_already_used")


# The sweep


T1, T2, T3 = (Lease(key, 1) for key in (b"1", b"2", b"3"))


def test_the_sweep_finishes_what_was_left() -> None:
    interrupted = replace(ENTRY, lease=T1, transaction_id="txn_1")
    failed = replace(ENTRY, lease=T2, transaction_id="txn_2", outcome=WorkFailed("handler_error"))
    waiting = replace(ENTRY, lease=T3, transaction_id="txn_3", waiting=True)
    verdict = WorkFailed("interrupted")
    seen = play(
        sweep(),
        (LeaseNext(), HELD),
        (STANDING, TransactionSettled(RECEIPT)),
        (COMPLETE_HELD, PAID),
        (RecordSettlement(LEASE_HELD, PAID.payment_response, RECEIPT, False), SettlementWrite.FIRST),
        (LeaseNext(), interrupted),
        (RecordOutcome(T1, verdict), True),
        (GetTransaction("txn_1"), TransactionState.AUTHORIZED),
        (CallComplete(interrupted, verdict), CompletionUnpaid()),
        (RecordFinal(T1, reason="interrupted"), True),
        (LeaseNext(), failed),
        (GetTransaction("txn_2"), TransactionState.AUTHORIZED),
        (CallComplete(failed, WorkFailed("handler_error")), CompletionUnpaid()),
        (RecordFinal(T2, reason="handler_error"), True),
        (LeaseNext(), waiting),
        (GetTransaction("txn_3"), TransactionState.PENDING),
        (ScheduleRetry(T3), True),
        (LeaseNext(), None),
    )
    assert seen == SweepReport(looked_at=4, settled=1, failed=2, held=1)


def test_the_sweep_looks_at_so_many_rows_at_most() -> None:
    settling = ((STANDING, TransactionState.PENDING), (ScheduleRetry(LEASE_HELD), True))
    assert play(sleepy := sweep(limit=1), (LeaseNext(), HELD), *settling).looked_at == 1
    assert list(sleepy) == []


def test_what_is_open_beyond_the_horizon_is_told_as_stuck() -> None:
    beyond = ((STANDING, TransactionState.PENDING), (ScheduleRetry(LEASE_HELD), False), NOTE)
    assert told(sweep(), (LeaseNext(), HELD), *beyond, (LeaseNext(), None)) == [
        Stuck(TXN, "still open: settling"),
        Swept(1, 0, 0, 0, 1, 0),
    ]


def test_the_sweep_ends_when_the_first_rows_are_due_again() -> None:
    slow = ((STANDING, Raise(NoAnswer("timeout"))), NOTE, (ScheduleRetry(LEASE_HELD), True))
    assert (
        play(
            sweep(), (LeaseNext(), HELD), *slow, (LeaseNext(), HELD), (ScheduleRetry(LEASE_HELD), True)
        ).looked_at
        == 1
    )


def test_any_error_of_a_journal_is_a_journal_error() -> None:
    release = (RecordSettlement(LEASE_HELD, PAID.payment_response, RECEIPT, True), Raise(OSError("disk")))
    assert play(serve(sale()), *WORKED, (COMPLETE, PAID), release, NOTE).body == RESULT.body
    start = (RecordTransaction(LEASE_HELD, TXN, ACR, 54.0), Raise(OSError("disk")))
    assert_unconfirmed(play(serve(sale()), claimed(), found(), accessed(), start, NOTE, SALVAGED))
    assert play(serve(sale()), claimed(Raise(OSError("disk"))), NOTE).status == 503


def test_what_is_asked_of_the_backend_does_not_show_the_proof() -> None:
    shown = repr((ENTRY, COMPLETE, sale(), claimed()[0], accessed()[0]))
    assert PROOF not in shown


def test_the_sweep_sends_nothing_for_a_row_it_lost() -> None:
    lost = (RecordOutcome(LEASE_HELD, WorkFailed("interrupted")), False)
    assert play(sweep(), (LeaseNext(), ENTRY), lost, (LeaseNext(), None)).looked_at == 1


def test_a_waiting_payment_that_is_final_is_closed() -> None:
    play(
        sweep(),
        (LeaseNext(), WAITING),
        (STANDING, TransactionState.FAILED),
        (RecordFinal(LEASE_HELD, reason="payment_failed"), True),
        (LeaseNext(), None),
    )


@pytest.mark.parametrize(
    ("standing", "step"),
    [
        (TransactionState.PENDING, ScheduleRetry(LEASE_HELD)),
        (TransactionState.CONTRADICTORY, ScheduleRetry(LEASE_HELD)),
        (TransactionState.AUTHORIZED, AbandonClaim(LEASE_HELD)),
    ],
)
def test_a_waiting_payment_is_asked_after(standing: TransactionState, step: Any) -> None:
    response = play(serve(sale()), claimed(Resumable(WAITING)), (STANDING, standing), (step, True))
    assert (response.status, body(response)["transaction_id"]) == (202, TXN)


def test_a_waiting_payment_that_the_service_does_not_know_is_left_to_people() -> None:
    lost = (STANDING, Raise(TransactionNotFound(404, "transaction_not_found", "no")))
    stuck = (MarkStuck(LEASE_HELD, "the service does not know the transaction"), None)
    assert_unconfirmed(play(serve(sale()), claimed(Resumable(WAITING)), lost, stuck, NOTE))


def test_a_waiting_payment_that_failed_may_be_paid_anew() -> None:
    closed = (RecordFinal(LEASE_HELD, reason="payment_failed"), True)
    waiting = (claimed(Resumable(WAITING)), (STANDING, TransactionState.FAILED), closed)
    assert_402_anew(play(serve(sale()), *waiting, *FRESH_402))


def test_whoever_paid_is_not_asked_to_pay_again() -> None:
    closed = (RecordFinal(LEASE_HELD, paid=True, reason="not_started", receipt=RECEIPT), True)
    waiting = (claimed(Resumable(WAITING)), (STANDING, TransactionSettled(RECEIPT)), NOTE, closed)
    response = play(serve(sale()), *waiting)
    assert (response.status, body(response)["transaction_id"]) == (409, TXN)

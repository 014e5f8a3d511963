"""Payments that a first attempt left open: found by their payer (situation 13 of docs/flow.md) or a sweep."""

from dataclasses import replace
from typing import Any

import pytest

from faregate.core.claim_types import Lease
from faregate.core.models import WorkFailed
from faregate.core.recovery import SweepReport
from faregate.core.results import (
    CompletionRejected,
    CompletionUnknown,
    CompletionUnpaid,
    TransactionSettled,
    TransactionState,
)
from faregate.errors import Forbidden, NoAnswer, TransactionNotFound
from faregate.events import Stuck, Swept
from tests.core.flow_script import (
    ENTRY,
    FALLBACK_WRITTEN,
    FRESH_402,
    HELD,
    LEASE_HELD,
    PAID,
    PROOF,
    RECEIPT,
    RESULT,
    TXN,
    WAITING,
    WARNED,
    WORKED,
    Raise,
    accessed,
    assert_402_anew,
    assert_nothing_left,
    assert_unconfirmed,
    body,
    claimed,
    code,
    completed,
    ended,
    ended_paid,
    events_of,
    found,
    leased,
    looked_up,
    play,
    play_sale,
    recorded,
    reported_failed,
    rescheduled,
    resumed,
    sale,
    settled,
    started,
    stuck,
    thrice,
)
from tests.core.steps import AbandonClaim, GetTransaction, RecordFinal, RecordOutcome, ScheduleRetry, sweep

# Situation 13

INTERRUPTED = WorkFailed("interrupted")
REPORTED = replace(ENTRY, outcome=INTERRUPTED)
REFUSED = CompletionRejected(404, "transaction_not_found")
OPEN_AS_YET = looked_up(TransactionState.AUTHORIZED)


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
    response = play_sale(resumed(), looked_up(standing), completed(PAID, HELD), settled())
    assert (response.body, response.first("payment-response")) == (RESULT.body, PAID.payment_response)


def test_a_get_alone_never_releases() -> None:
    unproven = completed(CompletionUnknown("no header"), HELD)
    settles = looked_up(TransactionSettled(RECEIPT))
    assert_unconfirmed(play_sale(resumed(), settles, *thrice(unproven), WARNED, rescheduled()))


@pytest.mark.parametrize("standing", [TransactionSettled(RECEIPT), TransactionState.NOT_FOUND])
@pytest.mark.parametrize(
    "refusal", [CompletionRejected(409, "invalid_request"), CompletionRejected(404, "transaction_not_found")]
)
def test_a_service_that_refuses_to_repeat_leaves_the_result_to_people(
    refusal: CompletionRejected, standing: TransactionState
) -> None:
    left = stuck(f"completion was refused: {refusal.status} {refusal.code}")
    response = play_sale(resumed(), looked_up(standing), completed(refusal, HELD), WARNED, left, WARNED)
    assert response.status == refusal.status
    assert_nothing_left(response)


def test_a_held_payment_that_still_settles_is_202() -> None:
    response = play_sale(resumed(), looked_up(TransactionState.PENDING), rescheduled())
    assert (response.status, body(response)["transaction_id"]) == (202, TXN)


def test_a_held_payment_that_failed_gets_fresh_instructions() -> None:
    ends = (looked_up(TransactionState.FAILED), ended("payment_failed"))
    assert_402_anew(play_sale(resumed(), *ends, *FRESH_402))


def test_an_unknown_standing_is_held_as_unconfirmed() -> None:
    lost = looked_up(Raise(NoAnswer("timeout")))
    assert_unconfirmed(play_sale(resumed(), lost, WARNED, rescheduled()))


def test_interrupted_work_is_failed_and_never_run_again() -> None:
    interrupted = (resumed(ENTRY), recorded(INTERRUPTED), OPEN_AS_YET)
    assert_402_anew(play_sale(*interrupted, *reported_failed("interrupted"), *FRESH_402))


def test_a_failure_that_is_not_acknowledged_gets_no_fresh_402() -> None:
    silent = completed(CompletionUnknown("silence"), REPORTED, INTERRUPTED)
    assert_unconfirmed(play_sale(resumed(REPORTED), OPEN_AS_YET, *thrice(silent), WARNED, rescheduled()))


@pytest.mark.parametrize(
    "open_as_yet", [TransactionState.AUTHORIZED, TransactionState.NOT_FOUND, TransactionState.UNRECOGNIZED]
)
def test_a_failure_is_reported_again_unless_the_service_knows_of_an_end(
    open_as_yet: TransactionState,
) -> None:
    again = (looked_up(open_as_yet), *reported_failed("interrupted", REPORTED))
    assert_402_anew(play_sale(resumed(REPORTED), *again, *FRESH_402))


def test_a_failure_waits_until_it_is_known_how_the_payment_stands() -> None:
    lost = (looked_up(Raise(NoAnswer("timeout"))), WARNED, rescheduled())
    assert_unconfirmed(play_sale(resumed(REPORTED), *lost))


def test_a_key_that_may_not_look_completes_all_the_same() -> None:
    """Whether a key may read transactions is the seller's setup; what is owed does not wait for it."""
    hidden = looked_up(Raise(Forbidden(403, "forbidden", "no")))
    assert play_sale(resumed(), hidden, completed(PAID, HELD), settled()).body == RESULT.body
    again = (hidden, *reported_failed("interrupted", REPORTED))
    assert_402_anew(play_sale(resumed(REPORTED), *again, *FRESH_402))


def test_a_failure_that_the_service_has_is_not_reported_again() -> None:
    known = (resumed(REPORTED), looked_up(TransactionState.FAILED), ended("interrupted"))
    assert_402_anew(play_sale(*known, *FRESH_402))


def test_a_payment_that_others_completed_ends_as_paid_though_our_work_failed() -> None:
    paid = (looked_up(TransactionSettled(RECEIPT)), WARNED, ended_paid("interrupted"))
    response = play_sale(resumed(REPORTED), *paid)
    assert (response.status, code(response)) == (409, "proof_already_used")


def test_a_payment_that_others_completed_is_waited_for() -> None:
    """It is not reported as failed into a settlement, and not given up either."""
    for standing in (TransactionState.PENDING, TransactionState.CONTRADICTORY):
        settling = (looked_up(standing), rescheduled())
        assert_unconfirmed(play_sale(resumed(REPORTED), *settling))


def test_a_failure_that_is_refused_at_first_is_held() -> None:
    """As in row 12: a refusal does not say that nothing was charged."""
    interrupted = (resumed(ENTRY), recorded(INTERRUPTED), OPEN_AS_YET)
    refused = completed(REFUSED, ENTRY, INTERRUPTED)
    assert_unconfirmed(play_sale(*interrupted, refused, WARNED, rescheduled()))


def test_a_failure_that_is_refused_again_is_left_to_people() -> None:
    refused = completed(REFUSED, REPORTED, INTERRUPTED)
    left = stuck("completion was refused: 404 transaction_not_found")
    assert_unconfirmed(play_sale(resumed(REPORTED), OPEN_AS_YET, refused, WARNED, left, WARNED))


def test_a_settled_payment_that_was_reported_failed_is_never_released() -> None:
    paid = (completed(PAID, REPORTED, INTERRUPTED), WARNED, ended_paid("interrupted"))
    response = play_sale(resumed(REPORTED), OPEN_AS_YET, *paid)
    assert (response.status, code(response)) == (409, "proof_already_used")


# The sweep


T1, T2, T3 = (Lease(key, 1) for key in (b"1", b"2", b"3"))


def test_the_sweep_finishes_what_was_left() -> None:
    interrupted = replace(ENTRY, lease=T1, transaction_id="txn_1")
    failed = replace(ENTRY, lease=T2, transaction_id="txn_2", outcome=WorkFailed("handler_error"))
    waiting = replace(ENTRY, lease=T3, transaction_id="txn_3", waiting=True)
    seen = play(
        sweep(),
        leased(HELD),
        looked_up(TransactionSettled(RECEIPT)),
        completed(PAID, HELD),
        settled(delivered=False),
        leased(interrupted),
        (RecordOutcome(T1, INTERRUPTED), True),
        (GetTransaction("txn_1"), TransactionState.AUTHORIZED),
        completed(CompletionUnpaid(), interrupted, INTERRUPTED),
        (RecordFinal(T1, reason="interrupted"), True),
        leased(failed),
        (GetTransaction("txn_2"), TransactionState.AUTHORIZED),
        completed(CompletionUnpaid(), failed, WorkFailed("handler_error")),
        (RecordFinal(T2, reason="handler_error"), True),
        leased(waiting),
        (GetTransaction("txn_3"), TransactionState.PENDING),
        (ScheduleRetry(T3), True),
        leased(None),
    )
    assert seen == SweepReport(looked_at=4, settled=1, failed=2, held=1)


def test_the_sweep_looks_at_so_many_rows_at_most() -> None:
    settling = (looked_up(TransactionState.PENDING), rescheduled())
    assert play(sleepy := sweep(limit=1), leased(HELD), *settling).looked_at == 1
    assert list(sleepy) == []


def test_what_is_open_beyond_the_horizon_is_stuck() -> None:
    beyond = (looked_up(TransactionState.PENDING), rescheduled(False), WARNED)
    assert events_of(sweep(), leased(HELD), *beyond, leased(None)) == [
        Stuck(TXN, "still open: settling"),
        Swept(1, 0, 0, 0, 1, 0),
    ]


def test_the_sweep_ends_when_the_first_rows_are_due_again() -> None:
    slow = (looked_up(Raise(NoAnswer("timeout"))), WARNED, rescheduled())
    assert play(sweep(), leased(HELD), *slow, leased(HELD), rescheduled()).looked_at == 1


def test_any_error_of_a_journal_is_a_journal_error() -> None:
    release = settled(Raise(OSError("disk")))
    assert play_sale(*WORKED, completed(PAID), release, WARNED).body == RESULT.body
    start = started(Raise(OSError("disk")))
    assert_unconfirmed(play_sale(claimed(), found(), accessed(), start, WARNED, FALLBACK_WRITTEN))
    assert play_sale(claimed(Raise(OSError("disk"))), WARNED).status == 503


def test_what_is_asked_of_the_backend_does_not_show_the_proof() -> None:
    shown = repr((ENTRY, completed(PAID)[0], sale(), claimed()[0], accessed()[0]))
    assert PROOF not in shown


def test_the_sweep_sends_nothing_for_a_row_it_lost() -> None:
    lost = recorded(INTERRUPTED, False)
    assert play(sweep(), leased(ENTRY), lost, leased(None)).looked_at == 1


@pytest.mark.parametrize(
    ("standing", "step"),
    [
        (TransactionState.PENDING, ScheduleRetry(LEASE_HELD)),
        (TransactionState.CONTRADICTORY, ScheduleRetry(LEASE_HELD)),
        (TransactionState.AUTHORIZED, AbandonClaim(LEASE_HELD)),
    ],
)
def test_a_waiting_payment_is_asked_after(standing: TransactionState, step: Any) -> None:
    response = play_sale(resumed(WAITING), looked_up(standing), (step, True))
    assert (response.status, body(response)["transaction_id"]) == (202, TXN)


def test_a_waiting_payment_that_the_service_does_not_know_is_left_to_people() -> None:
    lost = looked_up(Raise(TransactionNotFound(404, "transaction_not_found", "no")))
    left = stuck("the service does not know the transaction")
    assert_unconfirmed(play_sale(resumed(WAITING), lost, left, WARNED))


def test_a_waiting_payment_that_failed_may_be_paid_anew() -> None:
    waiting = (resumed(WAITING), looked_up(TransactionState.FAILED), ended("payment_failed"))
    assert_402_anew(play_sale(*waiting, *FRESH_402))


def test_whoever_paid_is_not_asked_to_pay_again() -> None:
    paid = (looked_up(TransactionSettled(RECEIPT)), WARNED, ended_paid("not_started"))
    response = play_sale(resumed(WAITING), *paid)
    assert (response.status, body(response)["transaction_id"]) == (409, TXN)

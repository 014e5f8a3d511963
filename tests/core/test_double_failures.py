"""Two things go wrong at once, and what is at the edge of a bound."""

from dataclasses import replace
from typing import Any

import pytest

from faregate.core.models import HandlerResult, WorkFailed, WorkSucceeded
from faregate.core.results import (
    AccessFailed,
    CompletionPending,
    CompletionRejected,
    CompletionUnpaid,
    TransactionSettled,
    TransactionState,
    Unconfirmed,
)
from faregate.errors import JournalError, NoAnswer, ResultTooLarge, TooManyCalls
from faregate.events import Held
from tests.core.flow_script import (
    BEGINNING,
    ENTRY,
    GOOD,
    HELD,
    OFFER,
    PAID,
    PENDING,
    RECEIPT,
    RESULT,
    TXN,
    WARNED,
    WORK,
    WORKED,
    Raise,
    abandoned,
    accessed,
    assert_nothing_left,
    assert_unconfirmed,
    claimed,
    code,
    completed,
    ended,
    ended_paid,
    events_of,
    found,
    handled,
    leased,
    looked_up,
    play,
    play_sale,
    recorded,
    rescheduled,
    resumed,
    sale,
    settled,
    thrice,
    warnings_of,
)
from tests.core.steps import GetKnownRevision, LogWarning, complete_success, serve, sweep

DISK = Raise(JournalError("disk"))
TOO_LARGE = handled(Raise(ResultTooLarge("big")))
FAILED = WorkFailed("result_too_large")


# Whoever may have paid is not told that nothing was taken, nor asked to pay again


@pytest.mark.parametrize(
    "answer", [CompletionRejected(404, "transaction_not_found"), CompletionPending(PENDING), PAID]
)
def test_work_that_gave_nothing_and_a_failure_that_is_not_acknowledged_is_503(answer: Any) -> None:
    closed = ended_paid("result_too_large") if answer is PAID else rescheduled()
    reported = (recorded(FAILED), completed(answer, ENTRY, FAILED), WARNED, closed)
    assert_unconfirmed(play_sale(*BEGINNING, TOO_LARGE, WARNED, *reported))


@pytest.mark.parametrize("answer", [False, DISK])
def test_work_that_gave_nothing_and_a_failure_that_could_not_be_written_is_503(answer: Any) -> None:
    """Somebody else has the row by now, and may be selling."""
    note = (WARNED,) if answer is DISK else ()
    assert_unconfirmed(play_sale(*BEGINNING, TOO_LARGE, WARNED, recorded(FAILED, answer), *note))


@pytest.mark.parametrize("answer", [False, DISK])
def test_interrupted_work_that_somebody_else_decides_gets_no_fresh_402(answer: Any) -> None:
    note = (WARNED,) if answer is DISK else ()
    assert_unconfirmed(play_sale(resumed(ENTRY), recorded(WorkFailed("interrupted"), answer), *note))


def test_a_payment_that_cannot_be_held_is_relayed_as_if_it_were() -> None:
    """The lease of its row ends by itself: it is owed all the same."""
    settling = (*WORKED, completed(CompletionPending(PENDING)), rescheduled(DISK), WARNED)
    assert play_sale(*settling).status == 202
    assert events_of(serve(sale()), *settling)[-1] == Held(TXN, "settling")


def test_a_sweep_that_cannot_give_back_its_last_row_ends_all_the_same() -> None:
    settling = (leased(HELD), looked_up(TransactionState.PENDING), rescheduled())
    again = (leased(HELD), rescheduled(DISK), WARNED)
    assert play(sweep(), *settling, *again).looked_at == 1
    assert warnings_of(sweep(), *settling, *again) == [
        LogWarning("the journal could not schedule a retry of the payment: disk", TXN)
    ]


def test_a_failed_payment_whose_new_price_cannot_be_asked_is_503() -> None:
    no_price = (found(Raise(NoAnswer("down"))), (GetKnownRevision(OFFER), None))
    response = play_sale(*WORKED, completed(CompletionUnpaid()), ended("payment_failed"), *no_price, WARNED)
    assert (response.status, code(response)) == (503, "payment_service_unavailable")
    assert_nothing_left(response)


# Bounds


def test_work_may_take_all_of_its_time() -> None:
    last = HandlerResult(WORK.response, WORK.values, 54_000)
    outcome = WorkSucceeded(RESULT, GOOD.values, 54_000)
    sold = (handled(last), recorded(outcome), completed(PAID, ENTRY, outcome), settled())
    assert play_sale(*BEGINNING, *sold).status == 200


@pytest.mark.parametrize("status", [401, 403, 429])
def test_a_refusal_that_is_not_about_the_transaction_is_never_left_to_people(status: int) -> None:
    """A key that is put right completes what is held; the sweep goes on asking."""
    refused = completed(CompletionRejected(status, "code"), HELD)
    settles = looked_up(TransactionSettled(RECEIPT))
    assert play_sale(resumed(), settles, refused, WARNED, rescheduled()).status == status


@pytest.mark.parametrize("status", [400, 499])
def test_only_a_failing_service_is_asked_to_complete_again(status: int) -> None:
    refused = completed(CompletionRejected(status, "no"))
    assert play_sale(*WORKED, refused, WARNED, rescheduled()).status == status


# What payers learn


def test_a_payer_hears_when_the_service_asks_for_patience() -> None:
    busy = AccessFailed(503, "429", "9")
    assert play_sale(claimed(), found(), accessed(busy), abandoned(), WARNED).first("retry-after") == "9"


# Nobody waits for long


@pytest.mark.parametrize(("later", "asked"), [(3.0, 2), (3.1, 1)])
def test_access_that_was_waited_for_long_is_not_asked_again(later: float, asked: int) -> None:
    calls = [accessed(Raise(NoAnswer("too late")), None)] * asked
    clock = iter((5.0, 5.0 + later))
    assert play(serve(sale(None)), found(), *calls, WARNED, clock=clock).status == 503


def test_what_was_refused_for_the_crowd_is_not_asked_again() -> None:
    refused = accessed(Raise(TooManyCalls("1250 calls are under way")), None)
    assert play(serve(sale(None)), found(), refused, WARNED).status == 503


@pytest.mark.parametrize("started_at", [0.0, 5.0, 86_400.0])
@pytest.mark.parametrize(("later", "asked"), [((10.0,), 1), ((3.0, 3.125), 2), ((1.0, 2.0), 3)])
def test_a_completion_that_was_waited_for_long_is_not_repeated(
    started_at: float, later: tuple[float, ...], asked: int
) -> None:
    calls = thrice(completed(Raise(NoAnswer("too late"))))[: 2 * asked - 1]
    flow = complete_success(ENTRY, GOOD, sticks_if_refused=False, request=replace(sale(), is_observed=False))
    clock = iter((started_at, *(started_at + seconds for seconds in later)))
    assert play(flow, *calls, WARNED, rescheduled(), clock=clock) == Unconfirmed("not proven")

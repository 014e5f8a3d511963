"""Two things go wrong at once, and what is at the edge of a bound."""

from typing import Any

import pytest

from faregate.core.claims import AlreadyUsed, RequestMismatch, Resumable, SettlementWrite
from faregate.core.completion import COMPLETE_PAUSES, complete_success
from faregate.core.flow import serve
from faregate.core.models import HandlerResult, WorkFailed, WorkSucceeded
from faregate.core.recovery import sweep
from faregate.core.results import (
    AccessFailed,
    CompletionPending,
    CompletionRejected,
    CompletionUnpaid,
    TransactionSettled,
    TransactionState,
    Unconfirmed,
)
from faregate.core.steps import (
    AbandonClaim,
    CallAccess,
    CallComplete,
    EmitEvent,
    GetKnownRevision,
    GetTime,
    LeaseNext,
    LogWarning,
    RecordFinal,
    RecordOutcome,
    RecordSettlement,
    RecordTransaction,
    ResolveOffer,
    RunHandler,
    ScheduleRetry,
    Sleep,
)
from faregate.errors import JournalError, NoAnswer, ResultTooLarge, TooManyCalls
from faregate.events import Held
from tests.core.flow_parts import (
    BACK,
    COMPLETE_HELD,
    HELD,
    PENDING,
    STANDING,
    assert_nothing_left,
    assert_unconfirmed,
    body,
)
from tests.core.flow_script import (
    ACR,
    ALL_KEYS,
    BEGINNING,
    COMPLETE,
    ENTRY,
    GOOD,
    LEASE_HELD,
    NOTE,
    OFFER,
    PAID,
    RECEIPT,
    RESULT,
    RULES,
    TXN,
    WORK,
    WORKED,
    Raise,
    accessed,
    claimed,
    found,
    noted,
    play,
    sale,
    told,
)

DISK = Raise(JournalError("disk"))
TOO_LARGE = (RunHandler(sale(), TXN), Raise(ResultTooLarge("big")))
FAILED = WorkFailed("result_too_large")


# Whoever may have paid is not told that nothing was taken, nor asked to pay again


@pytest.mark.parametrize(
    "answer", [CompletionRejected(404, "transaction_not_found"), CompletionPending(PENDING), PAID]
)
def test_work_that_gave_nothing_and_a_failure_that_is_not_acknowledged_is_503(answer: Any) -> None:
    closed = (
        (RecordFinal(LEASE_HELD, paid=True, reason="result_too_large", receipt=RECEIPT), True)
        if answer is PAID
        else (ScheduleRetry(LEASE_HELD), True)
    )
    reported = (
        (RecordOutcome(LEASE_HELD, FAILED), True),
        (CallComplete(ENTRY, FAILED), answer),
        NOTE,
        closed,
    )
    assert_unconfirmed(play(serve(sale()), *BEGINNING, TOO_LARGE, NOTE, *reported))


@pytest.mark.parametrize("answer", [False, DISK])
def test_work_that_gave_nothing_and_a_failure_that_could_not_be_written_is_503(answer: Any) -> None:
    """Somebody else has the row by now, and may be selling."""
    note = (NOTE,) if answer is DISK else ()
    assert_unconfirmed(
        play(serve(sale()), *BEGINNING, TOO_LARGE, NOTE, (RecordOutcome(LEASE_HELD, FAILED), answer), *note)
    )


@pytest.mark.parametrize("answer", [False, DISK])
def test_interrupted_work_that_somebody_else_decides_gets_no_fresh_402(answer: Any) -> None:
    note = (NOTE,) if answer is DISK else ()
    decided = (RecordOutcome(LEASE_HELD, WorkFailed("interrupted")), answer)
    assert_unconfirmed(play(serve(sale()), claimed(Resumable(ENTRY)), decided, *note))


def test_a_payment_that_cannot_be_held_is_told_as_if_it_were() -> None:
    """The lease of its row ends by itself: it is owed all the same."""
    settling = (*WORKED, (COMPLETE, CompletionPending(PENDING)), (ScheduleRetry(LEASE_HELD), DISK), NOTE)
    assert play(serve(sale()), *settling).status == 202
    assert told(serve(sale()), *settling)[-1] == Held(TXN, "settling")


def test_a_sweep_that_cannot_give_back_its_last_row_ends_all_the_same() -> None:
    settling = ((LeaseNext(), HELD), (STANDING, TransactionState.PENDING), (ScheduleRetry(LEASE_HELD), True))
    again = ((LeaseNext(), HELD), (ScheduleRetry(LEASE_HELD), DISK), NOTE)
    assert play(sweep(), *settling, *again).looked_at == 1
    assert noted(sweep(), *settling, *again) == [
        LogWarning("the journal could not record ScheduleRetry: disk", TXN)
    ]


def test_a_failed_payment_whose_new_price_cannot_be_asked_is_503() -> None:
    no_price = ((ResolveOffer(OFFER), Raise(NoAnswer("down"))), (GetKnownRevision(OFFER), None))
    response = play(
        serve(sale()),
        *WORKED,
        (COMPLETE, CompletionUnpaid()),
        (RecordFinal(LEASE_HELD, reason="payment_failed"), True),
        *no_price,
        NOTE,
    )
    assert (response.status, body(response)["code"]) == (503, "payment_service_unavailable")
    assert_nothing_left(response)


# Bounds


def test_work_may_take_all_of_its_time() -> None:
    last = HandlerResult(WORK.response, WORK.values, 54_000)
    outcome = WorkSucceeded(RESULT, GOOD.values, 54_000)
    sold = (
        (RunHandler(sale(), TXN), last),
        (RecordOutcome(LEASE_HELD, outcome), True),
        (CallComplete(ENTRY, outcome), PAID),
        (RecordSettlement(LEASE_HELD, PAID.payment_response, RECEIPT, True), SettlementWrite.FIRST),
    )
    assert play(serve(sale()), *BEGINNING, *sold).status == 200


@pytest.mark.parametrize(
    "refusal",
    [
        CompletionRejected(401, "unauthenticated"),
        CompletionRejected(403, "forbidden"),
        CompletionRejected(429, "busy"),
    ],
)
def test_a_refusal_that_is_not_about_the_transaction_is_never_left_to_people(
    refusal: CompletionRejected,
) -> None:
    """A key that is put right completes what is held; the sweep goes on asking."""
    back = (
        *BACK,
        (STANDING, TransactionSettled(RECEIPT)),
        (COMPLETE_HELD, refusal),
        NOTE,
        (ScheduleRetry(LEASE_HELD), True),
    )
    assert play(serve(sale()), *back).status == refusal.status


@pytest.mark.parametrize("status", [400, 499])
def test_only_a_failing_service_is_asked_to_complete_again(status: int) -> None:
    refused = (COMPLETE, CompletionRejected(status, "no"))
    assert play(serve(sale()), *WORKED, refused, NOTE, (ScheduleRetry(LEASE_HELD), True)).status == status


# What payers are told


def test_a_payer_hears_when_the_service_asks_for_patience() -> None:
    busy = AccessFailed(503, "429", "9")
    asked = (claimed(), found(), accessed(busy), (AbandonClaim(LEASE_HELD), True), NOTE)
    assert play(serve(sale()), *asked).first("retry-after") == "9"


def test_a_payer_hears_which_transaction_used_the_payment() -> None:
    taken = (
        (RecordTransaction(LEASE_HELD, TXN, ACR, 54.0), False),
        ALL_KEYS,
        (AbandonClaim(LEASE_HELD), True),
    )
    for response in (
        play(serve(sale()), claimed(), found(), accessed(), *taken),
        play(serve(sale()), claimed(AlreadyUsed(TXN))),
    ):
        assert (response.status, body(response)["transaction_id"]) == (409, TXN)
    assert "transaction_id" not in body(play(serve(sale()), claimed(RequestMismatch())))


# Nobody waits for long


def at(*seconds: float) -> list[float]:
    """A clock that shows these times, one after the other."""
    return list(seconds)


def played_by_the_clock(flow: Any, times: list[float], *script: tuple[Any, Any]) -> Any:
    """`play`, with what each look at the clock shows."""
    answer: Any = None
    expected = list(script)
    try:
        while True:
            step = flow.throw(answer.error) if isinstance(answer, Raise) else flow.send(answer)
            if isinstance(step, EmitEvent | LogWarning):
                answer = None
            elif isinstance(step, GetTime):
                answer = times.pop(0)
            else:
                question, answer = expected.pop(0)
                assert question == step
    except StopIteration as end:
        assert not expected
        return end.value


@pytest.mark.parametrize(("later", "asked"), [(3.0, 2), (3.1, 1)])
def test_access_that_was_waited_for_long_is_not_asked_again(later: float, asked: int) -> None:
    calls = [(CallAccess(sale(None), RULES, None), Raise(NoAnswer("too late")))] * asked
    flow = serve(sale(None))
    assert played_by_the_clock(flow, at(5.0, 5.0 + later), found(), *calls).status == 503


def test_what_was_refused_for_the_crowd_is_not_asked_again() -> None:
    refused = (CallAccess(sale(None), RULES, None), Raise(TooManyCalls("1250 calls are under way")))
    assert play(serve(sale(None)), found(), refused, NOTE).status == 503


@pytest.mark.parametrize(("times", "asked"), [((0.0, 10.0), 1), ((0.0, 3.0, 3.1), 2), ((0.0, 1.0, 2.0), 3)])
def test_a_completion_that_was_waited_for_long_is_not_repeated(times: Any, asked: int) -> None:
    calls: list[tuple[Any, Any]] = []
    for pause in (None, *COMPLETE_PAUSES)[:asked]:
        calls += [] if pause is None else [(Sleep(pause), None)]
        calls.append((CallComplete(ENTRY, GOOD), Raise(NoAnswer("too late"))))
    flow = complete_success(ENTRY, GOOD, repeated=False, awaited=True, is_observed=False)
    kept = (ScheduleRetry(LEASE_HELD), True)
    assert played_by_the_clock(flow, at(*times), *calls, kept) == Unconfirmed("not proven")

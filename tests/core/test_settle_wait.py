"""A request waits for a payment that settles soon, so that its payer is not answered 202."""

from dataclasses import replace
from typing import Any

import pytest

from faregate.core.models import PaidRequest
from faregate.core.results import (
    CompletionPending,
    CompletionUnpaid,
    PaymentFailed,
    PaymentProven,
    StillSettling,
    TransactionSettled,
    TransactionState,
    Unconfirmed,
)
from faregate.errors import NoAnswer
from tests.core.flow_script import (
    ENTRY,
    GOOD,
    HELD,
    PAID,
    PENDING,
    RECEIPT,
    RESULT,
    TXN,
    WARNED,
    Pair,
    Raise,
    completed,
    ended,
    play,
    rescheduled,
    sale,
    settled,
)
from tests.core.steps import GetTransaction, WaitForSettlement, complete_success, recover

ANSWERED_202 = completed(CompletionPending(PENDING))
HELD_202 = (rescheduled(),)
LOOK = GetTransaction(TXN)
SETTLED = (LOOK, TransactionSettled(RECEIPT))
SETTLING = (LOOK, TransactionState.PENDING)


def wait(seconds: float, *, waits: bool = True) -> Pair:
    return WaitForSettlement(seconds), waits


def patient(**changes: Any) -> PaidRequest:
    return replace(sale(), settle_wait=5.0, **changes)


def complete(request: PaidRequest, *script: Pair, **clock: Any) -> Any:
    return play(complete_success(ENTRY, GOOD, sticks_if_refused=False, request=request), *script, **clock)


def test_a_payment_that_settles_soon_is_completed_again_and_released() -> None:
    script = (ANSWERED_202, wait(0.25), SETTLING, wait(0.5), SETTLED, completed(PAID), settled())
    assert complete(patient(), *script) == PaymentProven(RESULT, PAID.payment_response)


def test_what_a_look_says_releases_nothing() -> None:
    """The service says `succeeded`, and does not prove it."""
    script = (ANSWERED_202, wait(0.25), SETTLED, ANSWERED_202, *HELD_202)
    assert complete(patient(), *script) == StillSettling(PENDING)


def test_a_payment_that_fails_meanwhile_is_certain_only_when_a_completion_says_so() -> None:
    script = (ANSWERED_202, wait(0.25), (LOOK, TransactionState.FAILED), completed(CompletionUnpaid()))
    assert complete(patient(), *script, ended("payment_failed")) == PaymentFailed("payment_failed")


@pytest.mark.parametrize(
    "state",
    [
        TransactionState.CONTRADICTORY,
        TransactionState.NOT_FOUND,
        TransactionState.UNRECOGNIZED,
        TransactionState.UNAVAILABLE,
        TransactionState.AUTHORIZED,
        Raise(NoAnswer("no")),
    ],
)
def test_an_unclear_look_ends_the_wait(state: Any) -> None:
    script = (ANSWERED_202, wait(0.25), (LOOK, state), *HELD_202)
    assert complete(patient(), *script) == StillSettling(PENDING)


def test_under_load_the_202_comes_at_once() -> None:
    assert complete(patient(), ANSWERED_202, wait(0.25, waits=False), *HELD_202) == StillSettling(PENDING)


def test_without_the_setting_the_202_comes_at_once() -> None:
    assert complete(sale(), ANSWERED_202, *HELD_202) == StillSettling(PENDING)


def test_a_sweep_waits_for_nothing() -> None:
    flow = complete_success(HELD, GOOD, sticks_if_refused=True, request=None)
    assert play(flow, completed(CompletionPending(PENDING), HELD), *HELD_202) == StillSettling(PENDING)


@pytest.mark.parametrize(("changes", "later"), [({}, 14.8), ({"last_call_at": 12.0}, 11.8)])
def test_the_wait_ends(changes: dict[str, Any], later: float) -> None:
    """By the setting, or by the time that the request has."""
    clock = iter([0.0, 10.0, later])
    request = patient(is_observed=False, **changes)
    script = (ANSWERED_202, wait(0.25), SETTLING, *HELD_202)
    assert complete(request, *script, clock=clock) == StillSettling(PENDING)


def test_an_end_that_is_known_too_late_for_a_call_is_left_to_the_payer() -> None:
    clock = iter([0.0, 0.0, 9.0])
    unobserved = patient(last_call_at=8.0, is_observed=False)
    script = (ANSWERED_202, wait(0.25), SETTLED, *HELD_202)
    assert complete(unobserved, *script, clock=clock) == StillSettling(PENDING)


def test_a_payer_who_comes_back_waits_too() -> None:
    again = (SETTLING, wait(0.25), SETTLED, completed(PAID, HELD), settled())
    assert play(recover(HELD, patient()), *again) == PaymentProven(RESULT, PAID.payment_response)
    assert play(recover(HELD, patient()), SETTLING, wait(0.25, waits=False), *HELD_202) == StillSettling()


def test_a_completion_that_is_lost_after_the_wait_leaves_the_payment_open() -> None:
    lost = completed(Raise(NoAnswer("lost")))
    clock = iter([0.0, 0.0, 1.0, 1.0, 5.0])
    script = (ANSWERED_202, wait(0.25), SETTLED, lost, WARNED, *HELD_202)
    unobserved = replace(patient(), is_observed=False)
    assert complete(unobserved, *script, clock=clock) == Unconfirmed("not proven")

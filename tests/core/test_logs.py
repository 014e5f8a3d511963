"""What the seller's log is told: what went wrong, and of which transaction."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from faregate.core.claims import PendingPayment
from faregate.core.flow import serve
from faregate.core.models import WorkFailed
from faregate.core.recovery import sweep
from faregate.core.results import (
    AccessFailed,
    AccessGranted,
    AccessPending,
    CompletionRejected,
    CompletionUnknown,
    TransactionSettled,
    TransactionState,
)
from faregate.core.steps import (
    AbandonClaim,
    CallComplete,
    Flow,
    LeaseNext,
    LogWarning,
    MarkStuck,
    RecordFinal,
    RecordOutcome,
    RecordPending,
    RecordSettlement,
    RecordTransaction,
    ResolveOffer,
    RunHandler,
    ScheduleRetry,
)
from faregate.errors import BadAnswer, ConfigurationError, JournalError, NoAnswer, ResultTooLarge
from tests.core.flow_parts import BACK, HELD, PAUSES, PENDING, SALVAGED, STANDING, WAITING
from tests.core.flow_script import (
    ACR,
    BEGINNING,
    COMPLETE,
    ENTRY,
    LEASE_HELD,
    NOTE,
    OFFER,
    PAID,
    RECEIPT,
    TXN,
    WORKED,
    Raise,
    accessed,
    claimed,
    found,
    noted,
    sale,
)

DISK = Raise(JournalError("disk full"))
FULL = Raise(JournalError("no space"))
BEGUN = BEGINNING[:3]
FAILURE = WorkFailed("handler_error")
REPORTED = replace(ENTRY, outcome=FAILURE)
HELD_STEP = (ScheduleRetry(LEASE_HELD), True)


def thrice(step: Any, answer: Any) -> tuple[Any, ...]:
    """Asked as often as a completion is."""
    asked = (step, answer)
    return asked, PAUSES[0], asked, PAUSES[1], asked


Case = tuple[Callable[[], Flow[Any]], tuple[Any, ...]]


def served(*script: Any) -> Case:
    return lambda: serve(sale()), script


def swept(owed: PendingPayment, *script: Any) -> Case:
    return sweep, ((LeaseNext(), owed), *script, (LeaseNext(), None))


OF_A_TRANSACTION: dict[str, Case] = {
    "access granted a transaction without a proof": (
        lambda: serve(sale(None)),
        (found(), accessed(AccessGranted(TXN), None), NOTE),
    ),
    "the journal could not record the start of the work: disk full": served(
        *BEGUN, (RecordTransaction(LEASE_HELD, TXN, ACR, 54.0), DISK), NOTE, SALVAGED
    ),
    "the journal could not record RecordPending: disk full": served(
        *BEGUN[:2],
        accessed(AccessPending(PENDING, TXN)),
        (RecordPending(LEASE_HELD, TXN, ACR), DISK),
        NOTE,
        SALVAGED,
    ),
    "GET /summary returned nothing that can be sold: big": served(
        *BEGINNING,
        (RunHandler(sale(), TXN), Raise(ResultTooLarge("big"))),
        NOTE,
        (RecordOutcome(LEASE_HELD, WorkFailed("result_too_large")), False),
    ),
    "the journal could not write the outcome: disk full": served(*WORKED[:-1], (WORKED[-1][0], DISK), NOTE),
    "completion was refused: 403 forbidden": served(
        *WORKED, (COMPLETE, CompletionRejected(403, "forbidden")), NOTE, HELD_STEP
    ),
    "the payment is not proven: half": served(
        *WORKED, *thrice(COMPLETE, CompletionUnknown("half")), NOTE, HELD_STEP
    ),
    "the payment is not proven: timed out": served(
        *WORKED, *thrice(COMPLETE, Raise(NoAnswer("timed out"))), NOTE, HELD_STEP
    ),
    "the journal could not record ScheduleRetry: disk full": swept(
        HELD,
        (STANDING, TransactionState.PENDING),
        (ScheduleRetry(LEASE_HELD), DISK),
        NOTE,
    ),
    "the journal could not record RecordSettlement: disk full": served(
        *WORKED,
        (COMPLETE, PAID),
        (RecordSettlement(LEASE_HELD, PAID.payment_response, RECEIPT, True), DISK),
        NOTE,
    ),
    "the journal could not record RecordFinal: disk full": swept(
        WAITING,
        (STANDING, TransactionState.FAILED),
        (RecordFinal(LEASE_HELD, reason="payment_failed"), DISK),
        NOTE,
    ),
    "the journal could not record RecordFinal: no space": swept(
        WAITING,
        (STANDING, TransactionSettled(RECEIPT)),
        NOTE,
        (RecordFinal(LEASE_HELD, paid=True, reason="not_started", receipt=RECEIPT), FULL),
        NOTE,
    ),
    "the journal could not record MarkStuck: disk full": swept(
        WAITING,
        (STANDING, TransactionState.NOT_FOUND),
        (MarkStuck(LEASE_HELD, "the service does not know the transaction"), DISK),
        NOTE,
        NOTE,
    ),
    "the journal could not record AbandonClaim: disk full": swept(
        WAITING, (STANDING, TransactionState.AUTHORIZED), (AbandonClaim(LEASE_HELD), DISK), NOTE
    ),
    "the service settled a payment that was reported as failed": swept(
        REPORTED,
        (STANDING, TransactionState.AUTHORIZED),
        (CallComplete(REPORTED, FAILURE), PAID),
        NOTE,
        (RecordFinal(LEASE_HELD, paid=True, reason="handler_error", receipt=RECEIPT), True),
    ),
    "a failed outcome was refused: 403 forbidden": swept(
        REPORTED,
        (STANDING, TransactionState.AUTHORIZED),
        (CallComplete(REPORTED, FAILURE), CompletionRejected(403, "forbidden")),
        NOTE,
        HELD_STEP,
    ),
    "a failed outcome is not acknowledged yet": swept(
        REPORTED,
        (STANDING, TransactionState.AUTHORIZED),
        *thrice(CallComplete(REPORTED, FAILURE), CompletionUnknown("silence")),
        NOTE,
        HELD_STEP,
    ),
    "an operator must resolve this: still open: settling (faregate holds)": served(
        *BACK, (STANDING, TransactionState.PENDING), (ScheduleRetry(LEASE_HELD), False), NOTE
    ),
    "an operator must resolve this: the service does not know the transaction (faregate holds)": swept(
        WAITING,
        (STANDING, TransactionState.NOT_FOUND),
        (MarkStuck(LEASE_HELD, "the service does not know the transaction"), None),
        NOTE,
    ),
    "a payment settled, but its result is not in the journal": swept(
        WAITING,
        (STANDING, TransactionSettled(RECEIPT)),
        NOTE,
        (RecordFinal(LEASE_HELD, paid=True, reason="not_started", receipt=RECEIPT), True),
    ),
    "the state of the transaction is unknown: timed out": swept(
        HELD,
        (STANDING, Raise(NoAnswer("timed out"))),
        NOTE,
        HELD_STEP,
    ),
}


@pytest.mark.parametrize("said", OF_A_TRANSACTION)
def test_the_log_says_what_went_wrong_and_of_which_transaction(said: str) -> None:
    begin, script = OF_A_TRANSACTION[said]
    assert LogWarning(said, TXN) in noted(begin(), *script)


DROPPED = (AbandonClaim(LEASE_HELD), True)
BEFORE: dict[str, tuple[Any, ...]] = {
    "the journal could not claim the proof: disk full": (claimed(DISK), NOTE),
    "nothing can be sold: unknown key": (
        claimed(),
        (ResolveOffer(OFFER), Raise(ConfigurationError("unknown key"))),
        DROPPED,
        NOTE,
    ),
    "access was not answered: timed out": (
        *BEGUN[:2],
        accessed(Raise(NoAnswer("timed out"))),
        accessed(Raise(NoAnswer("timed out"))),
        DROPPED,
        NOTE,
    ),
    "access could not be asked, or was answered with nonsense: garbage": (
        *BEGUN[:2],
        accessed(Raise(BadAnswer("garbage"))),
        DROPPED,
        NOTE,
    ),
    "the journal could not record AbandonClaim: disk full": (
        *BEGUN[:2],
        accessed(AccessFailed(502, "401")),
        (DROPPED[0], DISK),
        NOTE,
        NOTE,
    ),
}


@pytest.mark.parametrize("said", BEFORE)
def test_the_log_says_why_nothing_was_begun(said: str) -> None:
    assert LogWarning(said) in noted(serve(sale()), *BEFORE[said])

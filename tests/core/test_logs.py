"""What the seller's log is told: what went wrong, and of which transaction."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from faregate.core.claim_types import PendingPayment
from faregate.core.interfaces import Flow
from faregate.core.models import WorkFailed
from faregate.core.results import (
    AccessFailed,
    AccessGranted,
    AccessPending,
    CompletionRejected,
    CompletionUnknown,
    TransactionSettled,
    TransactionState,
)
from faregate.errors import BadAnswer, ConfigurationError, JournalError, NoAnswer, ResultTooLarge
from tests.core.flow_script import (
    ALL_KEYS,
    BEGINNING,
    ENTRY,
    FALLBACK_WRITTEN,
    GOOD,
    HELD,
    PAID,
    PENDING,
    RECEIPT,
    TXN,
    WAITING,
    WARNED,
    WORKED,
    Raise,
    abandoned,
    accessed,
    claimed,
    completed,
    ended,
    ended_paid,
    found,
    handled,
    leased,
    left_pending,
    looked_up,
    recorded,
    rescheduled,
    resumed,
    sale,
    settled,
    started,
    stuck,
    thrice,
    warnings_of,
)
from tests.core.steps import LogWarning, serve, sweep

DISK = Raise(JournalError("disk full"))
FULL = Raise(JournalError("no space"))
BEGUN = BEGINNING[:3]
FAILURE = WorkFailed("handler_error")
REPORTED = replace(ENTRY, outcome=FAILURE)


Case = tuple[Callable[[], Flow[Any]], tuple[Any, ...]]


def served(*script: Any) -> Case:
    return lambda: serve(sale()), script


def swept(owed: PendingPayment, *script: Any) -> Case:
    return sweep, (leased(owed), *script, leased(None))


OF_A_TRANSACTION: dict[str, Case] = {
    "access granted a transaction without a proof": (
        lambda: serve(sale(None)),
        (found(), accessed(AccessGranted(TXN), None), WARNED),
    ),
    "the journal could not record the start of the work: disk full": served(
        *BEGUN, started(DISK), WARNED, FALLBACK_WRITTEN
    ),
    "the journal could not give up the claim: no space": served(
        *BEGUN, started(False), ALL_KEYS, abandoned(FULL), WARNED
    ),
    "the journal could not store the pending payment: disk full": served(
        *BEGUN[:2], accessed(AccessPending(PENDING, TXN)), left_pending(DISK), WARNED, FALLBACK_WRITTEN
    ),
    "GET /summary returned nothing that can be sold: big": served(
        *BEGINNING,
        handled(Raise(ResultTooLarge("big"))),
        WARNED,
        recorded(WorkFailed("result_too_large"), False),
    ),
    "the journal could not write the outcome: disk full": served(*WORKED[:-1], recorded(GOOD, DISK), WARNED),
    "completion was refused: 403 forbidden": served(
        *WORKED, completed(CompletionRejected(403, "forbidden")), WARNED, rescheduled()
    ),
    "the payment is not proven: half": served(
        *WORKED, *thrice(completed(CompletionUnknown("half"))), WARNED, rescheduled()
    ),
    "the payment is not proven: timed out": served(
        *WORKED, *thrice(completed(Raise(NoAnswer("timed out")))), WARNED, rescheduled()
    ),
    "the journal could not schedule a retry of the payment: disk full": swept(
        HELD, looked_up(TransactionState.PENDING), rescheduled(DISK), WARNED
    ),
    "the journal could not record the settlement: disk full": served(
        *WORKED, completed(PAID), settled(DISK), WARNED
    ),
    "the journal could not record the end of the payment: disk full": swept(
        WAITING, looked_up(TransactionState.FAILED), ended("payment_failed", DISK), WARNED
    ),
    "the journal could not record the end of the payment: no space": swept(
        WAITING, looked_up(TransactionSettled(RECEIPT)), WARNED, ended_paid("not_started", FULL), WARNED
    ),
    "the journal could not mark the payment as stuck: disk full": swept(
        WAITING,
        looked_up(TransactionState.NOT_FOUND),
        stuck("the service does not know the transaction", DISK),
        WARNED,
        WARNED,
    ),
    "the journal could not give up the claim: disk full": swept(
        WAITING, looked_up(TransactionState.AUTHORIZED), abandoned(DISK), WARNED
    ),
    "the service settled a payment that was reported as failed": swept(
        REPORTED,
        looked_up(TransactionState.AUTHORIZED),
        completed(PAID, REPORTED, FAILURE),
        WARNED,
        ended_paid("handler_error"),
    ),
    "a failed outcome was refused: 403 forbidden": swept(
        REPORTED,
        looked_up(TransactionState.AUTHORIZED),
        completed(CompletionRejected(403, "forbidden"), REPORTED, FAILURE),
        WARNED,
        rescheduled(),
    ),
    "a failed outcome is not acknowledged yet": swept(
        REPORTED,
        looked_up(TransactionState.AUTHORIZED),
        *thrice(completed(CompletionUnknown("silence"), REPORTED, FAILURE)),
        WARNED,
        rescheduled(),
    ),
    "an operator must resolve this: still open: settling (faregate holds)": served(
        resumed(), looked_up(TransactionState.PENDING), rescheduled(False), WARNED
    ),
    "an operator must resolve this: the service does not know the transaction (faregate holds)": swept(
        WAITING,
        looked_up(TransactionState.NOT_FOUND),
        stuck("the service does not know the transaction"),
        WARNED,
    ),
    "a payment settled, but its result is not in the journal": swept(
        WAITING, looked_up(TransactionSettled(RECEIPT)), WARNED, ended_paid("not_started")
    ),
    "the state of the transaction is unknown: timed out": swept(
        HELD, looked_up(Raise(NoAnswer("timed out"))), WARNED, rescheduled()
    ),
}


@pytest.mark.parametrize("said", OF_A_TRANSACTION)
def test_the_log_says_what_went_wrong_and_of_which_transaction(said: str) -> None:
    begin, script = OF_A_TRANSACTION[said]
    assert LogWarning(said, TXN) in warnings_of(begin(), *script)


BEFORE: dict[str, tuple[Any, ...]] = {
    "the journal could not claim the proof: disk full": (claimed(DISK), WARNED),
    "nothing can be sold: unknown key": (
        claimed(),
        found(Raise(ConfigurationError("unknown key"))),
        abandoned(),
        WARNED,
    ),
    "access was not answered: timed out": (
        *BEGUN[:2],
        accessed(Raise(NoAnswer("timed out"))),
        accessed(Raise(NoAnswer("timed out"))),
        abandoned(),
        WARNED,
    ),
    "access could not be asked, or was answered with nonsense: garbage": (
        *BEGUN[:2],
        accessed(Raise(BadAnswer("garbage"))),
        abandoned(),
        WARNED,
    ),
    "the journal could not give up the claim: disk full": (
        *BEGUN[:2],
        accessed(AccessFailed(502, "401")),
        abandoned(DISK),
        WARNED,
        WARNED,
    ),
}


@pytest.mark.parametrize("said", BEFORE)
def test_the_log_says_why_nothing_was_begun(said: str) -> None:
    assert LogWarning(said) in warnings_of(serve(sale()), *BEFORE[said])

"""The steps of an operation: frozen values, each performed by one method of the store or of the payments.

`answer = yield from step` gives the type that the step is declared with. A step does nothing by itself: `run`
performs it on a backend. So no rule holds a lock or a database transaction while a payment is verified or
sent.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar, cast

from faregate.frozen import frozen
from faregate.merchant.models import AccessRequest, ResourceExecutionMetadata
from faregate.service.catalog import Listing, PublishedRevision
from faregate.service.config import SettlementRule
from faregate.service.http import ParsedListQuery
from faregate.service.payments import (
    Attempt,
    PaymentPostponed,
    PaymentRefused,
    Payments,
    PaymentSent,
    PaymentVerified,
    Reservation,
    SettlementPending,
    SettlementResult,
    SignedTransfer,
)
from faregate.service.records import AccessContext, DueSettlement, ExecutionRecord, PayerView, Transaction
from faregate.service.store import Outcome, RecordPage, Store, Uses
from faregate.x402.models import SignedPayment, Terms
from faregate.x402.tokens import Token

T = TypeVar("T")
R = TypeVar("R")


class Step(Generic[T]):
    """One thing to do, which gives a `T`."""

    __slots__ = ()

    def perform(self, backend: "Backend") -> T:
        raise TypeError(f"no backend performs {type(self).__name__}")

    def __iter__(self) -> Generator["Step[T]", T, T]:
        return (yield self)


Steps = Generator[Step[Any], Any, R]
"""A plain generator of steps that returns an `R`."""


class Performer(Protocol):
    """Performs steps: a `Backend`, or what watches one."""

    def perform(self, step: Step[T], /) -> T: ...


def run(operation: Steps[R], backend: Performer) -> R:
    """Perform the steps of an operation, and return what it returns."""
    advance: Callable[[Any], Step[Any]] = operation.send
    value: Any = None
    # Two separate `try`s: an error of the operation itself must leave, and never be thrown back into it.
    try:
        while True:
            try:
                step = advance(value)
            except StopIteration as end:
                return cast(R, end.value)
            try:
                advance, value = operation.send, backend.perform(step)
            except Exception as error:  # a KeyboardInterrupt ends the operation instead
                advance, value = operation.throw, error
    finally:
        # The traceback of an error holds this frame: without `del`, the two keep each other alive.
        del value
        operation.close()


def _run_here(operation: Steps[Transaction], transaction: Transaction, backend: "Backend") -> Transaction:
    return run(operation, backend)


def _never_wait(transaction: Transaction, backend: "Backend") -> Transaction:
    return transaction


@dataclass(frozen=True, slots=True)
class Backend:
    """What performs the steps, for one environment of one account.

    `settle` runs a settlement. It may stop waiting for it, and return the transaction as it then stands.
    `wait` does not settle a pending transaction: it waits for whoever does.
    """

    store: Store
    payments: Payments
    settle: Callable[[Steps[Transaction], Transaction, "Backend"], Transaction] = _run_here
    wait: Callable[[Transaction, "Backend"], Transaction] = _never_wait

    def perform(self, step: Step[T]) -> T:
        """Perform a step. Overridden where somebody watches the steps."""
        return step.perform(self)


# Steps of the store, each as the method of the same name in `service/store.py`


class Now(Step[datetime]):
    __slots__ = ()

    def perform(self, backend: Backend) -> datetime:
        return backend.store.now()


class GetChallenge(Step[str]):
    __slots__ = ()

    def perform(self, backend: Backend) -> str:
        return backend.store.challenge()


class GetSellerName(Step[str]):
    __slots__ = ()

    def perform(self, backend: Backend) -> str:
        return backend.store.seller_name


@frozen
class FindRevision(Step[tuple[Listing, PublishedRevision] | None]):
    revision_id: str

    def perform(self, backend: Backend) -> tuple[Listing, PublishedRevision] | None:
        return backend.store.find_revision(self.revision_id)


@frozen
class Resolve(Step[AccessContext]):
    request: AccessRequest
    listing: Listing
    revision: PublishedRevision

    def perform(self, backend: Backend) -> AccessContext:
        return backend.store.resolve(self.request, self.listing, self.revision)


class ListActive(Step[Sequence[Listing]]):
    __slots__ = ()

    def perform(self, backend: Backend) -> Sequence[Listing]:
        return backend.store.list_active()


@frozen
class ListResources(Step[Sequence[Listing]]):
    as_of: datetime

    def perform(self, backend: Backend) -> Sequence[Listing]:
        return backend.store.list_resources(self.as_of)


@frozen
class FindByProof(Step[Transaction | None]):
    proof: str

    def perform(self, backend: Backend) -> Transaction | None:
        return backend.store.find_by_proof(self.proof)


@frozen
class FindUses(Step[Uses]):
    token: Token
    payment: SignedPayment
    settled_since: datetime | None = None

    def perform(self, backend: Backend) -> Uses:
        return backend.store.find_uses(self.token, self.payment, self.settled_since)


@frozen
class Authorize(Step[Transaction | None]):
    context: AccessContext
    payment: SignedPayment
    verified: PaymentVerified
    before: Uses

    def perform(self, backend: Backend) -> Transaction | None:
        return backend.store.authorize(self.context, self.payment, self.verified, self.before)


@frozen
class BeginExecution(Step[str | None]):
    context: AccessContext

    def perform(self, backend: Backend) -> str | None:
        return backend.store.begin_execution(self.context)


@frozen
class FindExecution(Step[ExecutionRecord | None]):
    execution_id: str

    def perform(self, backend: Backend) -> ExecutionRecord | None:
        return backend.store.find_execution(self.execution_id)


@frozen
class RecordExecution(Step[ExecutionRecord]):
    execution: ExecutionRecord
    metadata: ResourceExecutionMetadata

    def perform(self, backend: Backend) -> ExecutionRecord:
        return backend.store.record_execution(self.execution, self.metadata)


@frozen
class FindTransaction(Step[Transaction | None]):
    transaction_id: str

    def perform(self, backend: Backend) -> Transaction | None:
        return backend.store.find_transaction(self.transaction_id)


@frozen
class RecordReport(Step[Transaction | None]):
    transaction: Transaction
    outcome: Outcome

    def perform(self, backend: Backend) -> Transaction | None:
        return backend.store.record_outcome(self.transaction, self.outcome)


@frozen
class FindSettlementRule(Step[SettlementRule | None]):
    transaction: Transaction

    def perform(self, backend: Backend) -> SettlementRule | None:
        return backend.store.find_settlement_rule(self.transaction)


@frozen
class Schedule(Step[Transaction]):
    transaction: Transaction
    rule: SettlementRule
    due: datetime | None
    at: datetime

    def perform(self, backend: Backend) -> Transaction:
        return backend.store.schedule(self.transaction, self.rule, self.due, self.at)


@frozen
class CountRead(Step[SettlementRule | None]):
    transaction: Transaction

    def perform(self, backend: Backend) -> SettlementRule | None:
        return backend.store.count_read(self.transaction)


@frozen
class TakeDue(Step[Sequence[DueSettlement]]):
    until: datetime

    def perform(self, backend: Backend) -> Sequence[DueSettlement]:
        return backend.store.take_due(self.until)


@frozen
class BeginAttempt(Step[Attempt | None]):
    transaction: Transaction

    def perform(self, backend: Backend) -> Attempt | None:
        return backend.store.begin_attempt(self.transaction)


@frozen
class GetGasNonce(Step[int | None]):
    chain: int
    sender: str

    def perform(self, backend: Backend) -> int | None:
        return backend.store.get_gas_nonce(self.chain, self.sender)


@frozen
class RecordSigned(Step[bool]):
    transaction: Transaction
    attempt: Attempt
    signed: SignedTransfer

    def perform(self, backend: Backend) -> bool:
        return backend.store.record_signed(self.transaction, self.attempt, self.signed)


@frozen
class RecordSent(Step[None]):
    transaction: Transaction
    attempt: Attempt
    sent: PaymentSent

    def perform(self, backend: Backend) -> None:
        backend.store.record_sent(self.transaction, self.attempt, self.sent.transaction_hash, self.sent.note)


@frozen
class RecordSettled(Step[Transaction]):
    transaction: Transaction
    transaction_hash: str
    at: datetime | None

    def perform(self, backend: Backend) -> Transaction:
        return backend.store.record_settled(self.transaction, self.transaction_hash, self.at)


@frozen
class RecordFailed(Step[Transaction]):
    transaction: Transaction
    at: datetime | None

    def perform(self, backend: Backend) -> Transaction:
        return backend.store.record_failed(self.transaction, self.at)


@frozen
class PostponePayment(Step[Transaction]):
    transaction: Transaction
    attempt: Attempt
    pending: SettlementPending
    at: datetime | None

    def perform(self, backend: Backend) -> Transaction:
        return backend.store.postpone(self.transaction, self.attempt, self.pending, self.at)


@frozen
class FixSnapshot(Step[datetime | None]):
    as_of: datetime | None

    def perform(self, backend: Backend) -> datetime | None:
        return backend.store.fix_snapshot(self.as_of)


@frozen
class ListTransactions(Step[RecordPage[Transaction]]):
    query: ParsedListQuery
    status: str | None
    payer_id: str | None

    def perform(self, backend: Backend) -> RecordPage[Transaction]:
        return backend.store.list_transactions(self.query, self.status, self.payer_id)


@frozen
class ListPayers(Step[RecordPage[PayerView]]):
    query: ParsedListQuery

    def perform(self, backend: Backend) -> RecordPage[PayerView]:
        return backend.store.list_payers(self.query)


# Steps of the payments


@frozen
class VerifyPayment(Step[PaymentVerified | PaymentRefused]):
    """Raises `PaymentsUnavailable`."""

    payment: SignedPayment
    terms: Terms
    now: datetime
    committed: int
    reservations: tuple[Reservation, ...] = ()

    def perform(self, backend: Backend) -> PaymentVerified | PaymentRefused:
        return backend.payments.verify(
            self.payment,
            self.terms,
            now=self.now,
            committed=self.committed,
            reservations=self.reservations,
        )


@frozen
class LookAtPayment(Step[SettlementResult]):
    transaction: Transaction
    attempt: Attempt

    def perform(self, backend: Backend) -> SettlementResult:
        known = self.transaction
        return backend.payments.look(known.payment, known.context.terms, self.attempt)


@frozen
class GetGasAccount(Step[str | None]):
    terms: Terms

    def perform(self, backend: Backend) -> str | None:
        return backend.payments.get_gas_account(self.terms)


@frozen
class SignTransfer(Step[SignedTransfer | PaymentPostponed | None]):
    """Raises `PaymentsUnavailable`."""

    transaction: Transaction
    attempt: Attempt
    gas_nonce: int | None

    def perform(self, backend: Backend) -> SignedTransfer | PaymentPostponed | None:
        known = self.transaction
        return backend.payments.sign(known.payment, known.context.terms, self.attempt, self.gas_nonce)


@frozen
class SendPayment(Step[PaymentSent | SettlementResult]):
    transaction: Transaction
    attempt: Attempt

    def perform(self, backend: Backend) -> PaymentSent | SettlementResult:
        known = self.transaction
        return backend.payments.send(known.payment, known.context.terms, self.attempt)


@frozen
class Settle(Step[Transaction]):
    """Run a settlement, for as long as the caller may wait; gives the transaction as it then stands."""

    operation: Steps[Transaction]
    transaction: Transaction

    def perform(self, backend: Backend) -> Transaction:
        return backend.settle(self.operation, self.transaction, backend)


@frozen
class AwaitResult(Step[Transaction]):
    """Wait for a payment that another call completes, for as long as that call may wait."""

    transaction: Transaction

    def perform(self, backend: Backend) -> Transaction:
        return backend.wait(self.transaction, backend)

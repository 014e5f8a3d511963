"""The interface of a store: what the rules read and write. Each method is one short transaction.

A method never calls the network. Stamps never decrease, and come after every moment for which a list was
answered (`rules/clock.py`), so that such a list never changes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Generic, Protocol, TypeVar

from faregate.merchant.models import AccessRequest, CompleteRequest, ResourceExecutionMetadata
from faregate.rules.account import SettlementRule
from faregate.rules.catalog import Listing, PublishedRevision
from faregate.rules.http import ParsedListQuery
from faregate.rules.payments import (
    Attempt,
    PaymentVerified,
    Reservation,
    SettlementPending,
    SignedTransfer,
)
from faregate.rules.records import AccessContext, DueSettlement, ExecutionRecord, PayerView, Transaction
from faregate.x402.models import SignedPayment
from faregate.x402.tokens import Token

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Uses:
    """What the store has of a payment: the transactions with its proof, and with its authorization.

    `reserved` is what open transactions of its payer reserve, in atomic units of its token. `reservations`
    are its parts, where a chain can be ahead of the store. `settled` is the sum of
    the payer's payments that succeeded since `settled_since`.
    """

    by_proof: Transaction | None = None
    by_authorization: Transaction | None = None
    reserved: int = 0
    reservations: tuple[Reservation, ...] = ()
    settled: int = 0
    settled_since: datetime = _EPOCH


NOTHING_FOUND: Final = Uses()


@dataclass(frozen=True, slots=True)
class RecordPage(Generic[T_co]):
    """The records of one page of a list, in the order asked for; `count` is that of the whole list."""

    count: int
    records: Sequence[T_co]


class StoreUnavailable(Exception):
    """The store could not be read or written. Nothing may be assumed written."""


def cut_page(query: ParsedListQuery, count: int, between: Callable[[int, int], Sequence[T]]) -> RecordPage[T]:
    """Cut a page out of `count` records; `between` returns those of two positions, oldest first."""
    start = min((query.page - 1) * query.page_size, count)
    end = min(start + query.page_size, count)
    records = between(count - end, count - start)[::-1] if query.newest_first else between(start, end)
    return RecordPage(count, records)


class Store(Protocol):
    """One environment of one seller's account."""

    @property
    def seller_name(self) -> str: ...

    @property
    def challenge(self) -> Callable[[], str]:
        """Gives a fresh challenge for instructions."""
        ...

    def now(self) -> datetime:
        """Return the current time in UTC: for what expires, and what time alone settles."""
        ...

    # The catalog

    def find_revision(self, revision_id: str) -> tuple[Listing, PublishedRevision] | None:
        """Find a revision, active or not, and its resource as it is now."""
        ...

    def resolve(self, request: AccessRequest, listing: Listing, revision: PublishedRevision) -> AccessContext:
        """Return the request with what it names, and what must be paid for it."""
        ...

    def list_active(self) -> Sequence[Listing]:
        """Return the resources that are not archived now."""
        ...

    def list_resources(self, as_of: datetime) -> Sequence[Listing]:
        """Return the resources that existed at this moment, archived or not, as they were then."""
        ...

    # Access

    def find_by_proof(self, proof: str) -> Transaction | None:
        """Find the transaction that was authorized with exactly this `PAYMENT-SIGNATURE` header."""
        ...

    def find_uses(self, token: Token, payment: SignedPayment, settled_since: datetime | None = None) -> Uses:
        """Find what is known of this payment in this token, as of one moment.

        Without `settled_since`, the store chooses a moment that is past by the clock of every process.
        """
        ...

    def authorize(
        self,
        context: AccessContext,
        payment: SignedPayment,
        verified: PaymentVerified,
        before: Uses = NOTHING_FOUND,
    ) -> Transaction | None:
        """Create an open transaction; None if another call was faster.

        The authorization or the proof was used meanwhile, or the payer's other payments spend so much that
        `verified.funds` do not cover this one any more: those that are open, and those that succeeded since
        `before`, which was found before the funds were read. Without it, all that ever succeeded count.
        """
        ...

    def begin_execution(self, context: AccessContext) -> str | None:
        """Create a free execution; its id, or None if ids are not shown."""
        ...

    def find_execution(self, execution_id: str) -> ExecutionRecord | None: ...

    def record_execution(
        self, execution: ExecutionRecord, metadata: ResourceExecutionMetadata
    ) -> ExecutionRecord:
        """Record the metadata unless there is some; return the execution as it is then."""
        ...

    # Completion and settlement

    def find_transaction(self, transaction_id: str) -> Transaction | None: ...

    def record_outcome(
        self,
        transaction: Transaction,
        outcome: CompleteRequest,
        used_atomic: int | None = None,
        *,
        begins_attempt: bool = False,
    ) -> Transaction | None:
        """Record the first outcome; None if there is one already.

        `used_atomic` is recorded with it: what the reported values cost, where the price follows the use.

        A failed outcome ends the transaction. A succeeded one stamps `submitted_at`; if no call settles it
        afterwards, because the process died, it is due like a postponed one. With `begins_attempt` the store
        may begin the first attempt in the same commit: `begin_attempt` of what is returned then returns it.
        """
        ...

    def find_settlement_rule(self, transaction: Transaction) -> SettlementRule | None:
        """Find the most specific rule of a simulated payment; None settles at once."""
        ...

    def schedule(
        self, transaction: Transaction, rule: SettlementRule, due: datetime | None, at: datetime
    ) -> Transaction:
        """Let a simulated payment wait in the status `rule.via`, until `due` or for reads."""
        ...

    def count_read(self, transaction: Transaction) -> SettlementRule | None:
        """Count a read of a pending payment; return the rule that it brings to its end, if it does."""
        ...

    def take_due(self, until: datetime) -> Sequence[DueSettlement]:
        """Take the simulated payments that time settles by this moment, each once, in their order."""
        ...

    def begin_attempt(self, transaction: Transaction) -> Attempt | None:
        """Write down that an attempt begins, with a lease; None while another one runs, or at the end.

        The transaction is `settling` from the first attempt on, where attempts take time.
        """
        ...

    def read_attempt(self, transaction: Transaction) -> Attempt:
        """Return what all attempts so far know of the payment, without beginning one."""
        ...

    def get_gas_nonce(self, chain: int, sender: str) -> int | None:
        """Return the next free nonce of this gas account; None if the books do not know it."""
        ...

    def record_signed(self, transaction: Transaction, attempt: Attempt, signed: SignedTransfer) -> bool:
        """Write down the signed transfer and take its gas nonce, in one commit; False if it is taken."""
        ...

    def record_answer(
        self, transaction: Transaction, attempt: Attempt, transaction_hash: str | None, note: str
    ) -> None:
        """Write down what the answer to a sent payment was."""
        ...

    def record_settled(
        self,
        transaction: Transaction,
        transaction_hash: str,
        at: datetime | None,
        amount: int | None = None,
    ) -> Transaction:
        """End the transaction as `succeeded`, with its receipt; `at` is the present if None.

        Where the price follows the use, `amount` is what was settled, and replaces what was used.

        A transaction that has ended already stays as it is.
        """
        ...

    def record_failed(self, transaction: Transaction, at: datetime | None) -> Transaction:
        """End the transaction as `failed`: nothing was charged. One that has ended stays as it is."""
        ...

    def postpone(
        self, transaction: Transaction, attempt: Attempt, pending: SettlementPending, at: datetime | None
    ) -> Transaction:
        """End the attempt without a result: it is tried again later, by the store's own rule."""
        ...

    def park_underpaid(
        self, transaction: Transaction, attempt: Attempt, amount: int, at: datetime | None
    ) -> Transaction:
        """End the attempt, and make no other one: less was settled than was used, only this `amount`.

        The transaction is `reconciling` until an operator decides.
        """
        ...

    # Lists

    def fix_snapshot(self, as_of: datetime | None) -> datetime | None:
        """Return the moment that a list shows, and fix it; None if it is in the future."""
        ...

    def list_transactions(
        self, query: ParsedListQuery, status: str | None, payer_id: str | None
    ) -> RecordPage[Transaction]: ...

    def list_payers(self, query: ParsedListQuery) -> RecordPage[PayerView]: ...

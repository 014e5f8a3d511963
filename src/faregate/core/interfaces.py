"""What a flow is, and the protocols that it needs: a backend, and a journal. Sync and async.

A sync backend returns values; an async one returns values or awaitables, so that a part that never waits
(the memory journal) serves both.
"""

from collections.abc import Awaitable, Generator
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, TypeVar

from faregate.core.claim_types import (
    AlreadyUsed,
    Claim,
    Claimant,
    EarlierPayment,
    InProgress,
    Lease,
    PendingPayment,
    SettlementWrite,
)
from faregate.core.models import HandlerResult, Offer, OfferRevision, Outcome, PaidRequest
from faregate.core.results import Access, Completion, Predictability, TransactionReply
from faregate.events import Event

T = TypeVar("T")
R = TypeVar("R")

MaybeAwaitable: TypeAlias = T | Awaitable[T]

Flow: TypeAlias = Generator[Any, Any, R]
"""A plain generator that returns an `R`. It cannot await or block, and has no clock but its backend's.

It calls its backend and yields what the call returns, an answer or an awaitable of it. A driver
(`faregate.core.driver`) sends the answer back in, or throws in the error of awaiting it.
"""


@dataclass(slots=True, unsafe_hash=True)
class RunHandler:
    """Let the handler run: the one step that a flow yields and that no backend performs.

    The driver stops there. Its caller runs the handler, and drives on with its result, or with the exception
    that it raised. `backend` is the one that the flow calls from then on, if it changes: a view of
    Django may await while its middleware blocks, or the other way round.
    """

    request: PaidRequest
    transaction_id: str | None
    backend: "Backend | None" = field(default=None, compare=False, repr=False)


class Journal(Protocol):
    """The seller's record of payments. After an exception it is unknown whether a method wrote.

    Each call is atomic across all processes that share the journal, and durable when it returns as far as
    the journal promises durability at all.
    """

    def claim(self, proof: str, claimant: Claimant) -> MaybeAwaitable[Claim]:
        """Take the row of this proof for this request, or say what became of it."""
        ...

    def find_other_encoding(
        self, lease: Lease, proof: str
    ) -> MaybeAwaitable[InProgress | AlreadyUsed | None]:
        """Say what became of the payment of this proof under other bytes, in any row but that of the lease.

        None if there is no such row, if its payment failed, or if the proof cannot be read.
        """
        ...

    def has_unknown_keys(self) -> MaybeAwaitable[bool]:
        """Whether rows are named under keys that this journal was not given: it may miss what is there."""
        ...

    def record_transaction(
        self,
        lease: Lease,
        transaction_id: str,
        revision_id: str,
        seconds: float,
        claimant: Claimant | None = None,
    ) -> MaybeAwaitable[bool | EarlierPayment]:
        """Bind the transaction and lease the row for the work, which takes `seconds` at most.

        False if another row has the transaction or the lease is stale. The id is remembered either way;
        the method raises if the journal cannot write it.

        With a `claimant`, of all payments that name one payer and are for its request only one starts, until
        its work has failed or its result was delivered. The others get an `EarlierPayment`, with which
        nothing is written; or they start, if the claimant may not have that one's result. With an identifier,
        of all payments that name one payer and this identifier one starts, until its work has failed or its
        row is forgotten.
        """
        ...

    def record_resumption(
        self, lease: Lease, transaction_id: str, revision_id: str, resumed: str
    ) -> MaybeAwaitable[bool]:
        """Bind the transaction and decide that it fails: its payer is served the one that is `resumed`.

        No work was started for it. False as for `record_transaction`.
        """
        ...

    def claim_transaction(self, transaction_id: str, claimant: Claimant) -> MaybeAwaitable[Claim]:
        """Claim the row of this transaction for its payer, who comes with another proof.

        `AlreadyFailed` if there is no such row any more.
        """
        ...

    def record_pending(self, lease: Lease, transaction_id: str, revision_id: str) -> MaybeAwaitable[None]:
        """Bind a transaction that settles without a run of the handler, and give the lease back."""
        ...

    def record_outcome(self, lease: Lease, outcome: Outcome) -> MaybeAwaitable[bool]:
        """Write the outcome, once; False if the lease was lost or an outcome is already recorded."""
        ...

    def schedule_retry(self, lease: Lease) -> MaybeAwaitable[bool]:
        """Give the lease back; the payment stays open, and the row becomes due again later.

        False if the row is stuck: it has been open for too long (`JournalPolicy.max_age`), or was before.
        """
        ...

    def mark_stuck(self, lease: Lease, reason: str) -> MaybeAwaitable[None]:
        """Give the lease back for good: only the payer or a person brings the row to its end."""
        ...

    def postpone(self, lease: Lease) -> MaybeAwaitable[None]:
        """Give back the lease of a row that another seller has to finish; the row is due again much later."""
        ...

    def record_settlement(
        self, lease: Lease, payment_response: str, receipt: str, delivered: bool
    ) -> MaybeAwaitable[SettlementWrite]:
        """Mark a row with a result as settled, and return whether another worker had done so before.

        The redelivery window opens when it is first `delivered`, now or by a later claim. A second call under
        the same lease with `delivered` False takes the delivery back: the payer had left before the result
        was sent.
        """
        ...

    def record_final(
        self, lease: Lease, paid: bool, reason: str = "", receipt: str = ""
    ) -> MaybeAwaitable[bool]:
        """Mark the row as final and drop its result: the payment failed for certain, or was `paid`.

        `reason` is why there is no result, `receipt` what names the payment on the chain; both are for
        operators. False if the lease was lost: another worker ends the row, or has ended it.
        """
        ...

    def abandon_claim(self, lease: Lease) -> MaybeAwaitable[bool]:
        """Give up a claim for which no work was started.

        False if another worker has the row by now, or the row has a transaction. The row is removed, unless
        it may have one.
        """
        ...

    def lease_next(self) -> MaybeAwaitable[PendingPayment | None]:
        """Lease one unfinished row whose lease has ended; None if there is none."""
        ...

    def remove_unfetched(self, limit: int) -> MaybeAwaitable[tuple[str, ...]]:
        """Remove paid results whose payer did not come in time; return their transactions."""
        ...


class Backend(Protocol):
    """The service, a journal and the log, for a flow."""

    @property
    def journal(self) -> Journal: ...

    def resolve_offer(self, offer: Offer) -> MaybeAwaitable[OfferRevision]:
        """Return the revision behind an offer. Raises `ConfigurationError` or `ServiceError`."""
        ...

    def get_known_revision(self, offer: Offer) -> MaybeAwaitable[OfferRevision | None]:
        """Return the rules that were read last, however old; None if none were. Makes no call."""
        ...

    def refresh_revision(self, offer: Offer, rejected: OfferRevision) -> MaybeAwaitable[OfferRevision | None]:
        """Return the rules after the service refused `rejected`; None while another call reads them.

        Raises `ConfigurationError` or `ServiceError`.
        """
        ...

    def recall_predictability(self) -> MaybeAwaitable[Predictability]:
        """Read whether the service's instructions can be guessed. Only one caller is asked to find out."""
        ...

    def record_predictability(self, predictability: Predictability) -> MaybeAwaitable[None]:
        """Keep for a while whether the service's instructions can be guessed."""
        ...

    def call_access(
        self, request: PaidRequest, revision: OfferRevision, proof: str | None
    ) -> MaybeAwaitable[Access]:
        """Ask whether this payer may have the resource. Raises `ServiceError`."""
        ...

    def call_complete(self, payment: PendingPayment, outcome: Outcome) -> MaybeAwaitable[Completion]:
        """Report the outcome; the service finishes the payment. Raises `ServiceError`."""
        ...

    def get_transaction_state(self, transaction_id: str) -> MaybeAwaitable[TransactionReply]:
        """Return how the transaction stands. Raises `ServiceError`."""
        ...

    def find_payer(self, transaction_id: str) -> MaybeAwaitable[str]:
        """Return who pays, as the service verified it, in one spelling. Raises `ServiceError`."""
        ...

    def close_execution(
        self, execution_id: str, revision: OfferRevision, result: HandlerResult | None
    ) -> MaybeAwaitable[None]:
        """Close a free execution with facts about its response, if there is one. Raises `ServiceError`."""
        ...

    def get_time(self) -> float:
        """Return seconds on a clock that never jumps; only differences mean anything.

        The clock never waits, so a flow uses the value directly, without a `yield`.
        """
        ...

    def sleep(self, seconds: float, /) -> MaybeAwaitable[None]: ...

    def wait_for_settlement(self, seconds: float, /) -> MaybeAwaitable[bool]:
        """Pause while a payment settles; return False at once if too many requests pause already."""
        ...

    def emit_event(self, event: Event, /) -> MaybeAwaitable[None]:
        """Pass an event to the observers. They cannot change the flow."""
        ...

    def write_fallback(self, transaction_id: str, revision_id: str) -> MaybeAwaitable[None]:
        """Write the id of a transaction that the journal could not write, wherever else it survives."""
        ...

    def log_warning(
        self, message: str, transaction_id: str | None = None, setting: str = ""
    ) -> MaybeAwaitable[None]:
        """Write a warning to the seller's log. The message never has a proof, a key or content.

        `setting` names one of the paywall's settings, such as `journal_key`, which the seller is asked to
        check.
        """
        ...

"""The records of one environment: payers, transactions, free executions.

There may be 100,000 transactions. A full garbage collection visits every object that can hold another, and no
call is answered meanwhile: 0.8 s with eight such objects for each. So a transaction is one
object. Its fields are text, or plain tuples of text and times, which the collector skips after its first
visit.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal, get_args

from faregate.merchant.models import (
    AccessRequest,
    FailedCompleteRequest,
    ReceiptDocument,
    ResourceExecutionMetadata,
    SucceededCompleteRequest,
)
from faregate.service.catalog import Listing, PublishedRevision
from faregate.service.config import SettlementRule
from faregate.service.index import TemporalIndex
from faregate.x402.headers import parse_payment
from faregate.x402.models import SignedPayment, Terms

Status = Literal["authorized", "settling", "reconciling", "failed", "succeeded"]
STATUSES: Final[tuple[Status, ...]] = get_args(Status)
PENDING: Final = ("settling", "reconciling")
FINAL: Final = ("failed", "succeeded")


@dataclass(frozen=True, slots=True)
class AccessContext:
    """One access request, resolved against the catalog."""

    request: AccessRequest
    listing: Listing
    revision: PublishedRevision
    terms: Terms


@dataclass(slots=True)
class PayerRecord:
    id: str
    identifier: str
    created_at: datetime
    transactions: "TemporalIndex[TransactionRecord]" = field(
        default_factory=lambda: TemporalIndex[TransactionRecord]()
    )

    def last_transaction_at(self, moment: datetime) -> datetime | None:
        """Return when the newest transaction as of this moment was created."""
        newest = self.transactions.newest(moment)
        return newest.created_at if newest else None


@dataclass(frozen=True, slots=True)
class SettlementRecord:
    """The result of a settled payment, repeated in every later answer."""

    at: datetime
    transaction_hash: str
    payment_response: str
    receipt_json: str

    @property
    def receipt(self) -> ReceiptDocument:
        return ReceiptDocument.model_validate_json(self.receipt_json)


@dataclass(slots=True)
class TransactionRecord:
    """One paid access.

    `number` counts from 1; `proof` is the `PAYMENT-SIGNATURE` it was authorized with; `history` is every
    status with the moment it began.
    """

    id: str
    number: int
    payment_request_id: str
    payer: PayerRecord
    context: AccessContext
    proof: str
    history: tuple[tuple[datetime, Status], ...]
    accepted: FailedCompleteRequest | SucceededCompleteRequest | None = None
    submitted_at: datetime | None = None
    plan: SettlementRule | None = None
    reads: int = 0
    index: "TemporalIndex[TransactionRecord] | None" = field(default=None, repr=False, compare=False)
    """Where it is listed beside its payer's; `EnvironmentState.adopt` puts it there."""
    _settled: tuple[datetime, str, str, str] | None = None
    """The fields of its `SettlementRecord`."""

    @property
    def payment(self) -> SignedPayment:
        """The parsed proof, from a cache of the latest."""
        return parse_payment(self.proof)

    @property
    def settled(self) -> SettlementRecord | None:
        return None if self._settled is None else SettlementRecord(*self._settled)

    @settled.setter
    def settled(self, done: SettlementRecord | None) -> None:
        if done is None:
            self._settled = None
        else:
            self._settled = (done.at, done.transaction_hash, done.payment_response, done.receipt_json)

    @property
    def created_at(self) -> datetime:
        return self.history[0][0]

    @property
    def status(self) -> Status:
        return self.history[-1][1]

    def status_at(self, moment: datetime) -> Status:
        """Return the status as of this moment, by which the transaction existed."""
        return next(status for began, status in reversed(self.history) if began <= moment)

    def move(self, status: Status, at: datetime) -> None:
        """Change the status and update the indexes. The only place that changes a status."""
        if status != self.status:
            if self.index is not None:
                self.index.update(self, self.status, status, at)
                self.payer.transactions.update(self, self.status, status, at)
            self.history = (*self.history, (at, status))


@dataclass(slots=True)
class ExecutionRecord:
    """One free access."""

    id: str
    revision_id: str
    metadata: ResourceExecutionMetadata | None = None

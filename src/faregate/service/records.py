"""The records of one environment: payers, transactions, free executions."""

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


class SettlementRecord:
    """The result of a settled payment, repeated in every later answer.

    The receipt is kept as JSON text: as objects, receipts would be half of all that is kept and slow down
    garbage collection with every transaction.
    """

    __slots__ = ("_receipt", "at", "payment_response", "transaction_hash")

    def __init__(
        self, at: datetime, transaction_hash: str, payment_response: str, receipt: ReceiptDocument
    ) -> None:
        self.at = at
        self.transaction_hash = transaction_hash
        self.payment_response = payment_response
        self._receipt = receipt.model_dump_json()

    @property
    def receipt(self) -> ReceiptDocument:
        return ReceiptDocument.model_validate_json(self._receipt)


@dataclass(slots=True)
class TransactionRecord:
    """One paid access. `number` counts from 1; `history` is every status with the moment it began."""

    id: str
    number: int
    payment_request_id: str
    payer: PayerRecord
    context: AccessContext
    payment: SignedPayment
    created_at: datetime
    history: list[tuple[datetime, Status]]
    accepted: FailedCompleteRequest | SucceededCompleteRequest | None = None
    submitted_at: datetime | None = None
    plan: SettlementRule | None = None
    reads: int = 0
    settled: SettlementRecord | None = None
    indexes: tuple["TemporalIndex[TransactionRecord]", ...] = field(default=(), repr=False, compare=False)
    """Where it is listed; `EnvironmentState.adopt` puts it there."""

    @property
    def status(self) -> Status:
        return self.history[-1][1]

    def status_at(self, moment: datetime) -> Status:
        """Return the status as of this moment, by which the transaction existed."""
        return next(status for began, status in reversed(self.history) if began <= moment)

    def move(self, status: Status, at: datetime) -> None:
        """Change the status, and tell the indexes. Nothing else may change it."""
        if status != self.status:
            for index in self.indexes:
                index.update(self, self.status, status, at)
            self.history.append((at, status))


@dataclass(slots=True)
class ExecutionRecord:
    """One free access."""

    id: str
    revision_id: str
    metadata: ResourceExecutionMetadata | None = None

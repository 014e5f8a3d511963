"""The records of one environment: payers, transactions, free executions.

`Transaction` and `PayerView` are what the rules see; each store has its own. `TransactionRecord` is the one
in memory.

There may be 100,000 of them. A full garbage collection visits every object that can hold another, and no call
is answered meanwhile: 0.8 s with eight such objects for each. So a transaction is one object. Its fields are
text, or plain tuples of text and times, which the collector skips after its first visit.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal, Protocol, get_args

from faregate.merchant.models import (
    AccessRequest,
    FailedCompleteRequest,
    ReceiptDocument,
    ResourceExecutionMetadata,
    SucceededCompleteRequest,
)
from faregate.rules.account import SettlementRule
from faregate.rules.catalog import Listing, PublishedRevision
from faregate.rules.transaction_index import TemporalIndex
from faregate.x402.headers import parse_payment
from faregate.x402.models import SignedPayment, Terms

Status = Literal["authorized", "settling", "reconciling", "failed", "succeeded"]
STATUSES: Final[tuple[Status, ...]] = get_args(Status)
PENDING: Final = ("settling", "reconciling")
FINAL: Final = ("failed", "succeeded")
COMPLETION_STATUSES: Final = (*PENDING, *FINAL)
"""What a completion may say (spec: States and transitions)."""


@dataclass(frozen=True, slots=True)
class AccessContext:
    """One access request, resolved against the catalog."""

    request: AccessRequest
    listing: Listing
    revision: PublishedRevision
    terms: Terms


class Payer(Protocol):
    @property
    def id(self) -> str: ...
    @property
    def identifier(self) -> str:
        """The checksum address."""
        ...

    @property
    def created_at(self) -> datetime: ...


@dataclass(frozen=True, slots=True)
class PayerView:
    """A payer as of one moment."""

    id: str
    identifier: str
    created_at: datetime
    last_transaction_at: datetime | None


class Transaction(Protocol):
    """One paid access, as it was when it was read."""

    @property
    def id(self) -> str: ...
    @property
    def payment_request_id(self) -> str: ...
    @property
    def payer(self) -> Payer: ...
    @property
    def context(self) -> AccessContext: ...
    @property
    def payment(self) -> SignedPayment:
        """The authorization. Its header is empty where the store does not keep it."""
        ...

    @property
    def status(self) -> Status: ...
    @property
    def created_at(self) -> datetime: ...
    @property
    def changed_at(self) -> datetime:
        """When the present status began."""
        ...

    @property
    def accepted(self) -> FailedCompleteRequest | SucceededCompleteRequest | None:
        """The first outcome that the seller reported."""
        ...

    @property
    def submitted_at(self) -> datetime | None:
        """When the seller reported success."""
        ...

    @property
    def used_atomic(self) -> int | None:
        """What the reported values cost; None before they are reported, and where the price is fixed."""
        ...

    @property
    def settled(self) -> "SettlementRecord | None": ...
    def status_at(self, moment: datetime, /) -> Status:
        """Return the status as of this moment, by which the transaction existed."""
        ...

    def is_proof(self, header: str, /) -> bool:
        """Whether this is, byte by byte, the header that it was authorized with."""
        ...


def get_settled_amount(transaction: Transaction) -> int:
    """Return what a payment settles, in atomic units: the price, or what was used of the authorization."""
    used = transaction.used_atomic
    return transaction.context.terms.amount if used is None else used


@dataclass(frozen=True, slots=True)
class DueSettlement:
    """A simulated payment that time settles: by which rule, and when it was due."""

    transaction: Transaction
    rule: SettlementRule
    at: datetime


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

    def view(self, moment: datetime) -> PayerView:
        """Return the payer as of this moment."""
        return PayerView(self.id, self.identifier, self.created_at, self.last_transaction_at(moment))


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
    used_atomic: int | None = None
    index: "TemporalIndex[TransactionRecord] | None" = field(default=None, repr=False, compare=False)
    """Where it is listed beside its payer's; `MemoryStore.adopt` puts it there."""
    _settled: tuple[datetime, str, str, str] | None = None
    """The fields of its `SettlementRecord`."""

    @property
    def payment(self) -> SignedPayment:
        """The parsed proof, from a cache of the latest."""
        return parse_payment(self.proof)

    def is_proof(self, header: str) -> bool:
        return self.proof == header

    @property
    def changed_at(self) -> datetime:
        return self.history[-1][0]

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
        """Change the status and update the indexes. The only place that changes a status.

        What is reconciling stays so until it ends: it never looks like a first attempt again.
        """
        if status != self.status and (self.status, status) != ("reconciling", "settling"):
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

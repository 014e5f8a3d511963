"""What the service says: decisions, results, receipts, list items (spec: Resources and their fields)."""

from typing import Annotated, Generic, TypeVar

from pydantic import Field

from faregate.merchant.base import AnswerModel
from faregate.merchant.types import (
    AtomicAmount,
    Currency,
    EvmAddress,
    Moment,
    NetworkIdentifier,
    NextPageUrl,
    OrganizationId,
    PayerId,
    PayerIdentifier,
    PaymentRequestId,
    PriceId,
    ReceiptId,
    ResourceExecutionId,
    ResourceId,
    TransactionHash,
    TransactionId,
)

T = TypeVar("T")


class AccessDecision(AnswerModel):
    """200 of access. A null `transaction_id` is free access (the only sign of it)."""

    transaction_id: TransactionId | None
    resource_execution_id: ResourceExecutionId | None = None
    """Not in the spec; the emulator shows it when asked to (DESIGN section 6)."""


class ReceiptPayment(AnswerModel):
    asset: str
    asset_id: EvmAddress
    authorized_atomic: AtomicAmount
    settled_atomic: AtomicAmount
    network: NetworkIdentifier
    payer: EvmAddress
    recipient: EvmAddress
    scheme: str
    transaction_hash: TransactionHash


class ReceiptPrice(AnswerModel):
    id: PriceId
    calculation_mode: str
    currency: Currency
    label: str


class ReceiptResource(AnswerModel):
    id: ResourceId
    name: str
    url: str


class ReceiptSeller(AnswerModel):
    id: OrganizationId
    name: str


class ReceiptDocument(AnswerModel):
    """Proof of one finished payment (spec: Receipt)."""

    id: ReceiptId
    transaction_id: TransactionId
    environment: str
    environment_key: str
    issued_at: Moment
    schema_version: int
    payment: ReceiptPayment
    price: ReceiptPrice
    resource: ReceiptResource
    seller: ReceiptSeller


class CompletionResult(AnswerModel):
    """Answer of complete, 200 or 202. `status` is an open set; all five fields are always there."""

    transaction_id: TransactionId
    status: str
    payment_response: str | None
    receipt: ReceiptDocument | None
    transaction_hash: TransactionHash | None


class ResourceExecutionCompleted(AnswerModel):
    resource_execution_id: ResourceExecutionId


class Transaction(AnswerModel):
    """One item of the transaction list. What has not happened yet is `None`."""

    id: TransactionId
    payer: EvmAddress
    payment_request_id: PaymentRequestId
    status: str
    created_at: Moment
    authorized_at: Moment | None = None
    authorized_atomic: AtomicAmount | None = None
    settled_at: Moment | None = None
    settled_atomic: AtomicAmount | None = None
    transaction_hash: TransactionHash | None = None


class TransactionDetail(Transaction):
    """A transaction and, only after its payment finished, the receipt."""

    receipt: ReceiptDocument | None = None


class Payer(AnswerModel):
    id: PayerId
    identifier: PayerIdentifier
    created_at: Moment
    last_transaction_at: Moment | None = None


class Resource(AnswerModel):
    id: ResourceId
    name: str
    description: str = ""
    image_url: str | None = None
    created_at: Moment
    updated_at: Moment | None = None


class Page(AnswerModel, Generic[T]):
    """The list envelope. `next` is followed unchanged; None after the last page."""

    items: list[T]
    count: Annotated[int, Field(ge=0)]
    as_of: Moment
    next: NextPageUrl | None


class ErrorBody(AnswerModel):
    """Every error of the service: a stable `code` for machines, a `message` for people."""

    code: str
    message: str

"""What the service says: decisions, results, receipts, list items (spec: Resources and their fields).

The spec does not say which fields of a transaction, a payer or a resource are required. Only their ids are
certain: any other field may be missing or null, and is `None` then.
"""

from typing import Annotated, Final, Generic, TypeVar, cast

from pydantic import ConfigDict, Field
from pydantic.config import JsonDict

from faregate.merchant.base import CLOSED, AnswerModel
from faregate.merchant.types import (
    AtomicAmount,
    CompletionStatus,
    Currency,
    EvmAddress,
    IssuedAt,
    Moment,
    NetworkIdentifier,
    NextPageUrl,
    OrganizationId,
    PayerId,
    PayerIdentifier,
    PaymentRequestId,
    PaymentResponse,
    PriceId,
    ReceiptId,
    ResourceExecutionId,
    ResourceId,
    TransactionHash,
    TransactionId,
    TransactionStatus,
    Url,
)

T = TypeVar("T")

_PROOFS: Final = ("payment_response", "receipt", "transaction_hash")
_SUCCEEDED: Final[JsonDict] = {"required": ["status"], "properties": {"status": {"const": "succeeded"}}}
_PROVEN: Final[JsonDict] = {
    "if": _SUCCEEDED,
    "then": {"properties": {name: {"not": {"type": "null"}} for name in _PROOFS}},
    "else": {"properties": {name: {"type": "null"} for name in _PROOFS}},
}
"""Null until the payment succeeds, and there from then on (spec: Completion result)."""
_RECEIPTED: Final[JsonDict] = {
    "if": _SUCCEEDED,
    "then": {"required": ["receipt"], "properties": {"receipt": {"not": {"type": "null"}}}},
    "else": {"properties": {"receipt": {"type": "null"}}},
}
"""A receipt once the payment succeeded, and only then (spec: What the service does, rule 5)."""


def _require_identifier(schema: JsonDict) -> None:
    """Describe a payer's identifier as the spec does: required, and not null."""
    properties = cast("dict[str, JsonDict]", schema["properties"])
    options = cast("list[JsonDict]", properties["identifier"]["anyOf"])
    properties["identifier"] = next(one for one in options if one != {"type": "null"})
    schema["required"] = ["id", "identifier"]


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
    url: Url


class ReceiptSeller(AnswerModel):
    id: OrganizationId
    name: str


class ReceiptDocument(AnswerModel):
    """Proof of one finished payment (spec: Receipt)."""

    id: ReceiptId
    transaction_id: TransactionId
    environment: str
    environment_key: str
    issued_at: IssuedAt
    schema_version: int
    payment: ReceiptPayment
    price: ReceiptPrice
    resource: ReceiptResource
    seller: ReceiptSeller


class CompletionResult(AnswerModel):
    """Answer of complete, 200 or 202. All five fields are always there; to the client `status` is open."""

    model_config = ConfigDict(json_schema_extra=_PROVEN)

    transaction_id: TransactionId
    status: CompletionStatus
    payment_response: PaymentResponse | None
    receipt: ReceiptDocument | None
    transaction_hash: TransactionHash | None


class ResourceExecutionCompleted(AnswerModel):
    resource_execution_id: ResourceExecutionId


class Transaction(AnswerModel):
    """One item of the transaction list. What has not happened yet, or is not told, is `None`."""

    id: TransactionId
    payer: EvmAddress | None = None
    payment_request_id: PaymentRequestId | None = None
    status: TransactionStatus | None = None
    created_at: Moment | None = None
    authorized_at: Moment | None = None
    authorized_atomic: AtomicAmount | None = None
    settled_at: Moment | None = None
    settled_atomic: AtomicAmount | None = None
    transaction_hash: TransactionHash | None = None


class TransactionDetail(Transaction):
    """A transaction and, only after its payment finished, the receipt."""

    model_config = ConfigDict(json_schema_extra=_RECEIPTED)

    receipt: ReceiptDocument | None = None


class Payer(AnswerModel):
    """Somebody who paid. The spec lists `identifier` as required; the client lives without it."""

    model_config = ConfigDict(json_schema_extra=_require_identifier)

    id: PayerId
    identifier: PayerIdentifier | None = None
    created_at: Moment | None = None
    last_transaction_at: Moment | None = None


class Resource(AnswerModel):
    id: ResourceId
    name: str | None = None
    description: str | None = None
    image_url: Url | None = None
    created_at: Moment | None = None
    updated_at: Moment | None = None


class Page(AnswerModel, Generic[T]):
    """The list envelope. `next` is followed unchanged; None after the last page."""

    items: list[T]
    count: Annotated[int, Field(ge=0)]
    as_of: Moment
    next: NextPageUrl | None


class ErrorBody(AnswerModel):
    """Every error of the service: a stable `code` for machines, a `message` for people."""

    model_config = CLOSED

    code: str
    message: str

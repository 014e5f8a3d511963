"""The bodies and queries of the Merchant API (spec: Endpoints, Resources and their fields).

A request refuses properties that the spec does not name. A response tolerates them, and statuses it does not
know, because the service may grow: an unknown status is pending, never succeeded. The spec does not say which
fields of a transaction, a payer or a resource are required: only their ids are certain, others may be `None`.
"""

from typing import Annotated, Any, Final, Generic, Literal, TypeVar, cast

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    TypeAdapter,
    WithJsonSchema,
)
from pydantic.config import JsonDict

from faregate.merchant.types import (
    DECIMAL_PATTERN,
    AtomicAmount,
    CompletionStatus,
    ContentType,
    DecimalValue,
    Description,
    EvmAddress,
    FailureCode,
    IntegrationKey,
    IssuedAt,
    ListOrder,
    MimeType,
    Moment,
    NetworkIdentifier,
    NextPageUrl,
    OrganizationId,
    PageNumber,
    PageSize,
    PayerId,
    PayerIdentifier,
    PaymentRequestId,
    PaymentResponse,
    PriceId,
    ReceiptId,
    ResourceExecutionId,
    ResourceId,
    ResourceUrl,
    RevisionId,
    RevisionKey,
    SnapshotTimestamp,
    TransactionHash,
    TransactionId,
    TransactionStatus,
    Url,
    ValueName,
)
from faregate.x402.tokens import Currency, SettlementAsset

T = TypeVar("T")

CLOSED: Final = ConfigDict(json_schema_extra={"additionalProperties": False})
"""For a response without other properties: the OpenAPI document says so, and the client tolerates them."""


class RequestModel(BaseModel):
    """A request body: exactly the spec's properties, no others."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ResponseModel(BaseModel):
    """A response body: unknown properties are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)


# Requests


class AccessResource(RequestModel):
    """The resource as the payer sees it (spec: Access request resource)."""

    url: ResourceUrl
    mime_type: MimeType
    description: Description = ""


class AccessRequest(RequestModel):
    """Body of `POST /merchant/v1/access`."""

    revision_id: RevisionId
    resource: AccessResource
    settlement_asset: SettlementAsset


def _to_int(value: object) -> object:
    """JSON has one kind of number: to it `200.0` is an integer (JSON Schema, 6.1.1)."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Count = Annotated[int, Field(strict=True, ge=0, lt=2**53), BeforeValidator(_to_int)]
Status = Annotated[int, Field(strict=True, ge=100, le=599), BeforeValidator(_to_int)]


class ResourceExecutionMetadata(RequestModel):
    """Safe facts about the response (spec: Resource execution metadata); never headers or bodies."""

    duration_ms: Count | None = None
    response_content_type: ContentType | None = None
    response_size_bytes: Count | None = None
    response_status: Status | None = None


class FailedCompleteRequest(RequestModel):
    """The seller's work failed: the payer is not charged."""

    revision_id: RevisionId
    outcome: Literal["failed"] = "failed"
    failure_code: FailureCode
    resource_execution: ResourceExecutionMetadata | None = None


class SucceededCompleteRequest(RequestModel):
    """The seller's work succeeded: take the payment."""

    revision_id: RevisionId
    outcome: Literal["succeeded"] = "succeeded"
    values: dict[ValueName, DecimalValue]
    resource_execution: ResourceExecutionMetadata | None = None


CompleteRequest = Annotated[FailedCompleteRequest | SucceededCompleteRequest, Field(discriminator="outcome")]
complete_request: TypeAdapter[FailedCompleteRequest | SucceededCompleteRequest] = TypeAdapter(CompleteRequest)


class ResourceExecutionCompleteRequest(RequestModel):
    """Body of complete-execution: both fields are required here (the spec does not say)."""

    revision_id: RevisionId
    resource_execution: ResourceExecutionMetadata


def _describe_as(kind: Any, **default: object) -> WithJsonSchema:
    """The schema of a parameter whose rule and default belong to the service, not to the client."""
    return WithJsonSchema({**TypeAdapter(kind).json_schema(), **default})


class ListQuery(RequestModel):
    """Query of a list; `None` is left out and the service's default holds."""

    as_of: SnapshotTimestamp | None = None
    order: Annotated[ListOrder | None, _describe_as(ListOrder, default="newest")] = None
    page: Annotated[int | None, _describe_as(PageNumber, default=1)] = None
    page_size: Annotated[int | None, _describe_as(PageSize, default=50)] = None


class TransactionQuery(ListQuery):
    status: TransactionStatus | None = None
    payer_id: PayerId | None = None


class ResourceQuery(ListQuery):
    archived: Annotated[bool | None, _describe_as(bool, default=False)] = None


class ContractsQuery(RequestModel):
    """Query of the contracts; `None` is left out and the service's default holds."""

    include_integration_key: Annotated[bool | None, _describe_as(bool, default=False)] = None


# Responses

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
    properties["identifier"] = next(option for option in options if option != {"type": "null"})
    schema["required"] = ["id", "identifier"]


class AccessDecision(ResponseModel):
    """200 of access. A null `transaction_id` is free access (the only sign of it)."""

    transaction_id: TransactionId | None
    resource_execution_id: ResourceExecutionId | None = None
    """Not in the spec; the emulator shows it when asked to."""


class ReceiptPayment(ResponseModel):
    asset: str
    asset_id: EvmAddress
    authorized_atomic: AtomicAmount
    settled_atomic: AtomicAmount
    network: NetworkIdentifier
    payer: EvmAddress
    recipient: EvmAddress
    scheme: str
    transaction_hash: TransactionHash


class ReceiptPrice(ResponseModel):
    id: PriceId
    calculation_mode: str
    currency: Currency
    label: str


class ReceiptResource(ResponseModel):
    id: ResourceId
    name: str
    url: Url


class ReceiptSeller(ResponseModel):
    id: OrganizationId
    name: str


class ReceiptDocument(ResponseModel):
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


class CompletionResult(ResponseModel):
    """Answer of complete, 200 or 202. All five fields are always there; to the client `status` is open."""

    model_config = ConfigDict(json_schema_extra=_PROVEN)

    transaction_id: TransactionId
    status: CompletionStatus
    payment_response: PaymentResponse | None
    receipt: ReceiptDocument | None
    transaction_hash: TransactionHash | None


class ResourceExecutionCompleted(ResponseModel):
    resource_execution_id: ResourceExecutionId


class Transaction(ResponseModel):
    """One item of the transaction list. Fields that are not known yet, or not reported, are `None`."""

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


class Payer(ResponseModel):
    """A payer of the seller. The spec requires `identifier`; the client works without it."""

    model_config = ConfigDict(json_schema_extra=_require_identifier)

    id: PayerId
    identifier: PayerIdentifier | None = None
    created_at: Moment | None = None
    last_transaction_at: Moment | None = None


class Resource(ResponseModel):
    id: ResourceId
    name: str | None = None
    description: str | None = None
    image_url: Url | None = None
    created_at: Moment | None = None
    updated_at: Moment | None = None


class Page(ResponseModel, Generic[T]):
    """The list envelope. `next` is followed unchanged; None after the last page."""

    items: list[T]
    count: Annotated[int, Field(ge=0)]
    as_of: Moment
    next: NextPageUrl | None


class ErrorBody(ResponseModel):
    """Every error of the service: a stable `code` for machines, a `message` for people."""

    model_config = CLOSED

    code: str
    message: str


# Contracts


class ContractValue(ResponseModel):
    """One reportable value (spec: ContractValueSchema)."""

    type: Literal["string"] = "string"
    format: Literal["decimal"] = "decimal"
    pattern: Literal[r"^(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,12})?$"] = DECIMAL_PATTERN
    description: str
    label: Annotated[str, Field(alias="x-svc-label")]
    unit: Annotated[str, Field(alias="x-svc-unit")]
    position: Annotated[int, Field(alias="x-svc-position", ge=0, le=99)]
    max_digits: Annotated[Literal[30], Field(alias="x-svc-max-digits")] = 30
    decimal_places: Annotated[Literal[12], Field(alias="x-svc-decimal-places")] = 12


class ContractRevision(ResponseModel):
    """The published, unchangeable reporting rules of one resource version."""

    title: str
    type: Literal["object"] = "object"
    additional_properties: Annotated[Literal[False], Field(alias="additionalProperties")] = False
    properties: dict[ValueName, ContractValue]
    required: list[ValueName]
    settlement_asset: Annotated[SettlementAsset, Field(alias="x-svc-settlement-asset")]
    revision_id: Annotated[RevisionId, Field(alias="x-svc-revision-id")]
    revision_number: Annotated[int, Field(alias="x-svc-revision-number", ge=1)]
    revision_name: Annotated[str, Field(alias="x-svc-revision-name")]
    resource_id: Annotated[ResourceId, Field(alias="x-svc-resource-id")]
    resource_name: Annotated[str, Field(alias="x-svc-resource-name")]
    resource_description: Annotated[str, Field(alias="x-svc-resource-description")]
    integration_key: Annotated[IntegrationKey | None, Field(alias="x-svc-resource-integration-key")] = None
    revision_key: Annotated[RevisionKey | None, Field(alias="x-svc-revision-key")] = None


class DocumentInfo(ResponseModel):
    title: str
    version: Annotated[str, StringConstraints(pattern=r"^\d+(?:\.\d+){0,2}\z")]


class BearerScheme(ResponseModel):
    type: Literal["http"] = "http"
    scheme: Literal["bearer"] = "bearer"


class SecuritySchemes(ResponseModel):
    model_config = CLOSED

    merchant_api_key: Annotated[BearerScheme, Field(alias="merchantApiKey")] = BearerScheme()


class Components(ResponseModel):
    security_schemes: Annotated[SecuritySchemes, Field(alias="securitySchemes")]
    schemas: dict[RevisionId, ContractRevision]


class EmptyPath(ResponseModel):
    """A path of the contracts document; it carries no routes."""

    model_config = CLOSED


Scope = Annotated[str, StringConstraints(min_length=1)]


class SecurityRequirement(ResponseModel):
    merchant_api_key: Annotated[list[Scope], Field(alias="merchantApiKey")]


class ContractsDocument(ResponseModel):
    """All active revisions, an OpenAPI 3.1 document without routes."""

    openapi: Literal["3.1.0"] = "3.1.0"
    info: DocumentInfo
    paths: dict[Annotated[str, StringConstraints(pattern="^/")], EmptyPath]
    components: Components
    security: list[SecurityRequirement]

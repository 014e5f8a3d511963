"""What may be sent: bodies and queries of the eight operations (spec: Endpoints)."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StringConstraints, TypeAdapter, WithJsonSchema

from faregate.merchant.base import RequestModel
from faregate.merchant.types import (
    DecimalValue,
    Description,
    FailureCode,
    ListOrder,
    MimeType,
    PageNumber,
    PageSize,
    PayerId,
    ResourceUrl,
    RevisionId,
    SettlementAsset,
    SnapshotTimestamp,
    TransactionStatus,
    ValueName,
)


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


def _whole(value: object) -> object:
    """JSON has one kind of number: to it `200.0` is an integer (JSON Schema, 6.1.1)."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Count = Annotated[int, Field(strict=True, ge=0, lt=2**53), BeforeValidator(_whole)]
Status = Annotated[int, Field(strict=True, ge=100, le=599), BeforeValidator(_whole)]


class ResourceExecutionMetadata(RequestModel):
    """Safe facts about the response (spec: Resource execution metadata); never headers or bodies."""

    duration_ms: Count | None = None
    response_content_type: Annotated[str, StringConstraints(strict=True, max_length=255)] | None = None
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


def _said(kind: Any, **default: object) -> WithJsonSchema:
    """What the document says of a parameter whose rule and default the service keeps, not the client."""
    return WithJsonSchema({**TypeAdapter(kind).json_schema(), **default})


class ListQuery(RequestModel):
    """Query of a list; `None` is left out and the service's default holds."""

    as_of: SnapshotTimestamp | None = None
    order: Annotated[ListOrder | None, _said(ListOrder, default="newest")] = None
    page: Annotated[int | None, _said(PageNumber, default=1)] = None
    page_size: Annotated[int | None, _said(PageSize, default=50)] = None


class TransactionQuery(ListQuery):
    status: TransactionStatus | None = None
    payer_id: PayerId | None = None


class ResourceQuery(ListQuery):
    archived: Annotated[bool | None, _said(bool, default=False)] = None


class ContractsQuery(RequestModel):
    """Query of the contracts; `None` is left out and the service's default holds."""

    include_integration_key: Annotated[bool | None, _said(bool, default=False)] = None

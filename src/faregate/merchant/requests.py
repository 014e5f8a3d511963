"""What may be sent: bodies and queries of the eight operations (spec: Endpoints)."""

from typing import Annotated, Literal

from pydantic import AwareDatetime, Field, StringConstraints, TypeAdapter

from faregate.merchant.base import RequestModel
from faregate.merchant.types import (
    DecimalValue,
    Description,
    FailureCode,
    MimeType,
    PayerId,
    ResourceUrl,
    RevisionId,
    SettlementAsset,
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


class ResourceExecutionMetadata(RequestModel):
    """Safe facts about the response (spec: Resource execution metadata); never headers or bodies."""

    duration_ms: Annotated[int, Field(strict=True, ge=0, lt=2**53)] | None = None
    response_content_type: Annotated[str, StringConstraints(strict=True, max_length=255)] | None = None
    response_size_bytes: Annotated[int, Field(strict=True, ge=0, lt=2**53)] | None = None
    response_status: Annotated[int, Field(strict=True, ge=100, le=599)] | None = None


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


class ListQuery(RequestModel):
    """Query of a list; `None` is left out and the service's default holds."""

    as_of: AwareDatetime | None = None
    order: Literal["newest", "oldest"] | None = None
    page: int | None = None
    page_size: int | None = None


class TransactionQuery(ListQuery):
    status: str | None = None
    payer_id: PayerId | None = None


class ResourceQuery(ListQuery):
    archived: bool | None = None

"""The contracts document: the published reporting rules (spec: Contract revision)."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from faregate.merchant.base import CLOSED, AnswerModel
from faregate.merchant.types import (
    DECIMAL_PATTERN,
    IntegrationKey,
    ResourceId,
    RevisionId,
    RevisionKey,
    SettlementAsset,
    ValueName,
)


class ContractValue(AnswerModel):
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


class ContractRevision(AnswerModel):
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


class DocumentInfo(AnswerModel):
    title: str
    version: Annotated[str, StringConstraints(pattern=r"^\d+(?:\.\d+){0,2}\z")]


class BearerScheme(AnswerModel):
    type: Literal["http"] = "http"
    scheme: Literal["bearer"] = "bearer"


class SecuritySchemes(AnswerModel):
    model_config = CLOSED

    merchant_api_key: Annotated[BearerScheme, Field(alias="merchantApiKey")] = BearerScheme()


class Components(AnswerModel):
    security_schemes: Annotated[SecuritySchemes, Field(alias="securitySchemes")]
    schemas: dict[RevisionId, ContractRevision]


class EmptyPath(AnswerModel):
    """A path of the contracts document; it carries no routes."""

    model_config = CLOSED


Scope = Annotated[str, StringConstraints(min_length=1)]


class SecurityRequirement(AnswerModel):
    merchant_api_key: Annotated[list[Scope], Field(alias="merchantApiKey")]


class ContractsDocument(AnswerModel):
    """All active revisions, an OpenAPI 3.1 document without routes."""

    openapi: Literal["3.1.0"] = "3.1.0"
    info: DocumentInfo
    paths: dict[Annotated[str, StringConstraints(pattern="^/")], EmptyPath]
    components: Components
    security: list[SecurityRequirement]

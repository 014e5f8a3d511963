"""The contract's models as JSON Schema 2020-12, under the names the spec gives them. Pure."""

import json
import re
from collections.abc import Mapping
from typing import Any, Final, Literal

from pydantic import BaseModel, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from faregate.merchant.models import (
    AccessDecision,
    AccessRequest,
    CompleteRequest,
    CompletionResult,
    ContractRevision,
    ContractsDocument,
    ContractValue,
    ErrorBody,
    Page,
    Payer,
    Resource,
    ResourceExecutionCompleted,
    ResourceExecutionCompleteRequest,
    Transaction,
    TransactionDetail,
)
from faregate.merchant.types import ErrorCode

Json = dict[str, Any]
REF: Final = "#/components/schemas/"

_REQUESTS: Final[Mapping[str, Any]] = {
    "AccessRequest": AccessRequest,
    "CompleteRequest": CompleteRequest,
    "ResourceExecutionCompleteRequest": ResourceExecutionCompleteRequest,
}
_ANSWERS: Final[Mapping[str, Any]] = {
    "AccessDecision": AccessDecision,
    "ApiErrorCode": ErrorCode,
    "ApiErrorSchema": ErrorBody,
    "CompletionResult": CompletionResult,
    "ContractRevisionSchema": ContractRevision,
    "ContractValueSchema": ContractValue,
    "ContractsDocumentSchema": ContractsDocument,
    "PayerList": Page[Payer],
    "PayerSchema": Payer,
    "ResourceExecutionCompleted": ResourceExecutionCompleted,
    "ResourceList": Page[Resource],
    "ResourceSchema": Resource,
    "TransactionDetailSchema": TransactionDetail,
    "TransactionList": Page[Transaction],
    "TransactionSchema": Transaction,
}


def ref(name: str) -> Json:
    """A reference to the schema of this name."""
    return {"$ref": REF + name}


def schemas() -> Json:
    """Every schema of the contract by its name in the spec: what a request may be, and what an answer is."""
    adapters: list[tuple[str, Literal["validation", "serialization"], TypeAdapter[Any]]] = [
        *((name, "validation", TypeAdapter(kind)) for name, kind in _REQUESTS.items()),
        *((name, "serialization", TypeAdapter(kind)) for name, kind in _ANSWERS.items()),
    ]
    by_key, document = TypeAdapter.json_schemas(
        adapters, ref_template=REF + "{model}", schema_generator=Generator
    )
    by_name: Json = dict(document["$defs"])
    names = {schema["$ref"]: name for (name, _), schema in by_key.items() if "$ref" in schema}
    for (name, _), schema in by_key.items():
        model_name = schema.get("$ref", "").removeprefix(REF)
        by_name[name] = by_name.pop(model_name) if model_name else schema
    return _rename_references(dict(sorted(by_name.items())), names)


def parameters(query: type[BaseModel]) -> Json:
    """The parameters of a query by name. An absent parameter is omitted, so none of them is ever null."""
    properties = TypeAdapter(query).json_schema(schema_generator=Generator)["properties"]
    return {name: _drop_null(schema) for name, schema in properties.items()}


def _drop_null(schema: Json) -> Json:
    options = schema.get("anyOf", [schema])
    return next(option for option in options if option != {"type": "null"})


def _rename_references(by_name: Json, names: Mapping[str, str]) -> Json:
    """Return the schemas with each reference in `names` changed to the schema's name in the spec."""
    text = json.dumps(by_name)
    for reference, name in names.items():
        # Match the quotes as well: one reference may be a prefix of another.
        text = text.replace(f'"{reference}"', f'"{REF}{name}"')
    renamed: Json = json.loads(text)
    return renamed


class Generator(GenerateJsonSchema):
    """Pydantic's schema generator with the rules of this document.

    A pattern ends with `$`, which in ECMA-262 is the end. A constant is required; so is, in an answer, a
    field with a default that is not null. A map whose names follow a pattern has no other names.
    """

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def field_is_required(self, field: Any, total: bool) -> bool:
        schema = field["schema"]
        if schema["type"] != "default":
            return True
        is_always_sent = self.mode == "serialization" and schema.get("default") is not None
        return is_always_sent or _is_constant(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        hides_default = self.mode == "serialization" or _is_constant(schema["schema"])
        if hides_default or schema.get("default") is None:
            return self.generate_inner(schema["schema"])
        return super().default_schema(schema)

    def str_schema(self, schema: core_schema.StringSchema) -> JsonSchemaValue:
        built = super().str_schema(schema)
        if "pattern" in built:
            built["pattern"] = re.sub(r"\\z\Z", "$", built["pattern"])
        return built

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        built = super().dict_schema(schema)
        return {**built, "additionalProperties": False} if "patternProperties" in built else built

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        built = super().model_schema(schema)
        built.pop("title", None)
        return built


def _is_constant(schema: Any) -> bool:
    return schema["type"] == "literal" and len(schema["expected"]) == 1

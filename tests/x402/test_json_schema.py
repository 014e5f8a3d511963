"""References that are replaced, and examples that the official package's validator accepts."""

import json
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from fastapi import FastAPI
from jsonschema_rs import Draft202012Validator
from pydantic import BaseModel, ConfigDict, Field

from faregate.x402.json_schema import inline_references, make_example


class Item(BaseModel):
    name: Annotated[str, Field(min_length=6, max_length=8)]
    price: Annotated[float, Field(gt=0, lt=0.5)] | None
    title: str = "none"


class Order(BaseModel):
    model_config = ConfigDict(extra="forbid")
    items: Annotated[list[Item], Field(min_length=2)]
    size: Literal["small", "large"]
    at: datetime
    key: UUID
    count: Annotated[int, Field(ge=10, multiple_of=5)]
    is_gift: bool
    nothing: None
    labels: dict[str, str]
    main: Item


class Node(BaseModel):
    children: list["Node"] = []


def test_references_of_a_model_are_replaced() -> None:
    made = inline_references(Order.model_json_schema())

    assert "$ref" not in json.dumps(made)
    assert "$defs" not in made
    assert made["properties"]["items"]["items"]["properties"].keys() == {"name", "price", "title"}


def test_references_to_components_are_replaced() -> None:
    app = FastAPI()

    @app.post("/order")
    async def post_order(order: Order) -> Node:
        raise NotImplementedError

    document = app.openapi()
    made = inline_references(document["paths"]["/order"]["post"], document)

    assert "$ref" not in json.dumps(made)
    order = made["requestBody"]["content"]["application/json"]["schema"]
    Draft202012Validator(order).validate(make_example(order))


def test_what_refers_to_itself_ends_with_anything() -> None:
    made = inline_references(Node.model_json_schema())

    assert made["properties"]["children"]["items"] == {}


@pytest.mark.parametrize("reference", ["#/$defs/Missing", "#/properties/a/b", "https://x.example/a", "a", ""])
def test_what_does_not_exist_is_anything(reference: str) -> None:
    assert inline_references({"properties": {"a": {"$ref": reference}}}) == {"properties": {"a": {}}}


def test_a_property_may_have_the_name_of_a_keyword() -> None:
    schema = {"properties": {"$ref": {"type": "string"}, "$id": {"type": "integer"}}}

    assert inline_references(schema) == schema


def test_a_schema_that_grows_without_end_is_cut() -> None:
    names = [f"N{number}" for number in range(40)]
    definitions: dict[str, Any] = {
        name: {"properties": {"a": {"$ref": f"#/$defs/{after}"}, "b": {"$ref": f"#/$defs/{after}"}}}
        for name, after in zip(names, [*names[1:], "N0"], strict=True)
    }

    made = inline_references({"$defs": definitions, "$ref": "#/$defs/N0"})

    assert len(json.dumps(made)) < 200_000


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object"},
        {"const": 3},
        {"type": "string", "default": "a", "pattern": "a"},
        {"type": ["integer", "null"]},
        {"type": "string", "format": "date"},
        {"type": "string", "maxLength": 2},
        {"type": "string", "examples": ["aa"], "pattern": "aa"},
        {"type": "integer", "minimum": -5, "maximum": 0},
        {"type": "number", "exclusiveMinimum": 4.5},
        {"type": "array", "items": {"type": "integer"}, "minItems": 3},
        {"anyOf": [{"type": "string", "pattern": "^a"}, {"type": "boolean"}]},
        {"allOf": [{"type": "object", "properties": {"a": {"type": "null"}}, "required": ["a"]}]},
        inline_references(Order.model_json_schema()),
    ],
)
def test_an_example_is_valid(schema: Any) -> None:
    Draft202012Validator(schema).validate(make_example(schema))


@pytest.mark.parametrize(
    "schema",
    [
        False,
        None,
        {"not": {}},
        {"type": "string", "pattern": "^[a-z]{3}$"},
        {"type": "string", "minLength": 1000},
        {"type": "integer", "minimum": 3, "maximum": 2},
        {"type": "object", "required": ["a"]},
        {"type": "object", "minProperties": 2},
        {"type": "array", "minItems": 1000},
        {"type": "array", "uniqueItems": True, "minItems": 2},
        {"oneOf": [{"type": "integer"}, {"type": "number"}]},
        {"anyOf": [{"type": "string", "pattern": "a"}]},
        {"allOf": [{"type": "string"}, {"maxLength": 1}]},
        {"type": "file"},
    ],
)
def test_where_no_example_is_obvious_none_is_made(schema: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        make_example(schema)

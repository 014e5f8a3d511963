"""The `bazaar` extension, held against the official package."""

import base64
import json
from typing import Any

import pytest
from x402.extensions.bazaar import validate_and_extract, validate_discovery_extension_spec

from faregate.merchant.models import AccessResource
from faregate.x402.discovery import MAX_AMENDED, Described, amend
from faregate.x402.headers import build_payment_required
from faregate.x402.models import Terms
from faregate.x402.tokens import TOKENS
from tests.support.headers import decode_header, encode_header

TERMS = Terms(TOKENS["test", "USDC"], 10_000, "0x" + "11" * 20, 60)
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def build_instructions(description: str = "The weather, “as agreed”") -> str:
    resource = AccessResource(
        url="https://seller.example/report", mime_type="application/json", description=description
    )
    return build_payment_required(TERMS, resource, "pay first", "ab" * 32)


def amend_request(method: str = "GET", **known: Any) -> Any:
    described = Described(method, "/report?city=Oslo", "https://seller.example/report", **known)
    return decode_header(amend(build_instructions(), described))


def describe_tool(schema: Any, name: str = "report") -> Described:
    operation = {"requestBody": {"content": {"application/json": {"schema": schema}}}}
    return Described("tools/call", f"mcp://tool/{name}", operation=operation)


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE", "POST", "PUT", "PATCH"])
def test_the_official_package_accepts_it(method: str) -> None:
    extension = amend_request(method)["extensions"]["bazaar"]

    assert validate_discovery_extension_spec(extension).valid
    result = validate_and_extract(extension)
    assert result.valid, result.errors
    assert result.info is not None
    assert getattr(result.info.input, "method") == method  # noqa: B009


def test_a_tool_is_described_with_its_input() -> None:
    amended = amend(build_instructions(), describe_tool(SCHEMA, "daily%20report"))
    extension = decode_header(amended)["extensions"]["bazaar"]

    assert validate_discovery_extension_spec(extension).valid
    assert validate_and_extract(extension).valid
    assert extension["info"]["input"] == {
        "type": "mcp",
        "toolName": "daily report",
        "transport": "streamable-http",
        "inputSchema": SCHEMA,
    }


def test_all_other_bytes_stay() -> None:
    before = base64.b64decode(build_instructions())
    after = base64.b64decode(amend(build_instructions(), Described("GET", "/report")))

    assert after.startswith(before[:-1])
    assert after[len(before) - 1 :].startswith(b',"extensions":{"bazaar":')
    assert [*json.loads(after)] == [*json.loads(before), "extensions"]


def test_a_long_schema_is_left_out() -> None:
    long = {"type": "object", "description": "x" * MAX_AMENDED}
    amended = amend(build_instructions(), describe_tool(long))

    assert len(amended) <= MAX_AMENDED
    assert decode_header(amended)["extensions"]["bazaar"]["info"]["input"]["inputSchema"] == {
        "type": "object"
    }


def test_instructions_that_would_become_too_long_stay() -> None:
    long = encode_header({"accepts": ["y" * MAX_AMENDED]})

    assert amend(long, Described("GET", "/report")) == long


@pytest.mark.parametrize(
    "instructions",
    [
        "",
        "not base64",
        "bm90IGpzb24=",
        encode_header({}),
        encode_header({"extensions": {}, "accepts": []}),
        encode_header([1]),
    ],
    ids=["empty", "no base64", "no json", "no fields", "own extensions", "no object"],
)
def test_what_cannot_be_amended_stays(instructions: str) -> None:
    assert amend(instructions, Described("GET", "/report")) == instructions


@pytest.mark.parametrize("method", ["TRACE", "QUERY", "get"])
def test_methods_that_no_catalogue_has_are_left_out(method: str) -> None:
    assert "extensions" not in amend_request(method)


def describe(method: str = "GET", **known: Any) -> Any:
    """Describe a request, and check that the official package would list it."""
    extension = amend_request(method, **known)["extensions"]["bazaar"]
    assert validate_discovery_extension_spec(extension).valid
    result = validate_and_extract(extension)
    assert result.valid, result.errors
    return extension


def in_content(schema: Any, media_type: str = "application/json") -> Any:
    return {"content": {media_type: {"schema": schema}}}


def test_parameters_and_the_result_are_described() -> None:
    city = {"name": "city", "in": "query", "required": True, "schema": {"type": "string", "title": "City"}}
    days = {"name": "days", "in": "query", "description": "How many", "schema": {"type": "integer"}}
    key = {"name": "X-Key", "in": "header", "schema": {"type": "string"}}
    result = {"type": "object", "properties": {"title": {"type": "string"}}}
    extension = describe(
        operation={
            "parameters": [city, days, key],
            "responses": {"404": {}, "201": in_content({**result, "example": {"title": "Sun"}})},
        }
    )
    schema = extension["schema"]["properties"]

    assert schema["input"]["properties"]["queryParams"] == {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "days": {"description": "How many", "type": "integer"},
        },
        "required": ["city"],
    }
    assert extension["info"]["input"]["queryParams"] == {"city": "text"}
    assert schema["output"]["properties"]["example"]["properties"] == result["properties"]
    assert extension["info"]["output"] == {"type": "json", "example": {"title": "Sun"}}


def test_a_body_has_an_example_that_is_valid() -> None:
    extension = describe("POST", operation={"requestBody": in_content(SCHEMA)})

    assert extension["info"]["input"] == {
        "type": "http",
        "method": "POST",
        "bodyType": "json",
        "body": {"city": "text"},
    }
    assert extension["schema"]["properties"]["input"]["properties"]["body"] == SCHEMA


def test_a_body_without_an_obvious_example_is_described_as_far_as_it_is_valid() -> None:
    city = {"city": {"type": "string", "pattern": "^[A-Z]{3}$"}}
    extension = describe("PUT", operation={"requestBody": in_content({**SCHEMA, "properties": city})})
    assert extension["info"]["input"]["body"] == {}
    assert extension["schema"]["properties"]["input"]["properties"]["body"]["properties"] == city

    code = in_content({"type": "string", "pattern": "^[A-Z]{3}$"}, "text/plain")
    extension = describe("PUT", operation={"requestBody": code})
    assert extension["info"]["input"]["bodyType"] == "text"
    assert extension["schema"]["properties"]["input"]["properties"]["body"] == {}


@pytest.mark.parametrize(
    ("media_type", "kind"),
    [
        ("application/json", "json"),
        ("multipart/form-data", "form-data"),
        ("application/x-www-form-urlencoded", "form-data"),
        ("text/csv", "text"),
        ("application/octet-stream", "json"),
    ],
)
def test_the_type_of_a_body_is_one_that_catalogues_know(media_type: str, kind: str) -> None:
    body = in_content({"type": "object"}, media_type)
    assert describe("POST", operation={"requestBody": body})["info"]["input"]["bodyType"] == kind


@pytest.mark.parametrize(
    ("route", "path", "template", "values"),
    [
        ("/items/{number}", "/items/3", "/items/:number", {"number": "3"}),
        ("/{a}/{b}", "/shop/x/y%20z", "/shop/:a/:b", {"a": "x", "b": "y z"}),
        ("/ä/{a}", "/%C3%A4/1", "/%C3%A4/:a", {"a": "1"}),
        ("/files/{path}", "/files/a/b.txt", "/files/:path", {"path": "a/b.txt"}),
        ("/files/{path}/raw", "/files/a/b.txt/raw", "/files/:path/raw", {"path": "a/b.txt"}),
        ("/day-{day}.csv", "/shop/day-3.csv", "/shop/day-:day.csv", {"day": "3"}),
        ("/a/{b}", "/a/x%2Fy", "/a/:b", {"b": "x/y"}),
        ("/{a}-{b}", "/1-2", None, None),
        ("/report", "/report", None, None),
        ("", "/report", None, None),
        ("/a/{b}/c/d", "/d", None, None),
        ("/other/{a}", "/report/1", None, None),
        ("/{ä}", "/1", None, None),
    ],
)
def test_an_address_with_parameters_is_listed_once(
    route: str, path: str, template: str | None, values: dict[str, str] | None
) -> None:
    described = Described("GET", path, f"https://seller.example{path}", route)
    extension = decode_header(amend(build_instructions(), described))["extensions"]["bazaar"]

    assert validate_and_extract(extension).valid
    assert extension.get("routeTemplate") == template
    assert extension["info"]["input"].get("pathParams") == values


def test_a_long_result_is_left_out_before_the_input() -> None:
    operation = {
        "requestBody": in_content(SCHEMA),
        "responses": {"200": in_content({"description": "x" * MAX_AMENDED})},
    }
    shown = describe("POST", operation=operation)["schema"]["properties"]

    assert shown["output"]["properties"]["example"] == {}
    assert shown["input"]["properties"]["body"] == SCHEMA

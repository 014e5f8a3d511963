"""The `bazaar` extension, held against the official package."""

import base64
import json
from typing import Any

import pytest
from x402.extensions.bazaar import validate_and_extract, validate_discovery_extension_spec

from faregate.merchant.models import AccessResource
from faregate.x402.discovery import MAX_AMENDED, Discovery
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


def amend(method: str = "GET", url: str = "/report?city=Oslo", instructions: str | None = None) -> Any:
    return decode_header(Discovery().amend(instructions or build_instructions(), method, url))


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE", "POST", "PUT", "PATCH"])
def test_the_official_package_accepts_it(method: str) -> None:
    extension = amend(method)["extensions"]["bazaar"]

    assert validate_discovery_extension_spec(extension).valid
    result = validate_and_extract(extension)
    assert result.valid, result.errors
    assert result.info is not None
    assert getattr(result.info.input, "method") == method  # noqa: B009


def test_a_tool_is_described_with_its_input() -> None:
    discovery = Discovery()
    discovery.tool_schemas["daily report"] = SCHEMA
    amended = discovery.amend(build_instructions(), "tools/call", "mcp://tool/daily%20report")
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
    after = base64.b64decode(Discovery().amend(build_instructions(), "GET", "/report"))

    assert after.startswith(before[:-1])
    assert after[len(before) - 1 :].startswith(b',"extensions":{"bazaar":')
    assert [*json.loads(after)] == [*json.loads(before), "extensions"]


def test_a_long_schema_is_left_out() -> None:
    discovery = Discovery()
    discovery.tool_schemas["report"] = {"type": "object", "description": "x" * MAX_AMENDED}
    amended = discovery.amend(build_instructions(), "tools/call", "mcp://tool/report")

    assert len(amended) <= MAX_AMENDED
    assert decode_header(amended)["extensions"]["bazaar"]["info"]["input"]["inputSchema"] == {
        "type": "object"
    }


def test_instructions_that_would_become_too_long_stay() -> None:
    long = encode_header({"accepts": ["y" * MAX_AMENDED]})

    assert Discovery().amend(long, "GET", "/report") == long


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
    assert Discovery().amend(instructions, "GET", "/report") == instructions


@pytest.mark.parametrize("method", ["TRACE", "QUERY", "get"])
def test_methods_that_no_catalogue_has_are_left_out(method: str) -> None:
    assert "extensions" not in amend(method)

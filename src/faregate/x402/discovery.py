"""Describe what is sold to catalogues: the `bazaar` extension of x402 version 2. Pure.

A payer's client echoes it in the payment, and a facilitator that settles the payment may list the resource.
Only `extensions` is added to the instructions: every other byte stays as the service wrote it.
"""

import base64
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast
from urllib.parse import unquote

from faregate.x402.instructions import parse_json

MAX_AMENDED: Final = 6 * 1024
"""Characters of an amended header. The client sends it back in its payment, and proxies limit headers."""
_EXTENSIONS, _BAZAAR = "extensions", "bazaar"
_QUERY_METHODS: Final = ("GET", "HEAD", "DELETE")
_BODY_METHODS: Final = ("POST", "PUT", "PATCH")
_TOOL: Final = "mcp://tool/"
_ANY_OBJECT: Final = {"type": "object"}
Schema = Mapping[str, Any]


class Discovery:
    """What a seller tells catalogues. `tool_schemas` has the input schema of each MCP tool by its name."""

    def __init__(self) -> None:
        self.tool_schemas: dict[str, Schema] = {}

    def amend(self, instructions: str, method: str, url: str) -> str:
        """Add the extension to a `PAYMENT-REQUIRED` value, for a request with this method and URL.

        Instructions that cannot be read, that have extensions already, or that would become too long stay as
        they are.
        """
        text = _decode(instructions)
        if text is None:
            return instructions
        for extension in self._describe(method, url):
            added = json.dumps({_EXTENSIONS: {_BAZAAR: extension}}, separators=(",", ":"))
            amended = base64.b64encode(f"{text[:-1]},{added[1:]}".encode()).decode()
            if len(amended) <= MAX_AMENDED:
                return amended
        return instructions

    def _describe(self, method: str, url: str) -> Iterator[Schema]:
        """Give descriptions of the request, the shorter ones later."""
        if url.startswith(_TOOL):
            name = unquote(url.removeprefix(_TOOL))
            if (schema := self.tool_schemas.get(name)) is not None:
                yield _describe_tool(name, schema)
            yield _describe_tool(name, _ANY_OBJECT)
        elif method in _QUERY_METHODS:
            yield _describe_http(method, _QUERY_METHODS, {"queryParams": _ANY_OBJECT})
        elif method in _BODY_METHODS:
            kinds = {"type": "string", "enum": ["json", "form-data", "text"]}
            body: Schema = {"bodyType": "json", "body": {}}
            yield _describe_http(method, _BODY_METHODS, {"bodyType": kinds, "body": {}}, body)


def _describe_http(
    method: str, methods: tuple[str, ...], properties: Schema, values: Schema | None = None
) -> Schema:
    values = values or {}
    info = {"type": "http", "method": method, **values}
    named = {
        "type": {"type": "string", "const": "http"},
        "method": {"type": "string", "enum": [*methods]},
        **properties,
    }
    return _build_extension(info, named, ["type", "method", *values])


def _describe_tool(name: str, schema: Schema) -> Schema:
    info = {"type": "mcp", "toolName": name, "transport": "streamable-http", "inputSchema": schema}
    named = {
        "type": {"type": "string", "const": "mcp"},
        "toolName": {"type": "string"},
        "transport": {"type": "string", "enum": ["streamable-http", "sse"]},
        "inputSchema": _ANY_OBJECT,
    }
    return _build_extension(info, named, ["type", "toolName", "inputSchema"])


def _build_extension(values: Schema, properties: Schema, required: list[str]) -> Schema:
    """Build the extension: `info`, and a JSON Schema that describes it."""
    described = {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"input": described},
        "required": ["input"],
    }
    return {"info": {"input": values}, "schema": schema}


def _decode(instructions: str) -> str | None:
    """Return the JSON text of instructions without extensions; None for any other."""
    try:
        content = base64.b64decode(instructions, validate=True)
        found: object = parse_json(content)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or not found or _EXTENSIONS in cast("dict[str, Any]", found):
        return None
    return content.decode().rstrip()

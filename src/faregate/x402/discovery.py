"""Describe what is sold to catalogues: the `bazaar` extension of x402 version 2. Pure.

A payer's client echoes it in the payment, and a facilitator that settles the payment may list the resource.
Only `extensions` is added to the instructions: every other byte stays as the service wrote it.
"""

import base64
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final, cast
from urllib.parse import quote, unquote, urlsplit

from faregate.x402.instructions import parse_json
from faregate.x402.json_schema import inline_references, make_example

MAX_AMENDED: Final = 3584
"""Characters of an amended header. nginx reads all headers of a response into 4096 bytes."""
_EXTENSIONS, _BAZAAR = "extensions", "bazaar"
_QUERY_METHODS: Final = ("GET", "HEAD", "DELETE")
_BODY_METHODS: Final = ("POST", "PUT", "PATCH")
_TOOL: Final = "mcp://tool/"
_PARAMETER: Final = re.compile(r"\{([A-Za-z_]\w*)\}", re.ASCII)
_STRING: Final = {"type": "string"}
_ANY_OBJECT: Final = {"type": "object"}
_VALUES: Final = frozenset(("const", "default", "enum", "example", "examples"))
"""Keywords of a schema whose values are not schemas."""
Schema = Mapping[str, Any]
_NO_SCHEMA: Final[Schema] = {}


@dataclass(frozen=True, slots=True)
class Described:
    """A request, as far as a catalogue lists it.

    `url` is the path with its query, or names a tool; `resource_url` is the public URL. `route` is the
    template of the path, such as `/items/{number}`, empty where it is not known. `operation` is the OpenAPI
    operation that documents the request and its result.
    """

    method: str
    url: str
    resource_url: str = ""
    route: str = ""
    operation: Schema = field(default_factory=dict[str, Any])


def amend(instructions: str, described: Described | None, others: Schema = _NO_SCHEMA) -> str:
    """Add the extension to a `PAYMENT-REQUIRED` value, and the `others`, by name, which matter more.

    Instructions that cannot be read, that have extensions already, or that would become too long stay as
    they are.
    """
    text, mime_type = _decode(instructions)
    if text is None:
        return instructions
    descriptions = () if described is None else _describe(described, mime_type)
    choices: Iterator[Schema] = chain(
        ({_BAZAAR: description, **others} for description in descriptions), (others,)
    )
    for extensions in filter(None, choices):
        added = json.dumps({_EXTENSIONS: extensions}, separators=(",", ":"))
        amended = base64.b64encode(f"{text[:-1]},{added[1:]}".encode()).decode()
        if len(amended) <= MAX_AMENDED:
            return amended
    return instructions


def _describe(described: Described, mime_type: str) -> Iterator[Schema]:
    """Give descriptions of the request, the shorter ones later."""
    operation = _drop_titles(inline_references(described.operation))
    result = _find_result(operation)
    for shown, schema in ((operation, result), (operation, _NO_SCHEMA), (_NO_SCHEMA, _NO_SCHEMA)):
        if described.url.startswith(_TOOL):
            name = unquote(described.url.removeprefix(_TOOL))
            yield _describe_tool(name, _find_content(shown.get("requestBody"))[1] or _ANY_OBJECT, schema)
        elif described.method in (*_QUERY_METHODS, *_BODY_METHODS):
            yield _describe_http(described, shown, mime_type, schema)


def _describe_http(described: Described, operation: Schema, mime_type: str, result: Schema) -> Schema:
    method = described.method
    methods = _QUERY_METHODS if method in _QUERY_METHODS else _BODY_METHODS
    info: dict[str, Any] = {"type": "http", "method": method}
    named: dict[str, Any] = {
        "type": {**_STRING, "const": "http"},
        "method": {**_STRING, "enum": [*methods]},
    }
    required = ["type", "method"]
    query = _build_query(operation)
    if query is not _ANY_OBJECT or methods is _QUERY_METHODS:
        named["queryParams"] = query
    # Where no example of a parameter is obvious, catalogues are shown the schema alone.
    if example := _try_example(query):
        info["queryParams"] = example
    if methods is _BODY_METHODS:
        body_type, body, example = _build_body(operation)
        info |= {"bodyType": body_type, "body": example}
        named |= {"bodyType": {**_STRING, "enum": ["json", "form-data", "text"]}, "body": body}
        required += ["bodyType", "body"]
    template, values = _fill_route(described.route, urlsplit(described.resource_url).path)
    if values:
        info["pathParams"] = values
        named["pathParams"] = {"type": "object", "properties": dict.fromkeys(values, _STRING)}
    extension = _build_extension(info, named, required, mime_type, result)
    return {**extension, "routeTemplate": template} if values else extension


def _describe_tool(name: str, schema: Schema, result: Schema) -> Schema:
    info = {"type": "mcp", "toolName": name, "transport": "streamable-http", "inputSchema": schema}
    named = {
        "type": {**_STRING, "const": "mcp"},
        "toolName": _STRING,
        "transport": {**_STRING, "enum": ["streamable-http", "sse"]},
        "inputSchema": _ANY_OBJECT,
    }
    return _build_extension(info, named, ["type", "toolName", "inputSchema"], "application/json", result)


def _build_extension(
    values: Schema, properties: Schema, required: list[str], mime_type: str, result: Schema
) -> Schema:
    """Build the extension: `info`, and a JSON Schema that describes it."""
    described = {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }
    output = {"type": "object", "properties": {"type": _STRING, "example": result}, "required": ["type"]}
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"input": described, "output": output},
        "required": ["input"],
    }
    kind = "json" if mime_type.endswith("json") else mime_type
    shown = {name: result[name] for name in ("example",) if name in result}
    return {"info": {"input": values, "output": {"type": kind, **shown}}, "schema": schema}


def _build_query(operation: Schema) -> Schema:
    """Build the schema of the parameters of the query."""
    parameters = [
        parameter
        for parameter in operation.get("parameters", ())
        if parameter.get("in") == "query" and parameter.get("name")
    ]
    if not parameters:
        return _ANY_OBJECT
    required = [parameter["name"] for parameter in parameters if parameter.get("required") is True]
    schema = {
        "type": "object",
        "properties": {parameter["name"]: _read_parameter(parameter) for parameter in parameters},
    }
    return {**schema, "required": required} if required else schema


def _read_parameter(parameter: Schema) -> Schema:
    schema = parameter.get("schema", {})
    if not isinstance(schema, dict):
        return {}
    beside = {name: parameter[name] for name in ("description", "example") if name in parameter}
    return {**beside, **cast("dict[str, Any]", schema)}


def _build_body(operation: Schema) -> tuple[str, Schema, Any]:
    """Build the type of the body, its schema, and an example: catalogues list no example that is invalid."""
    media_type, schema = _find_content(operation.get("requestBody"))
    kind = "text" if media_type.startswith("text/") else "form-data" if "form" in media_type else "json"
    if (example := _try_example(schema)) is not None:
        return kind, schema, example
    if schema.get("type") == "object":
        return kind, {name: keyword for name, keyword in schema.items() if name in ("type", "properties")}, {}
    return kind, {}, {}


def _try_example(schema: Schema) -> Any:
    try:
        return make_example(schema)
    except (ValueError, TypeError, LookupError):  # also of what is not a schema
        return None


def _find_result(operation: Schema) -> Schema:
    """Find the schema of the response of a success."""
    responses: Any = operation.get("responses", {})
    successes = sorted(status for status in responses if str(status).startswith("2"))
    return _find_content(responses[successes[0]])[1] if successes else {}


def _find_content(holder: Any) -> tuple[str, Schema]:
    """Find the media type and the schema of a body: of JSON, or else the first."""
    content: Any = cast("Schema", holder).get("content") if isinstance(holder, Mapping) else None
    if not isinstance(content, Mapping) or not content:
        return "", {}
    named = cast("Mapping[str, Any]", content)
    media_type = next((media for media in named if media.endswith("json")), next(iter(named)))
    described = named[media_type]
    if not isinstance(described, Mapping):
        return media_type, {}
    schema: Any = cast("Schema", described).get("schema")
    example = {name: member for name, member in cast("Schema", described).items() if name == "example"}
    return media_type, {**example, **cast("Schema", schema)} if isinstance(schema, Mapping) else {}


def _fill_route(route: str, path: str) -> tuple[str, dict[str, str]]:
    """Return the path with `:name` in place of each parameter, and their values in this path.

    A part of the path before the route, as of an application that is mounted, stays. Without parameters, and
    where the route is not that of the path, there are no values.
    """
    # By segments, and not by an expression: the payer chooses the path, and some take long to fail.
    named = [_PARAMETER.split(segment) for segment in route.split("/")[1:]]
    segments = [unquote(segment) for segment in path.split("/")[1:]]
    last = max((at for at, parts in enumerate(named) if len(parts) > 1), default=-1)
    if last < 0 or max(map(len, named)) > _ONE_PARAMETER:
        return "", {}
    # The last value may hold slashes, where the route says so; where it need not, it does not.
    for before in range(len(segments) - len(named), -1, -1):
        end = len(segments) - (len(named) - last - 1)
        joined = [*segments[before : before + last], "/".join(segments[before + last : end]), *segments[end:]]
        values = [_find_value(parts, segment) for parts, segment in zip(named, joined, strict=True)]
        if None not in values:
            parameters = {
                parts[1]: str(value) for parts, value in zip(named, values, strict=True) if len(parts) > 1
            }
            filled = [*map(quote, segments[:before]), *map(_write_segment, named)]
            return "/" + "/".join(filled), parameters
    return "", {}


_ONE_PARAMETER: Final = 3
"""The parts of a segment with one parameter: what is before it, its name, and what is after it."""


def _find_value(parts: list[str], segment: str) -> str | None:
    """Find the value of a segment's parameter, "" if it has none; None if the segment is another one."""
    if len(parts) == 1:
        return "" if segment == parts[0] else None
    before, _, after = parts
    value = segment.removeprefix(before).removesuffix(after)
    return value if value and segment == before + value + after else None


def _write_segment(parts: list[str]) -> str:
    return "".join(f":{part}" if number % 2 else quote(part) for number, part in enumerate(parts))


def _drop_titles(value: Any) -> Any:
    """Drop what FastAPI adds to each schema; a property named `title` has a schema, and no text."""
    if isinstance(value, list):
        return [_drop_titles(item) for item in cast("list[object]", value)]
    if not isinstance(value, dict):
        return value
    named = cast("dict[str, Any]", value)
    return {
        name: member if name in _VALUES else _drop_titles(member)
        for name, member in named.items()
        if not (
            name == "title" and isinstance(member, str) and named.keys() & {"type", "anyOf", "properties"}
        )
    }


def _decode(instructions: str) -> tuple[str | None, str]:
    """Return the JSON text of instructions without extensions, None for any other; and the media type."""
    try:
        content = base64.b64decode(instructions, validate=True)
        decoded: object = parse_json(content)
    except (ValueError, RecursionError):
        return None, ""
    if not isinstance(decoded, dict) or not decoded or _EXTENSIONS in cast("dict[str, Any]", decoded):
        return None, ""
    resource: Any = cast("dict[str, Any]", decoded).get("resource")
    mime_type: Any = cast("Schema", resource).get("mimeType") if isinstance(resource, dict) else None
    return content.decode().rstrip(), mime_type if isinstance(mime_type, str) else "application/json"

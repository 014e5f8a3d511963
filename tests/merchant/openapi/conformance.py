"""Calls and answers against the document: `assert_request_conforms`, `assert_conforms`.

Here an answer may have no property that the document does not name, although clients would not mind one.
"""

import base64
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from urllib.parse import parse_qsl

from jsonschema_rs import Draft202012Validator

from faregate.core.models import Headers, Response, WireRequest, header_values
from faregate.merchant.openapi import describe

Json = dict[str, Any]
OF_THE_CONTRACT = ("payment-required", "payment-response", "retry-after", "www-authenticate")


class Broken(AssertionError):
    """What is not as the document says, and where."""


@dataclass(frozen=True)
class Operation:
    """One operation of a document, its references followed."""

    name: str
    method: str
    path: re.Pattern[str]
    told: Json
    components: Json
    _made: dict[str, Draft202012Validator] = field(default_factory=dict[str, Draft202012Validator])

    def check(self, place: str, schema: Json, value: object) -> None:
        """`Broken` if the value is not as the schema says."""
        if place not in self._made:
            rooted = {"components": self.components, "allOf": [schema]}
            self._made[place] = Draft202012Validator(rooted, validate_formats=True)
        for error in self._made[place].iter_errors(value):
            where = ".".join(map(str, error.instance_path))
            raise Broken(f"{self.name} {place} {where}: {error.message}")


def closed(document: Json) -> Json:
    """The same document, in which no object has other properties than those that are named."""

    def walk(node: Any) -> Any:
        if isinstance(node, list):
            return [walk(one) for one in node]
        if not isinstance(node, dict):
            return node
        new = {key: walk(value) for key, value in node.items()}
        if new.get("type") == "object" and "properties" in new:
            new.setdefault("additionalProperties", False)
        return new

    found: Json = walk(document)
    return found


class Description:
    """A document, ready to be compared with calls."""

    def __init__(self, document: Json) -> None:
        self._document = closed(document)
        self._operations = list(self._read())

    def _read(self) -> Iterator[Operation]:
        for path, item in self._document["paths"].items():
            pattern = re.compile(re.sub(r"\\{(\w+)\\}", r"(?P<\1>[^/]+)", re.escape(path)))
            for method, told in item.items():
                name = f"{method.upper()} {path}"
                yield Operation(name, method.upper(), pattern, told, self._document["components"])

    def operation(self, request: WireRequest) -> Operation | None:
        path = request.path.partition("?")[0]
        found = (one for one in self._operations if one.path.fullmatch(path))
        return next((one for one in found if one.method == request.method), None)

    def followed(self, holder: Json) -> Json:
        if "$ref" not in holder:
            return holder
        _, kind, name = holder["$ref"].removeprefix("#/").split("/")
        found: Json = self._document["components"][kind][name]
        return found


@cache
def description() -> Description:
    return Description(describe())


def assert_conforms(request: WireRequest, response: Response, told: Description | None = None) -> None:
    """The answer is one that the document names for this call: status, headers and body."""
    told = told or description()
    operation = told.operation(request)
    body = _json(response.headers, response.body)
    if operation is None:
        if response.status not in (404, 405) or body.get("code") != "invalid_request":
            raise Broken(f"{request.method} {request.path} is no operation, and answers {response.status}")
        return
    if str(response.status) not in operation.told["responses"]:
        raise Broken(f"{operation.name} answers {response.status}, which is not named")
    reply = told.followed(operation.told["responses"][str(response.status)])
    _check_headers(told, operation, reply, response)
    operation.check(f"{response.status} body", reply["content"]["application/json"]["schema"], body)
    _check_proof(operation, response, body)


def assert_request_conforms(request: WireRequest, told: Description | None = None) -> None:
    """The call is one that the document allows: parameters, headers and body."""
    told = told or description()
    operation = told.operation(request)
    if operation is None:
        raise Broken(f"{request.method} {request.path} is no operation")
    if not re.fullmatch("Bearer [!-~]+", _only(request.headers, "authorization") or ""):
        raise Broken(f"{operation.name} without an API key")
    _check_parameters(operation, request)
    if "requestBody" in operation.told:
        schema = operation.told["requestBody"]["content"]["application/json"]["schema"]
        operation.check("body", schema, _json(request.headers, request.body or b""))
    elif request.body is not None:
        raise Broken(f"{operation.name} has no body")


def _check_parameters(operation: Operation, request: WireRequest) -> None:
    path, _, query = request.path.partition("?")
    match = operation.path.fullmatch(path)
    assert match is not None
    given = {("query", name): value for name, value in parse_qsl(query, True, True)}
    given |= {("path", name): value for name, value in match.groupdict().items()}
    if proof := _only(request.headers, "payment-signature"):
        given["header", "PAYMENT-SIGNATURE"] = proof
    for parameter in operation.told["parameters"]:
        value = given.pop((parameter["in"], parameter["name"]), None)
        if value is not None:
            operation.check(f"parameter {parameter['name']}", parameter["schema"], _typed(parameter, value))
        elif parameter.get("required"):
            raise Broken(f"{operation.name} without {parameter['name']}")
    if given:
        raise Broken(f"{operation.name} has no parameter {sorted(given)}")


def _typed(parameter: Json, text: str) -> object:
    return json.loads(text) if parameter["schema"]["type"] in ("integer", "boolean") else text


def _check_headers(told: Description, operation: Operation, reply: Json, response: Response) -> None:
    named = {name.lower(): told.followed(header) for name, header in reply.get("headers", {}).items()}
    for name in OF_THE_CONTRACT:
        values = header_values(response.headers, name)
        place = f"{response.status} header {name}"
        if len(values) > 1 or (values and name not in named):
            raise Broken(f"{operation.name} {place}: sent {len(values)} times")
        if values:
            operation.check(place, named[name]["schema"], values[0])
            if "contentEncoding" in named[name]["schema"]:
                json.loads(base64.b64decode(values[0], validate=True))
        elif name in named and named[name].get("required"):
            raise Broken(f"{operation.name} {place}: missing")


def _check_proof(operation: Operation, response: Response, body: Json) -> None:
    """`PAYMENT-RESPONSE` is there when the completion succeeded, then only, and is what the body says."""
    if "payment_response" in body:
        sent = _only(response.headers, "payment-response")
        if sent != body["payment_response"]:
            raise Broken(f"{operation.name}: PAYMENT-RESPONSE is not the payment_response of the body")


def _json(headers: Headers, body: bytes) -> Json:
    if header_values(headers, "content-type") != ["application/json"]:
        raise Broken("the content type is not application/json")
    found = json.loads(body, object_pairs_hook=_said_once)
    if not isinstance(found, dict):
        raise Broken("the body is not an object")
    return found


def _said_once(pairs: list[tuple[str, Any]]) -> Json:
    if len(dict(pairs)) < len(pairs):
        raise Broken("one name has two values")
    return dict(pairs)


def _only(headers: Headers, name: str) -> str | None:
    values = header_values(headers, name)
    if len(values) > 1:
        raise Broken(f"{name} is sent {len(values)} times")
    return values[0] if values else None

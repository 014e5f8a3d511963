"""A document taken apart into single facts, each a line of text: what is compared with the specification.

`AccessResource.url : maxLength=2048` says one rule of one place. Places: `Name.field`, `Name.list[]` for
the items of a list, `Name.map{}` for the values of a map and `Name.map{names}` for its names;
`GET /path query page`, `POST /path 402 header Retry-After`, `POST /path 200 body.field` in operations. A
schema that the specification has no name for is taken apart where it is used.
"""

import json
from collections.abc import Iterator, Set
from typing import Any

Json = dict[str, Any]
SAYS_NOTHING = ("title", "description")


class Reader:
    """Reads one document. `named` are the schemas that are referred to by name."""

    def __init__(self, document: Json, named: Set[str]) -> None:
        self._document = document
        self._named = named

    def facts(self) -> set[str]:
        schemas = self._document["components"]["schemas"]
        found = {fact for name in self._named & set(schemas) for fact in self._schema(schemas[name], name)}
        for path, item in self._document["paths"].items():
            for method, operation in item.items():
                found.update(self._operation(operation, f"{method.upper()} {path}"))
        return found | set(self._security())

    def _security(self) -> Iterator[str]:
        for name, scheme in self._document["components"]["securitySchemes"].items():
            yield from (f"security {name} : {key}={scheme[key]}" for key in ("type", "scheme"))

    def _operation(self, operation: Json, place: str) -> Iterator[str]:
        holder = operation if "security" in operation else self._document
        for requirement in holder["security"]:
            yield from (f"{place} : security={name}" for name in requirement)
        parameters: list[Json] = operation["parameters"]
        for parameter in map(self._followed, parameters):
            yield from self._parameter(parameter, f"{place} {parameter['in']} {parameter['name']}")
        if "requestBody" in operation:
            yield f"{place} body : {_need(operation['requestBody'].get('required', False))}"
            yield from self._content(operation["requestBody"], f"{place} body")
        for status, response in operation["responses"].items():
            reply = self._followed(response)
            for name, header in reply.get("headers", {}).items():
                yield from self._parameter(self._followed(header), f"{place} {status} header {name}")
            yield from self._content(reply, f"{place} {status} body")

    def _parameter(self, parameter: Json, place: str) -> Iterator[str]:
        yield f"{place} : {_need(parameter.get('required', False))}"
        yield from self._schema(parameter["schema"], place)

    def _content(self, holder: Json, place: str) -> Iterator[str]:
        for media, content in holder["content"].items():
            if media != "application/json":
                yield f"{place} : media={media}"
            yield from self._schema(content["schema"], place)

    def _schema(self, schema: Json, place: str) -> Iterator[str]:
        for key, value in schema.items():
            if key in _READ:
                yield from _READ[key](self, value, place, schema)
            elif key not in SAYS_NOTHING:
                yield f"{place} : {key}={_text(value)}"

    def _reference(self, reference: str, place: str, _: Json) -> Iterator[str]:
        name = reference.rpartition("/")[2]
        if name in self._named:
            yield f"{place} : is={name}"
        else:
            yield from self._schema(self._followed({"$ref": reference}), place)

    def _properties(self, properties: Json, place: str, schema: Json) -> Iterator[str]:
        for name, inner in properties.items():
            if "required" in schema or "type" in schema:
                yield f"{place}.{name} : {_need(name in schema.get('required', []))}"
            yield from self._schema(inner, f"{place}.{name}")

    def _no_others(self, value: Any, place: str, _: Json) -> Iterator[str]:
        yield f"{place} : no-others" if value is False else f"{place} : others={_text(value)}"

    def _choices(self, values: list[Any], place: str, _: Json) -> Iterator[str]:
        yield from (f"{place} : one={value}" for value in values)

    def _any_of(self, options: list[Json], place: str, _: Json) -> Iterator[str]:
        rest = [option for option in options if option != {"type": "null"}]
        if len(rest) < len(options):
            yield f"{place} : null"
        (only,) = rest
        yield from self._schema(only, place)

    def _all_of(self, parts: list[Json], place: str, _: Json) -> Iterator[str]:
        for part in parts:
            yield from self._schema(part, place)

    def _one_of(self, options: list[Json], place: str, _: Json) -> Iterator[str]:
        for option in options:
            yield f"{place} : one-of={option['$ref'].rpartition('/')[2]}"

    def _map(self, patterns: Json, place: str, _: Json) -> Iterator[str]:
        for pattern, inner in patterns.items():
            yield f"{place}{{names}} : pattern={pattern}"
            yield from self._schema(inner, f"{place}{{}}")

    def _names(self, names: Json, place: str, _: Json) -> Iterator[str]:
        yield from self._schema(names, f"{place}{{names}}")

    def _items(self, items: Json, place: str, _: Json) -> Iterator[str]:
        yield from self._schema(items, f"{place}[]")

    def _told_apart(self, discriminator: Json, place: str, _: Json) -> Iterator[str]:
        yield f"{place} : by={discriminator['propertyName']}"
        for value, reference in discriminator["mapping"].items():
            yield f"{place} : {discriminator['propertyName']}.{value}={reference.rpartition('/')[2]}"

    def _condition(self, condition: Json, place: str, schema: Json) -> Iterator[str]:
        for told, key in (("when", "then"), ("unless", "else")):
            for name, rule in schema[key]["properties"].items():
                yield f"{place}.{name} : {told}:{_asked(condition)}:{_text(rule)}"
            for name in schema[key].get("required", []):
                yield f"{place}.{name} : {told}:{_asked(condition)}:required"

    def _nothing(self, *_: Any) -> Iterator[str]:
        yield from ()

    def _followed(self, holder: Json) -> Json:
        if "$ref" not in holder:
            return holder
        found: Any = self._document
        for step in holder["$ref"].removeprefix("#/").split("/"):
            found = found[step]
        return dict(found)


_READ: dict[str, Any] = {
    "$ref": Reader._reference,
    "properties": Reader._properties,
    "required": Reader._nothing,
    "additionalProperties": Reader._no_others,
    "enum": Reader._choices,
    "anyOf": Reader._any_of,
    "oneOf": Reader._one_of,
    "allOf": Reader._all_of,
    "patternProperties": Reader._map,
    "propertyNames": Reader._names,
    "items": Reader._items,
    "discriminator": Reader._told_apart,
    "if": Reader._condition,
    "then": Reader._nothing,
    "else": Reader._nothing,
}


def _need(required: bool) -> str:
    return "required" if required else "optional"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def _asked(condition: Json) -> str:
    ((name, rule),) = condition["properties"].items()
    return f"{name}={rule['const']}"

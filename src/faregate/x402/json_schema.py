"""JSON Schema, as far as descriptions of paid resources need it: references, and examples. Pure."""

from collections.abc import Mapping
from typing import Any, Final, cast

_MAX_SCHEMAS: Final = 2_000
"""Objects that one description has at most, once its references are replaced."""
_FORMATS: Final = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T12:00:00Z",
    "email": "name@example.com",
    "time": "12:00:00Z",
    "uri": "https://example.com/",
    "uuid": "01234567-89ab-7def-8123-456789abcdef",
}
_ANNOTATIONS: Final = frozenset(
    (
        *("$comment", "$schema", "deprecated", "description", "discriminator", "examples", "format"),
        *("readOnly", "title", "writeOnly", "xml"),
    )
)
_NUMBERS: Final = frozenset(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"))
_CONSTRAINTS: Final = {
    "object": frozenset(("properties", "required", "additionalProperties")),
    "array": frozenset(("items", "minItems", "maxItems")),
    "string": frozenset(("minLength", "maxLength", "contentMediaType", "contentEncoding")),
    "integer": _NUMBERS,
    "number": _NUMBERS,
    "boolean": frozenset[str](),
    "null": frozenset[str](),
}
"""What `make_example` knows how to meet, beside annotations."""
_MAX_ITEMS: Final = 10
_MAX_LENGTH: Final = 100


def inline_references(value: Any, document: Mapping[str, Any] | None = None) -> Any:
    """Copy JSON, with what its references name in place of them.

    `#/$defs/...` is looked up in the schema around it, any other reference in `document`. Becomes `{}`, the
    schema of anything: what refers to itself, what does not exist, and what follows after 2,000 objects.
    """
    return _Inliner().copy(value, ({} if document is None else document,), ())


class _Inliner:
    def __init__(self) -> None:
        self._left = _MAX_SCHEMAS

    def copy(self, value: Any, roots: tuple[Mapping[str, Any], ...], open_references: tuple[str, ...]) -> Any:
        if isinstance(value, list):
            return [self.copy(item, roots, open_references) for item in cast("list[object]", value)]
        if not isinstance(value, dict):
            return value
        self._left -= 1
        if self._left < 0:
            return {}
        named = cast("dict[str, Any]", value)
        if isinstance(named.get("$defs"), dict):
            roots = (named, *roots)
        reference = named.get("$ref")
        # A property may have the name of a keyword: then its value is a schema, and no text.
        dropped = [name for name in ("$ref", "$id", "$schema") if isinstance(named.get(name), str)]
        members = {
            name: self.copy(member, roots, open_references)
            for name, member in named.items()
            if name not in dropped and not (name == "$defs" and roots[0] is named)
        }
        if not isinstance(reference, str):
            return members
        if reference in open_references:
            return {}
        target = self.copy(_find(reference, roots), roots, (*open_references, reference))
        return {**cast("dict[str, Any]", target), **members} if isinstance(target, dict) else members


def _find(reference: str, roots: tuple[Mapping[str, Any], ...]) -> Any:
    """Find what a reference names; an empty schema if there is no such thing."""
    parts = [part.replace("~1", "/").replace("~0", "~") for part in reference.split("/")]
    for root in roots if parts[0] == "#" else ():
        target: Any = root
        for part in parts[1:]:
            target = cast("Any", target).get(part) if isinstance(target, Mapping) else None
        if target is not None:
            return target
    return {}


def make_example(schema: Any) -> Any:
    """Make a value that a schema without references allows. Raises `ValueError` where none is obvious."""
    if schema is True:
        return {}
    if not isinstance(schema, dict):
        raise ValueError("nothing is allowed")
    named = cast("dict[str, Any]", schema)
    for name in ("const", "default", "example"):
        if name in named:
            return named[name]
    for name in ("examples", "enum"):
        if isinstance(named.get(name), list) and named[name]:
            return named[name][0]
    constraints = named.keys() - _ANNOTATIONS
    for name in ("anyOf", "oneOf", "allOf"):
        if name in constraints:
            return _make_alternative(name, named[name], constraints)
    if not constraints:
        return {}
    given: Any = named.get("type", "object" if "properties" in named else None)
    kinds = cast("list[object]", given) if isinstance(given, list) else [given]
    kind = kinds[0] if kinds else None
    if (
        not isinstance(kind, str)
        or kind not in _CONSTRAINTS
        or not constraints <= {"type"} | _CONSTRAINTS[kind]
    ):
        raise ValueError("it has constraints of another kind")
    return _make_of_kind(kind, named)


def _make_alternative(name: str, alternatives: Any, constraints: set[str]) -> Any:
    """Make an example of one of several schemas, or of all of them where there is just one."""
    if not isinstance(alternatives, list) or constraints != {name}:
        raise ValueError("it has several constraints")
    listed = cast("list[object]", alternatives)
    if name != "anyOf" and len(listed) != 1:
        raise ValueError("it must meet exactly one schema, or several")
    for alternative in listed:
        try:
            return make_example(alternative)
        except ValueError:
            continue
    raise ValueError("no alternative is obvious")


def _make_of_kind(kind: str, schema: Mapping[str, Any]) -> Any:
    if kind == "object":
        return {
            name: make_example(schema.get("properties", {})[name])
            for name in _check_required(schema, schema.get("required", ()))
        }
    if kind == "array":
        least = int(schema.get("minItems", 0))
        if least > _MAX_ITEMS:
            raise ValueError("it has too many items")
        return [make_example(schema.get("items", True)) for _ in range(least)]
    if kind == "string":
        return _make_text(schema)
    if kind in ("integer", "number"):
        return _make_number(schema)
    return True if kind == "boolean" else None


def _check_required(schema: Mapping[str, Any], required: Any) -> list[str]:
    names = list(required)
    if not set(names) <= schema.get("properties", {}).keys():
        raise ValueError("a required property has no schema")
    return names


def _make_text(schema: Mapping[str, Any]) -> str:
    least, most = int(schema.get("minLength", 0)), int(schema.get("maxLength", _MAX_LENGTH))
    text = _FORMATS.get(str(schema.get("format")), "text")
    if least > _MAX_LENGTH or not least <= most:
        raise ValueError("it is too long")
    return text.ljust(least, "x")[:most]


def _make_number(schema: Mapping[str, Any]) -> int | float:
    lowest, above = schema.get("minimum"), schema.get("exclusiveMinimum")
    most, below = schema.get("maximum"), schema.get("exclusiveMaximum")
    step = schema.get("multipleOf")
    candidates = [1, step, lowest, most]
    candidates += [above + 1 if above is not None else None, below - 1 if below is not None else None]
    for candidate in candidates:
        if (
            candidate is not None
            and (lowest is None or candidate >= lowest)
            and (above is None or candidate > above)
            and (most is None or candidate <= most)
            and (below is None or candidate < below)
            and (step is None or candidate % step == 0)
        ):
            number: int | float = candidate
            return number
    raise ValueError("no number is obvious")

"""OpenAPI operations, in which handlers are documented for catalogues and OpenAPI documents. Pure."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, cast

Operation = dict[str, Any]


class PathTemplate(NamedTuple):
    """The template of a path, such as `/items/{number}`, and the parameters in it."""

    path: str
    parameters: list[Operation]


_PARAMETER = re.compile(
    r"\{(?P<braced>\w+)(?::(?P<convertor>\w+))?\}"  # Starlette, FastAPI, Litestar
    r"|<(?:(?P<converter>\w+)(?:\([^()<>]*\))?:)?(?P<angled>\w+)>"  # Flask, Django, Bottle
    r"|\(\?P<(?P<grouped>\w+)>(?P<expression>(?:[^()\\]|\\.)*)\)"  # Django's regular expressions
    r"|(?<=/)(?P<rest>\*)$"  # what is below a prefix
)
_ANCHOR = re.compile(r"(?<=/)\^|\$$|\\Z$")  # of Django's regular expressions
_UNREAD = re.compile(r"[{}<>()\[\]*+?^$|\\]")
_TYPES: Mapping[str | None, Operation] = {
    "float": {"type": "number"},
    "int": {"type": "integer"},
    "uuid": {"type": "string", "format": "uuid"},
}
_STRING: Operation = {"type": "string"}


def read_path_template(pattern: str) -> PathTemplate | None:
    """Read the pattern of a path as a framework writes it; None where it cannot be a template."""
    if not pattern.startswith("/"):
        return None
    pattern = _ANCHOR.sub("", pattern)
    parameters = list(_read_parameters(pattern))
    path, literals = _PARAMETER.sub(_write_parameter, pattern), _PARAMETER.sub("", pattern)
    names = [parameter["name"] for parameter in parameters]
    return (
        None if _UNREAD.search(literals) or len(set(names)) < len(names) else PathTemplate(path, parameters)
    )


def _read_parameters(pattern: str) -> Iterator[Operation]:
    for match in _PARAMETER.finditer(pattern):
        schema = _TYPES.get(match["convertor"] or match["converter"], _STRING)
        yield {"name": _name_parameter(match), "in": "path", "required": True, "schema": dict(schema)}


def _write_parameter(match: re.Match[str]) -> str:
    return f"{{{_name_parameter(match)}}}"


def _name_parameter(match: re.Match[str]) -> str:
    return match["braced"] or match["angled"] or match["grouped"] or "path"


def build_content(schema: Mapping[str, Any], media_type: str = "application/json") -> Operation:
    """Build what documents a body: a `requestBody`, or a response without its description."""
    return {"content": {media_type: {"schema": schema}}}


def merge_operation(documented: Mapping[str, Any], declared: Mapping[str, Any]) -> Operation:
    """Add to the operation of a framework what the seller has declared: of both, the seller's counts."""
    merged = {**documented, **declared}
    if "parameters" in documented and "parameters" in declared:
        own = cast("list[Operation]", declared["parameters"])
        names = {(parameter.get("name"), parameter.get("in")) for parameter in own}
        others = [
            parameter
            for parameter in documented["parameters"]
            if (parameter.get("name"), parameter.get("in")) not in names
        ]
        merged["parameters"] = [*others, *own]
    if "responses" in documented and "responses" in declared:
        merged["responses"] = {**documented["responses"], **declared["responses"]}
    return merged

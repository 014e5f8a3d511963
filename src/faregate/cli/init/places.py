"""Choose a path and a function name that the code in a folder does not use. Nothing is imported or run."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from faregate.cli.init.apps import list_sources

_PARAMETER: Final = re.compile(r"\{[^{}]*\}|<[^<>]*>")


@dataclass(frozen=True, slots=True)
class Place:
    """Where something is sold: `route` is the path without its slash, `function` the name of its handler."""

    route: str = "report"
    function: str = "report"


PLACES: Final = (
    Place(),
    Place("paid-report", "paid_report"),
    Place("sold/paid-report", "sold_report"),
    *(Place(f"sold/paid-report-{number}", f"sold_report_{number}") for number in range(2, 10)),
)


def choose_place(folder: Path) -> Place:
    """The first place that no route of the sources below `folder` takes; the last if all are taken."""
    patterns, names = set[str](), set[str]()
    for path in list_sources(folder):
        try:
            tree = ast.parse((folder / path).read_text(encoding="utf-8"))
        except (OSError, SyntaxError, ValueError):
            continue
        for node in ast.walk(tree):
            names.update(_list_names(node))
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                patterns.add(node.value.strip("/^$"))
    free = (place for place in PLACES if place.function not in names and not _is_taken(place, patterns))
    return next(free, PLACES[-1])


def _is_taken(place: Place, patterns: set[str]) -> bool:
    return any(_matches(pattern, place.route) for pattern in patterns)


def _matches(pattern: str, route: str) -> bool:
    """Whether text that may be the pattern of a route matches: `{id}` and `<id>` are parameters."""
    texts = [re.escape(text) for text in _PARAMETER.split(pattern)]
    parameters = [".+" if "path" in parameter else "[^/]+" for parameter in _PARAMETER.findall(pattern)]
    expression = "".join(part for pair in zip(texts, [*parameters, ""], strict=True) for part in pair)
    return re.fullmatch(expression, route) is not None


def _list_names(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.alias(name=name, asname=asname):
            yield asname or name
        case ast.Name(id=name, ctx=ast.Store()):
            yield name
        case _:
            pass

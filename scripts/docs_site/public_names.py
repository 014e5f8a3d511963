"""The public names of faregate, for the API reference.

A page of docs/api/ says where the names of a module belong with a pair of comments. In the file, a table
between them lists the names, for readers on a repository host; the site shows the docstrings there instead.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import cast

import griffe

from docs_site.pages import DOCS, ROOT

PAGES = DOCS / "api"
_BLOCK = re.compile(r"^(<!-- api: (\S+) -->\n).*?^(<!-- end of api -->\n)", re.MULTILINE | re.DOTALL)


@cache
def load_package() -> griffe.Module:
    return cast(griffe.Module, griffe.load("faregate", search_paths=[ROOT / "src"], resolve_aliases=True))


def find_names(module: str) -> list[str]:
    """The public names of a module: its `__all__`, or else the classes that it defines and describes."""
    found = load_package()[module.partition(".")[2]] if "." in module else load_package()
    if found.exports is not None:
        return [str(name) for name in found.exports]
    return [
        name
        for name, member in found.members.items()
        if not name.startswith("_") and not member.is_alias and member.is_class and member.docstring
    ]


def find_object(module: str, name: str) -> griffe.Object | griffe.Alias:
    path = f"{module}.{name}".partition(".")[2]
    found = load_package()[path]
    return found.final_target if isinstance(found, griffe.Alias) else found


def first_line(module: str, name: str) -> str:
    """The first sentence of the docstring, in one line."""
    docstring = find_object(module, name).docstring
    paragraph = " ".join(docstring.value.split("\n\n")[0].split()) if docstring else ""
    return re.split(r"(?<=\.)\s", paragraph)[0].replace("|", r"\|")


def with_tables(text: str) -> str:
    """A page of docs/api/ as its file should be: with the current tables."""

    def fill(match: re.Match[str]) -> str:
        rows = "".join(f"| `{name}` | {first_line(match[2], name)} |\n" for name in find_names(match[2]))
        return f"{match[1]}\n| Name | What it is |\n|---|---|\n{rows}\n{match[3]}"

    return _BLOCK.sub(fill, text)


def with_docstrings(text: str, seen: set[str]) -> str:
    """The page with what mkdocstrings replaces. `seen` has the objects that were shown before."""
    return _BLOCK.sub(lambda match: "".join(_directives(match[2], seen)), text)


def _directives(module: str, seen: set[str]) -> Iterator[str]:
    again: list[str] = []
    for name in find_names(module):
        path = find_object(module, name).path
        if path in seen:
            again.append(f"`{name}`")
            continue
        seen.add(path)
        yield f"::: {module}.{name}\n\n"
    if again:
        yield f"Also here, and described above or on another page: {', '.join(again)}.\n\n"

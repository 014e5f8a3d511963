"""The navigation, read from docs/index.md: each of its headings is a section, each link below it a page."""

import posixpath
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from docs_site.pages import Page, title_of

INDEX = "index.md"
_HEADING = re.compile(r"^## +(.+)$", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]+)\]\(([^)#\s]+\.md)\)")


@dataclass(frozen=True)
class Section:
    title: str
    entries: tuple[tuple[str, str], ...]
    """Pairs of a title and the path of a page."""


def read_navigation(index: str, pages: list[Page]) -> list[Section]:
    """The sections of the index, and a last one of the pages that it does not name."""
    known = {page.path for page in pages}
    seen = {INDEX}
    sections: list[Section] = []
    _, *parts = _HEADING.split(index)
    for title, text in zip(parts[::2], parts[1::2], strict=True):
        entries: list[tuple[str, str]] = []
        for name, path in _LINK.findall(text):
            if path in known - seen:
                seen.add(path)
                entries.append((name.replace("`", ""), path))
        if entries:
            sections.append(Section(title.strip(), tuple(entries)))
    return [*sections, *_collect_others(pages, seen)]


def _collect_others(pages: list[Page], seen: set[str]) -> Iterator[Section]:
    """Pages that the index does not name: those of a folder whose `index.md` it names, and all others."""
    titles = {
        posixpath.dirname(page.path): title_of(page.text)
        for page in pages
        if posixpath.basename(page.path) == INDEX
    }
    others = defaultdict[str, list[tuple[str, str]]](list)
    for page in pages:
        if page.path not in seen:
            folder = posixpath.dirname(page.path)
            listed = f"{folder}/{INDEX}" in seen
            others[titles[folder] if listed else "More"].append((title_of(page.text), page.path))
    for title, entries in others.items():
        yield Section(title, tuple(entries))

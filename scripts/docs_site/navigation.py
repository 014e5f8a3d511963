"""The navigation, read from docs/index.md: each of its headings is a section, each link below it a page.

Pages have the names that they give themselves. Pages below a lower heading are a group, which is folded.
"""

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass

from docs_site.pages import Page, title_of

INDEX = "index.md"
FOLDED = "contributing/decisions"
"""A folder whose pages stand below its index."""
_HEADING = re.compile(r"^## +(.+)$", re.MULTILINE)
_GROUP = re.compile(r"^### +(.+)$", re.MULTILINE)
_LINK = re.compile(r"\[[^\]]+\]\(([^)#\s]+\.md)\)")


@dataclass(frozen=True)
class Section:
    title: str
    entries: tuple[tuple[str, str], ...]
    """Pairs of a title and the path of a page."""
    groups: tuple["Section", ...] = ()

    @property
    def pages(self) -> tuple[tuple[str, str], ...]:
        """The entries, and those of the groups."""
        return (*self.entries, *(entry for group in self.groups for entry in group.pages))


def read_navigation(index: str, pages: list[Page]) -> list[Section]:
    """The sections of the index, and a last one of the pages that it does not name."""
    titles = {page.path: title_of(page.text) for page in pages}
    seen = {INDEX}

    def read_entries(text: str) -> Iterator[tuple[str, str]]:
        for path in _LINK.findall(text):
            if path in titles and path not in seen:
                yield from _add(path)
                # The index of a folder stands for the pages of the folder that the index does not name.
                if posixpath.basename(path) == INDEX and posixpath.dirname(path) == FOLDED:
                    for other in sorted(titles):
                        if posixpath.dirname(other) == FOLDED and other not in seen:
                            yield from _add(other)

    def _add(path: str) -> Iterator[tuple[str, str]]:
        seen.add(path)
        yield titles[path], path

    sections: list[Section] = []
    _, *parts = _HEADING.split(index)
    for title, text in zip(parts[::2], parts[1::2], strict=True):
        own, *lower = _GROUP.split(text)
        entries = tuple(read_entries(own))
        groups = tuple(
            Section(name.strip(), tuple(read_entries(part)))
            for name, part in zip(lower[::2], lower[1::2], strict=True)
        )
        if entries or groups:
            sections.append(Section(title.strip(), entries, groups))
    others = tuple((titles[page.path], page.path) for page in pages if page.path not in seen)
    return [*sections, *([Section("More", others)] if others else [])]

"""The pages of the site: which file each is made from, and its links as the site needs them.

The files are written for a reader on a repository host: links are relative to the file and may lead out of
docs/. On the site, a link to another page leads to that page, and one to any other file to the repository.
"""

import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from posixpath import normpath, relpath
from urllib.parse import unquote

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"

_ELSEWHERE = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing/index.md",
    "SECURITY.md": "security.md",
}
"""Pages of the site that lie outside docs/."""
_INSTEAD = {"README.md": "index.md", "docs": "index.md"}
"""Files that are no page of their own, and the page that says the same."""
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")
_CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)")
_LINK = re.compile(r"(?P<text>!?\[(?:[^\[\]]|\[[^\]]*\])*\])\((?P<target>[^\s)]+)\)")


@dataclass(frozen=True)
class Page:
    """`path` is its place on the site, `source` its place in the repository."""

    path: str
    source: str
    text: str


def read_pages() -> list[Page]:
    """Every page, with the links as in its file."""
    own = {f"docs/{path.relative_to(DOCS).as_posix()}": path for path in sorted(DOCS.glob("**/*.md"))}
    pages = [Page(name.removeprefix("docs/"), name, path.read_text("utf-8")) for name, path in own.items()]
    pages += [
        Page(path, source, (ROOT / source).read_text("utf-8"))
        for source, path in _ELSEWHERE.items()
        if (ROOT / source).exists()
    ]
    return pages


def with_site_links(page: Page, repository: str) -> str:
    """The page's text with the links that the site needs.

    `repository` is the address of the sources; if it is empty, a link to a source is only its text.
    """

    def rewrite(match: re.Match[str]) -> str:
        text, target = match["text"], match["target"]
        if re.match(r"[a-z]+:|#|//", target):
            return match[0]
        path, _, fragment = target.partition("#")
        place = normpath(f"{Path(page.source).parent.as_posix()}/{unquote(path)}")
        if not (ROOT / place).exists():
            return match[0]  # for the builder to complain of
        found = find_site_path(place)
        if found is not None:
            link = relpath(found, Path(page.path).parent.as_posix()) + (f"#{fragment}" if fragment else "")
        elif repository:
            kind = "tree" if (ROOT / place).is_dir() else "blob"
            link = f"{repository}/{kind}/main/{place}"
        else:
            return text[1:-1]
        return f"{text}({link})"

    return _in_prose(page.text, lambda line: _outside_code(line, rewrite))


def find_site_path(place: str) -> str | None:
    """Where a file of the repository is on the site, or None."""
    if place in _ELSEWHERE or place in _INSTEAD:
        return _ELSEWHERE.get(place) or _INSTEAD[place]
    if (ROOT / place).is_dir():
        place = f"{place}/index.md"
    return place.removeprefix("docs/") if place.startswith("docs/") and (ROOT / place).is_file() else None


def find_repository() -> str:
    """The address of the repository, from pyproject.toml; empty if it names none."""
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"].get("urls", {})
    return next((urls[name].rstrip("/") for name in ("Source", "Repository") if name in urls), "")


def title_of(text: str) -> str:
    """The first heading of a page, without its markup."""
    found = re.search(r"^# +(.+?)\s*$", text, re.MULTILINE)
    return re.sub(r"[`*]", "", found[1]) if found else ""


def _in_prose(text: str, change: Callable[[str], str]) -> str:
    """Change the paragraphs, and no code block. A link may span two lines."""
    done: list[str] = []
    prose: list[str] = []
    fence = ""
    for line in text.splitlines(keepends=True):
        found = _FENCE.match(line)
        if not fence and not found:
            prose.append(line)
            continue
        if prose:
            done.append(change("".join(prose)))
            prose = []
        if fence and found and found[1].startswith(fence) and not line.strip().strip(fence[0]):
            fence = ""
        elif not fence and found:
            fence = found[1]
        done.append(line)
    return "".join([*done, change("".join(prose))])


def with_stacked_tables(text: str) -> str:
    """The text with each wide table of prose marked: on a narrow screen its rows are stacked.

    The heads of its columns are given to the style sheet, which shows them beside the cells.
    """
    return _in_prose(text, lambda prose: _TABLE.sub(_mark_table, prose))


def _mark_table(found: re.Match[str]) -> str:
    rows = [_CELL_END.split(line.strip().strip("|")) for line in found[0].splitlines()]
    has_prose = any(len(cell) > _PROSE for row in rows[2:] for cell in row)
    if len(rows[0]) < 3 or not has_prose:
        return found[0]
    heads = "".join(
        f"--head-{place}: '{re.sub(r'[^A-Za-z0-9 ,.-]', '', cell).strip()}';"
        for place, cell in enumerate(rows[0], start=1)
    )
    return f'<div class="stacked" style="{heads}" markdown="1">\n\n{found[0].rstrip()}\n\n</div>\n'


_TABLE = re.compile(r"^\|.*\n\|[ :|-]+\n(?:\|.*(?:\n|\Z))+", re.MULTILINE)
_CELL_END = re.compile(r"(?<!\\)\|")
_PROSE = 60
"""A cell with more characters is prose, which is read in lines of its own on a narrow screen."""


def _outside_code(text: str, rewrite: Callable[[re.Match[str]], str]) -> str:
    """Rewrite the links of a text, but not what only looks like a link inside `code`."""
    code = [match.span() for match in _CODE.finditer(text)]

    def unless_code(match: re.Match[str]) -> str:
        inside = any(start < match.start() and match.end() < end for start, end in code)
        return match[0] if inside else rewrite(match)

    return _LINK.sub(unless_code, text)

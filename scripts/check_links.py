"""Links of all pages in Markdown: files and #anchors must exist, addresses must be well formed.

Without arguments, from anywhere. Prints every dead link with its line; status 1 if there is one.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parent.parent
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")
_CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)")
_INLINE = re.compile(r"\]\(\s*<?([^\s)>]+)>?(?:\s+[\"'(][^)]*)?\s*\)")
_REFERENCE = re.compile(r"^ {0,3}\[[^\]]+\]:\s*<?([^\s>]+)>?")
_HTML = re.compile(r"<(?:a|img)\b[^>]*?\b(?:href|src)=[\"']([^\"']+)[\"']", re.IGNORECASE)
_HEADING = re.compile(r"^ {0,3}#{1,6}\s+(.*?)\s*#*\s*$")
_ANCHOR = re.compile(r"<a\b[^>]*?\b(?:id|name)=[\"']([^\"']+)[\"']", re.IGNORECASE)
_MARKUP = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")


def prose(page: Path) -> Iterator[tuple[int, str]]:
    """Line number and text of what is not in a code block."""
    fence = ""
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        found = _FENCE.match(line)
        if fence:
            closes = found and found[1].startswith(fence) and not line.strip().strip(fence[0])
            fence = "" if closes else fence
        elif found:
            fence = found[1]
        else:
            yield number, line


def links(page: Path) -> Iterator[tuple[int, str]]:
    for number, line in prose(page):
        text = _CODE.sub("", line)
        for pattern in (_INLINE, _REFERENCE, _HTML):
            for found in pattern.finditer(text):
                yield number, found[1]


def anchors(page: Path) -> set[str]:
    """The ids a Markdown page has on a code host: its headings, and `<a id=...>`."""
    found: set[str] = set()
    times: dict[str, int] = {}
    for _, line in prose(page):
        found.update(_ANCHOR.findall(line))
        if heading := _HEADING.match(line):
            slug = _slug(heading[1])
            times[slug] = times.get(slug, -1) + 1
            found.add(f"{slug}-{times[slug]}" if times[slug] else slug)
    return found


def _slug(heading: str) -> str:
    text = _MARKUP.sub(r"\1", heading).lower()
    return "".join("-" if char == " " else char for char in text if char.isalnum() or char in " -_")


def fault(page: Path, link: str) -> str | None:
    """What is wrong with one link, or None."""
    try:
        parts = urlsplit(link)
    except ValueError as error:
        return str(error)
    if parts.scheme == "mailto":
        return None if "@" in parts.path else "no address"
    if parts.scheme or parts.netloc:
        return None if parts.scheme in ("http", "https") and parts.hostname else "not an address"
    return _fault_here(page, unquote(parts.path), unquote(parts.fragment))


def _fault_here(page: Path, path: str, fragment: str) -> str | None:
    if path.startswith("/"):
        return "a path from the root of a host"
    target = (page.parent / path).resolve() if path else page
    if not target.is_relative_to(ROOT) or not target.exists():
        return "no such file"
    if fragment and target.suffix == ".md" and fragment not in anchors(target):
        return "no such heading"
    return None


def main() -> int:
    dead = [
        f"{page.relative_to(ROOT)}:{number}: {link}: {wrong}"
        for page in (*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("[de]*/**/*.md")))
        for number, link in links(page)
        if (wrong := fault(page, link)) is not None
    ]
    print("\n".join(dead) or "all links lead somewhere")
    return 1 if dead else 0


if __name__ == "__main__":
    sys.exit(main())

"""Mermaid diagrams as SVG, because Mermaid itself would be loaded from a CDN by each reader.

`scripts/docs --diagrams` draws them, with Node and npm, into `diagrams/`; the pictures are committed, so
building the site needs neither. A diagram that was not drawn yet is shown as its text.
"""

import hashlib
import re
import subprocess
from pathlib import Path

from docs_site.pages import ROOT, Page

_DRAWN = Path(__file__).parent / "diagrams"
_PACKAGE = "beautiful-mermaid@1.1.3"
_WORK = ROOT / ".cache" / "diagrams"
_DIAGRAM = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_WEB_FONT = re.compile(r"^\s*@import url\(.*\n", re.MULTILINE)
_DRAW = """
import { readFileSync } from 'node:fs'
import { renderMermaidSVG } from 'beautiful-mermaid'
const colours = { bg: 'var(--md-default-bg-color)', fg: 'var(--md-default-fg-color)' }
process.stdout.write(renderMermaidSVG(readFileSync(0, 'utf8'), { ...colours, transparent: true }))
"""


def show_diagrams(text: str) -> str:
    """A page's text with its diagrams as pictures, in the colours of the site."""

    def show(match: re.Match[str]) -> str:
        drawn = _find_drawing(match[1])
        if not drawn.exists():
            return f"```text\n{match[1]}```"
        return f'<figure class="diagram">\n{drawn.read_text("utf-8").strip()}\n</figure>'

    return _DIAGRAM.sub(show, text)


def find_undrawn(pages: list[Page]) -> list[str]:
    """The pages with a diagram that was not drawn since it changed."""
    return [
        page.source
        for page in pages
        if any(not _find_drawing(diagram).exists() for diagram in _DIAGRAM.findall(page.text))
    ]


def draw_diagrams(pages: list[Page]) -> None:
    """Draw every diagram anew, and remove pictures that no page has any more."""
    _WORK.mkdir(parents=True, exist_ok=True)
    (_WORK / "draw.mjs").write_text(_DRAW, "utf-8")
    subprocess.run(["npm", "install", "--silent", "--prefix", str(_WORK), _PACKAGE], check=True, timeout=300)
    for picture in _DRAWN.glob("*.svg"):
        picture.unlink()
    _DRAWN.mkdir(exist_ok=True)
    for diagram in (found for page in pages for found in _DIAGRAM.findall(page.text)):
        command = ["node", str(_WORK / "draw.mjs")]
        done = subprocess.run(command, input=diagram, capture_output=True, text=True, check=True, timeout=60)
        _find_drawing(diagram).write_text(_WEB_FONT.sub("", done.stdout) + "\n", "utf-8")


def _find_drawing(diagram: str) -> Path:
    return _DRAWN / f"{hashlib.sha256(diagram.encode()).hexdigest()[:12]}.svg"

"""The code blocks of every page."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = (
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").rglob("README.md")),
)
_BLOCK = re.compile(
    r"^(?:<!-- (?P<note>[^\n]+) -->\n)?(?P<indent> *)```(?P<language>\w*)[^\n]*\n"
    r"(?P<code>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    page: str
    line: int
    language: str
    code: str
    note: str
    """The comment on the line before, if there is one."""

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


def read_blocks() -> Iterator[Block]:
    for page in PAGES:
        text = page.read_text()
        for found in _BLOCK.finditer(text):
            line = text.count("\n", 0, found.start("indent")) + 1
            indent = re.compile(rf"^{found['indent']}", re.MULTILINE)
            yield Block(
                page.relative_to(ROOT).as_posix(),
                line,
                found["language"],
                indent.sub("", found["code"]),
                found["note"] or "",
            )


BLOCKS = list(read_blocks())

"""Run the snippets of a page."""

import logging
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parents[2]


RUN_ELSEWHERE = {
    "docs/commands.md": "tests/reports/test_typed_contracts.py",
    "docs/emulator.md": "tests/emulator/test_docs.py",
    "docs/testing-frameworks.md": "tests/testing/test_docs.py",
    "docs/testing-your-app.md": "tests/testing/test_docs.py",
}
"""Pages whose Python blocks belong together, and the tests that run them."""
PAGES = (
    "README.md",
    *(
        page.relative_to(ROOT).as_posix()
        for page in sorted((ROOT / "docs").glob("**/*.md"))
        if page.relative_to(ROOT).as_posix() not in RUN_ELSEWHERE and "```python" in page.read_text()
    ),
)


_SNIPPET = re.compile(
    r"^(?:<!-- pays: (?P<pays>.+?) -->\n)?```python\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True)
class Snippet:
    place: str
    code: str
    pays: tuple[str, ...]

    @property
    def takes_fixtures(self) -> bool:
        """Whether it is a test for pytest to run; see `test_readme_install.py`."""
        return re.search(r"^def test_\w+\(\w", self.code, re.MULTILINE) is not None

    @property
    def makes_an_app(self) -> bool:
        return re.search(r"^app = ", self.code, re.MULTILINE) is not None


def snippets() -> list[Snippet]:
    found: list[Snippet] = []
    for page in PAGES:
        text = (ROOT / page).read_text()
        for match in _SNIPPET.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            pays = tuple(match["pays"].split(", ")) if match["pays"] else ()
            found.append(Snippet(f"{page}:{line}", match["code"], pays))
    return found


SNIPPETS = snippets()


APPS = [one for one in SNIPPETS if one.makes_an_app]


def run(code: str, name: str = "snippet") -> Any:
    """The snippet as a module of its own."""
    module = ModuleType(name)
    sys.modules[name] = module
    root = logging.getLogger()
    level, handlers = root.level, [*root.handlers]
    try:
        exec(compile(code, name, "exec"), vars(module))
    finally:
        # Litestar sets up the logging of the whole process, and so of all later tests.
        root.setLevel(level)
        root.handlers[:] = handlers
    return module

"""Every block of the pages on testing is a file of a user's project, and its tests pass there."""

import re
from pathlib import Path

import pytest

from tests.testing.suites import run

DOCS = Path(__file__).parents[2] / "docs"
TEXT = "".join((DOCS / name).read_text() for name in ("testing-your-app.md", "testing-frameworks.md"))
_BLOCK = re.compile(r"^(?:<!-- file: (\S+) -->\n)?```(?:python|ini)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILES: dict[str, str] = dict(_BLOCK.findall(TEXT))


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> str:
    project = tmp_path_factory.mktemp("project")
    for name, text in FILES.items():
        (project / name).write_text(text)
    return run(project)


def test_each_block_names_its_file() -> None:
    assert "" not in FILES
    assert len(FILES) == len(_BLOCK.findall(TEXT))


@pytest.mark.parametrize("name", [name for name in FILES if name.startswith("test_")])
def test_the_recipe_works(name: str, printed: str) -> None:
    written = re.findall(r"^(?:async )?def (test_\w+)", FILES[name], re.MULTILINE)
    passed = set(re.findall(rf"^PASSED {name}::(\w+)", printed, re.MULTILINE))

    assert written
    assert passed == set(written), printed


def test_nothing_fails(printed: str) -> None:
    assert re.search(r"^=+ \d+ passed in ", printed, re.MULTILINE), printed

"""`docs/contributing/spec-coverage.md` names tests: each of them exists, and no row is without one."""

import ast
import re
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "contributing" / "spec-coverage.md"
NAMED = re.compile(r"`(test_\w+\.py)::(test_\w+)`")
SECTIONS = {
    "What the service does",
    "Resources and their fields",
    "States and transitions",
    "Endpoints",
    "Pagination rules",
    "Authentication",
    "Errors",
    "Limits",
    "Versioning",
}


def existing() -> set[tuple[str, str]]:
    """Every test function of this folder, with its file."""
    return {
        (path.name, node.name)
        for path in HERE.glob("test_*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test_")
    }


def rows() -> list[str]:
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("|")]
    return [line for line in lines if not line.startswith(("|---", "| Line ", "| Rule "))]


def test_every_test_the_page_names_exists() -> None:
    named = set(NAMED.findall(PAGE.read_text()))
    assert len(named) > 100
    assert named - existing() == set()


def test_every_row_names_a_test() -> None:
    assert len(rows()) > 90
    assert [row for row in rows() if not NAMED.search(row)] == []


def test_every_section_of_the_specification_is_there() -> None:
    assert set(re.findall(r"^## (.+)$", PAGE.read_text(), re.MULTILINE)) == SECTIONS

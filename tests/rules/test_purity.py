"""Rules and protocol data never ask for the time by themselves; pyproject.toml forbids them the rest."""

from pathlib import Path

import pytest

import faregate

SOURCE = Path(faregate.__file__).parent
PURE = sorted(path for package in ("core", "rules", "x402") for path in (SOURCE / package).rglob("*.py"))


@pytest.mark.parametrize("path", PURE, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_pure_module_does_not_ask_for_the_time(path: Path) -> None:
    text = path.read_text()
    for call in ("datetime.now", "datetime.utcnow", "date.today", "import uuid", "from uuid"):
        assert call not in text

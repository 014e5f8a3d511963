"""What is left out on a store is there: a test that is renamed runs everywhere again."""

import re
from pathlib import Path

import pytest

from .stores import MEMORY_ONLY


@pytest.mark.parametrize("name", MEMORY_ONLY)
def test_what_runs_in_memory_only_exists(name: str) -> None:
    module, _, function = name.partition("::")
    source = (Path(__file__).parent / f"{module}.py").read_text()
    assert re.search(rf"^(async )?def {function or 'test_'}", source, re.MULTILINE)

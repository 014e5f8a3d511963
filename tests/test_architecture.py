"""What is written about the tree agrees with it: the picture of the imports, and the lists of slow tests."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import LONG, SLOW

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / "scripts" / "import_graph.py"


def test_the_import_graph_is_current() -> None:
    result = subprocess.run([sys.executable, SCRIPT, "--check"], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("prefix", sorted({*LONG, *SLOW}))
def test_each_prefix_of_slow_tests_matches_a_path(prefix: str) -> None:
    assert [*ROOT.glob(f"{prefix}*")], f"tests/conftest.py names {prefix}, which does not exist"

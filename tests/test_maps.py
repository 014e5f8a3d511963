"""Who looks for a module finds it on a map, in the docstring of its package."""

import itertools
import re
from pathlib import Path
from types import ModuleType

import pytest

import faregate
import faregate.emulator


@pytest.mark.parametrize("package", [faregate, faregate.emulator], ids=lambda package: package.__name__)
def test_every_module_is_on_the_map(package: ModuleType) -> None:
    """Once each, and nothing else: rows of a label, names, and maybe a word about them."""
    rows = re.findall(r"^\S+(?: \S+)*  +(.+)$", package.__doc__ or "", re.MULTILINE)
    names = [re.sub(r" \(.*?\)|:.*", "", row).split(", ") for row in rows]
    here = Path(package.__file__ or "").parent
    there = [path.stem for path in here.glob("*.py") if path.stem != "__init__"]
    folders = [f"{path.parent.name}/" for path in here.glob("*/__init__.py")]
    assert sorted(itertools.chain(*names)) == sorted(there + folders)

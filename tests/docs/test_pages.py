"""What the reference pages list is complete."""

import re

import pytest

from faregate.core.interfaces import Journal
from faregate.journals.store import RowStore
from tests.docs.blocks import ROOT

SOURCE = ROOT / "src" / "faregate"
_CODES = (
    r"_build\([^,()]+, \"(\w+)\"",
    r"build_refused\(\s*\d+, \"(\w+)\"",
    r"\.refuse\(\d+, \"(\w+)\"",
    r"BadProof\(\d+, \"(\w+)\"",
)


def test_each_code_that_a_payer_can_get_is_listed() -> None:
    places = [*(SOURCE / "core").rglob("*.py"), *(SOURCE / "checkout").rglob("*.py")]
    used = {code for path in places for pattern in _CODES for code in re.findall(pattern, path.read_text())}
    used |= set(re.findall(r"^    code = \"(\w+)\"$", (SOURCE / "errors.py").read_text(), re.MULTILINE))
    page = (ROOT / "docs" / "errors.md").read_text()
    rows = [line for line in page.partition("## What your code can catch")[0].splitlines() if "`" in line]
    listed = {code for row in rows for code in re.findall(r"`([a-z]+(?:_[a-z]+)*)`", row)}
    assert len(used) > 15
    assert used - listed == set(), "docs/errors.md lacks them"


@pytest.mark.parametrize("protocol", [RowStore, Journal])
def test_each_method_of_a_journal_that_one_may_write_is_named(protocol: type) -> None:
    page = (ROOT / "docs" / "journals-your-own.md").read_text()
    named = set(re.findall(r"`(\w+)[(`]", page))
    methods = {name for name in vars(protocol) if not name.startswith("_")}
    assert len(methods) > 10
    assert methods - named == set(), "docs/journals-your-own.md lacks them"

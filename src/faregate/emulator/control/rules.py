"""Rules for how payments end in one environment, and whom a rule can be about. Pure."""

from typing import Any, Final

from faregate.emulator.settlement import EVERYTHING
from faregate.service.goods import Settlement
from faregate.service.state import Books
from faregate.service.test_payers import TEST_PAYERS

Json = dict[str, Any]
_TEST: Final = {payer.address.lower(): payer for payer in TEST_PAYERS.values()}


def rules(books: Books) -> Json:
    """`set` has a rule for each target that differs from `own`, what it began with; null is no rule."""
    found = {EVERYTHING: (books.settlement, None), **_of_resources(books), **_of_payers(books)}
    return {
        "set": [
            {"target": target, "name": _name(target), "rule": _shown(rule), "own": _shown(own)}
            for target, (rule, own) in found.items()
            if rule != own
        ],
        "resources": list(books.catalog.listings),
        "payers": [[one.address, one.name] for one in _test_payers(books)],
    }


_Pair = tuple[Settlement | None, Settlement | None]
"""The rule there is, and the one there was at first."""


def _of_resources(books: Books) -> dict[str, _Pair]:
    listings = books.catalog.listings
    return {key: (one.settlement, one.plan.settlement) for key, one in listings.items()}


def _of_payers(books: Books) -> dict[str, _Pair]:
    own = {one.address.lower(): one.settlement for one in _test_payers(books)}
    there = books.payer_settlements
    return {address: (there.get(address), own.get(address)) for address in {**own, **there}}


def _test_payers(books: Books) -> list[Any]:
    return list(TEST_PAYERS.values()) if books.environment == "test" else []


def _name(target: str) -> str | None:
    """The name of a test payer; what a resource is called is its key."""
    return _TEST[target].name if target in _TEST else None if target.startswith("0x") else target


def _shown(rule: Settlement | None) -> Json | None:
    return None if rule is None else rule.model_dump(mode="json", exclude_defaults=True)

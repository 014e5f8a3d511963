"""Suggest the name that somebody meant."""

import difflib
from collections.abc import Iterable


def nearest_name(name: str, known: Iterable[str]) -> str:
    """A question after the known name that is nearest, to end a sentence with; "" if none is near."""
    found = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.75)
    return f" Did you mean {found[0]}?" if found else ""

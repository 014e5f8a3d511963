"""JSON as pydantic reads and writes it: fast, strict, and bounded in depth whatever the recursion limit is.

Its module is loaded with the first call: that takes a tenth of the time of importing the whole paywall.
"""

from functools import cache
from types import ModuleType
from typing import Any


def from_json(text: bytes) -> Any:
    """Parse a value. Raises `ValueError`."""
    return _load().from_json(text, allow_inf_nan=False)


def to_json(value: object) -> bytes:
    written: bytes = _load().to_json(value)
    return written


@cache
def _load() -> ModuleType:
    import pydantic_core

    return pydantic_core

"""JSON as pydantic reads and writes it: fast, strict, and bounded in depth whatever the recursion limit is.

Its module is loaded with the first call: that takes a tenth of the time of importing the whole paywall.
"""

from functools import cache
from types import ModuleType
from typing import Any


@cache
def load() -> ModuleType:
    """Load the module that reads and writes."""
    import pydantic_core

    return pydantic_core


def from_json(text: bytes) -> Any:
    """Parse a value. Raises `ValueError`."""
    return load().from_json(text, allow_inf_nan=False)


def to_json(value: object) -> bytes:
    written: bytes = load().to_json(value)
    return written


def check_unique_names(pairs: list[tuple[str, object]]) -> None:
    """Refuse two values of one name: some readers take the first, some the last."""
    if len({name for name, _ in pairs}) < len(pairs):
        raise ValueError("one name has two values")


def describe_fault(error: Exception) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)

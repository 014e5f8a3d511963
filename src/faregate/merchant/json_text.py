"""JSON as pydantic reads and writes it: fast, strict, and bounded in depth whatever the recursion limit is.

Its module is loaded with the first call: that takes a tenth of the time of importing the whole paywall.
"""

import json
from functools import cache
from types import ModuleType
from typing import Any, cast

from faregate.core.models import Response
from faregate.errors import BadAnswer


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


def parse_object(reply: Response) -> dict[str, Any]:
    """Parse the body as a JSON object, or raise `BadAnswer`. The caller checks its fields."""
    try:
        # Strict, and bounded in depth whatever the process has set as its recursion limit.
        core = _load()
        parsed = core.from_json(reply.body, allow_inf_nan=False)
        # A serialized dict has every name once. If it equals the reply, so has the reply.
        if core.to_json(parsed) != reply.body:
            json.loads(reply.body, object_pairs_hook=check_unique_names)
    except (ValueError, RecursionError) as error:
        raise BadAnswer(f"HTTP {reply.status}: not a JSON object: {describe_fault(error)}") from None
    if not isinstance(parsed, dict):
        raise BadAnswer(f"HTTP {reply.status}: not a JSON object")
    return cast("dict[str, Any]", parsed)


def check_unique_names(pairs: list[tuple[str, object]]) -> None:
    """Refuse two values of one name: some readers take the first, some the last."""
    if len({name for name, _ in pairs}) < len(pairs):
        raise ValueError("one name has two values")


def describe_fault(error: Exception) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)

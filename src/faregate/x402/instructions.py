"""Compare payment instructions (`PAYMENT-REQUIRED` header values). Pure.

A settled authorization is public: it stands in the chain's calldata. If the instructions are the same for
everybody, a stranger can rebuild the whole `PAYMENT-SIGNATURE` header from it, byte for byte. A fresh
unpredictable value in `accepts[].extra`, which clients echo in `accepted`, prevents that.
"""

import base64
import json
import math
import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Any, Final, cast

UNPREDICTABLE_BITS: Final = 72
"""Of a random value of 128 bits, so many differ for certain; of a time, a counter or a short value never."""
_MAX_HEADER: Final = 16 * 1024
_MAX_BRACKETS: Final = 2_000
_MAX_VALUE: Final = 1024
_SHORTEST_CONSTANT: Final = 4
_ALPHABETS: Final = (
    (re.compile(r"[0-9]+", re.ASCII), math.log2(10)),
    (re.compile(r"[0-9a-f]+|[0-9A-F]+", re.ASCII), 4.0),
    (re.compile(r"[0-9a-z]+|[0-9A-Z]+", re.ASCII), 5.0),
)
_MIXED_BITS: Final = math.log2(62)


def are_unpredictable(first: str, second: str) -> bool:
    """Return whether every entry of `accepts` carries a fresh random value.

    Takes the `PAYMENT-REQUIRED` header values of two 402 responses to the same request. A value is fresh if
    it stands at the same place in `extra` of both entries and differs in at least 72 bits: what is equal in
    both, such as a prefix, is not counted. Only `extra` is looked at, because the
    other fields of an entry are in the calldata. Never raises: what cannot be read is not unpredictable.
    """
    try:
        entries = [_read_entries(header) for header in (first, second)]
        if not entries[0] or len(entries[0]) != len(entries[1]):
            return False
        return all(_has_fresh_value(*pair) for pair in zip(*entries, strict=True))
    except (ValueError, RecursionError):
        return False


def parse_json(text: bytes) -> Any:
    """Parse a stranger's JSON in UTF-8. Raises `ValueError`, also for too many brackets, or `RecursionError`.

    `json` calls itself for every bracket. Where other code has raised the recursion limit (py_ecc does, which
    eth-account imports), deep nesting ends the process instead of raising.
    """
    if text.count(b"[") + text.count(b"{") > _MAX_BRACKETS:
        raise ValueError(f"more than {_MAX_BRACKETS} brackets")
    return json.loads(text.decode())


def _read_entries(header: str) -> list[object]:
    if len(header) > _MAX_HEADER:
        return []
    entries = _get(parse_json(base64.b64decode(header, validate=True)), "accepts")
    return cast("list[object]", entries) if isinstance(entries, list) else []


def _get(holder: object, name: str) -> object:
    return cast("dict[str, object]", holder).get(name) if isinstance(holder, dict) else None


def _has_fresh_value(first: object, second: object) -> bool:
    values = dict(_find_values(_get(second, "extra")))
    # What only one of them has counts as equal: its absence says nothing of the value.
    return any(
        _count_fresh_bits(value, values.get(place, value)) >= UNPREDICTABLE_BITS
        for place, value in _find_values(_get(first, "extra"))
    )


def _find_values(holder: object) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield every string and integer inside, with its place."""
    # A stack of its own, and no recursion: a stranger chooses the depth.
    waiting: list[tuple[tuple[str | int, ...], object]] = [((), holder)]
    while waiting:
        place, value = waiting.pop()
        if isinstance(value, str) or type(value) is int:
            yield place, str(value)
        elif isinstance(value, dict):
            named = cast("dict[str, object]", value)
            waiting.extend(((*place, name), inner) for name, inner in named.items())
        elif isinstance(value, list):
            numbered = cast("list[object]", value)
            waiting.extend(((*place, number), inner) for number, inner in enumerate(numbered))


def _count_fresh_bits(first: str, second: str) -> float:
    """Return about how many bits of two values differ as random ones do; 0 if they are equal.

    What both have in common, wherever it stands, is a constant; so is a run that happens to be in both.
    """
    first, second = (re.sub(r"[^a-zA-Z0-9]", "", value[:_MAX_VALUE]) for value in (first, second))
    blocks = SequenceMatcher(None, first, second, autojunk=False).get_matching_blocks()
    # From the end, so that the places of earlier blocks stay true.
    for start, other, size in reversed(blocks):
        if size >= _SHORTEST_CONSTANT:
            first = first[:start] + first[start + size :]
            second = second[:other] + second[other + size :]
    bits = next((bits for alphabet, bits in _ALPHABETS if alphabet.fullmatch(first + second)), _MIXED_BITS)
    return min(len(first), len(second)) * bits if first != second else 0.0

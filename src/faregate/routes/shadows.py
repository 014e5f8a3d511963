"""Sample paths that show whether an earlier route shadows a paid one, and the messages about it.

The adapters do not compare patterns: they ask the router with sample paths, made of the pattern of the paid
route. The route is shadowed if an earlier one answers all of them. A route that answers only some, such as
`/items/special` before `/items/{id}`, shadows nothing.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple


class Parameter(NamedTuple):
    """A parameter of a pattern, with the regular expression of its values."""

    regex: str


Part = str | Parameter
"""A part of a pattern: plain text, or a parameter."""

_RUNS: Final = tuple(char * length for length in range(1, 41) for char in "7qQ")
VALUES: Final = (
    # Values that few patterns match come first: of a route that is reached, one sample is enough.
    "Faregate~sample, 7",
    "faregate~sample/7.25",
    "faregate.sample",
    "faregate-sample",
    "faregate_sample",
    "FaregateSample7",
    "faregatesample",
    "FAREGATESAMPLE",
    "faregate.sample.json",
    "sample.pdf",
    "sample@faregate.invalid",
    "7531.25",
    "-7531.25",
    "7531",
    "-7531",
    "0.75",
    "c0ffee7",
    "6f1c9d1e-7b53-4a7d-8c25-7531c0ffee25",
    "6f1c9d1e7b534a7d8c257531c0ffee25",
    "2031-07-25",
    "2031-07-25T07:53:10",
    "2031/07/25",
    "en",
    "en-GB",
    "/faregate",
    "/7",
    "faregate/",
    *_RUNS,
)
"""Values to try for a parameter."""

HOSTS: Final = ("faregate-sample.invalid", "a.faregate-sample.invalid", "localhost", "127.0.0.1", "en", "q7")

NO_VALUE: Final = "(?!)"
"""The regular expression of a parameter whose values are not known."""

_WORD: Final = re.compile(r"[A-Za-z0-9_.~-]+")


def build_samples(parts: Sequence[Part], values: tuple[str, ...] = VALUES) -> list[str]:
    """Build texts that a pattern matches. An empty list if no value fits one of its parameters."""
    choices = [[part] if isinstance(part, str) else _list_values(part.regex, values) for part in parts]
    if not all(choices):
        return []
    longest = max(map(len, choices), default=1)
    samples = ("".join(choice[at % len(choice)] for choice in choices) for at in range(longest))
    return list(dict.fromkeys(samples))


@lru_cache
def _list_values(regex: str, values: tuple[str, ...]) -> list[str]:
    try:
        compiled = re.compile(regex)
    except re.error:
        return []
    # The words of the expression itself are the values of one such as `en|de`.
    return [value for value in (*values, *_WORD.findall(regex)) if compiled.fullmatch(value)]


def describe_shadows(shadows: Mapping[tuple[str, str, str], Sequence[str]]) -> Iterator[str]:
    """Describe shadowed routes: the methods by place, offer and what answers instead."""
    for (place, sells, other), methods in shadows.items():
        yield (
            f"{','.join(methods)} {place} sells {sells!r} and is never reached: {other} comes first and "
            "answers in its place, without this price. Declare the paid route first, or change one of the "
            "two paths."
        )

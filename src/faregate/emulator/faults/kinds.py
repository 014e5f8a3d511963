"""The kinds of fault there are, and which parameters each of them takes and needs."""

from typing import Any, Final, Literal, get_args

Kind = Literal[
    "latency",
    "silence",
    "reset",
    "cut",
    "status",
    "second-402",
    "garbage",
    "missing-header",
    "doubled-header",
    "changed-body",
    "stale-read",
    "refused-repeat",
    "guessable-instructions",
]
When = Literal["before", "after"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
LONGEST: Final = 600.0
"""Seconds that an answer may be late. Silence ends after as many, too."""

TAKES: Final[dict[Kind, tuple[str, ...]]] = {
    "latency": ("seconds",),
    "silence": ("when",),
    "reset": ("when",),
    "status": ("status", "when", "retry_after"),
    "second-402": ("when",),
    "missing-header": ("header",),
    "doubled-header": ("header", "value"),
    "changed-body": ("fields",),
    "stale-read": ("seconds",),
    "refused-repeat": ("status",),
}
NEEDS: Final[dict[Kind, str]] = {
    "latency": "seconds",
    "status": "status",
    "missing-header": "header",
    "doubled-header": "header",
    "changed-body": "fields",
}
DEFAULTS: Final[dict[Kind, dict[str, Any]]] = {
    "silence": {"when": "after"},
    "reset": {"when": "after"},
    "status": {"when": "before"},
    "second-402": {"when": "after"},
    "refused-repeat": {"status": 409},
}
PARAMETERS: Final = ("seconds", "when", "status", "retry_after", "header", "value", "fields")

"""The model of a fault: its kind, the calls it affects, and how often. Its JSON has the same fields."""

from collections.abc import Iterable
from typing import Annotated, Any, Final, Literal, Self, cast, get_args

from pydantic import AfterValidator, Field, JsonValue, model_validator
from pydantic import StringConstraints as Text

from faregate.emulator.calls import CallInfo
from faregate.emulator.settlement_control import is_address
from faregate.rules.account import FrozenModel, find_address_fault
from faregate.rules.published_payers import TEST_PAYERS
from faregate.rules.routes import Operation
from faregate.x402.tokens import Environment

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
    "predictable-instructions",
]
When = Literal["before", "after"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
MAX_SECONDS: Final = 600.0
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


_MATCH_FIELDS: Final = ("operation", "key", "environment", "resource", "payer", "transaction")
_SERVER_HEADERS: Final = ("connection", "content-length", "date", "transfer-encoding")


def _resolve_address(payer: str) -> str:
    if not is_address(payer) and payer not in TEST_PAYERS:
        raise ValueError(f"{payer!r} is no address and no test payer; these are {', '.join(TEST_PAYERS)}")
    if payer in TEST_PAYERS:
        return TEST_PAYERS[payer].address
    if (fault := find_address_fault(payer)) is not None:
        raise ValueError(f"{payer!r} {fault}")
    return payer


Payer = Annotated[str, AfterValidator(_resolve_address)]
"""An address, or the name of a test payer."""


class Fault(FrozenModel):
    """One fault. It affects every call that has all of the given properties (`operation` to `transaction`).

    `when` is before or after the service has acted: before, nothing has changed. It affects `times`
    calls, by default one, with None all; or the calls that `probability` picks, which are the same for each
    `seed`. `header` cannot be one that the server itself writes.

    `emulator.faults.add(Fault(kind="cut", operation="complete"))` switches a fault on. `faults/apply.py`
    applies it to a call; `emulator/asgi.py` and `emulator/transports.py` break the connection, if it says so.

    | kind | parameters | what happens |
    |---|---|---|
    | `latency` | `seconds` | the service acts at once, its answer is late |
    | `silence` | `when` | no answer at all |
    | `reset` | `when` | the connection is reset |
    | `cut` | | the connection ends in the middle of the body |
    | `status` | `status`, `when`, `retry_after` | this error: 400 to 599 |
    | `second-402` | `when` | 402, although a payment was sent |
    | `garbage` | | a body that is not JSON |
    | `missing-header` | `header` | the answer without this header |
    | `doubled-header` | `header`, `value` | this header twice; the second may say something else |
    | `changed-body` | `fields` | the answer with these fields replaced |
    | `stale-read` | `seconds` | the state of so long ago, or before the last change |
    | `refused-repeat` | `status` | a repeated complete is refused: 409 or 404 |
    | `predictable-instructions` | | 402 of access: instructions that are the same for everybody |
    """

    kind: Kind
    operation: Operation | None = None
    key: str | None = None
    environment: Environment | None = None
    resource: str | None = None
    payer: Payer | None = None
    transaction: str | None = None
    times: Annotated[int, Field(strict=True, ge=1)] | None = 1
    probability: Annotated[float, Field(gt=0, le=1)] | None = None
    seed: int | str = 0
    when: When | None = None
    seconds: Annotated[float, Field(gt=0, le=10**9)] | None = None
    status: Annotated[int, Field(strict=True, ge=400, le=599)] | None = None
    retry_after: Annotated[int, Field(strict=True, ge=0)] | None = None
    header: Annotated[str, Text(pattern=r"^[A-Za-z0-9-]{1,100}\z")] | None = None
    value: Annotated[str, Text(pattern=r"^[\x20-\x7e]{0,16384}\z")] | None = None
    fields: dict[str, JsonValue] | None = None

    @model_validator(mode="before")
    @classmethod
    def _fill_defaults(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        values = cast("dict[str, Any]", given)
        kind = values.get("kind")
        defaults = dict[str, Any](DEFAULTS.get(cast("Kind", kind), {})) if isinstance(kind, str) else {}
        if values.get("probability") is not None:
            defaults["times"] = None
        return {**defaults, **values}

    @model_validator(mode="after")
    def _check_parameters(self) -> Self:
        parameters = [name for name in PARAMETERS if getattr(self, name) is not None]
        takes = TAKES.get(self.kind, ())
        for name in parameters:
            if name not in takes:
                raise ValueError(f"{self.kind} does not take {name!r}; it takes {_join(takes)}")
        needed = NEEDS.get(self.kind)
        if needed is not None and needed not in parameters:
            raise ValueError(f"{self.kind} needs {needed!r}")
        if self.kind == "latency" and (self.seconds or 0) > MAX_SECONDS:
            raise ValueError(f"latency is at most {MAX_SECONDS:g} seconds: use silence")
        if self.header is not None and self.header.lower() in _SERVER_HEADERS:
            raise ValueError(f"{self.header} is written by the server itself: name another header")
        if self.kind == "refused-repeat" and self.status not in (404, 409):
            raise ValueError("refused-repeat takes the status 409 or 404")
        return self

    def matches(self, info: CallInfo) -> bool:
        """Whether this call is one that the fault affects."""
        return all(
            _is_equal(wanted, getattr(info, name))
            for name in _MATCH_FIELDS
            if (wanted := getattr(self, name)) is not None
        )


def _is_equal(wanted: str, given: str | None) -> bool:
    """Compare addresses in any case, keys and ids exactly."""
    if given is None or not wanted.startswith("0x"):
        return wanted == given
    return wanted.lower() == given.lower()


def _join(names: Iterable[str]) -> str:
    return ", ".join(names) or "nothing"

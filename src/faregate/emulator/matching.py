"""Which calls are meant: an operation and what else is known of them. Pure."""

from typing import Any, Final, TypedDict, get_args

from faregate.emulator.diary import RecordedCall
from faregate.errors import ConfigurationError
from faregate.merchant.types import Environment
from faregate.service.routes import Operation
from faregate.service.test_payers import TEST_PAYERS

OPERATIONS: Final[tuple[str, ...]] = get_args(Operation)


class Match(TypedDict, total=False):
    """What may be said of a call beside its operation; what is not said may be anything.

    `resource` is an integration key, `payer` an address or the name of a test payer, `fault` the name of
    the fault it met; None is a call without one. `undone` are calls that a restore took back.
    """

    environment: Environment
    resource: str | None
    payer: str | None
    transaction: str | None
    status: int
    fault: str | None
    method: str
    undone: bool


Wanted = dict[str, Any]
"""Attributes of a call and their values."""


def wanted(operation: str | None, match: Match) -> Wanted:
    """Both as one; `ConfigurationError` for an operation that there is not."""
    if operation is not None and operation not in OPERATIONS:
        raise ConfigurationError(f"there is no operation {operation!r}; there are {', '.join(OPERATIONS)}")
    found: Wanted = {} if operation is None else {"operation": operation}
    found.update(match)
    if found.get("payer") in TEST_PAYERS:
        found["payer"] = TEST_PAYERS[found["payer"]].address
    return found


def differences(call: RecordedCall, wanted: Wanted) -> list[str]:
    """The names of what the call has otherwise."""
    return [name for name, value in wanted.items() if _plain(getattr(call, name)) != _plain(value)]


def fits(call: RecordedCall, wanted: Wanted) -> bool:
    return not differences(call, wanted)


def _plain(value: Any) -> Any:
    """Addresses are the same in any case, and so are methods."""
    return value.lower() if isinstance(value, str) else value

"""The state document: everything of one world that is not its set-up, as plain JSON. Pure.

What was set up (resources, prices, keys) is not in it, only what happened since. Nothing that can be
worked out from the rest is in it either: `restoring.py` builds that anew. A part that is left out is as
the world was set up, so that a document of a few lines is a seed.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal

from pydantic import ValidationError

from faregate.emulator.clock import ClockState
from faregate.emulator.documentparts import (
    Balance,
    Count,
    ExecutionState,
    Moment,
    PayerState,
    ResourceState,
    TransactionState,
    Use,
)
from faregate.emulator.faults.rules import FaultsState
from faregate.errors import ConfigurationError
from faregate.merchant.types import EvmAddress
from faregate.service.config import Seller
from faregate.service.goods import Part, Settlement

VERSION: Final = 1


class TimelineState(Part):
    """When something was last stamped, and the latest moment a list was answered for."""

    latest: Moment
    fence: Moment


class BooksState(Part):
    """One environment. Transactions are in the order they were made, resources in any.

    A resource that is not named, and settlements that are left out, are as the world was set up.
    """

    resources: tuple[ResourceState, ...] = ()
    settlement: Settlement | None = None
    payer_settlements: dict[EvmAddress, Settlement] | None = None
    payers: tuple[PayerState, ...] = ()
    transactions: tuple[TransactionState, ...] = ()
    executions: tuple[ExecutionState, ...] = ()


class LedgerState(Part):
    """The simulated ledger. A balance that is not named is as the world was set up."""

    balances: tuple[Balance, ...] = ()
    settled: tuple[Use, ...] = ()


class StateDocument(Part):
    """One world. Without a clock, time goes on as it is.

    `ids` and `challenges` are how many of them a source with a seed has given.
    """

    version: Literal[1]
    seller: Seller | None = None
    clock: ClockState | None = None
    timeline: TimelineState | None = None
    ids: Count | None = None
    challenges: Count | None = None
    faults: FaultsState | None = None
    ledger: LedgerState = LedgerState()
    test: BooksState = BooksState()
    live: BooksState = BooksState()


def read_document(found: StateDocument | Mapping[str, Any] | str | bytes) -> StateDocument:
    """The document in this object or JSON text.

    `ConfigurationError` says what is wrong with it, and where.
    """
    if isinstance(found, StateDocument):
        return found
    try:
        if isinstance(found, str | bytes):
            return StateDocument.model_validate_json(found)
        return StateDocument.model_validate(dict(found))
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False, include_context=False)[0]
        raise broken(place_of(fault["loc"]), fault["msg"].removeprefix("Value error, ")) from None


def broken(place: str, fault: str) -> ConfigurationError:
    return ConfigurationError(f"this is no state document: {place or 'the document'}: {fault}")


def place_of(location: tuple[int | str, ...]) -> str:
    """`("test", "payers", 0, "id")` is `test.payers[0].id`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in location).lstrip(".")

"""States as numbers: whatever they are made of stands in a table, once."""

from collections.abc import Hashable
from typing import Generic, NamedTuple, TypeVar

from tests.model.backend import How
from tests.model.flow_tree import Place
from tests.model.frozen_journal import Frozen
from tests.model.invariants import Facts
from tests.model.service import Payment

T = TypeVar("T", bound=Hashable)
ENDED = 0
"""The place of a flow that has ended."""


class Told(NamedTuple):
    """The payment, as it stands and as it came to that."""

    payment: Payment = Payment()
    facts: Facts = Facts()


class Left(NamedTuple):
    """What may still happen."""

    sweeps: int
    crashes: int
    store_faults: int


class Move(NamedTuple):
    """What happens next: a flow goes on or is gone, or the model does something by itself."""

    what: str
    flow: int = -1
    how: How = How()


State = tuple[int, ...]
"""Numbers in the tables: of the journal, of what was told, of what is left, and a place for each flow."""


class Table(Generic[T]):
    """Values by number, each once."""

    def __init__(self) -> None:
        self._numbers: dict[T, int] = {}
        self.values: list[T] = []

    def number(self, value: T) -> int:
        found = self._numbers.setdefault(value, len(self.values))
        if found == len(self.values):
            self.values.append(value)
        return found


class Tables:
    def __init__(self) -> None:
        self.journals: Table[Frozen] = Table()
        self.told: Table[Told] = Table()
        self.left: Table[Left] = Table()
        self.places: Table[Place | None] = Table()
        self.places.number(None)

    def place(self, number: int) -> Place:
        place = self.places.values[number]
        if place is None:
            raise LookupError("this flow has ended")
        return place

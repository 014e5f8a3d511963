"""The operations on one row, as values: a journal yields them, and a store performs one, or many at once."""

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

from faregate.journals.store import Record, RowStore

T = TypeVar("T")


class Find(NamedTuple):
    """Gives the row with one of these keys, without its result, or None."""

    keys: Sequence[bytes]

    def perform(self, store: RowStore) -> Record | None:
        return store.find(self.keys)


class FindResult(NamedTuple):
    """Gives the encrypted result of a row, or None."""

    key: bytes

    def perform(self, store: RowStore) -> bytes | None:
        return store.find_result(self.key)


class Insert(NamedTuple):
    """Gives whether the row was added."""

    record: Record
    candidate_keys: Sequence[bytes]
    now: float

    def perform(self, store: RowStore) -> bool:
        return store.insert(*self)


class Replace(NamedTuple):
    """Gives whether the row was changed. Raises `TransactionTaken`."""

    key: bytes
    stamp: int
    changes: Mapping[str, Any]
    durable: bool

    def perform(self, store: RowStore) -> bool:
        return store.replace(*self)


class Delete(NamedTuple):
    """Gives whether the row was deleted."""

    key: bytes
    stamp: int

    def perform(self, store: RowStore) -> bool:
        return store.delete(*self)


class BlockingCall(NamedTuple):
    """A function that may take long: an event loop runs it in a thread."""

    function: Callable[[], Any]

    def perform(self, store: RowStore) -> Any:
        return self.function()


RowOperation: TypeAlias = Find | FindResult | Insert | Replace | Delete
Operation: TypeAlias = RowOperation | BlockingCall
Procedure: TypeAlias = Generator[Operation, Any, T]
"""Yields operations, and is sent what each of them gives. Returns the answer of a journal."""


def run_procedure(procedure: Procedure[T], store: RowStore) -> T:
    """Perform its operations one after the other, in this thread."""
    try:
        operation = next(procedure)
        while True:
            try:
                given = operation.perform(store)
            except Exception as error:
                operation = procedure.throw(error)
            else:
                operation = procedure.send(given)
    except StopIteration as stop:
        answer: T = stop.value
        return answer

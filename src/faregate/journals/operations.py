"""The operations on one row, as values: a journal yields them, and a store performs one, or many at once.

A store that performs many in one transaction, or one round trip, is a `BatchStore`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar, runtime_checkable

from faregate.journals.store import Record, RowStore
from faregate.journals.writer import Writer

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
            # The procedure may handle it, as it does `TransactionTaken`. Otherwise it is raised from `throw`.
            except Exception as error:
                operation = procedure.throw(error)
            else:
                operation = procedure.send(given)
    except StopIteration as stop:
        answer: T = stop.value
        return answer


@runtime_checkable
class BatchStore(Protocol):
    """A `RowStore` whose operations on rows are the work of one `Writer` per process."""

    writer: Writer[Any]

    def prepare(self, operation: RowOperation) -> Any:
        """Make the work that performs `operation`, ready to be executed: the writer's thread has little time.

        Its result is what `operation.perform` gives.
        """
        ...


class BatchedRows(ABC):
    """The operations of a `RowStore` for callers that block, by those of a `BatchStore`."""

    writer: Writer[Any]

    @abstractmethod
    def prepare(self, operation: RowOperation) -> Any: ...

    def find(self, keys: Sequence[bytes]) -> Record | None:
        found: Record | None = self._call(Find(keys))
        return found

    def find_result(self, key: bytes) -> bytes | None:
        result: bytes | None = self._call(FindResult(key))
        return result

    def insert(self, record: Record, candidate_keys: Sequence[bytes], now: float) -> bool:
        return bool(self._call(Insert(record, candidate_keys, now)))

    def replace(self, key: bytes, stamp: int, changes: Mapping[str, Any], durable: bool) -> bool:
        return bool(self._call(Replace(key, stamp, changes, durable)))

    def delete(self, key: bytes, stamp: int) -> bool:
        return bool(self._call(Delete(key, stamp)))

    def _call(self, operation: RowOperation) -> Any:
        return self.writer.call(self.prepare(operation))

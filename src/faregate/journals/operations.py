"""The operations on one row, as values: a procedure of a journal yields them, and rows perform them.

A store that performs many in one transaction, or one round trip, is a `BatchStore`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, TypeAlias, TypeVar, runtime_checkable

from faregate.journals.store import Record, RowStore
from faregate.journals.writer import Writer

T = TypeVar("T")


class Find(NamedTuple):
    """Gives the row with one of these keys, without its result, or None."""

    keys: Sequence[bytes]

    def perform(self, rows: "Rows") -> Any:
        return rows.perform(self)

    def apply(self, store: RowStore) -> Record | None:
        return store.find(self.keys)


class FindResult(NamedTuple):
    """Gives the encrypted result of a row, or None."""

    key: bytes

    def perform(self, rows: "Rows") -> Any:
        return rows.perform(self)

    def apply(self, store: RowStore) -> bytes | None:
        return store.find_result(self.key)


class Insert(NamedTuple):
    """Gives whether the row was added."""

    record: Record
    candidate_keys: Sequence[bytes]
    now: float

    def perform(self, rows: "Rows") -> Any:
        return rows.perform(self)

    def apply(self, store: RowStore) -> bool:
        return store.insert(*self)


class Replace(NamedTuple):
    """Gives whether the row was changed. Raises `TransactionTaken`."""

    key: bytes
    stamp: int
    changes: Mapping[str, Any]
    durable: bool

    def perform(self, rows: "Rows") -> Any:
        return rows.perform(self)

    def apply(self, store: RowStore) -> bool:
        return store.replace(*self)


class Delete(NamedTuple):
    """Gives whether the row was deleted."""

    key: bytes
    stamp: int

    def perform(self, rows: "Rows") -> Any:
        return rows.perform(self)

    def apply(self, store: RowStore) -> bool:
        return store.delete(*self)


class BlockingCall(NamedTuple):
    """A function that may take long: an event loop runs it in a thread."""

    function: Callable[[], Any]

    def perform(self, rows: "Rows") -> Any:
        return rows.run(self.function)


RowOperation: TypeAlias = Find | FindResult | Insert | Replace | Delete
Operation: TypeAlias = RowOperation | BlockingCall
Procedure: TypeAlias = Generator[Operation, Any, T]
"""Yields operations, and is sent what each of them gives. Returns the answer of a journal.

The drivers of the core drive it (`core.driver`), on `Rows`."""


class Rows(Protocol):
    """What performs the operations of procedures; an async one gives awaitables."""

    def perform(self, operation: "RowOperation", /) -> Any: ...

    def run(self, function: Callable[[], Any], /) -> Any: ...


class BlockingRows:
    """The rows of a store, for threads."""

    is_async: ClassVar[Literal[False]] = False

    def __init__(self, store: RowStore) -> None:
        self._store = store

    def perform(self, operation: "RowOperation") -> Any:
        return operation.apply(self._store)

    def run(self, function: Callable[[], Any]) -> Any:
        return function()


@runtime_checkable
class BatchStore(Protocol):
    """A `RowStore` whose operations on rows are the work of one `Writer` per process."""

    writer: Writer[Any]

    def prepare(self, operation: RowOperation) -> Any:
        """Make the work that performs `operation`, ready to be executed: the writer's thread has little time.

        Its result is what `operation.apply` gives.
        """
        ...


class BatchedRows(ABC):
    """The operations of a `RowStore` for callers that block, by those of a `BatchStore`."""

    writer: Writer[Any]

    @abstractmethod
    def prepare(self, operation: RowOperation) -> Any: ...

    def find(self, keys: Sequence[bytes]) -> Record | None:
        record: Record | None = self._call(Find(keys))
        return record

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

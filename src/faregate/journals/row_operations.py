"""The operations on one row, as values, and the rows that perform them for the procedures of a journal.

A store that performs many in one transaction, or one round trip, is a `BatchStore`.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar, runtime_checkable

from faregate.journals.store import Record, RowStore
from faregate.journals.writer import Writer

T = TypeVar("T")
Run = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Runs a blocking call in a thread, and awaits its result."""


class Find(NamedTuple):
    """Gives the row with one of these keys, without its result, or None."""

    keys: Sequence[bytes]

    def apply(self, store: RowStore) -> Record | None:
        return store.find(self.keys)


class FindResult(NamedTuple):
    """Gives the encrypted result of a row, or None."""

    key: bytes

    def apply(self, store: RowStore) -> bytes | None:
        return store.find_result(self.key)


class Insert(NamedTuple):
    """Gives whether the row was added."""

    record: Record
    candidate_keys: Sequence[bytes]
    now: float

    def apply(self, store: RowStore) -> bool:
        return store.insert(*self)


class Replace(NamedTuple):
    """Gives whether the row was changed. Raises `TransactionTaken`, `PurchaseTaken`."""

    key: bytes
    stamp: int
    changes: Mapping[str, Any]
    durable: bool

    def apply(self, store: RowStore) -> bool:
        return store.replace(*self)


class Delete(NamedTuple):
    """Gives whether the row was deleted."""

    key: bytes
    stamp: int

    def apply(self, store: RowStore) -> bool:
        return store.delete(*self)


RowOperation: TypeAlias = Find | FindResult | Insert | Replace | Delete
Procedure: TypeAlias = Generator[Any, Any, T]
"""Calls `Rows` and yields what they give, an answer or an awaitable of it. Returns the answer of a journal.

The drivers of the core drive it (`core.driver`)."""


class Rows(Protocol):
    """What performs the operations of procedures; those of an event loop give awaitables."""

    def perform(self, operation: RowOperation, /) -> Any: ...

    def run(self, function: Callable[[], Any], /) -> Any:
        """Call a function that may take long: an event loop runs it in a thread."""
        ...


class BlockingRows:
    """The rows of a store, for threads."""

    def __init__(self, store: RowStore) -> None:
        self._store = store

    def perform(self, operation: RowOperation) -> Any:
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

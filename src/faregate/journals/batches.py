"""Stores that perform many operations at once: in one transaction, or one round trip."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from faregate.journals.operations import Delete, Find, FindResult, Insert, Replace, RowOperation
from faregate.journals.store import Record
from faregate.journals.writer import Writer


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

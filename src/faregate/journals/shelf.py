"""Where a stored journal keeps its rows. A shelf decides nothing: it finds, and writes on a condition.

To write a shelf for another store, fulfil `Shelf` and give it to `faregate.journals.stored.StoredJournal`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypedDict


class Record(TypedDict):
    """One row as it is stored: `proof`, `result`, `payment_response` sealed, `request` as a keyed hash.

    `stamp` is new with every write, so who read a record writes only if nobody else has since.
    `expires_at` is None exactly while something is owed; `outcome` is `succeeded`, `failed` or None.
    """

    key: bytes
    stamp: int
    fence: int
    state: str
    request: str
    transaction_id: str | None
    revision_id: str
    lease_until: float
    due_at: float
    expires_at: float | None
    delivered: bool
    redelivered: int
    holds_so_far: int
    size: int
    outcome: str | None
    proof: bytes | None
    payment_response: bytes | None
    result: bytes | None


COLUMNS = tuple(Record.__annotations__)


class TransactionTaken(Exception):
    """Another row of this namespace has the transaction; nothing was written."""


class Shelf(Protocol):
    """The rows of one namespace. Each write is atomic, and durable when it returns.

    What cannot be read or written is a `JournalError`. Calls come from any thread.
    """

    def find(self, keys: Sequence[bytes]) -> Record | None:
        """The row with one of these keys; if there are several, that of the first key."""
        ...

    def insert(self, record: Record, rivals: Sequence[bytes], now: float) -> bool:
        """A new row, unless one of the `rivals` (its own key among them) is there.

        Forgets a few expired rows on the way.
        """
        ...

    def replace(self, key: bytes, stamp: int, changes: Mapping[str, Any]) -> bool:
        """Change the row if it still has this stamp. Raises `TransactionTaken`."""
        ...

    def delete(self, key: bytes, stamp: int) -> bool:
        """Forget the row if it still has this stamp."""
        ...

    def due(self, now: float) -> Record | None:
        """A row that owes something and waits for nobody: the one that was left alone longest."""
        ...

    def purge(self, now: float, limit: int) -> int:
        """Forget so many expired rows at most; how many there were."""
        ...

    def measure(self) -> tuple[int, int]:
        """The number of rows, and the bytes of their results."""
        ...

    def disconnect(self) -> None:
        """Close what is open in this thread or process; the next call opens it anew."""
        ...

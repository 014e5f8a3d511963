"""The protocol of a row store. A store decides nothing: it finds rows, and writes them on a condition.

To add a store, implement `RowStore` and pass it to `faregate.journals.persistent.PersistentJournal`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypedDict


class Record(TypedDict):
    """One row as it is stored (`faregate.journals.row`). `request`, `client` and `body` are keyed hashes.

    `key_id` says under which of the journal's keys the row is named. `seller` is a hash of an API key.
    `proof`, `payment_response`, `receipt` and `result` (the outcome: a result or a failure code) are
    sealed. `stamp` is new with every write, so who read a record writes only if nobody else has since.
    `expires_at` is None exactly while something is owed.
    """

    key: bytes
    stamp: int
    fence: int
    generation: int
    state: str
    request: str
    transaction_id: str | None
    revision_id: str
    since: float
    owner: str
    touched_at: float
    seller: str
    key_id: str
    client: str
    body: str
    lease_until: float
    due_at: float
    expires_at: float | None
    delivered: bool
    redelivered: int
    holds_so_far: int
    size: int
    reason: str
    proof: bytes | None
    payment_response: bytes | None
    receipt: bytes | None
    result: bytes | None


class Due(NamedTuple):
    """Which rows a sweep may take: those it would finish itself, and who is silent for too long.

    `now` is the time; a lease whose owner wrote before `silent_since`, and is not known to live, is over. A
    row of another `seller` is taken when it has been due since `foreign_since`.
    """

    now: float
    silent_since: float
    seller: str
    foreign_since: float


COLUMNS = tuple(Record.__annotations__)
SEALED = ("proof", "payment_response", "receipt", "result")


class KeyUsage(NamedTuple):
    """The rows that are named under one key: how many, how many of them owed, and when the last expires."""

    key_id: str
    rows: int
    owed: int
    last_expiry: float | None


class TransactionTaken(Exception):
    """Another row of this namespace has the transaction; nothing was written."""


class RowStore(Protocol):
    """The rows of one namespace. Each write is atomic, and outlives its process when it returns.

    A write whose answer was lost may be asked for again: a row that bears the new stamp already was
    written by that very call. What cannot be read or written is a `JournalError`. Calls come from any
    thread.
    """

    def find(self, keys: Sequence[bytes]) -> Record | None:
        """The row with one of these keys; if there are several, that of the first key."""
        ...

    def find_transaction(self, transaction_id: str) -> Record | None: ...

    def insert(self, record: Record, rivals: Sequence[bytes], now: float) -> bool:
        """A new row, unless one of the `rivals` (its own key among them) is there.

        Forgets a few expired rows on the way.
        """
        ...

    def replace(self, key: bytes, stamp: int, changes: Mapping[str, Any], durable: bool) -> bool:
        """Change the row if it still has this stamp; `changes` have a new one. Raises `TransactionTaken`.

        A `durable` write outlives a power cut as well.
        """
        ...

    def delete(self, key: bytes, stamp: int) -> bool:
        """Forget the row if it still has this stamp."""
        ...

    def take_due(self, due: Due, changes: Mapping[str, Any]) -> Record | None:
        """The row that was left alone longest of those that are owed, not stuck, and wait for nobody.

        It is given as it is after `changes` (a new lease, fence and stamp). Callers at the same moment
        are given different rows.
        """
        ...

    def renew(self, owner: str, until: float, now: float) -> None:
        """Write how long an owner of leases is known to live. Forgets owners that died before `now`."""
        ...

    def owner_until(self, owner: str) -> float:
        """How long this owner is known to live; 0 if nothing is known of it."""
        ...

    def key_ids(self) -> set[str]:
        """The `key_id` of all rows of this namespace, each once."""
        ...

    def usage_of_keys(self) -> list[KeyUsage]:
        """What each key is still needed for."""
        ...

    def namespaces(self) -> dict[str, int]:
        """How many rows each namespace in this store owes something for, this one among them."""
        ...

    def move(self, namespace: str) -> int:
        """Move all rows of another namespace into this one, but for proofs known in both; how many."""
        ...

    def owed(self, limit: int) -> list[Record]:
        """Rows that owe something, stuck ones among them, from the oldest on; without what is sealed."""
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

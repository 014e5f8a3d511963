"""The protocol of a row store. A store decides nothing: it finds rows, and writes by compare-and-swap.

To add a store, implement `RowStore` and pass it to `faregate.journals.persistent.PersistentJournal`. One that
can do many operations in one transaction or round trip is a `BatchStore`
(`faregate.journals.row_operations`).
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol, TypedDict

from faregate.journals.states import SETTLED


class Record(TypedDict):
    """One row as it is stored (`faregate.journals.row_rules`). Its keys are the names of the stored columns.

    `key` is the lookup key, derived with the journal key `key_id`. `request`, `client`, `body` and
    `authorization_hash` are keyed hashes. So is `purchase`, which is unique and begins with `IDENTIFIED` if
    the payer named it (`faregate.journals.row_rules.hash_purchase`). `seller` is a hash of an API key.
    `proof`, `request_line`, `payer`, `payment_response`, `receipt` and `result` (the outcome: a result or a
    failure code) are encrypted.
    `stamp` is the concurrency stamp: a new random number with every write. A write names the stamp that it
    read, and changes nothing if another write came in between. `expires_at` is None exactly while the payment
    is open.
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
    authorization_hash: str
    purchase: str | None
    lease_until: float
    due_at: float
    expires_at: float | None
    forget_at: float | None
    delivered: bool
    redelivered: int
    holds_so_far: int
    size: int
    reason: str
    proof: bytes | None
    request_line: bytes | None
    payer: bytes | None
    payment_response: bytes | None
    receipt: bytes | None
    result: bytes | None


class Due(NamedTuple):
    """Which rows a sweep may take at the time `now`.

    A lease is over, too, if its owner has not written since `silent_since` and is not known to live. A row of
    another seller than `seller` is taken when it has been due since `foreign_since`. A store with locks is
    given the owners that are `dead`, whose leases are over, and `living`, whose leases last.
    """

    now: float
    silent_since: float
    seller: str
    foreign_since: float
    dead: tuple[str, ...] = ()
    living: tuple[str, ...] = ()


COLUMNS = tuple(Record.__annotations__)
PAGE = 100
"""How many rows a call that reads all rows reads at once."""
PURGE_WITH_INSERT = 8
"""Expired rows deleted with each new one: more than come in, and too few to be noticed."""
PURGE_SECONDS = 1.0
"""A new row looks for expired rows if the last look found as many as it may, or was so long ago."""
OWNER_RETENTION = 3600.0
"""An owner that died is forgotten after so many seconds."""
ENCRYPTED = ("proof", "request_line", "payer", "payment_response", "receipt", "result")


def may_be_removed(record: Record, now: float) -> bool:
    """Whether a row has expired. That a settled row was paid is remembered for longer than its result."""
    until = record["expires_at"]
    if record["state"] == SETTLED.value:
        # A result that its payer has not fetched is served until a sweep removes it.
        until = record["forget_at"] if record["delivered"] else None
    return until is not None and until <= now


class KeyUsage(NamedTuple):
    """How many rows were stored under one journal key, how many are open, and when the last one expires."""

    key_id: str
    rows: int
    owed: int
    last_expiry: float | None


class TransactionTaken(Exception):
    """Another row of this namespace has the transaction; nothing was written."""


class PurchaseTaken(Exception):
    """Another row of this namespace has the purchase; nothing was written."""


class RowStore(Protocol):
    """The rows of one namespace. Each write is atomic; once it returned, it survives a crash of the process.

    A write may be repeated when its response was lost. A store need not recognise a repeated write: if a
    write finds another stamp, the journal reads the row, and recognises a stamp of its own. Calls come from
    any thread. Raises `JournalError`.

    Rows are found without their `result`, which may be large: it is None, and read with `find_result`.
    """

    @property
    def namespace(self) -> str: ...

    def find(self, keys: Sequence[bytes]) -> Record | None:
        """Find the row with one of these keys; if there are several, that of the first key."""
        ...

    def find_transaction(self, transaction_id: str) -> Record | None: ...

    def find_authorization(self, hashes: Sequence[str], own: bytes, now: float) -> Record | None:
        """Find a row with one of these hashes of an authorization, and with another key than `own`.

        Leave out rows that are `UNPAID` and rows that may be removed. A row with a transaction comes before
        one without.
        """
        ...

    def find_purchase(self, purchase: str) -> Record | None:
        """Find the row that has this hash of a purchase."""
        ...

    def find_result(self, key: bytes) -> bytes | None:
        """Read the `result` of this row; None if it has none, or is gone."""
        ...

    def insert(self, record: Record, candidate_keys: Sequence[bytes], now: float) -> bool:
        """Add a row, unless there is one with any of the `candidate_keys` (its own key among them).

        These are the keys of one proof under all journal keys, so that a rotation makes no second row. Also
        does for a few rows what `drop_results` and `purge` would.
        """
        ...

    def replace(self, key: bytes, stamp: int, changes: Mapping[str, Any], durable: bool) -> bool:
        """Change the row if it still has this stamp; `changes` contain a new one.

        A `durable` write survives a power cut, and so do all writes before it. Raises
        `TransactionTaken`, `PurchaseTaken`.
        """
        ...

    def delete(self, key: bytes, stamp: int) -> bool:
        """Delete the row if it still has this stamp."""
        ...

    def take_due(self, due: Due, changes: Mapping[str, Any]) -> Record | None:
        """Apply `changes` (a new lease, fence and stamp) to the due row whose lease ended first; find it.

        Stuck rows are never due. Concurrent callers get different rows.
        """
        ...

    def renew(self, owner: str, until: float, now: float) -> None:
        """Write until when an owner of leases is known to live. Delete owners that died long ago."""
        ...

    def owner_until(self, owner: str) -> float:
        """Until when this owner is known to live; 0 if it is unknown."""
        ...

    def key_ids(self) -> set[str]:
        """The journal keys that rows of this namespace were stored under."""
        ...

    def usage_of_keys(self) -> list[KeyUsage]:
        """Return what each journal key is still needed for."""
        ...

    def namespaces(self) -> dict[str, int]:
        """The number of open rows in each namespace of this store, this one among them."""
        ...

    def move(self, namespace: str) -> int:
        """Move the rows of another namespace into this one, but for proofs known in both; return how many.

        Those moved have no `purchase` any more: a row here may have it.
        """
        ...

    def list_owed(self, limit: int) -> list[Record]:
        """List open rows, stuck ones included, oldest first, without the encrypted columns."""
        ...

    def list_unfetched(self, until: float, limit: int) -> list[Record]:
        """List settled rows that were never delivered and expire up to `until`, the first of them first.

        Without the encrypted columns.
        """
        ...

    def iterate(self) -> Iterator[Record]:
        """Yield all rows, read in pages, in no order. A row that is written meanwhile may be missed."""
        ...

    def list_namespaces(self) -> list[str]:
        """List the namespaces of this store that have rows."""
        ...

    def open_namespace(self, namespace: str) -> "AbstractContextManager[RowStore]":
        """Open the rows of another namespace of this store."""
        ...

    def drop_results(self, now: float, limit: int) -> int:
        """Drop the results of up to `limit` delivered rows that have expired; return how many. Keep the rows.

        See `Row.drop_result`. Each gets a stamp that no process makes: a negative one.
        """
        ...

    def purge(self, now: float, limit: int) -> int:
        """Delete up to `limit` expired rows that are not settled; return how many."""
        ...

    def forget_delivered(self, limit: int) -> int:
        """Delete up to `limit` delivered rows without a result, the first to expire; return how many."""
        ...

    def measure(self) -> tuple[int, int]:
        """Count the rows, and the bytes of their results."""
        ...

    def disconnect(self) -> None:
        """Close the connections of this thread or process; the next call opens new ones."""
        ...

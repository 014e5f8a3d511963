"""Read the rows of one namespace for operators. Nothing here writes, and no API key is needed."""

from dataclasses import replace

from faregate.core.claim_types import HoldInfo
from faregate.errors import JournalError, JournalUnreadable
from faregate.journals.codec import Codec
from faregate.journals.durations import JournalPolicy
from faregate.journals.keyring import Keyring
from faregate.journals.owner_locks import get_owner_until
from faregate.journals.payment_info import (
    FoundPayments,
    PaymentInfo,
    Reference,
    ReferenceKind,
    describe_row,
    is_found_by,
)
from faregate.journals.row_rules import Row
from faregate.journals.store import Record, RowStore

ANY_TIME = 1e15
"""Seconds: later than any row expires. MariaDB has no infinity."""


class NamespaceReader:
    """The rows of one namespace, as they are at `now` (seconds of the journal's clock)."""

    def __init__(self, store: RowStore, keyring: Keyring, policy: JournalPolicy, now: float) -> None:
        self.namespace = store.namespace
        self._store = store
        self._codec = Codec(keyring)
        self._keyring = keyring
        self._policy = policy
        self._now = now
        self._owners = dict[str, float]()
        """Until when each is known to live."""

    def list_holds(self, limit: int) -> list[HoldInfo]:
        """List open payments, oldest first. One whose process has died is due at once."""
        return [self._describe_owed(record) for record in self._store.list_owed(limit)]

    def list_unfetched(self, limit: int) -> list[HoldInfo]:
        """List paid results that their payers have not fetched, the first to be removed first."""
        return [self._describe_hold(record) for record in self._store.list_unfetched(ANY_TIME, limit)]

    def _describe_owed(self, record: Record) -> HoldInfo:
        hold, row = self._describe_hold(record), self._codec.unpack_plain(record)
        if self._is_leased(row):
            return hold
        return replace(hold, due_at=min(hold.due_at, max(row.touched_at, row.due_at)))

    def _describe_hold(self, record: Record) -> HoldInfo:
        return replace(describe_hold(record, self._keyring), namespace=self.namespace)

    def find(self, reference: Reference) -> FoundPayments:
        """Find payments. All rows are decrypted for a hash or a payer: no index reveals who paid."""
        if reference.kind is ReferenceKind.TRANSACTION:
            record = self._store.find_transaction(reference.value)
            return FoundPayments([] if record is None else [self._describe(record)])
        payments = list[PaymentInfo]()
        unreadable = 0
        seen = set[bytes]()
        for record in self._store.iterate():
            # A row that moves between the indexes of Redis meanwhile is read twice.
            if record["key"] in seen:
                continue
            seen.add(record["key"])
            row = self._read(record)
            if row is None:
                unreadable += 1
            elif is_found_by(row, reference):
                payments.append(self._describe_row(row, record["size"]))
        return FoundPayments(payments, unreadable)

    def describe(self, key: bytes) -> PaymentInfo:
        """Describe the row with this key. Raises `JournalError` if it is gone."""
        record = self._store.find([key])
        if record is None:
            raise JournalError("the row is gone: its retention is over")
        return self._describe(record)

    def _describe(self, record: Record) -> PaymentInfo:
        row = self._read(record)
        if row is not None:
            return self._describe_row(row, record["size"])
        # Its key is missing, so only the columns that are not encrypted can be shown.
        return self._describe_row(self._codec.unpack_plain(record), record["size"], readable=False)

    def _describe_row(self, row: Row, size: int, *, readable: bool = True) -> PaymentInfo:
        leased = self._is_leased(row)
        return describe_row(
            row, self.namespace, self._now, self._policy, size=size, leased=leased, readable=readable
        )

    def _is_leased(self, row: Row) -> bool:
        if row.owner not in self._owners:
            self._owners[row.owner] = get_owner_until(self._store, row.owner) if row.owner else 0.0
        return row.is_leased(self._now, self._policy, self._owners[row.owner])

    def _read(self, record: Record) -> Row | None:
        """Decrypt a row, but for its result; None without its key."""
        try:
            return self._codec.unpack(record)
        except JournalUnreadable:
            return None


def describe_hold(record: Record, keyring: Keyring) -> HoldInfo:
    """Describe a row from its plain columns only: operators may list a journal without its keys."""
    return HoldInfo(
        record["transaction_id"] or "",
        record["revision_id"],
        record["state"],
        record["reason"],
        record["since"],
        max(record["lease_until"], record["due_at"]),
        record["holds_so_far"],
        record["size"],
        record["key_id"] in keyring.key_ids,
        record["expires_at"],
    )

"""The open payments of a stored journal: for a sweep, and for people. These calls block."""

from typing import Any

from faregate.core.claim_types import HoldInfo, PendingPayment, Recoverable
from faregate.core.driver import run
from faregate.errors import JournalUnreadable
from faregate.journals.owner_locks import LockingStore, has_lock
from faregate.journals.quota import Quota
from faregate.journals.reader import describe_hold
from faregate.journals.row_access import RowAccess, make_id
from faregate.journals.row_operations import Procedure, Replace
from faregate.journals.row_rules import IDENTIFIED, NOT_FETCHED, Row
from faregate.journals.states import PAID_NO_RESULT
from faregate.journals.store import ENCRYPTED, Due, Record


class OpenPaymentQueue:
    """Gives out the rows of payments that have not ended, under leases, and lists them.

    It also removes paid results that were not fetched.
    """

    def __init__(self, rows: RowAccess, quota: Quota) -> None:
        self._rows = rows
        self._store = rows.store
        self._quota = quota
        self._policy = rows.policy
        self._unreadable = ""

    def lease_next(self) -> PendingPayment | None:
        """Take the next row that is due. When none is left, delete expired rows.

        A row that cannot be decrypted is put off, so that it does not block the others. `JournalUnreadable`
        is raised when no other row is due.
        """
        while (record := self._take_due()) is not None:
            try:
                row = run(self._read_whole(record))
            except JournalUnreadable as error:
                transaction = record["transaction_id"] or "a claim without a transaction"
                self._unreadable = f"{transaction}: {error}"
                self._put_off(record)
            else:
                return self._grant(row, record["stamp"])
        self._quota.purge(self._rows.clock())
        if self._unreadable:
            message, self._unreadable = self._unreadable, ""
            raise JournalUnreadable(message)
        return None

    def _take_due(self) -> Record | None:
        now, policy = self._rows.clock(), self._policy
        silent_since, foreign_since = now - policy.owner_lease, now - policy.adoption_delay
        due = Due(now, silent_since, self._rows.seller, foreign_since, *self._judge_owners(now))
        changes = {
            "owner": run(self._rows.make_holder()).owner,
            "touched_at": now,
            "fence": make_id(),
            "lease_until": now + policy.completion_lease,
            "stamp": make_id(),
        }
        return self._store.take_due(due, changes)

    def _judge_owners(self, now: float) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the owners that are dead, and those that live, as far as their locks tell."""
        if not isinstance(self._store, LockingStore) or self._store.owner_locks is None:
            return (), ()
        owners = [owner for owner in self._store.list_owners(now) if has_lock(owner)]
        if not owners:
            return (), ()
        lives = self._store.owner_locks.judge(owners)
        dead = tuple(owner for owner, answer in lives.items() if not answer)
        return dead, tuple(owner for owner in lives if owner not in dead)

    def _put_off(self, record: Record) -> None:
        """Only the sweep waits. The payer may come at any time to a process that has the key."""
        now = self._rows.clock()
        changes = {
            "owner": "",
            "lease_until": now,
            "due_at": now + self._policy.max_backoff,
            "stamp": make_id(),
        }
        self._store.replace(record["key"], record["stamp"], changes, False)

    def _read_whole(self, record: Record) -> Procedure[Row]:
        row = self._rows.codec.unpack(record)
        row.outcome = yield from self._rows.read_outcome(row.key)
        return row

    def _grant(self, row: Row, stamp: int) -> PendingPayment:
        payment = row.to_pending_payment(self._rows.seller)
        self._rows.grant(Recoverable(payment), row, stamp, self._policy.completion_lease)
        return payment

    def list_holds(self, limit: int) -> list[HoldInfo]:
        """List open payments, oldest first."""
        return [describe_hold(record, self._rows.keyring) for record in self._store.list_owed(limit)]

    def get_hold(self, transaction_id: str) -> HoldInfo | None:
        record = self._store.find_transaction(transaction_id)
        is_open = record is not None and record["expires_at"] is None
        return describe_hold(record, self._rows.keyring) if record is not None and is_open else None

    def remove_unfetched(self, limit: int) -> tuple[str, ...]:
        """Remove paid results whose payer did not come in time; return their transactions.

        Not one whose payer comes at this moment.
        """
        expired = self._store.list_unfetched(self._rows.clock(), limit)
        # Replace by stamp: if the payer fetches the result at this moment, the stamp has changed and the row
        # stays.
        return tuple(record["transaction_id"] or "" for record in expired if self._remove(record))

    def _remove(self, record: Record) -> bool:
        """Do as `Row.drop_unfetched_result`, without the journal key: the sweep may not have it."""
        until = self._rows.clock() + self._policy.paid_retention
        changes: dict[str, Any] = {
            "state": PAID_NO_RESULT.value,
            "expires_at": until,
            "forget_at": until,
            "size": 0,
            "reason": NOT_FETCHED,
            "payment_response": None,
            "result": None,
            "stamp": make_id(),
        }
        if not (record["purchase"] or "").startswith(IDENTIFIED):
            changes["purchase"] = None
        return self._store.replace(record["key"], record["stamp"], changes, False)

    def lease_hold(self, transaction_id: str) -> PendingPayment | None:
        """Take the row of this transaction, due or not, even stuck.

        None if its payment is not open, or while any process has the lease.
        """
        record = self._store.find_transaction(transaction_id)
        if record is None or record["expires_at"] is not None:
            return None
        return run(self._lease_record(record))

    def end_unreadable(self, transaction_id: str, paid: bool, reason: str) -> bool:
        """End an open payment whose key this process does not have; what is encrypted is removed.

        False if there is none, or while another process has the lease.
        """
        record = self._store.find_transaction(transaction_id)
        if (
            record is None
            or record["expires_at"] is not None
            or record["key_id"] in self._rows.keyring.key_ids
        ):
            return False
        return run(self._end_record(record, paid, reason))

    def _end_record(self, record: Record, paid: bool, reason: str) -> Procedure[bool]:
        row, now = self._rows.codec.unpack_plain(record), self._rows.clock()
        if row.is_leased(now, self._policy, (yield from self._rows.get_owner_until(row, now))):
            return False
        after = row.copy()
        after.end_unreadable(paid, reason, now, self._policy)
        changes = self._rows.codec.pack_changes(row, after, make_id())
        changes |= {**dict.fromkeys(ENCRYPTED), "size": 0}
        return bool((yield self._rows.perform(Replace(record["key"], record["stamp"], changes, True))))

    def _lease_record(self, record: Record) -> Procedure[PendingPayment | None]:
        row, now = (yield from self._read_whole(record)), self._rows.clock()
        if row.is_leased(now, self._policy, (yield from self._rows.get_owner_until(row, now))):
            return None
        after = row.copy()
        holder = yield from self._rows.make_holder()
        after.lease_to(holder, now + self._policy.completion_lease, now)
        stamp = yield from self._rows.replace(row, record["stamp"], after)
        return None if stamp is None else self._grant(after, stamp)

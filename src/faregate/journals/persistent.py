"""A journal that survives its process and is shared by several: the rules of a row over any `RowStore`.

Optimistic concurrency: read the record, let the row decide (`faregate.journals.row`), and write on the
condition that nobody else has written since. Otherwise read again, and let the row decide again.
"""

import secrets
import time
from collections.abc import Callable, Sequence

from faregate.core.claims import (
    Claim,
    Claimant,
    Claimed,
    HoldInfo,
    Lease,
    PendingPayment,
    Replayable,
    ReplayPolicy,
    Resumable,
)
from faregate.core.interfaces import Journal
from faregate.core.models import Outcome
from faregate.errors import JournalError, JournalUnreadable
from faregate.journals.codec import Codec
from faregate.journals.encryption import Keyring, LookupKey
from faregate.journals.heartbeat import Heartbeat
from faregate.journals.policy import DEFAULT_POLICY, JournalPolicy
from faregate.journals.quota import Quota
from faregate.journals.row import Holder, Row, size_of
from faregate.journals.states import State
from faregate.journals.store import Due, KeyUsage, Record, RowStore, TransactionTaken
from faregate.journals.threaded import Run, ThreadedJournal, run_in_thread

ATTEMPTS = 64


class PersistentJournal:
    """Encrypted rows in a store. Safe to share between threads and processes; its calls block.

    `keys` are 32 random bytes each, newest first. `seller` tells API keys apart. At about `max_rows` rows, or
    `max_bytes` of results, new claims are refused. All processes that share the store must agree on `clock`
    (seconds). The first claim starts a thread that renews this process's leases
    (`faregate.journals.heartbeat`).
    """

    def __init__(
        self,
        store: RowStore,
        *,
        keys: Sequence[bytes],
        seller: str = "",
        policy: JournalPolicy = DEFAULT_POLICY,
        max_rows: int = 1_000_000,
        max_bytes: int = 4 * 1024**3,
        clock: Callable[[], float] = time.time,
        run: Run = run_in_thread,
    ) -> None:
        self._store = store
        self._keyring = Keyring(keys)
        self._codec = Codec(self._keyring)
        self._seller = seller
        self._policy = policy
        self._quota = Quota(store, max_rows, max_bytes)
        self._clock = clock
        self._run = run
        self._heartbeat = Heartbeat(self._renew, policy.renew_every)
        self._unreadable = ""

    def as_async(self) -> Journal:
        """Return this journal for event loops."""
        return ThreadedJournal(self, self._run)

    def disconnect(self) -> None:
        """Close all connections; the next call opens new ones."""
        self._store.disconnect()

    def _renew(self, owner: str) -> None:
        now = self._clock()
        self._store.renew(owner, now + self._policy.owner_lease, now)

    def _holder(self) -> Holder:
        return Holder(self._heartbeat.owner, self._seller, _random_id())

    # Claims

    def claim(self, proof: str, claimant: Claimant) -> Claim:
        lookup_keys = self._keyring.lookup_keys(proof, claimant)
        for _ in range(ATTEMPTS):
            now = self._clock()
            record = self._store.find(list(lookup_keys))
            if record is None:
                claim = self._insert_claim(proof, lookup_keys, now)
            elif record["expires_at"] is not None and record["expires_at"] <= now:
                self._store.delete(record["key"], record["stamp"])
                claim = None
            else:
                claim = self._claim_existing(record, lookup_keys[record["key"]], claimant.replay, now)
            if claim is not None:
                return claim
        raise _conflict_error()

    def _insert_claim(self, proof: str, lookup_keys: dict[bytes, LookupKey], now: float) -> Claim | None:
        self._quota.check(now)
        newest = next(iter(lookup_keys.values()))
        row = Row.create(
            newest.key, newest.key_id, newest.fingerprint, proof, self._holder(), now, self._policy
        )
        if not self._store.insert(self._codec.pack(row, _random_id()), list(lookup_keys), now):
            return None
        self._quota.add(1, 0)
        self._heartbeat.add(row.key, self._policy.claim_lease)
        return Claimed(Lease(row.key, row.fence))

    def _claim_existing(
        self, record: Record, lookup: LookupKey, replay: ReplayPolicy, now: float
    ) -> Claim | None:
        row = self._codec.unpack(record)
        owner_until = self._owner_until(record, now)
        claim = row.claim_again(lookup.fingerprint, replay, now, self._policy, self._holder(), owner_until)
        if isinstance(claim, Claimed | Resumable | Replayable) and not self._replace(record, row):
            return None
        if isinstance(claim, Claimed | Resumable):
            self._heartbeat.add(row.key, row.lease_until - now)
        return claim

    def _owner_until(self, record: Record, now: float) -> float:
        """Until when the owner is known to live. Asked only when it matters: it has not written for long."""
        if record["lease_until"] <= now or record["touched_at"] + self._policy.owner_lease > now:
            return 0.0
        if record["owner"] == self._heartbeat.owner:
            return record["lease_until"]
        return self._store.owner_until(record["owner"])

    def has_unknown_keys(self) -> bool:
        """Whether rows were stored under journal keys that this journal was not given."""
        return not self._store.key_ids() <= self._keyring.key_ids

    # Open payments

    def lease_next(self) -> PendingPayment | None:
        """Take the next row that is due. When none is left, delete expired rows.

        A row that cannot be decrypted is put off, so that it does not block the others. `JournalUnreadable`
        is raised when no other row is due.
        """
        while (record := self._take_due()) is not None:
            try:
                return self._codec.unpack(record).to_pending_payment(self._seller)
            except JournalUnreadable as error:
                transaction = record["transaction_id"] or "a claim without a transaction"
                self._unreadable = f"{transaction}: {error}"
                self._put_off(record)
        self._quota.purge(self._clock())
        if self._unreadable:
            message, self._unreadable = self._unreadable, ""
            raise JournalUnreadable(message)
        return None

    def _take_due(self) -> Record | None:
        now, policy = self._clock(), self._policy
        due = Due(now, now - policy.owner_lease, self._seller, now - policy.adoption_delay)
        changes = {
            "owner": self._heartbeat.owner,
            "touched_at": now,
            "fence": _random_id(),
            "lease_until": now + policy.completion_lease,
            "stamp": _random_id(),
        }
        record = self._store.take_due(due, changes)
        if record is not None:
            self._heartbeat.add(record["key"], policy.completion_lease)
        return record

    def _put_off(self, record: Record) -> None:
        """Only the sweep waits. The payer may come at any time to a process that has the key."""
        now = self._clock()
        changes = {
            "owner": "",
            "lease_until": now,
            "due_at": now + self._policy.max_backoff,
            "stamp": _random_id(),
        }
        self._store.replace(record["key"], record["stamp"], changes, False)
        self._heartbeat.remove(record["key"])

    def list_holds(self, limit: int) -> list[HoldInfo]:
        """List open payments, oldest first."""
        return [self._holding(record) for record in self._store.list_owed(limit)]

    def get_hold(self, transaction_id: str) -> HoldInfo | None:
        record = self._store.find_transaction(transaction_id)
        return None if record is None or record["expires_at"] is not None else self._holding(record)

    def lease_hold(self, transaction_id: str) -> PendingPayment | None:
        """Take the row of this transaction, due or not, even stuck; None while another has the lease."""
        record, now = self._store.find_transaction(transaction_id), self._clock()
        if record is None or record["expires_at"] is not None:
            return None
        row = self._codec.unpack(record)
        if row.is_leased(now, self._policy, self._owner_until(record, now)):
            return None
        row.lease_to(self._holder(), now + self._policy.completion_lease, now)
        if not self._replace(record, row):
            return None
        self._heartbeat.add(row.key, self._policy.completion_lease)
        return row.to_pending_payment(self._seller)

    def _holding(self, record: Record) -> HoldInfo:
        """Use the plain columns only: operators may list a journal without its keys."""
        return HoldInfo(
            record["transaction_id"] or "",
            record["revision_id"],
            record["state"],
            record["reason"],
            record["since"],
            max(record["lease_until"], record["due_at"]),
            record["holds_so_far"],
            record["size"],
            record["key_id"] in self._keyring.key_ids,
        )

    # For operators

    def usage_of_keys(self) -> list[tuple[KeyUsage, bool]]:
        """What each journal key is still needed for, and whether this journal has it."""
        return [(one, one.key_id in self._keyring.key_ids) for one in self._store.usage_of_keys()]

    def namespaces(self) -> dict[str, int]:
        """The number of open rows in each namespace of this store, this one among them."""
        return self._store.namespaces()

    def move(self, namespace: str) -> int:
        """Move all rows of another namespace into this one; return how many."""
        return self._store.move(namespace)

    # Writes under a lease

    def record_transaction(self, lease: Lease, transaction_id: str, revision_id: str, seconds: float) -> bool:
        now, policy = self._clock(), self._policy

        def change(row: Row) -> bool:
            started = row.record_transaction(lease, transaction_id, revision_id, seconds, now, policy)
            return started or row.learn_transaction(transaction_id, revision_id, waits=False)

        try:
            row, changed = self._change(lease, change, durable=True)
        except TransactionTaken:
            return False
        _check_known(row, transaction_id)
        started = changed and row is not None and row.state is State.RUNNING
        if started:
            self._heartbeat.add(lease.key, seconds + policy.completion_lease)
        return started

    def record_pending(self, lease: Lease, transaction_id: str, revision_id: str) -> None:
        now, policy = self._clock(), self._policy

        def change(row: Row) -> bool:
            waits = row.record_pending(lease, transaction_id, revision_id, now, policy)
            return waits or row.learn_transaction(transaction_id, revision_id, waits=True)

        self._heartbeat.remove(lease.key)
        try:
            row, _ = self._change(lease, change, durable=True)
        except TransactionTaken:
            self.abandon_claim(lease)
        else:
            _check_known(row, transaction_id)

    def record_outcome(self, lease: Lease, outcome: Outcome) -> bool:
        now, policy = self._clock(), self._policy
        _, decided = self._change(
            lease, lambda row: row.record_outcome(lease, outcome, now, policy), durable=True
        )
        if decided:
            self._quota.add(0, size_of(outcome))
            self._heartbeat.add(lease.key, policy.completion_lease)
        return decided

    def schedule_retry(self, lease: Lease) -> bool:
        now, policy = self._clock(), self._policy
        row, _ = self._end(lease, lambda row: row.schedule_retry(lease, now, policy))
        return row is None or row.state is not State.STUCK

    def mark_stuck(self, lease: Lease, reason: str) -> None:
        now = self._clock()
        self._end(lease, lambda row: row.mark_stuck(lease, reason, now))

    def postpone(self, lease: Lease) -> None:
        now, policy = self._clock(), self._policy
        self._end(lease, lambda row: row.postpone(lease, now, policy))

    def record_settlement(self, lease: Lease, payment_response: str, receipt: str, delivered: bool) -> bool:
        now, policy = self._clock(), self._policy

        def change(row: Row) -> bool:
            return row.record_settlement(lease, payment_response, receipt, delivered, now, policy)

        row, changed = self._end(lease, change)
        return changed or row is None or not row.is_delivered_by_another(lease)

    def record_final(self, lease: Lease, paid: bool) -> None:
        now, policy = self._clock(), self._policy
        self._end(lease, lambda row: row.record_final(lease, paid, now, policy))

    def abandon_claim(self, lease: Lease) -> bool:
        self._heartbeat.remove(lease.key)
        for _ in range(ATTEMPTS):
            record, now = self._store.find([lease.key]), self._clock()
            if record is None:
                return False
            row = self._codec.unpack(record)
            unknown = row.state is State.CLAIMED
            if row.may_be_forgotten(lease):
                done = self._store.delete(record["key"], record["stamp"])
                self._quota.free(int(done))
            elif row.abandon_claim(lease, now, self._policy):
                done = self._replace(record, row)
            else:
                return False
            if done:
                return unknown
        raise _conflict_error()

    def _end(self, lease: Lease, change: Callable[[Row], bool]) -> tuple[Row | None, bool]:
        """Apply a change that gives the lease back. If the write fails, the lease runs out."""
        self._heartbeat.remove(lease.key)
        return self._change(lease, change)

    def _change(
        self, lease: Lease, change: Callable[[Row], bool], *, durable: bool = False
    ) -> tuple[Row | None, bool]:
        """Apply `change` by compare-and-swap. Return the row, if there is one, and whether it changed."""
        for _ in range(ATTEMPTS):
            record = self._store.find([lease.key])
            if record is None:
                return None, False
            row = self._codec.unpack(record)
            if not change(row):
                return row, False
            if self._replace(record, row, durable):
                return row, True
        raise _conflict_error()

    def _replace(self, record: Record, row: Row, durable: bool = False) -> bool:
        after = self._codec.pack(row, _random_id(), record)
        changes = {name: value for name, value in after.items() if value != record.get(name)}
        return self._store.replace(record["key"], record["stamp"], changes, durable)


def _check_known(row: Row | None, transaction_id: str) -> None:
    if row is None or row.transaction_id != transaction_id:
        raise JournalError("the row of this payment is gone, or has another transaction")


def _random_id() -> int:
    """Make a fencing token or stamp. Random, because a counter would start again with a deleted row."""
    return secrets.randbits(63)


def _conflict_error() -> JournalError:
    return JournalError(f"others wrote the same journal row {ATTEMPTS} times in between")

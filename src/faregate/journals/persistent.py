"""A journal that outlives its process and is shared by several: the rules of a row over any `RowStore`.

It reads a record, lets the row decide (`faregate.journals.row`), and writes on the condition that nobody else
wrote meanwhile (optimistic concurrency); otherwise it reads again, and the row decides again.
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
from faregate.journals.encryption import Keyring, Name
from faregate.journals.heartbeat import Heartbeat
from faregate.journals.policy import DEFAULT_POLICY, JournalPolicy
from faregate.journals.quota import Quota
from faregate.journals.row import Holder, Row, State, size_of
from faregate.journals.store import Due, KeyUsage, Record, RowStore, TransactionTaken
from faregate.journals.threaded import Run, ThreadedJournal, in_a_thread

ATTEMPTS = 64


class PersistentJournal:
    """Rows on a shelf, sealed. Safe to share between threads and processes; its calls block.

    `keys` are 32 random bytes each, newest first. `namespace` keeps the proofs of one environment and
    service apart from another's; `seller` tells API keys apart. At about `max_rows` rows, or `max_bytes` of
    results, new claims are refused. `clock` is one that all who share the shelf agree on. With the first
    claim a thread starts, which keeps the leases of this process alive (`faregate.journals.heartbeat`).
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
        run: Run = in_a_thread,
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

    def awaiting(self) -> Journal:
        """This journal for event loops."""
        return ThreadedJournal(self, self._run)

    def disconnect(self) -> None:
        """Close what is open; the next call opens it anew."""
        self._store.disconnect()

    def _renew(self, owner: str) -> None:
        now = self._clock()
        self._store.renew(owner, now + self._policy.owner_lease, now)

    def _holder(self) -> Holder:
        return Holder(self._heartbeat.owner, self._seller, _never_used())

    # Claims

    def claim(self, proof: str, claimant: Claimant) -> Claim:
        names = self._keyring.names(proof, claimant)
        for _ in range(ATTEMPTS):
            now = self._clock()
            record = self._store.find(list(names))
            if record is None:
                claim = self._claimed_first(proof, names, now)
            elif record["expires_at"] is not None and record["expires_at"] <= now:
                self._store.delete(record["key"], record["stamp"])
                claim = None
            else:
                claim = self._claimed_again(record, names[record["key"]], claimant.replay, now)
            if claim is not None:
                return claim
        raise _crowded()

    def _claimed_first(self, proof: str, names: dict[bytes, Name], now: float) -> Claim | None:
        self._quota.check(now)
        name = next(iter(names.values()))
        row = Row.claimed(name.key, name.key_id, name.fingerprint, proof, self._holder(), now, self._policy)
        if not self._store.insert(self._codec.pack(row, _never_used()), list(names), now):
            return None
        self._quota.add(1, 0)
        self._heartbeat.hold(row.key, self._policy.claim_lease)
        return Claimed(Lease(row.key, row.fence))

    def _claimed_again(self, record: Record, name: Name, replay: ReplayPolicy, now: float) -> Claim | None:
        row = self._codec.open(record)
        owner_until = self._owner_until(record, now)
        claim = row.claimed_again(name.fingerprint, replay, now, self._policy, self._holder(), owner_until)
        if isinstance(claim, Claimed | Resumable | Replayable) and not self._replace(record, row):
            return None
        if isinstance(claim, Claimed | Resumable):
            self._heartbeat.hold(row.key, row.lease_until - now)
        return claim

    def _owner_until(self, record: Record, now: float) -> float:
        """Whether the owner of a lease lives is asked only when it matters: it has been silent for long."""
        if record["lease_until"] <= now or record["touched_at"] + self._policy.owner_lease > now:
            return 0.0
        if record["owner"] == self._heartbeat.owner:
            return record["lease_until"]
        return self._store.owner_until(record["owner"])

    def has_unknown_keys(self) -> bool:
        """Whether rows are named under keys that this journal was not given."""
        return not self._store.key_ids() <= self._keyring.key_ids

    # What is owed

    def lease_next(self) -> PendingPayment | None:
        """Take the next row that is due. When none is left, expired rows are removed.

        Rows that cannot be opened are put off, so that they hold up no other; told when none is left.
        """
        while (record := self._take_due()) is not None:
            try:
                return self._codec.open(record).entry(self._seller)
            except JournalUnreadable as error:
                transaction = record["transaction_id"] or "a claim without a transaction"
                self._unreadable = f"{transaction}: {error}"
                self._put_off(record)
        self._quota.purge(self._clock())
        if self._unreadable:
            told, self._unreadable = self._unreadable, ""
            raise JournalUnreadable(told)
        return None

    def _take_due(self) -> Record | None:
        now, policy = self._clock(), self._policy
        due = Due(now, now - policy.owner_lease, self._seller, now - policy.adoption_delay)
        changes = {
            "owner": self._heartbeat.owner,
            "touched_at": now,
            "fence": _never_used(),
            "lease_until": now + policy.completion_lease,
            "stamp": _never_used(),
        }
        record = self._store.take_due(due, changes)
        if record is not None:
            self._heartbeat.hold(record["key"], policy.completion_lease)
        return record

    def _put_off(self, record: Record) -> None:
        """Its payer may come at any time, to somebody who has the key: only the sweep waits."""
        now = self._clock()
        changes = {
            "owner": "",
            "lease_until": now,
            "due_at": now + self._policy.longest_pause,
            "stamp": _never_used(),
        }
        self._store.replace(record["key"], record["stamp"], changes, False)
        self._heartbeat.drop(record["key"])

    def list_holds(self, limit: int) -> list[HoldInfo]:
        """Rows that owe something, from the oldest on."""
        return [self._holding(record) for record in self._store.owed(limit)]

    def get_hold(self, transaction_id: str) -> HoldInfo | None:
        record = self._store.find_transaction(transaction_id)
        return None if record is None or record["expires_at"] is not None else self._holding(record)

    def lease_hold(self, transaction_id: str) -> PendingPayment | None:
        """The row of this transaction, due or not, stuck or not; None while somebody else has it."""
        record, now = self._store.find_transaction(transaction_id), self._clock()
        if record is None or record["expires_at"] is not None:
            return None
        row = self._codec.open(record)
        if row.is_leased(now, self._policy, self._owner_until(record, now)):
            return None
        row.take(self._holder(), now + self._policy.completion_lease, now)
        if not self._replace(record, row):
            return None
        self._heartbeat.hold(row.key, self._policy.completion_lease)
        return row.entry(self._seller)

    def _holding(self, record: Record) -> HoldInfo:
        """Of what is not sealed: people may look at a journal without its keys."""
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
        """What each key is still needed for, and whether this journal was given it."""
        return [(one, one.key_id in self._keyring.key_ids) for one in self._store.usage_of_keys()]

    def namespaces(self) -> dict[str, int]:
        """How many rows each namespace of this store owes something for, this one among them."""
        return self._store.namespaces()

    def move(self, namespace: str) -> int:
        """Move all rows of another namespace into this one; how many."""
        return self._store.move(namespace)

    # Writes under a ticket

    def record_transaction(self, lease: Lease, transaction_id: str, revision_id: str, seconds: float) -> bool:
        now, policy = self._clock(), self._policy

        def change(row: Row) -> bool:
            started = row.start(lease, transaction_id, revision_id, seconds, now, policy)
            return started or row.learn(transaction_id, revision_id, waits=False)

        try:
            row, changed = self._change(lease, change, durable=True)
        except TransactionTaken:
            return False
        _check_known(row, transaction_id)
        started = changed and row is not None and row.state is State.RUNNING
        if started:
            self._heartbeat.hold(lease.key, seconds + policy.completion_lease)
        return started

    def record_pending(self, lease: Lease, transaction_id: str, revision_id: str) -> None:
        now, policy = self._clock(), self._policy

        def change(row: Row) -> bool:
            waits = row.wait(lease, transaction_id, revision_id, now, policy)
            return waits or row.learn(transaction_id, revision_id, waits=True)

        self._heartbeat.drop(lease.key)
        try:
            row, _ = self._change(lease, change, durable=True)
        except TransactionTaken:
            self.abandon_claim(lease)
        else:
            _check_known(row, transaction_id)

    def record_outcome(self, lease: Lease, outcome: Outcome) -> bool:
        now, policy = self._clock(), self._policy
        _, decided = self._change(lease, lambda row: row.decide(lease, outcome, now, policy), durable=True)
        if decided:
            self._quota.add(0, size_of(outcome))
            self._heartbeat.hold(lease.key, policy.completion_lease)
        return decided

    def schedule_retry(self, lease: Lease) -> bool:
        now, policy = self._clock(), self._policy
        row, _ = self._end(lease, lambda row: row.hold(lease, now, policy))
        return row is None or row.state is not State.STUCK

    def mark_stuck(self, lease: Lease, reason: str) -> None:
        now = self._clock()
        self._end(lease, lambda row: row.stick(lease, reason, now))

    def postpone(self, lease: Lease) -> None:
        now, policy = self._clock(), self._policy
        self._end(lease, lambda row: row.postpone(lease, now, policy))

    def record_settlement(self, lease: Lease, payment_response: str, receipt: str, delivered: bool) -> bool:
        now, policy = self._clock(), self._policy

        def change(row: Row) -> bool:
            return row.release(lease, payment_response, receipt, delivered, now, policy)

        row, changed = self._end(lease, change)
        return changed or row is None or not row.is_delivered_by_another(lease)

    def record_final(self, lease: Lease, paid: bool) -> None:
        now, policy = self._clock(), self._policy
        self._end(lease, lambda row: row.close(lease, paid, now, policy))

    def abandon_claim(self, lease: Lease) -> bool:
        self._heartbeat.drop(lease.key)
        for _ in range(ATTEMPTS):
            record, now = self._store.find([lease.key]), self._clock()
            if record is None:
                return False
            row = self._codec.open(record)
            unknown = row.state is State.CLAIMED
            if row.may_be_forgotten(lease):
                done = self._store.delete(record["key"], record["stamp"])
                self._quota.free(int(done))
            elif row.drop(lease, now, self._policy):
                done = self._replace(record, row)
            else:
                return False
            if done:
                return unknown
        raise _crowded()

    def _end(self, lease: Lease, change: Callable[[Row], bool]) -> tuple[Row | None, bool]:
        """A change that gives the lease back. If it fails, the lease ends by itself."""
        self._heartbeat.drop(lease.key)
        return self._change(lease, change)

    def _change(
        self, lease: Lease, change: Callable[[Row], bool], *, durable: bool = False
    ) -> tuple[Row | None, bool]:
        """The row as it stands then, if there is one, and whether `change` changed it."""
        for _ in range(ATTEMPTS):
            record = self._store.find([lease.key])
            if record is None:
                return None, False
            row = self._codec.open(record)
            if not change(row):
                return row, False
            if self._replace(record, row, durable):
                return row, True
        raise _crowded()

    def _replace(self, record: Record, row: Row, durable: bool = False) -> bool:
        after = self._codec.pack(row, _never_used(), record)
        changes = {name: value for name, value in after.items() if value != record.get(name)}
        return self._store.replace(record["key"], record["stamp"], changes, durable)


def _check_known(row: Row | None, transaction_id: str) -> None:
    if row is None or row.transaction_id != transaction_id:
        raise JournalError("the row of this payment is gone, or knows of another transaction")


def _never_used() -> int:
    """For fences and stamps: even a row that is forgotten and made anew has no earlier one."""
    return secrets.randbits(63)


def _crowded() -> JournalError:
    return JournalError(f"others wrote the same journal row {ATTEMPTS} times in between")

"""The calls of a stored journal, as procedures: what they read and write in which order, and their answers.

Optimistic concurrency: let the row decide (`faregate.journals.row_rules`), and write on the condition that
it has not been written since it was read. A lease carries the row as last seen, so a write needs no read
before it. Only after a conflict the row is read, and decides again; a refusal, too, is decided from the row
as stored.
"""

from collections.abc import Callable
from functools import partial

from faregate.core.claim_types import (
    AlreadyFailed,
    AlreadyUsed,
    Claim,
    Claimant,
    Claimed,
    EarlierPayment,
    InProgress,
    Lease,
    Recoverable,
    Replayable,
    SettlementWrite,
)
from faregate.core.models import Outcome
from faregate.errors import JournalError, JournalFull, JournalUnreadable
from faregate.journals.codec import NOT_READ
from faregate.journals.keyring import LookupKey
from faregate.journals.quota import Quota
from faregate.journals.row_access import RowAccess, make_id
from faregate.journals.row_operations import (
    Delete,
    Find,
    Insert,
    Procedure,
)
from faregate.journals.row_rules import (
    Fingerprint,
    Holder,
    Row,
    RowLease,
    find_use,
    get_copy,
    hash_purchase,
    size_of,
)
from faregate.journals.states import CLAIMED, FAILED, RUNNING, STUCK, RowState
from faregate.journals.store import PurchaseTaken, Record, TransactionTaken, may_be_removed

# A failed attempt means that another writer made progress: so many in a row cannot be chance.
ATTEMPTS = 64


class Procedures:
    """Claims, and writes under a lease (`faregate.core.interfaces.Journal`)."""

    def __init__(self, rows: RowAccess, quota: Quota) -> None:
        self._rows = rows
        self._quota = quota
        self._policy = rows.policy
        self._clock = rows.clock
        self._heartbeat = rows.heartbeat

    # Claims

    def claim(self, proof: str, claimant: Claimant) -> Procedure[Claim]:
        """Insert a row; if the proof has one already, read that."""
        lookup_keys = self._rows.keyring.lookup_keys(proof, claimant)
        for _ in range(ATTEMPTS):
            now = self._clock()
            # A full journal refuses only new rows. A known proof is still answered.
            refusal = yield from self._check_quota(now)
            make_room = partial(self._quota.make_room, now)
            holder = yield from self._rows.make_holder()
            row, stamp = self._create_row(proof, claimant, lookup_keys, holder, now), make_id()
            if refusal is None and (
                yield self._rows.perform(Insert(self._rows.codec.pack(row, stamp), list(lookup_keys), now))
            ):
                return self._count_and_grant(row, stamp)
            record: Record | None = yield self._rows.perform(Find(list(lookup_keys)))
            if record is not None and record["stamp"] == stamp:  # written twice, as the first reply was lost
                return self._count_and_grant(row, stamp)
            if record is None and refusal is not None and not (yield self._rows.run(make_room)):
                raise refusal
            claim = None
            if record is not None:
                fingerprint = lookup_keys[record["key"]].fingerprint
                claim = yield from self._claim_existing(record, fingerprint, claimant, now)
            if claim is not None:
                return claim
        raise _conflict_error()

    def _check_quota(self, now: float) -> Procedure[JournalFull | None]:
        if self._quota.has_room(now):
            return None
        try:
            yield self._rows.run(partial(self._quota.check, now))
        except JournalFull as error:
            return error
        return None

    def _create_row(
        self, proof: str, claimant: Claimant, lookup_keys: dict[bytes, LookupKey], holder: Holder, now: float
    ) -> Row:
        first_key, request_line = next(iter(lookup_keys.values())), claimant.request
        return Row.create(
            first_key.key,
            first_key.key_id,
            first_key.fingerprint,
            proof,
            request_line,
            holder,
            now,
            self._policy,
        )

    def _count_and_grant(self, row: Row, stamp: int) -> Claim:
        self._quota.add(1, 0)
        return self._rows.grant(Claimed(RowLease(row.key, row.fence)), row, stamp, self._policy.claim_lease)

    def _claim_existing(
        self, record: Record, fingerprint: Fingerprint, claimant: Claimant, now: float
    ) -> Procedure[Claim | None]:
        """Let the row answer. None if the claim must be tried again: the row has expired, or has changed."""
        if may_be_removed(record, now):
            yield self._rows.perform(Delete(record["key"], record["stamp"]))
            return None
        row = yield from self._rows.unpack(record)
        holder = yield from self._rows.make_holder()
        owner_until = yield from self._rows.get_owner_until(row, now)

        def claim_again(row: Row) -> Claim:
            return row.claim_again(fingerprint, claimant.replay, now, self._policy, holder, owner_until)

        claim = claim_again(after := row.copy())
        # Read the result only to hand it out: it may be megabytes.
        if isinstance(claim, Recoverable | Replayable) and row.outcome is NOT_READ:
            row.outcome = yield from self._rows.read_outcome(row.key)
            claim = claim_again(after := row.copy())
        if not isinstance(claim, Claimed | Recoverable | Replayable):
            return claim
        stamp = yield from self._rows.replace(row, record["stamp"], after)
        return None if stamp is None else self._rows.grant(claim, after, stamp, after.lease_until - now)

    def claim_transaction(self, transaction_id: str, claimant: Claimant) -> Procedure[Claim]:
        find = partial(self._rows.store.find_transaction, transaction_id)
        for _ in range(ATTEMPTS):
            record: Record | None = yield self._rows.run(find)
            if record is None:
                return AlreadyFailed()
            fingerprint = self._rows.keyring.hash_request(record["key"], record["key_id"], claimant)
            claim = yield from self._claim_existing(record, fingerprint, claimant, self._clock())
            if claim is not None:
                return claim
        raise _conflict_error()

    def find_other_encoding(self, lease: Lease, proof: str) -> Procedure[InProgress | AlreadyUsed | None]:
        """Find what became of this payment in another encoding."""
        hashes = self._rows.keyring.hash_authorization(proof)
        if not hashes:
            return None
        find = partial(self._rows.store.find_authorization, hashes, lease.key, self._clock())
        record: Record | None = yield self._rows.run(find)
        return None if record is None else find_use(RowState(record["state"]), record["transaction_id"] or "")

    # Writes under a lease

    def record_transaction(
        self,
        lease: Lease,
        transaction_id: str,
        revision_id: str,
        seconds: float,
        claimant: Claimant | None = None,
    ) -> Procedure[bool | EarlierPayment]:
        purchase = "" if claimant is None else self._hash_purchase(lease, claimant)
        for _ in range(ATTEMPTS):
            try:
                return (yield from self._start(lease, transaction_id, revision_id, seconds, purchase))
            except TransactionTaken:
                return False
            except PurchaseTaken:
                pass
            record: Record | None = yield self._rows.run(partial(self._rows.store.find_purchase, purchase))
            if record is None or claimant is None:
                continue
            if may_be_removed(record, self._clock()):
                yield self._rows.perform(Delete(record["key"], record["stamp"]))
                continue
            # The same payment in another encoding.
            if record["transaction_id"] == transaction_id:
                return False
            row = yield from self._rows.unpack(record)
            if (yield from self._free_if_sent(row, record)):
                continue
            earlier = yield from self._describe_earlier(row, claimant)
            if earlier is not None:
                return earlier
            # This claimant may not have that result, so this payment is a purchase of its own.
            purchase = ""
        raise _conflict_error()

    def _free_if_sent(self, row: Row, record: Record) -> Procedure[bool]:
        """Free the purchase of a row whose result was sent; return whether the caller is to try again."""
        if not row.delivered:
            return False
        owner_until = yield from self._rows.get_sender_until(row)
        if not row.may_free_purchase(self._clock(), owner_until):
            return False
        after = row.copy()
        after.free_purchase()
        yield from self._rows.replace(row, record["stamp"], after)
        return True

    def _hash_purchase(self, lease: Lease, claimant: Claimant) -> str:
        row = get_copy(lease).row
        return "" if row is None else hash_purchase(row.proof, claimant, self._rows.keyring.hash_purchase)

    def _describe_earlier(self, row: Row, claimant: Claimant) -> Procedure[EarlierPayment | None]:
        """Describe the payment of a row; None if another client made it, unless the purchase is named."""
        fingerprint = self._rows.keyring.hash_request(row.key, row.key_id, claimant)
        now = self._clock()
        # An identifier is not used twice: the payer learns that the first payment belongs to another client.
        if not (claimant.identifier or row.has_same_client(fingerprint)):
            return None
        owner_until = yield from self._rows.get_owner_until(row, now)
        return row.to_earlier_payment(now, self._policy, owner_until)

    def _start(
        self, lease: Lease, transaction_id: str, revision_id: str, seconds: float, purchase: str
    ) -> Procedure[bool]:
        now, policy = self._clock(), self._policy

        def change(row: Row) -> bool:
            # Accept the id even without the lease: the service gave it for this proof, whichever worker has
            # it now.
            started = row.record_transaction(
                lease, transaction_id, revision_id, seconds, now, policy, purchase
            )
            return started or row.learn_transaction(transaction_id, revision_id, waits=False)

        # Durable before the work begins: a power cut must not lose a payment that is open at the service.
        row, changed = yield from self._change(lease, change, durable=True)
        _check_known(row, transaction_id)
        started = changed and row is not None and row.state is RUNNING
        if started:
            self._heartbeat.add(lease.key, seconds + policy.completion_lease)
        return started

    def record_resumption(
        self, lease: Lease, transaction_id: str, revision_id: str, resumed: str
    ) -> Procedure[bool]:
        now, policy = self._clock(), self._policy

        def change(row: Row) -> bool:
            has_changed = row.record_resumption(lease, transaction_id, revision_id, resumed, now, policy)
            return has_changed or row.learn_transaction(transaction_id, revision_id, waits=False)

        try:
            # Durable before complete is called: see `record_outcome`.
            row, changed = yield from self._change(lease, change, durable=self._rows.syncs_outcomes)
        except TransactionTaken:
            return False
        _check_known(row, transaction_id)
        recorded = changed and row is not None and row.state is FAILED
        if recorded:
            self._heartbeat.add(lease.key, policy.completion_lease)
        return recorded

    def record_pending(self, lease: Lease, transaction_id: str, revision_id: str) -> Procedure[None]:
        now, policy = self._clock(), self._policy

        def change(row: Row) -> bool:
            is_recorded = row.record_pending(lease, transaction_id, revision_id, now, policy)
            return is_recorded or row.learn_transaction(transaction_id, revision_id, waits=True)

        self._heartbeat.remove(lease.key)
        try:
            row, _ = yield from self._change(lease, change, durable=True)
        except TransactionTaken:
            yield from self.abandon_claim(lease)
        else:
            _check_known(row, transaction_id)

    def record_outcome(self, lease: Lease, outcome: Outcome) -> Procedure[bool]:
        now, policy = self._clock(), self._policy
        # Durable before complete is called: the outcome must not change once the service has it.
        _, decided = yield from self._change(
            lease,
            partial(Row.record_outcome, lease=lease, outcome=outcome, now=now, policy=policy),
            durable=self._rows.syncs_outcomes,
        )
        if decided:
            self._quota.add(0, size_of(outcome))
            self._heartbeat.add(lease.key, policy.completion_lease)
        return decided

    def schedule_retry(self, lease: Lease) -> Procedure[bool]:
        now, policy = self._clock(), self._policy
        row, _ = yield from self._change_and_end_lease(
            lease, lambda row: row.hold_or_mark_stuck(lease, now, policy)
        )
        return row is None or row.state is not STUCK

    def mark_stuck(self, lease: Lease, reason: str) -> Procedure[None]:
        now = self._clock()
        yield from self._change_and_end_lease(lease, lambda row: row.mark_stuck(lease, reason, now))

    def postpone(self, lease: Lease) -> Procedure[None]:
        now, policy = self._clock(), self._policy
        yield from self._change_and_end_lease(lease, lambda row: row.postpone(lease, now, policy))

    def record_settlement(
        self, lease: Lease, payment_response: str, receipt: str, delivered: bool
    ) -> Procedure[SettlementWrite]:
        now, policy, was_settled = self._clock(), self._policy, False

        def change(row: Row) -> bool:
            nonlocal was_settled
            was_settled = row.was_settled
            return row.record_settlement(lease, payment_response, receipt, delivered, now, policy)

        try:
            row, changed = yield from self._change_and_end_lease(lease, change)
        except PurchaseTaken:
            # Another payment has the purchase by now: take the delivery back without it.
            get_copy(lease).purchase = ""
            row, changed = yield from self._change_and_end_lease(lease, change)
        if row is None:
            # Only a row that has ended is removed, so this payment was counted before.
            return SettlementWrite.REPEATED
        return row.describe_settlement(lease, was_settled, changed)

    def record_final(self, lease: Lease, paid: bool, reason: str = "", receipt: str = "") -> Procedure[bool]:
        now, policy = self._clock(), self._policy
        _, changed = yield from self._change_and_end_lease(
            lease, lambda row: row.record_final(lease, paid, reason, receipt, now, policy)
        )
        return changed

    def abandon_claim(self, lease: Lease) -> Procedure[bool]:
        self._heartbeat.remove(lease.key)
        try:
            return (yield from self._abandon(lease))
        except JournalError as error:
            self._give_back_later(lease, error)
            raise

    def _abandon(self, lease: Lease) -> Procedure[bool]:
        # Usually the row has not been written since. Delete it without reading it first.
        copy = get_copy(lease)
        if (
            copy.row is not None
            and copy.row.may_be_forgotten(lease)
            and (yield self._rows.perform(Delete(lease.key, copy.stamp)))
        ):
            self._quota.free(1)
            return True
        for _ in range(ATTEMPTS):
            record: Record | None = yield self._rows.perform(Find([lease.key]))
            if record is None:
                return False
            row = yield from self._rows.unpack(record)
            was_unused, after = row.state is CLAIMED, row.copy()
            if row.may_be_forgotten(lease):
                done = yield self._rows.perform(Delete(row.key, record["stamp"]))
                self._quota.free(int(done))
            elif after.abandon_claim(lease, self._clock(), self._policy):
                done = (yield from self._rows.replace(row, record["stamp"], after)) is not None
            else:
                return False
            if done:
                return was_unused
        raise _conflict_error()

    def give_back(self, lease: Lease) -> Procedure[None]:
        """End the lease of a row that could not be written."""
        now, policy = self._clock(), self._policy
        yield from self._change(lease, lambda row: row.give_back(lease, now, policy))

    def _change_and_end_lease(
        self, lease: Lease, change: Callable[[Row], bool]
    ) -> Procedure[tuple[Row | None, bool]]:
        """Apply a change that gives the lease back."""
        self._heartbeat.remove(lease.key)
        return (yield from self._change(lease, change))

    def _give_back_later(self, lease: Lease, error: JournalError) -> None:
        # What cannot be read could not be given back either: its lease ends at its time.
        if not isinstance(error, JournalUnreadable):
            self._heartbeat.give_back_later(lease)

    def _change(
        self, lease: Lease, change: Callable[[Row], bool], *, durable: bool = False
    ) -> Procedure[tuple[Row | None, bool]]:
        """Apply a change. If it cannot be written, the lease is given back later."""
        try:
            return (yield from self._apply(lease, change, durable))
        except JournalError as error:
            self._give_back_later(lease, error)
            raise

    def _apply(
        self, lease: Lease, change: Callable[[Row], bool], durable: bool
    ) -> Procedure[tuple[Row | None, bool]]:
        """Apply `change` by compare-and-swap. Return the row, if there is one, and whether it changed."""
        copy = get_copy(lease)
        row, stamp = copy.row, copy.stamp
        for _ in range(ATTEMPTS):
            if row is not None and change(after := row.copy()):
                written = yield from self._rows.replace(row, stamp, after, durable)
                if written is not None:
                    copy.row, copy.stamp = after, written
                    return after, True
            record: Record | None = yield self._rows.perform(Find([lease.key]))
            if record is None:
                return None, False
            row, stamp = (yield from self._rows.unpack(record)), record["stamp"]
            # Decide a refusal from the stored row, never from the copy in the lease.
            if not change(row.copy()):
                return row, False
        raise _conflict_error()


def _check_known(row: Row | None, transaction_id: str) -> None:
    if row is None or row.transaction_id != transaction_id:
        raise JournalError("the row of this payment is gone, or has another transaction")


def _conflict_error() -> JournalError:
    return JournalError(f"others wrote the same journal row {ATTEMPTS} times in between")

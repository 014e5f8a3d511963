"""The journal of one process, in memory. For tests and test keys: it is lost when the process ends.

When it is full it refuses new claims, rather than forget a payment that may still be open.
"""

import heapq
import itertools
import math
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256

from faregate.core.claim_types import (
    AlreadyFailed,
    AlreadyUsed,
    Claim,
    Claimant,
    Claimed,
    EarlierPayment,
    HoldInfo,
    InProgress,
    Lease,
    PendingPayment,
    Replayable,
    ReplayPolicy,
    SettlementWrite,
)
from faregate.core.models import Outcome
from faregate.core.request_headers import hash_credential
from faregate.errors import JournalError, JournalFull
from faregate.journals.durations import DEFAULT_POLICY, JournalPolicy
from faregate.journals.payment_info import (
    FoundPayments,
    PaymentInfo,
    Reference,
    describe_row,
    is_found_by,
)
from faregate.journals.row_rules import Fingerprint, Holder, Row, RowLease, find_use, hash_purchase, size_of
from faregate.journals.row_table import RowTable
from faregate.journals.states import CLAIMED, FINAL, STUCK
from faregate.x402.headers import find_authorization

_STALE_ENTRIES = 1000
"""The heap of expiries is rebuilt when its stale entries outnumber the rows by more than so many."""


class MemoryJournal:
    """Rows in a dict behind one lock; safe to share between threads and event loops.

    `namespace` keeps the proofs of one environment and service apart from another's. `max_rows` and
    `max_bytes` (of stored results) limit its memory. `clock` returns seconds, and never runs backwards.
    """

    def __init__(
        self,
        *,
        namespace: str = "",
        policy: JournalPolicy = DEFAULT_POLICY,
        max_rows: int = 100_000,
        max_bytes: int = 256 * 1024 * 1024,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._policy = policy
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        self._clock = clock
        self._namespace = namespace
        self._pepper = secrets.token_bytes(32) + namespace.encode()
        self._lock = threading.Lock()
        self._rows = RowTable()
        self._owed: dict[bytes, Row] = {}
        self._unfetched: dict[bytes, Row] = {}
        self._transactions: dict[str, bytes] = {}
        self._purchases: dict[str, bytes] = {}
        self._purchase_of: dict[bytes, str] = {}
        self._authorizations: dict[str, dict[bytes, None]] = {}
        self._remembered: OrderedDict[bytes, None] = OrderedDict()
        """Oldest first. A plain dict would look through what was taken from its front each time."""
        self._expiring: list[tuple[float, bytes]] = []
        self._bytes = 0
        self._fences = itertools.count(1)

    def __len__(self) -> int:
        return len(self._rows)

    def clear(self) -> None:
        """Forget everything, open payments too: for tests."""
        with self._lock:
            for rows in (self._rows, self._owed, self._unfetched, self._remembered, self._expiring):
                rows.clear()
            self._transactions.clear()
            self._purchases.clear()
            self._purchase_of.clear()
            self._authorizations.clear()
            self._bytes = 0

    def claim(self, proof: str, claimant: Claimant) -> Claim:
        key = self._hash(proof)
        fingerprint = self._fingerprint(claimant, find_authorization(proof))
        with self._lock:
            now = self._clock()
            self._forget_expired(now)
            row = self._rows.find(key)
            if row is not None:
                return self._claim_again(row, fingerprint, claimant.replay, now)
            if len(self._rows) >= self._max_rows:
                # A new payment matters more than to remember a delivered one.
                self._forget(self._rows.find(next(iter(self._remembered), b"")))
            if len(self._rows) >= self._max_rows or self._bytes >= self._max_bytes:
                raise JournalFull(f"the memory journal is full ({len(self._rows)} rows, {self._bytes} bytes)")
            row = Row.create(key, "", fingerprint, proof, claimant.request, self._holder(), now, self._policy)
            self._rows[key] = row
            self._note_authorization(row)
            self._push_expiry(row)
            return Claimed(RowLease(key, row.fence))

    def claim_transaction(self, transaction_id: str, claimant: Claimant) -> Claim:
        fingerprint = self._fingerprint(claimant, "")
        with self._lock:
            now = self._clock()
            self._forget_expired(now)
            row = self._rows.find(self._transactions.get(transaction_id, b""))
            if row is None:
                return AlreadyFailed()
            return self._claim_again(row, fingerprint, claimant.replay, now)

    def _claim_again(self, row: Row, fingerprint: Fingerprint, replay: ReplayPolicy, now: float) -> Claim:
        claim = row.claim_again(fingerprint, replay, now, self._policy, self._holder(), math.inf)
        if isinstance(claim, Claimed | Replayable):
            self._note_expiry(row)
            self._note_purchase(row)
        return claim

    def find_other_encoding(self, lease: Lease, proof: str) -> InProgress | AlreadyUsed | None:
        authorization = find_authorization(proof)
        with self._lock:
            self._forget_expired(self._clock())
            keys = self._authorizations.get(self._hash(authorization).hex(), {}) if authorization else {}
            others = [row for key in keys if key != lease.key and (row := self._rows.find(key)) is not None]
            # A row with a transaction tells more than one without.
            others.sort(key=lambda row: not row.transaction_id)
            uses = (find_use(row.state, row.transaction_id) for row in others)
            return next((use for use in uses if use is not None), None)

    def _fingerprint(self, claimant: Claimant, authorization: str) -> Fingerprint:
        """Hash credentials, so that none is kept."""
        client = [
            hash_credential(credential, lambda text: self._hash(text).hex())
            for credential in claimant.credentials
        ]
        named = self._hash(authorization).hex() if authorization else ""
        return Fingerprint(claimant.request, frozenset(client), claimant.body_digest, named)

    def _hash(self, text: str) -> bytes:
        # No hash leaves this process, so a secret in front of the text is enough, and takes half the time of
        # an HMAC.
        return sha256(self._pepper + text.encode()).digest()

    def _holder(self) -> Holder:
        """There is one process, which lives as long as its rows: no lease ends before its time."""
        return Holder("this process", "", next(self._fences))

    def has_unknown_keys(self) -> bool:
        return False

    def record_transaction(
        self,
        lease: Lease,
        transaction_id: str,
        revision_id: str,
        seconds: float,
        claimant: Claimant | None = None,
    ) -> bool | EarlierPayment:
        with self._lock:
            now, row = self._clock(), self._rows.find(lease.key)
            if not self._may_have_transaction(transaction_id, lease.key):
                return False
            purchase = ""
            if claimant is not None and row is not None:
                purchase = hash_purchase(row.proof, claimant, self._hash)
            key = self._purchases.get(purchase)
            earlier = None if key is None else self._rows.find(key)
            if earlier is not None and earlier.may_be_removed(now):
                self._forget(earlier)
                earlier = None
            if claimant is not None and earlier is not None and earlier is not row:
                if claimant.identifier or earlier.has_same_client(self._fingerprint(claimant, "")):
                    return earlier.to_earlier_payment(now, self._policy, math.inf)
                purchase = ""
            started = row is not None and row.record_transaction(
                lease, transaction_id, revision_id, seconds, now, self._policy, purchase
            )
            if row is not None:
                self._note_purchase(row)
            self._learn_transaction(row, transaction_id, revision_id, waits=False)
            return started

    def record_resumption(self, lease: Lease, transaction_id: str, revision_id: str, resumed: str) -> bool:
        with self._lock:
            now, row = self._clock(), self._rows.find(lease.key)
            if not self._may_have_transaction(transaction_id, lease.key):
                return False
            recorded = row is not None and row.record_resumption(
                lease, transaction_id, revision_id, resumed, now, self._policy
            )
            self._learn_transaction(row, transaction_id, revision_id, waits=False)
            return recorded

    def record_pending(self, lease: Lease, transaction_id: str, revision_id: str) -> None:
        with self._lock:
            now, row = self._clock(), self._rows.find(lease.key)
            if not self._may_have_transaction(transaction_id, lease.key):
                self._drop(lease, row)
                return
            if row is not None:
                row.record_pending(lease, transaction_id, revision_id, now, self._policy)
            self._learn_transaction(row, transaction_id, revision_id, waits=True)

    def _learn_transaction(
        self, row: Row | None, transaction_id: str, revision_id: str, *, waits: bool
    ) -> None:
        if row is not None and row.transaction_id != transaction_id:
            row.learn_transaction(transaction_id, revision_id, waits)
        if row is None or row.transaction_id != transaction_id:
            raise JournalError("the row of this payment is gone, or has another transaction")
        self._transactions[transaction_id] = row.key
        if row.expires_at is None:
            self._owed[row.key] = row

    def record_outcome(self, lease: Lease, outcome: Outcome) -> bool:
        with self._lock:
            row = self._rows.find(lease.key)
            if row is None or not row.record_outcome(lease, outcome, self._clock(), self._policy):
                return False
            self._bytes += size_of(outcome)
            self._note_purchase(row)
            return True

    def schedule_retry(self, lease: Lease) -> bool:
        with self._lock:
            row = self._rows.find(lease.key)
            if row is None:
                return True
            row.hold_or_mark_stuck(lease, self._clock(), self._policy)
            return row.state is not STUCK

    def mark_stuck(self, lease: Lease, reason: str) -> None:
        with self._lock:
            row = self._rows.find(lease.key)
            if row is not None:
                row.mark_stuck(lease, reason, self._clock())

    def postpone(self, lease: Lease) -> None:
        with self._lock:
            row = self._rows.find(lease.key)
            if row is not None:
                row.postpone(lease, self._clock(), self._policy)

    def record_settlement(
        self, lease: Lease, payment_response: str, receipt: str, delivered: bool
    ) -> SettlementWrite:
        with self._lock:
            now, row = self._clock(), self._rows.find(lease.key)
            if row is None:
                # Only a row that has ended is removed, so this payment was counted before.
                return SettlementWrite.REPEATED
            was_settled = row.was_settled
            changed = row.record_settlement(lease, payment_response, receipt, delivered, now, self._policy)
            if changed:
                if self._purchases.get(row.purchase, row.key) != row.key:
                    # The delivery was taken back, and another payment has the purchase by now.
                    row.free_purchase()
                self._note_purchase(row)
                self._note_expiry(row)
            return row.describe_settlement(lease, was_settled, changed)

    def record_final(self, lease: Lease, paid: bool, reason: str = "", receipt: str = "") -> bool:
        with self._lock:
            row = self._rows.find(lease.key)
            if row is None:
                return False
            size = size_of(row.outcome)
            if not row.record_final(lease, paid, reason, receipt, self._clock(), self._policy):
                return False
            self._bytes -= size
            self._note_expiry(row)
            self._note_purchase(row)
            return True

    def abandon_claim(self, lease: Lease) -> bool:
        with self._lock:
            return self._drop(lease, self._rows.find(lease.key))

    def _drop(self, lease: Lease, row: Row | None) -> bool:
        if row is None:
            return False
        if row.may_be_forgotten(lease):
            self._forget(row)
            return True
        return row.abandon_claim(lease, self._clock(), self._policy) and row.state is CLAIMED

    # Open payments

    def lease_next(self) -> PendingPayment | None:
        with self._lock:
            now = self._clock()
            self._forget_expired(now)
            row = next((row for row in self._owed.values() if row.is_due(now)), None)
            return None if row is None else self._lease(row, now)

    def remove_unfetched(self, limit: int) -> tuple[str, ...]:
        """Remove paid results whose payer did not come in time; return their transactions."""
        with self._lock:
            now = self._clock()
            expired = [row for row in self._unfetched.values() if row.expires_at and row.expires_at <= now]
            for row in expired[:limit]:
                self._bytes -= size_of(row.outcome)
                row.drop_unfetched_result(now, self._policy)
                self._note_expiry(row)
                self._note_purchase(row)
            return tuple(row.transaction_id for row in expired[:limit])

    def list_unfetched(self, limit: int) -> list[HoldInfo]:
        """List paid results that their payers have not fetched, the first to be removed first."""
        with self._lock:
            rows = sorted(self._unfetched.values(), key=lambda row: row.expires_at or 0.0)
            return [row.to_hold_info() for row in rows[:limit]]

    def find_payments(self, reference: Reference) -> FoundPayments:
        """Find the payments that a customer may mean."""
        with self._lock:
            now = self._clock()
            rows = [row for row in self._rows.read_all() if is_found_by(row, reference)]
            return FoundPayments(self._describe(row, now) for row in rows)

    def _describe(self, row: Row, now: float) -> PaymentInfo:
        leased = row.is_leased(now, self._policy, math.inf)
        size = size_of(row.outcome)
        return describe_row(row, self._namespace, now, self._policy, size=size, leased=leased)

    def list_holds(self, limit: int) -> list[HoldInfo]:
        """List open payments, oldest first."""
        with self._lock:
            owed = sorted(self._owed.values(), key=lambda row: row.since)
            return [row.to_hold_info() for row in owed[:limit]]

    def get_hold(self, transaction_id: str) -> HoldInfo | None:
        with self._lock:
            row = self._owed.get(self._transactions.get(transaction_id, b""))
            return None if row is None else row.to_hold_info()

    def lease_hold(self, transaction_id: str) -> PendingPayment | None:
        """Take the row of this transaction, due or not, even stuck; None while another has the lease."""
        with self._lock:
            now, row = self._clock(), self._owed.get(self._transactions.get(transaction_id, b""))
            is_free = row is not None and not row.is_leased(now, self._policy, math.inf)
            return self._lease(row, now) if row is not None and is_free else None

    def _lease(self, row: Row, now: float) -> PendingPayment:
        """Lease the row, and move it to the end of the queue: a sweep finds the next due row at the front."""
        self._owed[row.key] = self._owed.pop(row.key)
        row.lease_to(self._holder(), now + self._policy.completion_lease, now)
        return row.to_pending_payment("")

    def _may_have_transaction(self, transaction_id: str, key: bytes) -> bool:
        return self._transactions.get(transaction_id, key) == key

    def _note_authorization(self, row: Row) -> None:
        if row.authorization_hash:
            self._authorizations.setdefault(row.authorization_hash, {})[row.key] = None

    def _note_purchase(self, row: Row) -> None:
        before = self._purchase_of.get(row.key, "")
        if before == row.purchase:
            return
        self._purchases.pop(before, None)
        self._purchase_of.pop(row.key, None)
        if row.purchase:
            self._purchases[row.purchase] = row.key
            self._purchase_of[row.key] = row.purchase

    def _note_expiry(self, row: Row) -> None:
        if row.expires_at is None:
            return
        self._owed.pop(row.key, None)
        if row.is_unfetched:
            self._unfetched[row.key] = row
            return
        self._unfetched.pop(row.key, None)
        self._push_expiry(row)
        if row.state in FINAL:
            self._rows.pack(row)

    def _push_expiry(self, row: Row) -> None:
        if row.expires_at is None:
            return
        heapq.heappush(self._expiring, (row.expires_at, row.key))
        if len(self._expiring) > 2 * len(self._rows) + _STALE_ENTRIES:
            # Rows that were forgotten before their time, or whose expiry has moved, have left entries here.
            self._expiring = [
                (expires_at, key)
                for key in self._rows
                if (expires_at := self._rows.find_expiry(key)) is not None and key not in self._unfetched
            ]
            heapq.heapify(self._expiring)

    def _forget_expired(self, now: float) -> None:
        while self._expiring and self._expiring[0][0] <= now:
            at, key = heapq.heappop(self._expiring)
            # If the expiry of the row has moved, it has a newer entry, and this one is stale.
            if self._rows.find_expiry(key) != at:
                continue
            row = self._rows.find(key)
            if row is not None and row.has_expired_result(now):
                self._bytes -= size_of(row.outcome)
                row.drop_result()
                self._remembered[row.key] = None
                self._note_expiry(row)
            else:
                self._forget(row)

    def _forget(self, row: Row | None) -> None:
        if row is None:
            return
        self._bytes -= size_of(row.outcome)
        del self._rows[row.key]
        self._purchases.pop(self._purchase_of.pop(row.key, ""), None)
        self._owed.pop(row.key, None)
        self._unfetched.pop(row.key, None)
        self._remembered.pop(row.key, None)
        keys = self._authorizations.get(row.authorization_hash, {})
        keys.pop(row.key, None)
        if not keys:
            self._authorizations.pop(row.authorization_hash, None)
        self._transactions.pop(row.transaction_id, None)

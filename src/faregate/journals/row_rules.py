"""The domain rules of one row. Every journal follows them; each stores rows its own way.

1. A row moves from CLAIMED, through RUNNING, to SUCCEEDED or FAILED, and ends as SETTLED, UNPAID or
   PAID_NO_RESULT. It is UNSTARTED if its transaction is known and its work has not begun. A payment that
   settles without work of ours is WAITING; a row that only its payer or an operator can end is STUCK. A
   WAITING or an undecided STUCK row becomes UNSTARTED if the service never began to settle it. A decided
   outcome never changes (`faregate.journals.states`).
2. A write must carry the row's current fencing token (`fence`). Tokens are compared for equality only: a
   counter would start again with a deleted row. Two facts are accepted from anybody, because they are true
   whichever process holds the lease: a transaction id that the service gave, and a payment that it confirmed.
3. When a lease is over, the next to come takes the row, with a new fencing token. A lease is over at its
   time, or as soon as its owner, a process, is known to be dead, or has not written for `owner_lease` seconds
   and is not known to live. A row without an owner is not leased, whatever the clock says.
4. Only rows that owe nothing expire: SETTLED, UNPAID, PAID_NO_RESULT, and a CLAIMED row that never learned of
   a transaction. An open payment is never forgotten. A result that is paid and was never fetched is served
   until a sweep removes it and emits `Expired`.
5. A SETTLED row that expires loses its result and becomes PAID_NO_RESULT. That it was paid is remembered for
   as long as its authorization may still be sent: a payer who comes late is not asked to pay again.
6. A row has a `purchase` from the start of its work until its result is delivered, or none can come of it. No
   two rows have the same: of a payer's payments for one request, one runs at a time. Where locks show which
   processes live, a delivered row keeps its purchase and the `owner` that sent the result, until the payer's
   next payment asks: if the owner has died, and the payer asks soon after the record of the delivery, the
   result may not have left, and that next payment resumes this row. It has not left if the owner takes the
   delivery back, because the payer was gone. A purchase that its payer has named stays for as long as the
   row, unless the payment failed: it is not made again.

A journal calls a method of the row, and stores the row if it returns True: it changed.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from itertools import chain
from operator import attrgetter
from typing import Any

from faregate.core.claim_types import (
    AlreadyFailed,
    AlreadyUsed,
    Claim,
    Claimant,
    Claimed,
    ClientMismatch,
    ClientUnverified,
    EarlierPayment,
    HoldInfo,
    InProgress,
    Lease,
    PendingPayment,
    Recoverable,
    Replayable,
    ReplayPolicy,
    RequestMismatch,
    SettlementWrite,
    find_resumed,
    name_resumption,
)
from faregate.core.models import Outcome, WorkFailed, WorkSucceeded
from faregate.core.request_headers import EXACT, PREDICTABLE, STABLE, find_header_credentials
from faregate.frozen import frozen
from faregate.journals.durations import JournalPolicy
from faregate.journals.owner_locks import IS_DEAD, has_lock
from faregate.journals.states import (
    AWAITING_SETTLEMENT,
    CLAIMED,
    FAILED,
    FINAL,
    PAID_NO_RESULT,
    RUNNING,
    SETTLED,
    STUCK,
    SUCCEEDED,
    UNPAID,
    UNSTARTED,
    WAITING,
    RowState,
)
from faregate.x402.headers import find_payer, find_validity

IDENTIFIED = "i"
"""The first letter of the hash of a purchase that its payer has named; it is no hexadecimal digit."""
_PURCHASE_LENGTH = 32
TOO_OLD = "not settled in time"
NOT_FETCHED = "not_fetched"
"""The reason of a paid row whose payer did not come in time."""
UNSENT_SECONDS = 5.0
"""If the process that sends a result is dead, and the payer asks again within this time after the record of
the delivery, the result may not have left.

The payer's connection ends with the sender, so the payer asks again at once. Less than the time for which a
process without leases keeps its lock (`heartbeat.IDLE_SECONDS`).
"""
MAX_REQUEST_LINE = 4096
"""Characters of a request line that are kept: a stranger chooses the URL."""


@frozen
class Fingerprint:
    """Keyed hashes of a request: of method and URL, of each credential, of its body and of its payment's
    authorization (each of these two "" if there is none).

    That of the authorization is the same in all encodings of a payment.
    """

    request: str
    client: frozenset[str] = frozenset()
    body: str = ""
    authorization: str = ""


@frozen
class Holder:
    """The taker of a lease: the process, its seller (a hash of the API key), and a new fencing token."""

    owner: str
    seller: str
    fence: int


@dataclass(slots=True)
class Row:
    """The journal's record of one proof. Times are in seconds of the journal's clock.

    `expires_at` is None exactly while the payment is open. `generation` counts the leases. `owner` is empty
    while no process has the lease; of a delivered row it may be who sent the result (rule 6). `touched_at` is
    when the owner wrote last: of a final row, when it ended or was delivered first. `request` is a keyed hash
    (`Fingerprint.request`), and `request_line` the method and the URL, for operators. `client` has the hashes
    of the credentials that the result is bound to, separated by spaces. A hash begins with `EXACT`, `STABLE`
    or `PREDICTABLE` (`faregate.core.request_headers`) if its credential was so marked. `holds_so_far` counts
    how often the payment was left open for a later retry: each time doubles the back-off, up to a limit, and
    operators see the number as `HoldInfo.attempts`. `forget_at` is until when a settled row is remembered,
    with its result or without; None if it was never settled. `purchase` is a keyed hash of the payer that the
    proof names and of the request or the identifier (rule 6), or empty. `payer` is an address, or empty where
    the receipt or the proof has it. `reason` is why a row is stuck, or why it ended without a result.
    """

    key: bytes
    key_id: str
    request: str
    proof: str = field(repr=False)
    request_line: str = field(repr=False)
    fence: int
    since: float
    lease_until: float
    expires_at: float | None
    owner: str = ""
    touched_at: float = 0.0
    seller: str = ""
    client: str = ""
    body: str = ""
    authorization_hash: str = ""
    purchase: str = ""
    forget_at: float | None = None
    state: RowState = CLAIMED
    generation: int = 1
    transaction_id: str = ""
    revision_id: str = ""
    outcome: Outcome | None = None
    payer: str = field(default="", repr=False)
    payment_response: str = ""
    receipt: str = ""
    delivered: bool = False
    redelivered: int = 0
    holds_so_far: int = 0
    due_at: float = 0.0
    reason: str = ""

    @classmethod
    def create(
        cls,
        key: bytes,
        key_id: str,
        fingerprint: Fingerprint,
        proof: str,
        request_line: str,
        holder: Holder,
        now: float,
        policy: JournalPolicy,
    ) -> "Row":
        line, until = request_line[:MAX_REQUEST_LINE], now + 2 * policy.claim_lease
        row = cls(key, key_id, fingerprint.request, proof, line, holder.fence, now, 0.0, until)
        row.authorization_hash = fingerprint.authorization
        row._bind_client(fingerprint, holder, now + policy.claim_lease, now)
        return row

    def copy(self) -> "Row":
        return Row(*get_values(self))

    # A further claim with the same proof

    def claim_again(
        self,
        fingerprint: Fingerprint,
        replay: ReplayPolicy,
        now: float,
        policy: JournalPolicy,
        holder: Holder,
        owner_until: float,
    ) -> Claim:
        """Answer a request that carries this proof again.

        The row changed only if the result is `Claimed`, `Recoverable` or `Replayable`.

        `owner_until`: until when the owner is known to live (`faregate.journals.owner_locks`).
        """
        if fingerprint.request != self.request or (
            fingerprint.body and self.body and fingerprint.body != self.body
        ):
            return RequestMismatch()
        if self.state is UNPAID:
            return AlreadyFailed(find_resumed(self.reason))
        if self.state is PAID_NO_RESULT or self.has_expired_result(now):
            return AlreadyUsed(self.transaction_id)
        # The client is checked before the lease: a stranger who rebuilt the proof gets the same answer
        # whether or not a result is being settled, and is never asked to come back for it.
        if not self._passes_client_check(fingerprint, STABLE):
            return ClientMismatch()
        if replay is not ReplayPolicy.PROVEN_PAYER and not self._passes_client_check(fingerprint, EXACT):
            return ClientUnverified(self.transaction_id)
        if self.state is SETTLED:
            return self._replay(replay, now, policy, holder.owner)
        if self.is_leased(now, policy, owner_until):
            return InProgress()
        if self.state in (CLAIMED, UNSTARTED):
            return self._claim_unstarted(fingerprint, now, policy, holder)
        self.lease_to(holder, now + policy.completion_lease, now)
        return Recoverable(self.to_pending_payment(holder.seller))

    def _claim_unstarted(
        self, fingerprint: Fingerprint, now: float, policy: JournalPolicy, holder: Holder
    ) -> Claim:
        """Bind a row whose work was not started to the client that comes now: there is no result yet."""
        if self.state is CLAIMED:
            # The row owes nothing yet and may expire, but not while the request that claims it is served.
            self.expires_at = now + 2 * policy.claim_lease
        lease = self.lease_to(holder, now + policy.claim_lease, now)
        self._bind_client(fingerprint, holder, self.lease_until, now)
        return Claimed(lease, self.transaction_id, self.revision_id)

    def _bind_client(self, fingerprint: Fingerprint, holder: Holder, until: float, now: float) -> None:
        self.client = " ".join(sorted(fingerprint.client))
        self.body = fingerprint.body
        self.owner, self.seller = holder.owner, holder.seller
        self.lease_until, self.touched_at = until, now

    def _passes_client_check(self, fingerprint: Fingerprint, form: str) -> bool:
        """Whether there is no result yet, or the request carries all credentials of the first one.

        `form` is the form in which signed cookies are compared.
        """
        return not isinstance(self.outcome, WorkSucceeded) or self.has_same_client(fingerprint, form)

    def has_same_client(self, fingerprint: Fingerprint, form: str = STABLE) -> bool:
        """Whether a request carries all credentials of the first one, or more."""
        needed = (
            credential
            for credential in self.client.split()
            if credential[0] not in (EXACT, STABLE) or credential[0] == form
        )
        return fingerprint.client.issuperset(needed)

    @property
    def _has_secret_credentials(self) -> bool:
        return any(credential[0] != PREDICTABLE for credential in self.client.split())

    def _replay(self, replay: ReplayPolicy, now: float, policy: JournalPolicy, owner: str) -> Claim:
        if not isinstance(self.outcome, WorkSucceeded):
            return AlreadyUsed(self.transaction_id)
        if not self.delivered:
            self._deliver_first(now, policy, owner)
        elif replay is ReplayPolicy.NEVER or self.redelivered >= policy.redeliveries:
            return AlreadyUsed(self.transaction_id)
        elif replay is ReplayPolicy.SAME_CLIENT and not self._has_secret_credentials:
            return ClientUnverified(self.transaction_id)
        else:
            self.redelivered += 1
            self._note_sender(owner)
        return Replayable(self.outcome.result, self.payment_response, self.transaction_id)

    def is_leased(self, now: float, policy: JournalPolicy, owner_until: float) -> bool:
        if not self.owner or self.lease_until <= now or owner_until == IS_DEAD:
            return False
        return max(self.touched_at + policy.owner_lease, owner_until) > now

    def _deliver_first(self, now: float, policy: JournalPolicy, owner: str) -> None:
        self.delivered = True
        self._note_sender(owner)
        self.touched_at, self.expires_at = now, now + policy.redelivery_window
        self.forget_at = max(self.forget_at or now, now + policy.settled_retention)

    def has_expired_result(self, now: float) -> bool:
        """Whether its result was delivered, and is not delivered again: the time for that is over."""
        is_over = self.expires_at is not None and self.expires_at <= now
        return self.state is SETTLED and self.delivered and is_over

    def may_be_removed(self, now: float) -> bool:
        """Whether its time is over, as `faregate.journals.store.may_be_removed` says it of a record."""
        until = self.forget_at if self.state is SETTLED else self.expires_at
        return until is not None and until <= now and not self.is_unfetched

    def drop_result(self) -> None:
        """Remember of a delivered payment only that it was paid. `RowStore.drop_results` does the same."""
        self.state = PAID_NO_RESULT
        self.expires_at = self.forget_at
        self.outcome = None
        self.client = self.body = self.request_line = self.payment_response = self.receipt = ""

    def drop_unfetched_result(self, now: float, policy: JournalPolicy) -> None:
        """Remember of a payment that its result was not fetched, and what it was for."""
        self.state = PAID_NO_RESULT
        self.expires_at = self.forget_at = now + policy.paid_retention
        self.outcome = None
        self.payment_response = ""
        self._free_purchase_unless_named()
        self.reason = NOT_FETCHED

    @property
    def was_settled(self) -> bool:
        """Whether a settlement was recorded, even if the result is gone by now."""
        return self.forget_at is not None

    @property
    def is_unfetched(self) -> bool:
        """Whether it is paid, and its payer has not fetched the result."""
        return self.state is SETTLED and not self.delivered

    def is_due(self, now: float) -> bool:
        owed = self.expires_at is None and self.state is not STUCK
        return owed and self.due_at <= now and (self.lease_until <= now or not self.owner)

    def lease_to(self, holder: Holder, until: float, now: float) -> Lease:
        """Grant a lease with a new fencing token: the previous holder's writes are refused from now on."""
        self.fence = holder.fence
        self.owner = holder.owner
        self.generation += 1
        self.lease_until, self.touched_at = until, now
        return RowLease(self.key, self.fence)

    def to_pending_payment(self, seller: str) -> PendingPayment:
        """Describe the row for recovery by a process that sells as `seller`."""
        waiting = self.state is WAITING or (self.state is STUCK and self.outcome is None)
        return PendingPayment(
            RowLease(self.key, self.fence),
            self.proof,
            self.transaction_id,
            self.revision_id,
            self.outcome,
            waiting,
            foreign=self.seller != seller,
        )

    def to_earlier_payment(self, now: float, policy: JournalPolicy, owner_until: float) -> EarlierPayment:
        """Describe the row to a later payment for the same purchase."""
        is_interrupted = self.state is RUNNING and not self.is_leased(now, policy, owner_until)
        return EarlierPayment(self.transaction_id, is_interrupted)

    def to_hold_info(self) -> HoldInfo:
        return HoldInfo(
            self.transaction_id,
            self.revision_id,
            self.state.value,
            self.reason,
            self.since,
            max(self.lease_until, self.due_at),
            self.holds_so_far,
            size_of(self.outcome),
            kept_until=self.expires_at,
        )

    # Writes under a lease; each returns whether the row changed

    def may_start(self, lease: Lease, transaction_id: str) -> bool:
        fits = self.transaction_id in ("", transaction_id)
        return fits and self._is_held(lease, CLAIMED, UNSTARTED)

    def record_transaction(
        self,
        lease: Lease,
        transaction_id: str,
        revision_id: str,
        seconds: float,
        now: float,
        policy: JournalPolicy,
        purchase: str = "",
    ) -> bool:
        if not self.may_start(lease, transaction_id):
            return False
        self._bind_transaction(RUNNING, transaction_id, revision_id)
        self.purchase = purchase
        self.lease_until, self.touched_at = now + seconds + policy.completion_lease, now
        return True

    def record_resumption(
        self,
        lease: Lease,
        transaction_id: str,
        revision_id: str,
        resumed: str,
        now: float,
        policy: JournalPolicy,
    ) -> bool:
        """Decide in one write, before any work, that this payment fails, and remember what it led to."""
        if not self.may_start(lease, transaction_id):
            return False
        self._bind_transaction(FAILED, transaction_id, revision_id)
        self.outcome = WorkFailed(name_resumption(resumed))
        self.lease_until, self.touched_at = now + policy.completion_lease, now
        return True

    def record_pending(
        self, lease: Lease, transaction_id: str, revision_id: str, now: float, policy: JournalPolicy
    ) -> bool:
        is_known = self.transaction_id == transaction_id and self._is_held(lease, WAITING)
        if not (is_known or self.may_start(lease, transaction_id)):
            return False
        self._bind_transaction(WAITING, transaction_id, revision_id)
        self._end_lease_and_back_off(now, policy)
        return True

    def learn_transaction(self, transaction_id: str, revision_id: str, waits: bool) -> bool:
        """Accept a transaction id without the lease. `waits`: it settles without work of ours."""
        if self.state is not CLAIMED:
            return False
        self._bind_transaction(WAITING if waits else UNSTARTED, transaction_id, revision_id)
        return True

    def record_outcome(self, lease: Lease, outcome: Outcome, now: float, policy: JournalPolicy) -> bool:
        failed = isinstance(outcome, WorkFailed)
        # Recovery fails a payment whose work never began. It cannot succeed.
        if not self._is_held(lease, RUNNING, *((UNSTARTED,) if failed else ())):
            return False
        self.state = FAILED if failed else SUCCEEDED
        self.outcome = outcome
        if failed:
            self.purchase = ""
        self.lease_until, self.touched_at = now + policy.completion_lease, now
        return True

    def hold_or_mark_stuck(self, lease: Lease, now: float, policy: JournalPolicy) -> bool:
        if not self._is_held(lease, *AWAITING_SETTLEMENT):
            return False
        # A stuck row that is retried keeps its reason.
        if self.state is not STUCK and now >= self.since + policy.max_age:
            return self.mark_stuck(lease, TOO_OLD, now)
        self._end_lease_and_back_off(now, policy)
        return True

    def give_back(self, lease: Lease, now: float, policy: JournalPolicy) -> bool:
        """End the lease of a worker whose write failed, whatever the row owes."""
        if self.hold_or_mark_stuck(lease, now, policy):
            return True
        if self.fence != lease.fence or self.state in FINAL:
            return False
        self._end_lease(now)
        return True

    def mark_stuck(self, lease: Lease, reason: str, now: float) -> bool:
        if not self._is_held(lease, *AWAITING_SETTLEMENT):
            return False
        self.state = STUCK
        self.reason = reason
        self._end_lease(now)
        return True

    def postpone(self, lease: Lease, now: float, policy: JournalPolicy) -> bool:
        if self.fence != lease.fence or self.expires_at is not None:
            return False
        self._end_lease(now)
        self.due_at = now + policy.adoption_delay
        return True

    def record_settlement(
        self,
        lease: Lease,
        payment_response: str,
        receipt: str,
        delivered: bool,
        now: float,
        policy: JournalPolicy,
    ) -> bool:
        """Record a confirmed payment, whichever process holds the lease: it stays true.

        The first process that delivers gets the fencing token, so that only one of two does. If its payer
        left before the result was sent, it takes the delivery back (`delivered` False).
        """
        if not delivered and self._was_delivered_by(lease):
            self.delivered, self.owner = False, ""
            self.purchase = self.purchase or get_copy(lease).purchase
            self.touched_at, self.expires_at = now, now + policy.undelivered_retention
            return True
        # It was settled without a delivery. This is the first one.
        if self.state is SETTLED and delivered and not self.delivered:
            self.fence = lease.fence
            self._deliver_first(now, policy, "")
            return True
        if self.state not in (SUCCEEDED, STUCK) or not isinstance(self.outcome, WorkSucceeded):
            return False
        # An upper bound of the validity that is left.
        # Read it before `_end` deletes the proof.
        validity = min(find_validity(self.proof), policy.paid_retention)
        self.forget_at = now + max(validity, policy.settled_retention)
        owner = self.owner if self.fence == lease.fence else ""
        self._end(SETTLED, now)
        self.fence = lease.fence
        self.payment_response = payment_response
        self.receipt = receipt
        self.delivered = delivered
        if delivered:
            get_copy(lease).purchase = self.purchase
            self._note_sender(owner)
        self.expires_at = now + (policy.redelivery_window if delivered else policy.undelivered_retention)
        return True

    def _was_delivered_by(self, lease: Lease) -> bool:
        """Whether this lease delivered the result, and no later request has got it."""
        is_first = self.delivered and self.redelivered == 0
        return self.state is SETTLED and is_first and self.fence == lease.fence

    def describe_settlement(self, lease: Lease, was_settled: bool, changed: bool) -> SettlementWrite:
        """Tell the writer of a settlement, after `record_settlement`, whether to count and to deliver.

        `was_settled` is of the row before that call, and `changed` its answer.
        """
        if self.delivered and not changed and self.fence != lease.fence:
            return SettlementWrite.DELIVERED_ELSEWHERE
        # The row has no result to settle: the call is about an earlier row of this proof, which was counted
        # and removed.
        if was_settled or not (changed or self.state in FINAL):
            return SettlementWrite.REPEATED
        return SettlementWrite.FIRST

    def record_final(
        self, lease: Lease, paid: bool, reason: str, receipt: str, now: float, policy: JournalPolicy
    ) -> bool:
        """Record the end of a payment that has no result. A paid one may come without a receipt."""
        if not self._is_held(lease, *AWAITING_SETTLEMENT):
            return False
        # Read the payer before `_end` deletes the proof.
        self.payer = find_payer(self.proof)
        self._end(PAID_NO_RESULT if paid else UNPAID, now)
        self.outcome = None
        self._free_purchase_unless_named(failed=not paid)
        self.reason = reason
        self.receipt = receipt if paid else ""
        self.expires_at = now + (policy.paid_retention if paid else policy.failed_retention)
        return True

    def end_unreadable(self, paid: bool, reason: str, now: float, policy: JournalPolicy) -> None:
        """Record what an operator says of an open payment whose journal key is lost.

        Call it only while no process has the lease.
        """
        self._end(PAID_NO_RESULT if paid else UNPAID, now)
        self.outcome = None
        self._free_purchase_unless_named(failed=not paid)
        self.reason = reason
        self.expires_at = now + (policy.paid_retention if paid else policy.failed_retention)

    def may_be_forgotten(self, lease: Lease) -> bool:
        """Whether no other process ever had this claim, so that none can have learned of a transaction."""
        return self._is_held(lease, CLAIMED) and self.generation == 1

    def abandon_claim(self, lease: Lease, now: float, policy: JournalPolicy) -> bool:
        """End the lease of a claim that may not be forgotten. Its payer may claim it again at once."""
        undecided = (STUCK,) if self.outcome is None else ()
        if not self._is_held(lease, CLAIMED, UNSTARTED, WAITING, *undecided):
            return False
        self._end_lease(now)
        if self.state not in (CLAIMED, UNSTARTED):
            self.state = UNSTARTED
            self.reason = ""
            # Only once: a payer who keeps asking must not put off the sweep each time.
            self.due_at = now + policy.claim_lease
        return True

    def _is_held(self, lease: Lease, *states: RowState) -> bool:
        return self.fence == lease.fence and self.state in states

    def _bind_transaction(self, state: RowState, transaction_id: str, revision_id: str) -> None:
        self.state = state
        self.transaction_id = transaction_id
        self.revision_id = revision_id
        self.expires_at = None

    def _end(self, state: RowState, now: float) -> None:
        self.state = state
        self.touched_at = now
        # Only complete needs the proof, and this payment has ended.
        self.proof = ""
        self.reason = ""
        self.owner = ""

    def _note_sender(self, owner: str) -> None:
        """Note which process sends the result.

        Without a lock nothing would tell that it died, so the purchase is freed at once.
        """
        if self.purchase and has_lock(owner):
            self.owner = owner
        else:
            self._free_purchase_unless_named()

    def may_free_purchase(self, now: float, owner_until: float) -> bool:
        """Whether another payment may have the purchase: the result has left, or leaves now.

        It is recorded as delivered before it leaves. A purchase that the payer named is not made again.
        """
        if not self.delivered or self.purchase.startswith(IDENTIFIED):
            return False
        return owner_until != IS_DEAD or now >= self.touched_at + UNSENT_SECONDS

    def free_purchase(self) -> None:
        """Let another payment have the purchase of this row, which has been served."""
        self.purchase = self.owner = ""

    def _free_purchase_unless_named(self, failed: bool = False) -> None:
        """Free the purchase. One that the payer named stays with its payment, unless that `failed`."""
        if failed or not self.purchase.startswith(IDENTIFIED):
            self.purchase = ""

    def _end_lease(self, now: float) -> None:
        self.lease_until = now
        self.owner = ""

    def _end_lease_and_back_off(self, now: float, policy: JournalPolicy) -> None:
        """The payer may come at once; the sweep waits twice as long each time."""
        # Limit the exponent: for a row that was held very often, the product would overflow a float.
        backoff = min(policy.initial_backoff * 2 ** min(self.holds_so_far, 16), policy.max_backoff)
        self._end_lease(now)
        self.due_at = now + backoff * self._get_jitter()
        self.holds_so_far += 1

    def _get_jitter(self) -> float:
        """A factor from 0.75 to 1.25, so that payments that failed together do not all come back at once.

        Taken from the key, a hash, so that rows need no random numbers.
        """
        return 0.75 + self.key[self.holds_so_far % len(self.key)] / 510


@dataclass(slots=True)
class RowCopy:
    """A row as the journal that granted its lease last read or wrote it, and the stamp it had; or nothing.

    So a write needs no read before it: it is made on the condition that the row still has this stamp.
    `purchase` is what the row had before the delivery, in case that is taken back.
    """

    row: Row | None = None
    stamp: int = 0
    purchase: str = ""


@frozen
class RowLease(Lease):
    """A lease with a copy of its row."""

    copy: RowCopy = field(default_factory=RowCopy, compare=False, repr=False)


def get_copy(lease: Lease) -> RowCopy:
    """Return the copy of the row that a lease carries; an empty one if it carries none."""
    return lease.copy if isinstance(lease, RowLease) else RowCopy()


def hash_purchase(proof: str, claimant: Claimant, digest: Callable[[str], bytes]) -> str:
    """Hash what makes two payments the same purchase, as far as their proofs and requests tell.

    That is the payer and the identifier. If there is no identifier, it is the payer, the request, what is
    sold, the body and the named credentials.

    Empty if the proof names no payer. What it says is not verified: who finds two equal purchases must
    compare their verified payers.
    """
    payer = find_payer(proof)
    if not payer:
        return ""
    if claimant.identifier:
        return (IDENTIFIED + digest(f"identifier\0{payer}\0{claimant.identifier}").hex())[:_PURCHASE_LENGTH]
    # A payer that sends another key or another idempotency key buys something else. Cookies are not
    # compared here: between two requests, a server may have set some.
    named = find_header_credentials(claimant.credentials)
    about = (payer, claimant.request, claimant.sold, claimant.body_digest, *named)
    return digest("\0".join(about)).hex()[:_PURCHASE_LENGTH]


def find_use(state: RowState, transaction_id: str) -> InProgress | AlreadyUsed | None:
    """Tell what a row in this state makes of the same payment in another encoding; None if it is unused."""
    if state is UNPAID:
        return None
    if state in FINAL:
        return AlreadyUsed(transaction_id)
    return InProgress()


FIELDS = tuple(each.name for each in fields(Row))
get_values: Callable[[Row], tuple[Any, ...]] = attrgetter(*FIELDS)


def size_of(outcome: Outcome | None) -> int:
    """The bytes of a result that count towards the quota of a journal."""
    if not isinstance(outcome, WorkSucceeded):
        return 0
    return len(outcome.result.body) + sum(map(len, chain.from_iterable(outcome.result.headers)))

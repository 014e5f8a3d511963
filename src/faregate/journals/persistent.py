"""A journal that survives its process and is shared by several: the rules of a row over any `RowStore`."""

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

from faregate.core import driver
from faregate.core.claim_types import (
    AlreadyUsed,
    Claim,
    Claimant,
    EarlierPayment,
    HoldInfo,
    InProgress,
    Lease,
    PendingPayment,
    SettlementWrite,
)
from faregate.core.interfaces import Journal
from faregate.core.models import Outcome
from faregate.journals.durations import DEFAULT_POLICY, JournalPolicy
from faregate.journals.event_loops import AsyncJournal, run_in_thread, wrap_in_batches, wrap_in_threads
from faregate.journals.heartbeat import Heartbeat
from faregate.journals.keyring import Keyring
from faregate.journals.open_payments import OpenPaymentQueue
from faregate.journals.owner_locks import get_locks
from faregate.journals.payment_info import FoundPayments, Reference
from faregate.journals.procedures import Procedures
from faregate.journals.quota import Quota
from faregate.journals.reader import NamespaceReader
from faregate.journals.row_access import RowAccess
from faregate.journals.row_operations import BatchStore, BlockingRows, Run
from faregate.journals.store import KeyUsage, RowStore


class PersistentJournal:
    """Encrypted rows in a store. Safe to share between threads and processes; its calls block.

    `keys` are 32 random bytes each, newest first. `seller` tells API keys apart. At about `max_rows` rows, or
    `max_bytes` of results, new claims are refused. All processes that share the store must agree on `clock`
    (seconds). The first claim starts a thread that renews this process's leases
    (`faregate.journals.heartbeat`). `run` runs blocking calls for event loops.
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
        self._policy = policy
        self._clock = clock
        self._run = run
        locks = get_locks(store)
        take_owner_lock = () if locks is None else (locks.take,)
        self._heartbeat = Heartbeat(self._renew, self._give_back, policy.renew_every, *take_owner_lock)
        self._quota = Quota(store, max_rows, max_bytes)
        self._rows = RowAccess(
            store, BlockingRows(store), self._keyring, seller, policy, clock, self._heartbeat
        )
        self._procedures = Procedures(self._rows, self._quota)
        self._open_payments = OpenPaymentQueue(self._rows, self._quota)

    def as_async(self) -> Journal:
        """Return this journal for event loops: in batches if its store can, or else in threads."""
        store, run = self._store, self._run
        if not isinstance(store, BatchStore):
            return AsyncJournal(self, self._procedures, wrap_in_threads(run), run)
        procedures = Procedures(self._rows.in_batches(store, run), self._quota)
        return AsyncJournal(self, procedures, wrap_in_batches(self._clock, run), run)

    def disconnect(self) -> None:
        """Close all connections; the next call opens new ones."""
        self._heartbeat.release_owner_lock()
        self._store.disconnect()

    def _renew(self, owner: str) -> None:
        now = self._clock()
        self._store.renew(owner, now + self._policy.owner_lease, now)

    def _give_back(self, lease: Lease) -> None:
        driver.run(self._procedures.give_back(lease))

    # Claims, and writes under a lease

    def claim(self, proof: str, claimant: Claimant) -> Claim:
        return driver.run(self._procedures.claim(proof, claimant))

    def find_other_encoding(self, lease: Lease, proof: str) -> InProgress | AlreadyUsed | None:
        return driver.run(self._procedures.find_other_encoding(lease, proof))

    def claim_transaction(self, transaction_id: str, claimant: Claimant) -> Claim:
        return driver.run(self._procedures.claim_transaction(transaction_id, claimant))

    def record_transaction(
        self,
        lease: Lease,
        transaction_id: str,
        revision_id: str,
        seconds: float,
        claimant: Claimant | None = None,
    ) -> bool | EarlierPayment:
        procedure = self._procedures.record_transaction(lease, transaction_id, revision_id, seconds, claimant)
        return driver.run(procedure)

    def record_resumption(self, lease: Lease, transaction_id: str, revision_id: str, resumed: str) -> bool:
        return driver.run(self._procedures.record_resumption(lease, transaction_id, revision_id, resumed))

    def record_pending(self, lease: Lease, transaction_id: str, revision_id: str) -> None:
        driver.run(self._procedures.record_pending(lease, transaction_id, revision_id))

    def record_outcome(self, lease: Lease, outcome: Outcome) -> bool:
        return driver.run(self._procedures.record_outcome(lease, outcome))

    def schedule_retry(self, lease: Lease) -> bool:
        return driver.run(self._procedures.schedule_retry(lease))

    def mark_stuck(self, lease: Lease, reason: str) -> None:
        driver.run(self._procedures.mark_stuck(lease, reason))

    def postpone(self, lease: Lease) -> None:
        driver.run(self._procedures.postpone(lease))

    def record_settlement(
        self, lease: Lease, payment_response: str, receipt: str, delivered: bool
    ) -> SettlementWrite:
        return driver.run(self._procedures.record_settlement(lease, payment_response, receipt, delivered))

    def record_final(self, lease: Lease, paid: bool, reason: str = "", receipt: str = "") -> bool:
        return driver.run(self._procedures.record_final(lease, paid, reason, receipt))

    def abandon_claim(self, lease: Lease) -> bool:
        return driver.run(self._procedures.abandon_claim(lease))

    # Open payments

    def lease_next(self) -> PendingPayment | None:
        """Take the next row that is due. When none is left, delete expired rows."""
        return self._open_payments.lease_next()

    def remove_unfetched(self, limit: int) -> tuple[str, ...]:
        """Remove paid results whose payer did not come in time; return their transactions."""
        return self._open_payments.remove_unfetched(limit)

    def list_holds(self, limit: int) -> list[HoldInfo]:
        """List open payments, oldest first."""
        return self._open_payments.list_holds(limit)

    def get_hold(self, transaction_id: str) -> HoldInfo | None:
        return self._open_payments.get_hold(transaction_id)

    def lease_hold(self, transaction_id: str) -> PendingPayment | None:
        """Take the row of this transaction, due or not, even stuck; None while another has the lease."""
        return self._open_payments.lease_hold(transaction_id)

    def end_unreadable(self, transaction_id: str, paid: bool, reason: str) -> bool:
        """End an open payment whose key is lost; False if there is none, or while another has the lease."""
        return self._open_payments.end_unreadable(transaction_id, paid, reason)

    # For operators

    def find_payments(self, reference: Reference) -> FoundPayments:
        """Find the payments of this namespace that a customer may mean."""
        return self._make_reader(self._store).find(reference)

    def list_unfetched(self, limit: int) -> list[HoldInfo]:
        """List paid results that their payers have not fetched, the first to be removed first."""
        return self._make_reader(self._store).list_unfetched(limit)

    def list_namespaces(self) -> list[str]:
        """List the namespaces of this store that have rows."""
        return self._store.list_namespaces()

    @contextmanager
    def read_namespace(self, namespace: str) -> Generator[NamespaceReader]:
        """Read the rows of any namespace of this store."""
        with self._store.open_namespace(namespace) as store:
            yield self._make_reader(store)

    def _make_reader(self, store: RowStore) -> NamespaceReader:
        return NamespaceReader(store, self._keyring, self._policy, self._clock())

    def has_unknown_keys(self) -> bool:
        """Whether rows were stored under journal keys that this journal was not given."""
        return not self._store.key_ids() <= self._keyring.key_ids

    def usage_of_keys(self) -> list[tuple[KeyUsage, bool]]:
        """Return what each journal key is still needed for, and whether this journal has it."""
        return [(usage, usage.key_id in self._keyring.key_ids) for usage in self._store.usage_of_keys()]

    def namespaces(self) -> dict[str, int]:
        """The number of open rows in each namespace of this store, this one among them."""
        return self._store.namespaces()

    def move(self, namespace: str) -> int:
        """Move all rows of another namespace into this one; return how many."""
        return self._store.move(namespace)

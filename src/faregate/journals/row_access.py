"""Read and write the rows of a store, as parts of procedures (`faregate.journals.row_operations`)."""

import itertools
import math
import os
import secrets
from collections.abc import Awaitable, Callable
from copy import copy
from functools import partial
from typing import Any

from faregate.core.claim_types import Claim, Claimed, Recoverable
from faregate.core.models import Outcome
from faregate.journals.codec import LARGE, Codec
from faregate.journals.durations import JournalPolicy
from faregate.journals.heartbeat import Heartbeat
from faregate.journals.keyring import Keyring
from faregate.journals.owner_locks import get_locks, get_owner_until, has_lock
from faregate.journals.row_operations import (
    BatchStore,
    Find,
    FindResult,
    Procedure,
    Replace,
    RowOperation,
    Rows,
    Run,
)
from faregate.journals.row_rules import Holder, Row, get_copy, size_of
from faregate.journals.states import FAILED, STUCK
from faregate.journals.store import Record, RowStore


class RowAccess:
    """The rows of one journal: with its keys, for its seller and process. `rows` performs the operations."""

    def __init__(
        self,
        store: RowStore,
        rows: Rows,
        keyring: Keyring,
        seller: str,
        policy: JournalPolicy,
        clock: Callable[[], float],
        heartbeat: Heartbeat,
    ) -> None:
        self.store = store
        self.perform, self.run = rows.perform, rows.run
        self.keyring = keyring
        self.codec = Codec(keyring, getattr(store, "takes_parts", False))
        self.seller = seller
        self.policy = policy
        self.clock = clock
        self.heartbeat = heartbeat
        self._has_locks = get_locks(store) is not None

    @property
    def syncs_outcomes(self) -> bool:
        """Whether an outcome must be durable before it is reported; else the service sees to that."""
        return bool(getattr(self.store, "syncs_outcomes", True))

    def in_batches(self, store: BatchStore, run: Run) -> "RowAccess":
        """Return the same for event loops, which wait for the writer of this store."""

        def perform(operation: RowOperation) -> Awaitable[Any]:
            return acall(prepare(operation))

        prepare, acall = store.prepare, store.writer.acall
        other = copy(self)
        other.perform, other.run = perform, run
        return other

    def make_holder(self) -> Procedure[Holder]:
        if self.heartbeat.note_use():
            yield self.run(self.heartbeat.take_owner_lock)
        return Holder(self.heartbeat.owner, self.seller, make_id())

    def grant(self, claim: Claim, row: Row, stamp: int, seconds: float) -> Claim:
        """Note what was written with the lease of this claim, if it has one, and renew the lease."""
        if isinstance(claim, Claimed | Recoverable):
            lease = claim.lease if isinstance(claim, Claimed) else claim.payment.lease
            row_copy = get_copy(lease)
            row_copy.row, row_copy.stamp = row, stamp
            self.heartbeat.add(row.key, seconds)
        return claim

    def get_owner_until(self, row: Row, now: float) -> Procedure[float]:
        """Until when the owner is known to live. Asked only when it matters: of another's lease."""
        if not row.owner or row.lease_until <= now:
            return 0.0
        # This process owns the row and is alive, so the store need not be asked.
        if self.heartbeat.is_owner(row.owner):
            return row.lease_until
        has_written = row.touched_at + self.policy.owner_lease > now
        if has_written and not (self._has_locks and has_lock(row.owner)):
            return 0.0
        until: float = yield self.run(partial(get_owner_until, self.store, row.owner))
        return until

    def get_sender_until(self, row: Row) -> Procedure[float]:
        """Until when the process is known to live that sent the result of a delivered row."""
        if not row.owner or self.heartbeat.is_owner(row.owner):
            return math.inf
        until: float = yield self.run(partial(get_owner_until, self.store, row.owner))
        return until

    def unpack(self, record: Record) -> Procedure[Row]:
        """Read the outcome as well, if the state does not tell what it is. Raises `JournalUnreadable`."""
        row = self.codec.unpack(record)
        if row.state in (FAILED, STUCK):
            row.outcome = yield from self.read_outcome(row.key)
        return row

    def read_outcome(self, key: bytes) -> Procedure[Outcome | None]:
        """Raises `JournalUnreadable`."""
        result: bytes | None = yield self.perform(FindResult(key))
        unpack = partial(self.codec.unpack_outcome, key, result)
        outcome: Outcome | None = (yield self.run(unpack)) if len(result or b"") > LARGE else unpack()
        return outcome

    def replace(self, before: Row, stamp: int, after: Row, durable: bool = False) -> Procedure[int | None]:
        """Write what changed; return the new stamp, or None after a conflict."""
        new = make_id()
        pack = partial(self.codec.pack_changes, before, after, new)
        has_new_result = not self.codec.in_parts and after.outcome is not before.outcome
        is_large = has_new_result and size_of(after.outcome) > LARGE
        changes = (yield self.run(pack)) if is_large else pack()
        if (yield self.perform(Replace(after.key, stamp, changes, durable))):
            return new
        # This very write may have been done twice, because the first reply was lost.
        record: Record | None = yield self.perform(Find([after.key]))
        return new if record is not None and record["stamp"] == new else None


class _Ids:
    """Numbers that no process made before: they count up from a random one, chosen anew after a fork.

    A column holds 63 bits. A counter in the row would start again with a deleted row.
    """

    def __init__(self) -> None:
        self._pid = 0
        self._numbers = itertools.count()

    def __call__(self) -> int:
        if self._pid != os.getpid():
            self._numbers, self._pid = itertools.count(secrets.randbits(62)), os.getpid()
        return next(self._numbers)


make_id = _Ids()
"""Make a fencing token or a stamp."""

"""Locks that show which processes live: the system gives them back when their process dies.

A row names the process that has its lease, its `owner`. Where a store has locks that can be trusted, the id
of an owner names its lock, too. A process that finds the row tries the lock: if it is free, the owner is
dead, and its lease is over; if it is held, the owner lives, even if it was stopped and renews nothing. Where
the lock shows nothing, times decide (`faregate.journals.row_rules`).
"""

import math
from collections.abc import Iterable, Mapping
from typing import Protocol, runtime_checkable

from faregate.journals.store import RowStore

LIVES, IS_DEAD = math.inf, -math.inf
"""What a lock tells `Row.is_leased`: `LIVES` if it is held, `IS_DEAD` if it is free."""


class OwnerLock(Protocol):
    """The lock of one owner in this process."""

    @property
    def owner(self) -> str:
        """The id of the owner, which names the lock."""
        ...

    def keep(self, seconds: float) -> None:
        """Wait so long; take the lock again if it is lost meanwhile. The owner may have a new id then."""
        ...

    def release(self) -> None: ...

    def abandon(self) -> None:
        """Leave the lock to the parent process, in a forked child."""
        ...


class OwnerLocks(Protocol):
    """The locks of all owners in one store."""

    def take(self) -> OwnerLock | None:
        """Take the lock of a new owner. None where no lock can be trusted."""
        ...

    def judge(self, owners: Iterable[str]) -> Mapping[str, bool]:
        """Tell of each owner whether it lives. Leave out those whose lock tells nothing here."""
        ...


@runtime_checkable
class LockingStore(Protocol):
    """A `RowStore` with locks."""

    owner_locks: OwnerLocks | None

    def list_owners(self, now: float) -> list[str]:
        """List the owners of open rows whose lease has not run out by its time."""
        ...


def get_locks(store: RowStore) -> OwnerLocks | None:
    return store.owner_locks if isinstance(store, LockingStore) else None


def name_owner(kind: str, place: str, number: int) -> str:
    """Make an owner's id of the kind of its lock, the lock's place, and its number (60 bits) there."""
    return f"{kind}{place}-{number:015x}"


def has_lock(owner: str) -> bool:
    return "-" in owner


def parse_owner(owner: str, kind: str, place: str) -> int | None:
    """Return the number of the owner's lock; None if it is not of this kind and place."""
    start, _, number = owner.rpartition("-")
    try:
        return int(number, 16) if start == kind + place else None
    except ValueError:
        return None


def get_owner_until(store: RowStore, owner: str) -> float:
    """Until when this owner is known to live: what its lock tells, or else its last renewal."""
    locks = get_locks(store) if has_lock(owner) else None
    lives = None if locks is None else locks.judge([owner]).get(owner)
    if lives is not None:
        return LIVES if lives else IS_DEAD
    return store.owner_until(owner)

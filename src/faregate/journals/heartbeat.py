"""Renew the leases of this process, all with one write, from a thread of its own.

A lease lasts as long as the work may take, which can be minutes. So that no payer waits that long for a
process that died, a row also counts as free when its owner has not written for `owner_lease` seconds. Work
that is done sooner needs no renewal: the row says when its owner wrote last. For longer work this thread
writes. A thread, and not a task, because workers may block. It starts with the first lease, and ends some
time after the last one.

A worker whose write failed writes no more under that lease, but its process lives. So the thread gives such
leases back, as soon as the store can be written.

Where the store has locks that show which processes live (`faregate.journals.owner_locks`), the process has
one while the thread runs, and the thread keeps it. It goes on renewing for those who cannot trust the lock.

A renewal vouches for the process, and names no rows. It neither notices that another process has taken a
lease nor takes it back: the row has a new owner and fencing token by then, and the work finds out at its
next write.
"""

import logging
import math
import os
import secrets
import threading
import weakref
from collections.abc import Callable
from time import monotonic

from faregate.core.claim_types import Lease
from faregate.errors import FaregateError
from faregate.journals.owner_locks import OwnerLock
from faregate.journals.writer import check_threads
from faregate.logs import log

IDLE_SECONDS = 60.0
"""The thread ends when there was no lease to renew for so long."""


class Heartbeat:
    """The leases that this process holds in one journal, and the thread that renews them.

    `renew` takes the owner's id, and writes until when it is known to live. `give_back` takes a lease, and
    ends it in its row; if that fails, it calls `give_back_later`. With `every` infinite there is no thread,
    and no lock. `take_owner_lock` takes a lock for a new owner, or returns None where none can be trusted.
    """

    def __init__(
        self,
        renew: Callable[[str], object],
        give_back: Callable[[Lease], object],
        every: float,
        take_owner_lock: Callable[[], OwnerLock | None] = lambda: None,
    ) -> None:
        # Weak: the journal owns its heartbeat, and must be collected when it is no longer used.
        self._renew = weakref.WeakMethod(renew)
        self._give_back = weakref.WeakMethod(give_back)
        self._every = every
        self._take = take_owner_lock
        self.owner_lock: OwnerLock | None = None
        self.reset()
        _heartbeats.add(self)

    def reset(self) -> None:
        """Start as a new owner without leases, as a forked child is: the leases are its parent's."""
        if self.owner_lock is not None:
            self.owner_lock.abandon()
        self.owner_lock = None
        self._has_tried_owner_lock = self._every == math.inf
        self.owner = secrets.token_hex(8)
        self._former_owners: list[str] = []
        self._mutex = threading.Lock()
        self._taking = threading.Lock()
        self._leases: dict[bytes, float] = {}
        self._unwritten: dict[bytes, Lease] = {}
        self._thread: threading.Thread | None = None
        self._idle_since: float | None = None
        self._pid = os.getpid()  # last: other threads go on with what is new

    def note_use(self) -> bool:
        """Keep the thread from ending; return whether `take_owner_lock` must be called before a lease."""
        if self._pid != os.getpid():
            # uWSGI forks without the functions of `os.register_at_fork`.
            with _resetting.setdefault(os.getpid(), threading.Lock()):
                if self._pid != os.getpid():
                    self.reset()
        self._idle_since = None
        return not self._has_tried_owner_lock

    def take_owner_lock(self) -> None:
        """Become an owner with a lock, if there are locks that can be trusted."""
        with self._taking:
            if self._has_tried_owner_lock:
                return
            self.owner_lock = self._take()
            if self.owner_lock is not None:
                self.owner = self.owner_lock.owner
            self._has_tried_owner_lock = True

    def is_owner(self, owner: str) -> bool:
        return owner == self.owner or owner in self._former_owners

    def add(self, key: bytes, seconds: float) -> None:
        """Renew leases as long as this row has one: until it is removed, and for so many seconds at most."""
        with self._mutex:
            self._leases[key] = monotonic() + seconds
            self._unwritten.pop(key, None)
            if self._thread is None:
                self._start_thread()

    def remove(self, key: bytes) -> None:
        """Stop renewing the lease of a row that was given back, or is final."""
        self._leases.pop(key, None)

    def give_back_later(self, lease: Lease) -> None:
        """Give back the lease of a row that could not be written, when the store can be written again."""
        with self._mutex:
            self._leases.pop(lease.key, None)
            # Not the lease itself, which may carry a result of megabytes.
            self._unwritten[lease.key] = Lease(lease.key, lease.fence)
            if self._thread is None:
                self._start_thread()

    def _start_thread(self) -> None:
        """Start the thread. Call with `_mutex` held."""
        if self._every < math.inf:
            check_threads()
            arguments = (weakref.ref(self), self._every)
            thread = threading.Thread(target=_run, args=arguments, name="faregate leases", daemon=True)
            thread.start()
            self._thread = thread  # last: if the thread could not be started, the next lease tries again

    def renew_all(self) -> bool:
        """Renew for this owner and former ones, and give back. Return False when the thread must end."""
        now = monotonic()
        with self._mutex:
            # A copy, made in one step: `remove` takes no lock.
            for key, until in list(self._leases.items()):
                if until <= now:
                    self._leases.pop(key, None)
            if not (self._leases or self._unwritten):
                return self._is_still_needed(now)
            self._idle_since = None
            self._update_owner()
            has_leases = bool(self._leases)
        renew, give_back = self._renew(), self._give_back()
        if renew is None or give_back is None:
            return False
        try:
            for owner in (self.owner, *self._former_owners) if has_leases else ():
                renew(owner)
            while (lease := self._pop_unwritten()) is not None:
                give_back(lease)
        except FaregateError as error:
            # Not fatal: a process that takes a row over has a new fencing token, and our later writes are
            # refused.
            log("journal", logging.WARNING, "leases could not be renewed or given back: %s", error)
        except Exception as error:
            log("journal", logging.ERROR, "leases could not be renewed or given back", error=error)
        return True

    def _pop_unwritten(self) -> Lease | None:
        with self._mutex:
            key = next(iter(self._unwritten), None)
            return None if key is None else self._unwritten.pop(key)

    def _update_owner(self) -> None:
        """Adopt the id of a lock that was taken anew. Leases under the former id are renewed under that."""
        if self.owner_lock is not None and self.owner_lock.owner != self.owner:
            self._former_owners.append(self.owner)
            self.owner = self.owner_lock.owner

    def release_owner_lock(self) -> None:
        """Give the lock back, unless there are leases."""
        with self._mutex:
            if not self._leases:
                self._release_owner_lock()

    def _release_owner_lock(self) -> None:
        """Release the lock, which only a payer who comes soon after a delivery makes others ask for now.

        `IDLE_SECONDS` are longer than that (`row_rules.UNSENT_SECONDS`). The next lock has a new owner.
        """
        if self.owner_lock is not None:
            self.owner_lock.release()
            self.owner_lock, self.owner = None, secrets.token_hex(8)
        self._former_owners = []
        self._has_tried_owner_lock = self._every == math.inf

    def _is_still_needed(self, now: float) -> bool:
        """Call with `_mutex` held: a lease that is added now is either seen here, or starts a new thread."""
        if self._idle_since is None:
            self._idle_since = now
        if now - self._idle_since < IDLE_SECONDS:
            return True
        self._idle_since = self._thread = None
        self._release_owner_lock()
        return False


def _run(reference: "weakref.ref[Heartbeat]", every: float) -> None:
    """Keep no reference while waiting, so that an unused journal is collected, and the thread ends."""
    wait: Callable[[float], object] = threading.Event().wait
    owner_lock: OwnerLock | None = None
    while True:
        if (heartbeat := reference()) is not None:
            owner_lock = heartbeat.owner_lock
        del heartbeat
        (wait if owner_lock is None else owner_lock.keep)(every)
        heartbeat = reference()
        if heartbeat is None:
            if owner_lock is not None:
                owner_lock.release()
            return
        if not heartbeat.renew_all():
            return
        del heartbeat


_heartbeats: "weakref.WeakSet[Heartbeat]" = weakref.WeakSet()
_resetting: dict[int, threading.Lock] = {}
"""By process: a lock that was held at the fork is never released in the child."""


def _after_fork() -> None:
    for heartbeat in list(_heartbeats):
        heartbeat.reset()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

"""Keep the leases of this process alive: one renewal for all of them, from a thread of its own.

A lease lasts for as long as the work may take, minutes perhaps. So that nobody waits that long for a process
that died, a row also counts as free when its owner has been silent for `owner_lease` seconds. What is done
within that time needs no renewal: the row says when its owner wrote last. Whatever takes longer is covered by
this thread, which also serves workers that block. It starts with the first lease, and ends some time after
the last one.
"""

import logging
import math
import os
import secrets
import sys
import threading
import weakref
from collections.abc import Callable
from time import monotonic

from faregate.errors import ConfigurationError, FaregateError
from faregate.logs import log

IDLE_SECONDS = 60.0
"""The thread ends when there was no lease to renew for so long."""


class Heartbeat:
    """The leases that this process holds in one journal, and the thread that renews them.

    `renew` is given the owner's id and writes how long it is known to live. A forked child is another owner.
    With `every` infinite there is no thread.
    """

    def __init__(self, renew: Callable[[str], object], every: float) -> None:
        # Weak: the journal owns its heartbeat, and is to go when nobody uses it.
        self._renew = weakref.WeakMethod(renew)
        self._every = every
        self.reset()
        _heartbeats.add(self)

    def reset(self) -> None:
        """Begin as a process that holds nothing, as a forked child does."""
        self.owner = secrets.token_hex(8)
        self._lock = threading.Lock()
        self._leases: dict[bytes, float] = {}
        self._thread: threading.Thread | None = None
        self._idle_since: float | None = None

    def hold(self, key: bytes, seconds: float) -> None:
        """Renew the lease of this row until it is dropped, for so many seconds at most."""
        with self._lock:
            self._leases[key] = monotonic() + seconds
            if self._thread is None and self._every < math.inf:
                _check_threads()
                arguments = (weakref.ref(self), self._every)
                thread = threading.Thread(target=_run, args=arguments, name="faregate leases", daemon=True)
                thread.start()
                self._thread = thread  # not before: where no thread could be started, the next lease tries

    def drop(self, key: bytes) -> None:
        """The row was given back, or is final."""
        self._leases.pop(key, None)

    def beat(self) -> bool:
        """Renew what is held; False if the thread is to end."""
        now = monotonic()
        with self._lock:
            # A copy, made in one step: `drop` takes no lock.
            for key, until in list(self._leases.items()):
                if until <= now:
                    self._leases.pop(key, None)
            if not self._leases:
                return self._goes_on(now)
            self._idle_since = None
        renew = self._renew()
        if renew is None:
            return False
        try:
            renew(self.owner)
        except FaregateError as error:
            # Whoever takes a row over meanwhile has a new fence: what we write then is refused.
            log(logging.WARNING, "leases could not be renewed: %s", error)
        except Exception as error:
            log(logging.ERROR, "leases could not be renewed", error=error)
        return True

    def _goes_on(self, now: float) -> bool:
        """Under the lock, so that a lease taken now either is seen here or starts a new thread."""
        if self._idle_since is None:
            self._idle_since = now
        if now - self._idle_since < IDLE_SECONDS:
            return True
        self._idle_since = self._thread = None
        return False


def _run(reference: "weakref.ref[Heartbeat]", every: float) -> None:
    """Hold nothing while waiting, so that a journal that nobody uses goes away, and the thread with it."""
    wait = threading.Event().wait
    while True:
        wait(every)
        heartbeat = reference()
        if heartbeat is None or not heartbeat.beat():
            return
        del heartbeat


def _check_threads() -> None:
    """Raises `ConfigurationError` on uWSGI without threads, where no lease would be renewed."""
    uwsgi = sys.modules.get("uwsgi")
    options = getattr(uwsgi, "opt", None)
    if isinstance(options, dict) and "enable-threads" not in options and "threads" not in options:
        raise ConfigurationError("uWSGI runs no threads, which the journal needs: set enable-threads = true.")


_heartbeats: "weakref.WeakSet[Heartbeat]" = weakref.WeakSet()


def _after_fork() -> None:
    for heartbeat in list(_heartbeats):
        heartbeat.reset()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

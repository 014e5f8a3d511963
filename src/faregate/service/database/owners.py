"""Which process makes an attempt, and whether it lives: the lease of one that has died is over.

An attempt names its owner, and the owner names a lock that the system gives back when its process dies
(`journals/owner_locks.py`, decision 12). Where no lock can be trusted, an attempt has no owner, and its lease
ends with its time.
"""

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from sqlalchemy import Engine, bindparam, case, select, update

from faregate.journals.file_locks import FileLocks
from faregate.journals.owner_locks import OwnerLock, OwnerLocks
from faregate.journals.session_locks import SessionLocks
from faregate.rules.clock import Clock
from faregate.service.database.clock import NOW
from faregate.service.database.engine import Database
from faregate.service.database.schema import attempts, transactions
from faregate.service.database.transactions import T
from faregate.service.database.types import to_microseconds

_log = logging.getLogger("faregate.service")
# The attempt that has the lease. A payment that is parked is not due: its lease just ends.
_IS_LEASED: Final = (T.next_attempt_at.is_not(None), T.finished_at.is_(None), T.lease_until > NOW)
_IS_LATEST: Final = (
    (attempts.c.account == T.account) & (attempts.c.transaction == T.id) & (attempts.c.number == T.attempts)
)
_LIST_OWNERS: Final = (
    select(attempts.c.owner)
    .distinct()
    .join(transactions, _IS_LATEST)
    .where(*_IS_LEASED, attempts.c.owner.is_not(None))
)
_IS_OWNED: Final = (
    select(attempts.c.number).where(_IS_LATEST, attempts.c.owner == bindparam("of_owner")).exists()
)
_END_LEASES: Final = (
    update(transactions)
    .where(*_IS_LEASED, _IS_OWNED)
    .values(lease_until=None, next_attempt_at=case((T.next_attempt_at > NOW, NOW), else_=T.next_attempt_at))
)


class Owner:
    """This process, as the owner of attempts. `id` is None without a lock that shows that it lives."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock
        self._locks: OwnerLocks = (
            SessionLocks(lambda: _Session(database.engine), self._fetch)
            if database.file is None
            else FileLocks(database.file)
        )
        self._lock: OwnerLock | None = None

    @property
    def id(self) -> str | None:
        return None if self._lock is None else self._lock.owner

    def take_lock(self) -> None:
        """Take a lock, if there is one that can be trusted."""
        self._lock = self._locks.take()

    def keep_lock(self, seconds: float) -> None:
        """Wait so long; take the lock again if it is lost meanwhile."""
        if self._lock is None:
            time.sleep(seconds)
        else:
            self._lock.keep(seconds)

    def release_lock(self) -> None:
        """End the leases of this process. It makes no attempts any more."""
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()

    def abandon_lock(self) -> None:
        """Leave the lock to the parent process, in a forked child."""
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.abandon()

    def end_leases_of_dead(self) -> bool:
        """Make the payments due whose attempts are those of processes that have died; whether there were any.

        The next attempt looks at the chain first: the dead one may have sent something.
        """
        now = to_microseconds(self._clock())
        with self._database.read() as connection:
            owners = set(connection.execute(_LIST_OWNERS, {"now": now}).scalars()) - {self.id}
        dead = [owner for owner, lives in self._locks.judge(owners).items() if not lives] if owners else []
        for owner in dead:
            with self._database.write() as connection:
                ended = connection.execute(_END_LEASES, {"now": now, "of_owner": owner}).rowcount
            _log.warning("a process has died, and %d payments that it was settling are due", ended)
        return bool(dead)

    def _fetch(self, statement: str) -> Sequence[Sequence[Any]]:
        with self._database.read() as connection:
            return connection.exec_driver_sql(statement).all()


class _Session:
    """A connection apart from the pool (`faregate.journals.session_locks.Session`)."""

    def __init__(self, engine: Engine) -> None:
        pooled = engine.raw_connection()
        connection: Any = pooled.driver_connection
        pooled.detach()
        self._connection = connection
        self.backend_pid = int(connection.pgconn.backend_pid)
        self.fileno: Callable[[], int] = connection.fileno
        self.close: Callable[[], None] = connection.close

    def query(self, statement: str) -> Sequence[Sequence[Any]]:
        rows: Sequence[Sequence[Any]] = self._connection.execute(statement).fetchall()
        return rows

"""Stamps of changes, later than every list that was answered.

A list as of a moment must never change afterwards, with any number of writing processes. A writer of an
account takes a lock that writers share, and then stamps its change later than the account's fence. A list
with a new moment takes that lock alone, which waits for the writers under way, and moves the fence to its
moment. Whoever stamps afterwards sees the fence. Lists at or below the fence need no lock. SQLite has one
writer at a time and needs no lock at all.
"""

from datetime import datetime
from typing import Any, Final

from sqlalchemy import BigInteger, Connection, bindparam, func, select, update
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import GenericFunction

from faregate.selfhosted.database.engine import Database
from faregate.selfhosted.database.schema import accounts
from faregate.selfhosted.database.types import to_datetime, to_microseconds
from faregate.service.clock import Clock

LOCK_CLASS: Final = 402_001
"""The first half of our advisory locks. The second is the account's id; zero is the lock of migrations."""


class greatest(GenericFunction[int]):  # noqa: N801 - the name of the SQL function
    """The greatest of its arguments; SQLite's `max` with several arguments."""

    type = BigInteger()
    inherit_cache = True


@compiles(greatest, "sqlite")
def _compile_greatest(element: greatest, compiler: Any, **options: Any) -> str:
    return f"max({compiler.process(element.clauses, **options)})"


_FENCE: Final = select(accounts.c.fence).where(accounts.c.id == bindparam("account"))
STAMP: Final = greatest(bindparam("now", type_=BigInteger()), _FENCE.scalar_subquery() + 1)
"""The stamp of a change, in a statement with the parameters `account` and `now`, after `lock_for_writing`."""
_STAMP: Final = select(STAMP)
_MOVE_FENCE: Final = (
    update(accounts)
    .where(accounts.c.id == bindparam("account"), accounts.c.fence < bindparam("moment"))
    .values(fence=bindparam("moment"))
)
_LOCK_SHARED: Final = select(func.pg_advisory_xact_lock_shared(LOCK_CLASS, bindparam("account")))
_LOCK_ALONE: Final = select(func.pg_advisory_xact_lock(LOCK_CLASS, bindparam("account")))


class Stamps:
    """Stamps changes of one database, and fixes the moments that lists show."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def now(self) -> int:
        return to_microseconds(self._clock())

    def lock_for_writing(self, connection: Connection, account: int) -> None:
        """Take the lock that writers share, until the transaction ends. Must come before any stamp."""
        if not self._database.is_sqlite:
            connection.execute(_LOCK_SHARED, {"account": account})

    def take(self, connection: Connection, account: int) -> int:
        """Take the lock, and return a stamp for the changes of this transaction."""
        self.lock_for_writing(connection, account)
        return connection.execute(_STAMP, {"account": account, "now": self.now()}).scalar_one()

    def take_alone(self, connection: Connection, account: int) -> int:
        """As `take`, but while nobody else writes or stamps: for edits of the catalogue."""
        if not self._database.is_sqlite:
            connection.execute(_LOCK_ALONE, {"account": account})
        return connection.execute(_STAMP, {"account": account, "now": self.now()}).scalar_one()

    def fix_snapshot(self, account: int, as_of: datetime | None) -> datetime | None:
        """Return the moment that a list shows, and fix it: no later change is stamped so early.

        None if the moment is in the future.
        """
        now = self.now()
        moment = now if as_of is None else to_microseconds(as_of)
        with self._database.read() as connection:
            fence: int = connection.execute(_FENCE, {"account": account}).scalar_one()
        if as_of is not None and moment <= fence:
            return as_of
        # The clock of another process may be ahead of this one's, and no list may step back.
        moment = max(moment, fence) if as_of is None else moment
        if moment > now and moment > fence:
            return None
        if moment > fence:
            self._move_fence(account, moment)
        return to_datetime(moment)

    def _move_fence(self, account: int, moment: int) -> None:
        with self._database.write() as connection:
            if not self._database.is_sqlite:
                connection.execute(_LOCK_ALONE, {"account": account})
            connection.execute(_MOVE_FENCE, {"account": account, "moment": moment})

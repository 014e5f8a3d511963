"""Stamps of changes, later than every list that was answered.

A list as of a moment must never change afterwards, with any number of writing processes. So each account has
a cut-off time, the latest moment that a list was answered for. Its column is `fence`; it has nothing to do
with the fencing token of a lease.

A writer of an account takes a lock that writers share, and then stamps its change later than the cut-off
time. A list with a newer moment takes that lock exclusively: it waits for the writers under way, and then
moves the cut-off time to its moment. Later stamps are made after reading it. Lists up to the cut-off time
need no lock. SQLite has one writer at a time and needs no lock at all.
"""

from datetime import datetime
from typing import Any, Final

from sqlalchemy import BigInteger, ColumnElement, Connection, Integer, bindparam, func, select, update
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from faregate.rules.clock import Clock
from faregate.service.database.engine import Database
from faregate.service.database.schema import accounts
from faregate.service.database.types import to_datetime, to_microseconds

LOCK_CLASS: Final = 402_001
"""The first half of our advisory locks. The second is the account's id, or zero for `LOCK_ALL`."""


class stamp(FunctionElement[int]):  # noqa: N801 - it stands for an SQL function
    """The stamp of a change of this account: the given moment, but later than the account's cut-off time.

    In PostgreSQL it is the function that the first migration creates. It takes the lock that writers share,
    until the transaction ends, and only then reads the cut-off time. So one statement can
    lock, stamp and write.
    """

    type = BigInteger()
    inherit_cache = True

    def __init__(self, account: ColumnElement[Any], moment: ColumnElement[Any]) -> None:
        super().__init__(account, moment)


@compiles(stamp)
def _call_function(element: stamp, compiler: Any, **options: Any) -> str:
    account, moment = (compiler.process(clause, **options) for clause in element.clauses)
    return f"faregate_stamp(CAST({account} AS INTEGER), CAST({moment} AS BIGINT))"


@compiles(stamp, "sqlite")
def _compute_here(element: stamp, compiler: Any, **options: Any) -> str:
    account, moment = (compiler.process(clause, **options) for clause in element.clauses)
    return f"max({moment}, (SELECT fence + 1 FROM accounts WHERE accounts.id = {account}))"  # noqa: S608 - of statements of ours


ACCOUNT: Final = bindparam("of_account", type_=Integer())
NOW: Final = bindparam("now", type_=BigInteger())
STAMP: Final = stamp(ACCOUNT, NOW)
"""The stamp of a change, in a statement with the parameters `account` and `now`."""
_STAMP: Final = select(STAMP)
FENCE: Final = select(accounts.c.fence).where(accounts.c.id == ACCOUNT)
_MOVE_FENCE: Final = (
    update(accounts)
    .where(accounts.c.id == ACCOUNT, accounts.c.fence < bindparam("moment"))
    .values(fence=bindparam("moment"))
)
LOCK_ALL: Final = select(func.pg_advisory_xact_lock(LOCK_CLASS, 0))
"""For one at a time: who changes the tables, or which sellers there are. Taken before any other lock."""
_LOCK_ALONE: Final = select(func.pg_advisory_xact_lock(LOCK_CLASS, ACCOUNT))


class Stamps:
    """Stamps changes of one database, and fixes the moments that lists show."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._latest = 0

    def read_clock(self) -> int:
        """Return the time of this machine: for leases, retries and expiry.

        Stamps may be ahead of it, as far as the clock of any process once was. A time measured by stamps
        would stand still until the clock has caught up: payers would be refused, and leases never end.
        """
        return to_microseconds(self._clock())

    def now(self) -> int:
        """Return the moment for a stamp or a list: never earlier than a stamp that this process has given."""
        return max(self.read_clock(), self._latest)

    def remember(self, stamp: int) -> None:
        """Note a stamp that was given to a change."""
        self._latest = max(self._latest, stamp)

    def take(self, connection: Connection, account: int) -> int:
        """Return a stamp for the changes of this transaction."""
        stamp = connection.execute(_STAMP, {"of_account": account, "now": self.now()}).scalar_one()
        self.remember(stamp)
        return stamp

    def take_alone(self, connection: Connection, account: int) -> int:
        """As `take`, but while no other process writes or stamps: for edits of the catalog."""
        if not self._database.is_sqlite:
            connection.execute(_LOCK_ALONE, {"of_account": account})
        return self.take(connection, account)

    def fix_snapshot(self, account: int, as_of: datetime | None) -> datetime | None:
        """Return the moment that a list shows, and fix it: no later change is stamped so early.

        None if the moment is in the future.
        """
        now = self.now()
        moment = now if as_of is None else to_microseconds(as_of)
        with self._database.read() as connection:
            fence: int = connection.execute(FENCE, {"of_account": account}).scalar_one()
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
                connection.execute(_LOCK_ALONE, {"of_account": account})
            connection.execute(_MOVE_FENCE, {"of_account": account, "moment": moment})

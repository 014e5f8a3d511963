"""The locks of owners in Django's database: a file beside SQLite's, or a session of PostgreSQL.

MySQL and MariaDB have locks of a session, too, but no limit of silence per session: the times decide there.
"""

from collections.abc import Callable, Sequence
from typing import Any, cast

from django.core import mail
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from faregate.django.journal.database import read_connection
from faregate.journals.file_locks import FileLocks
from faregate.journals.owner_locks import OwnerLock, OwnerLocks
from faregate.journals.session_locks import SessionLocks


def make_owner_locks(using: str) -> OwnerLocks | None:
    """Return the locks of this database, None if it has none. Opens no connection."""
    connection = connections[using]
    if connection.vendor == "sqlite":
        name = str(connection.settings_dict["NAME"])
        # No file has such a name: it is in memory, or a URI.
        return None if name.startswith(("file:", ":memory:")) or not name else FileLocks(name)
    # A connection that is closed goes back to Django's pool, and its lock with it.
    has_pool = "pool" in connection.settings_dict.get("OPTIONS", {})
    return _DjangoSessionLocks(using) if connection.vendor == "postgresql" and not has_pool else None


class _DjangoSessionLocks(SessionLocks):
    def __init__(self, using: str) -> None:
        super().__init__(lambda: _DjangoSession(using), lambda statement: _fetch(using, statement))

    def take(self) -> OwnerLock | None:
        # Django cannot drop the database of its tests while a session uses it.
        return None if hasattr(mail, "outbox") else super().take()


class _DjangoSession:
    """A connection apart from Django's own (`faregate.journals.session_locks.Session`)."""

    def __init__(self, using: str) -> None:
        # Django keeps a connection per thread. This one is used by several, one at a time.
        self._wrapper: BaseDatabaseWrapper = connections[using].copy()
        self._wrapper.inc_thread_sharing()
        self._wrapper.connect()
        connection: Any = self._wrapper.connection
        self.backend_pid = int(connection.info.backend_pid)
        self.fileno: Callable[[], int] = connection.fileno
        self.close: Callable[[], None] = connection.close

    def query(self, statement: str) -> Sequence[Sequence[Any]]:
        return _execute(self._wrapper, statement)


def _fetch(using: str, statement: str) -> Sequence[Sequence[Any]]:
    with read_connection(using):
        return _execute(connections[using], statement)


def _execute(connection: BaseDatabaseWrapper, statement: str) -> Sequence[Sequence[Any]]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return cast("Sequence[Sequence[Any]]", cursor.fetchall())

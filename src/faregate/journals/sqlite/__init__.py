"""The journal in one SQLite file: for all processes of one machine, and to outlive them."""

import os
import time
from collections.abc import Callable, Sequence

from faregate.journals.durations import DEFAULT_POLICY, JournalPolicy
from faregate.journals.persistent import PersistentJournal
from faregate.journals.sqlite.database import SqliteDatabase
from faregate.journals.sqlite.store import SqliteStore

__all__ = ["SqliteJournal"]


class SqliteJournal(PersistentJournal):
    """Keep the journal in the SQLite file at `path`.

    The file is created on first use, readable by its owner only. Its folder must exist, on a disk of this
    machine. A call waits up to `timeout` seconds for other writers. Nothing is opened before the first call.
    Raises `ConfigurationError`.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        keys: Sequence[bytes],
        namespace: str = "",
        seller: str = "",
        policy: JournalPolicy = DEFAULT_POLICY,
        max_rows: int = 1_000_000,
        max_bytes: int = 4 * 1024**3,
        clock: Callable[[], float] = time.time,
        timeout: float = 5.0,
    ) -> None:
        self._database = SqliteDatabase(path, timeout)
        super().__init__(
            SqliteStore(self._database, namespace),
            keys=keys,
            seller=seller,
            policy=policy,
            max_rows=max_rows,
            max_bytes=max_bytes,
            clock=clock,
        )

    def share_file(self) -> SqliteDatabase:
        """Return the file, for the service in this process, which reports nothing that it has not synced."""
        self._database.share()
        return self._database

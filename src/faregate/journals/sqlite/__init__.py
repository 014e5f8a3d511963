"""The journal in one SQLite file: for all processes of one machine, and for what must outlive them."""

import os
import time
from collections.abc import Callable, Sequence

from faregate.journals.persistent import PersistentJournal
from faregate.journals.policy import DEFAULT_POLICY, JournalPolicy
from faregate.journals.sqlite.database import SqliteFile
from faregate.journals.sqlite.store import SqliteStore

__all__ = ["SqliteJournal"]


class SqliteJournal(PersistentJournal):
    """A journal in the file at `path`, which is made when it is first needed, for its owner alone.

    The folder must exist, on a disk of this machine. `patience` is how many seconds a call waits for other
    writers. Opens nothing until it is used. Raises `ConfigurationError`.
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
        patience: float = 5.0,
    ) -> None:
        super().__init__(
            SqliteStore(SqliteFile(path, patience), namespace),
            keys=keys,
            seller=seller,
            policy=policy,
            max_rows=max_rows,
            max_bytes=max_bytes,
            clock=clock,
        )

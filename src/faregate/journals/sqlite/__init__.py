"""The journal in one SQLite file: for all processes of one machine, and for what must outlive them."""

import os
import time
from collections.abc import Callable, Sequence

from faregate.journals.sqlite.database import SqliteFile
from faregate.journals.sqlite.store import SqliteShelf
from faregate.journals.persistent import StoredJournal
from faregate.journals.policy import DEFAULT_TERMS, Terms

__all__ = ["SqliteJournal"]


class SqliteJournal(StoredJournal):
    """A `StoredJournal` in the file at `path`, which is made when it is first needed, for its owner alone.

    The folder must exist, on a disk of this machine. `patience` is how many seconds a call waits for other
    writers. Opens nothing until it is used. Raises `Misconfigured`.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        keys: Sequence[bytes],
        namespace: str = "",
        seller: str = "",
        terms: Terms = DEFAULT_TERMS,
        max_rows: int = 1_000_000,
        max_bytes: int = 4 * 1024**3,
        clock: Callable[[], float] = time.time,
        patience: float = 5.0,
    ) -> None:
        super().__init__(
            SqliteShelf(SqliteFile(path, patience), namespace),
            keys=keys,
            seller=seller,
            terms=terms,
            max_rows=max_rows,
            max_bytes=max_bytes,
            clock=clock,
        )

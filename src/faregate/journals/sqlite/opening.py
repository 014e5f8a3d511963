"""How a connection to the file is opened: with a log (WAL), commits forced to the disk, and our tables."""

import sqlite3
from pathlib import Path

from faregate.errors import JournalError
from faregate.journals.sqlite import errors, schema
from faregate.journals.sqlite.retry import patiently


def opened(path: Path, patience: float) -> sqlite3.Connection:
    """Raises `JournalError`, `sqlite3.Error`."""
    connection = sqlite3.connect(path, timeout=patience, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("BEGIN")  # one view of the file, which another process may be making
        made = schema.is_made(connection, path)
        connection.execute("COMMIT")
        _use_wal(connection, path, patience)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA fullfsync = ON")
        if not made:
            connection.execute("BEGIN IMMEDIATE")
            schema.make(connection, path)
            connection.execute("COMMIT")
    except BaseException:
        connection.close()
        raise
    return connection


def _use_wal(connection: sqlite3.Connection, path: Path, patience: float) -> None:
    """SQLite does not wait for others who do the same at the same moment."""
    [mode] = patiently(lambda: connection.execute("PRAGMA journal_mode = WAL").fetchone(), patience)
    if mode != "wal":
        raise JournalError(f"the journal {path} must be on a disk where SQLite can use its WAL")


def empty_log(connection: sqlite3.Connection, path: Path) -> None:
    """All that is in the log goes into the file, and a new log is begun. Raises `JournalError`."""
    [busy, *_] = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    if busy:
        raise errors.busy(path)

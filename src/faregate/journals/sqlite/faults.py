"""What SQLite's errors mean for a seller, and what to do."""

import sqlite3
from pathlib import Path

from faregate.errors import JournalError, JournalUnreadable


def is_busy(error: sqlite3.Error) -> bool:
    return _code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def told(error: sqlite3.Error, path: Path) -> JournalError:
    if is_busy(error):
        return busy(path)
    match _code(error):
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return JournalUnreadable(
                f"the journal {path} is damaged ({error}): put a good copy in its place, or move it away to "
                "start anew; payments that were open then are finished by nobody"
            )
        case sqlite3.SQLITE_FULL:
            return JournalError(f"there is no room on the disk for the journal {path}")
        case _:
            return JournalError(f"the journal {path} could not be read or written: {error}")


def busy(path: Path) -> JournalError:
    return JournalError(f"the journal {path} is locked by another writer for too long")


def taken_away(path: Path) -> JournalError:
    return JournalUnreadable(
        f"the journal {path} was taken away or replaced while it was in use: put it back, "
        "or restart to begin anew"
    )


def forked(path: Path) -> JournalError:
    return JournalError(
        f"the journal {path} was open when this process was forked behind Python's back: "
        "load the app in each worker (uWSGI: lazy-apps = true)"
    )


def _code(error: sqlite3.Error) -> int:
    """Without the extended part. Errors of the module itself have none."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF

"""Map SQLite errors to `JournalError`s that tell the seller what to do."""

import sqlite3
from pathlib import Path

from faregate.errors import JournalError, JournalUnreadable
from faregate.journals.store import PurchaseTaken, TransactionTaken

_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)


def is_busy(error: sqlite3.Error) -> bool:
    return _get_code(error) in _BUSY


def concerns_all(error: Exception) -> bool:
    """Whether an error in one write of a batch is the fault of the file, and not of that write."""
    # `sqlite3` raises a plain `DatabaseError` for a damaged file. Its subclasses are about one statement.
    return isinstance(error, sqlite3.OperationalError) or type(error) is sqlite3.DatabaseError


def to_row_error(error: Exception) -> Exception:
    """Map the error of one write whose row a constraint refused."""
    if not isinstance(error, sqlite3.IntegrityError):
        return error
    if error.sqlite_errorcode == sqlite3.SQLITE_CONSTRAINT_UNIQUE:
        # SQLite names the columns of the constraint, and not the constraint.
        return PurchaseTaken() if "journal.purchase" in str(error) else TransactionTaken()
    return JournalError(f"the journal refused an impossible row: {error}")


def leaves_doubt(error: sqlite3.Error) -> bool:
    """Whether earlier writes that were not yet forced to the disk may be lost as well."""
    return _get_code(error) == sqlite3.SQLITE_IOERR


def to_journal_error(error: sqlite3.Error, path: Path) -> JournalError:
    """Return it with its cause set: several threads raise one error of a shared transaction."""
    journal_error = _translate(error, path)
    journal_error.__cause__ = error
    return journal_error


def _translate(error: sqlite3.Error, path: Path) -> JournalError:
    if is_busy(error):
        return busy(path)
    match _get_code(error):
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return JournalUnreadable(
                f"the journal {path} is damaged ({error}): put a good copy in its place, or move it away to "
                "start anew, and its -wal and -shm with it; payments that were open then are never "
                "finished"
            )
        case sqlite3.SQLITE_FULL:
            return JournalError(f"there is no room on the disk for the journal {path}")
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
            return JournalError(
                f"the journal {path}, or its folder, cannot be written ({error}): give both to the user that "
                "the app runs as, on a disk that is not read-only"
            )
        case sqlite3.SQLITE_IOERR if "LOCK" in error.sqlite_errorname:
            return JournalError(
                f"the disk of the journal {path} cannot lock files ({error}): name a file on a disk of this "
                "machine"
            )
        case sqlite3.SQLITE_IOERR:
            return JournalError(f"the disk of the journal {path} failed ({error})")
        case _:
            return JournalError(f"the journal {path} could not be read or written: {error}")


def busy(path: Path) -> JournalError:
    return JournalError(
        f"the journal {path} was locked by another writer for too long: a process hangs, or the disk is "
        "on another machine"
    )


def file_removed(path: Path) -> JournalError:
    return JournalUnreadable(
        f"the journal {path} was removed or replaced while it was in use: put it back, or "
        "restart to start anew"
    )


def used_after_fork(path: Path) -> JournalError:
    return JournalError(
        f"the journal {path} was open when this process was forked behind Python's back: "
        "load the app in each worker (uWSGI: lazy-apps = true)"
    )


def _get_code(error: sqlite3.Error) -> int:
    """The primary result code; 0 for errors that Python's module raises by itself."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF

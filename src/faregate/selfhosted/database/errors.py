"""Errors of the database, without the values of rows: those may be signatures."""

from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError, TimeoutError

from faregate.errors import FaregateError
from faregate.service.store import StoreUnavailable


class DatabaseError(FaregateError, StoreUnavailable):
    """The database could not be read or written. Nothing may be assumed written."""


class LostConnection(DatabaseError):
    """The connection ended during a statement. What it wrote may be committed or not."""


def describe_failure(error: SQLAlchemyError, database: str) -> DatabaseError:
    """Build the error to raise instead: which database, and the driver's own first line."""
    if isinstance(error, TimeoutError):
        return DatabaseError(f"all connections to {database} were in use for too long")
    if isinstance(error, IntegrityError):
        return DatabaseError(f"{database} refused an impossible row ({_first_line(error)})")
    return DatabaseError(f"{database} could not be read or written ({_first_line(error)})")


def describe_wait(database: str) -> DatabaseError:
    """Build the error for a SQLite file that another process did not let go of."""
    return DatabaseError(f"another process has been writing to {database} for too long")


def describe_driver_error(error: Exception, database: str) -> DatabaseError:
    """Build the error to raise instead of the driver's own."""
    return DatabaseError(f"{database} could not be read or written ({_first_line(error)})")


def _first_line(error: Exception) -> str:
    # Later lines may show the row.
    cause = error.orig if isinstance(error, DBAPIError) else error
    return str(cause).partition("\n")[0].strip() or type(cause).__name__

"""Map PostgreSQL errors to `JournalError`s that tell the seller what to do. They contain no password."""

from collections.abc import Mapping
from typing import Any

import psycopg

from faregate.errors import ConfigurationError, JournalError, JournalUnreadable

_OTHER_SERVER = {"25006", "57P01", "57P02"}
"""SQLSTATEs of a server that is read-only or shutting down: after a fail-over another one has its name."""
NOT_PREPARED = {"26000", "42P05"}
"""SQLSTATEs of a session that is not the one in which we prepared statements."""
_UNREADABLE = {"42P01", "42703", "3F000", "XX001", "XX002"}
_ADVICE = {
    "25006": "is read-only, a standby perhaps: name the server that takes writes",
    "3F000": "has no schema where tables could be: look at the user's search path",
    "42501": "refuses its user what a journal needs: CREATE on the schema for the first start, then SELECT, "
    "INSERT, UPDATE and DELETE on the tables faregate_journal and faregate_journal_version",
    "42703": "has a table faregate_journal that is not this version's",
    "42P01": "lost its table faregate_journal while it was in use: put it back, or restart to start anew",
    "53100": "has no room left on its disk",
    "53200": "has no memory left",
    "55P03": "keeps the row locked for another writer for too long",
    "57014": "did not finish in the time it was given",
    "XX001": "is damaged",
    "XX002": "is damaged",
}


class ConnectionLost(JournalError):
    """The connection cannot be used any more. The statement may have been executed or not."""


class ResponseTimeout(psycopg.OperationalError):
    """The server neither responded nor closed the connection in time."""


def describe_server(parameters: Mapping[str, object]) -> str:
    """Name the database in messages. Raises `ConfigurationError`."""
    host, port = str(parameters.get("host", "")), str(parameters.get("port", ""))
    name = str(parameters.get("dbname", ""))
    if "@" in host + name or port.strip("0123456789,"):
        raise invalid_url()
    return f"PostgreSQL {host or 'of this machine'}{port and ':'}{port}{name and '/'}{name}"


def invalid_url() -> ConfigurationError:
    """Repeat no part of the URL: what could not be parsed may be a part of the password."""
    return ConfigurationError(
        "The journal's address cannot be read. It is postgresql://user:password@host:5432/database, and "
        "what is special in an address (@ : / ? # % and spaces) is percent-encoded in user and password."
    )


def is_lost(error: psycopg.Error, connection: psycopg.Connection[Any]) -> bool:
    if connection.closed or isinstance(error, ResponseTimeout):
        return True
    return error.sqlstate in _OTHER_SERVER | NOT_PREPARED


def to_journal_error(error: psycopg.Error, location: str) -> JournalError:
    kind = JournalUnreadable if error.sqlstate in _UNREADABLE else JournalError
    return kind(_describe(error, location, "could not be read or written"))


def connection_lost(error: psycopg.Error, location: str) -> JournalError:
    return ConnectionLost(_describe(error, location, "could not be read or written"))


def unreachable(error: psycopg.Error, location: str) -> JournalError:
    return JournalError(_describe(error, location, "accepts no connection"))


def _describe(error: psycopg.Error, location: str, otherwise: str) -> str:
    return f"the journal in {location} {_ADVICE.get(error.sqlstate or '', otherwise)} ({_first_line(error)})"


def impossible(error: psycopg.Error) -> JournalError:
    return JournalError(f"the journal refused an impossible row: {_first_line(error)}")


def busy(location: str) -> JournalError:
    return JournalError(f"all connections to the journal in {location} were in use for too long")


def table_removed(location: str) -> JournalUnreadable:
    return JournalUnreadable(
        f"the journal in {location} was removed while it was in use: put it back, or restart to start anew"
    )


def other_version(location: str, version: int, supported: int) -> JournalUnreadable:
    advice = "let the faregate that wrote it finish what is open, then drop its tables"
    if version > supported:
        advice = "use the newer faregate that wrote it"
    return JournalUnreadable(
        f"the journal in {location} is of version {version}, and this faregate knows {supported}: {advice}"
    )


def foreign_table(location: str) -> JournalUnreadable:
    return JournalUnreadable(
        f"{location} has a table faregate_journal or faregate_journal_version that is not a journal's: "
        "give the journal a database or a schema of its own"
    )


def _first_line(error: psycopg.Error) -> str:
    """The lines after the first may contain values of the row."""
    return str(error).partition("\n")[0].strip() or type(error).__name__

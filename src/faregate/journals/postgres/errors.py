"""Map PostgreSQL errors to messages for sellers. No password is part of them."""

from collections.abc import Mapping
from typing import Any

import psycopg

from faregate.errors import ConfigurationError, JournalError, JournalUnreadable

_OTHER_SERVER = {"25006", "57P01", "57P02"}
"""It is read-only or going down: another one may have its name by now."""
_UNREADABLE = {"42P01", "42703", "3F000", "XX001", "XX002"}
_WHY = {
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


class Broken(JournalError):
    """The connection is of no use any more. What was asked may have been done or not."""


class Late(psycopg.OperationalError):
    """Neither an answer nor an end of the connection in the time we have."""


def place_of(parameters: Mapping[str, object]) -> str:
    """How a database is called in what we say. Raises `ConfigurationError`."""
    host, port = str(parameters.get("host", "")), str(parameters.get("port", ""))
    name = str(parameters.get("dbname", ""))
    if "@" in host + name or port.strip("0123456789,"):
        raise not_a_url()
    return f"PostgreSQL {host or 'of this machine'}{port and ':'}{port}{name and '/'}{name}"


def not_a_url() -> ConfigurationError:
    """What could not be read may be a part of the password, so it is not repeated."""
    return ConfigurationError(
        "The journal's address cannot be read. It is postgresql://user:password@host:5432/database, and "
        "what is special in an address (@ : / ? # % and spaces) is percent-encoded in user and password."
    )


def is_lost(error: psycopg.Error, connection: psycopg.Connection[Any]) -> bool:
    return connection.closed or isinstance(error, Late) or error.sqlstate in _OTHER_SERVER


def to_journal_error(error: psycopg.Error, place: str) -> JournalError:
    kind = JournalUnreadable if error.sqlstate in _UNREADABLE else JournalError
    return kind(_told(error, place, "could not be read or written"))


def broken(error: psycopg.Error, place: str) -> JournalError:
    return Broken(_told(error, place, "could not be read or written"))


def unreachable(error: psycopg.Error, place: str) -> JournalError:
    return JournalError(_told(error, place, "accepts no connection"))


def _told(error: psycopg.Error, place: str, otherwise: str) -> str:
    return f"the journal in {place} {_WHY.get(error.sqlstate or '', otherwise)} ({_said(error)})"


def impossible(error: psycopg.Error) -> JournalError:
    return JournalError(f"the journal refused an impossible row: {_said(error)}")


def busy(place: str) -> JournalError:
    return JournalError(f"all connections to the journal in {place} were in use for too long")


def taken_away(place: str) -> JournalUnreadable:
    return JournalUnreadable(
        f"the journal in {place} was removed while it was in use: put it back, or restart to start anew"
    )


def other_version(place: str, version: int, known: int) -> JournalUnreadable:
    advice = "let the faregate that wrote it finish what is open, then drop its tables"
    if version > known:
        advice = "use the newer faregate that wrote it"
    return JournalUnreadable(
        f"the journal in {place} is of version {version}, and this faregate knows {known}: {advice}"
    )


def another_programs(place: str) -> JournalUnreadable:
    return JournalUnreadable(
        f"{place} has a table faregate_journal or faregate_journal_version that is not a journal's: "
        "give the journal a database or a schema of its own"
    )


def _said(error: psycopg.Error) -> str:
    """The first line: what follows it may hold values."""
    return str(error).partition("\n")[0].strip() or type(error).__name__

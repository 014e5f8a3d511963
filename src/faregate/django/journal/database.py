"""Django's database as a journal needs it: outside of any transaction, with retries and clear errors.

A write must be committed when the call returns. Inside an open `atomic` block it could be rolled back after
complete was called, so it is refused there. The block of a `TestCase` is exempt, as it is for
`atomic(durable=True)`.
"""

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from django.db import (
    DEFAULT_DB_ALIAS,
    DatabaseError,
    Error,
    IntegrityError,
    InterfaceError,
    connections,
    transaction,
)
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import BooleanField, Model, Q
from django.db.models.expressions import RawSQL

from faregate.errors import JournalError

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")
ATTEMPTS = 10
"""How often a call is repeated when the database rolls it back."""
ROLLED_BACK = ("40001", "40P01", 1213, 1020)
"""A serialization failure and a deadlock in PostgreSQL; a deadlock in MySQL and MariaDB; in MariaDB also a
row that has changed since the snapshot was taken (`innodb_snapshot_isolation`)."""
CONNECTION_LOST = (1053, 1927, 2006, 2013, 2055, 4031)
"""Error numbers of MySQL and MariaDB for a session that has ended: the server shuts down, the connection was
killed, is gone, was lost (two numbers), or was closed because it was idle."""


@contextmanager
def read_connection(using: str) -> Generator[None]:
    """Check that no transaction is open, so that each statement sees what others committed; map errors."""
    try:
        if _is_open(connections[using]):
            raise JournalError(
                "the journal cannot write inside an open transaction, which could still be rolled back: sell "
                "outside of atomic() and ATOMIC_REQUESTS (non_atomic_requests exempts a view)"
            )
        yield
    # The caller finds out which rule of the row it was.
    except IntegrityError:
        raise
    except Error as error:
        kind = JournalError
        if _get_code(error) in ROLLED_BACK:
            kind = RolledBack
        elif _close_if_lost(using, error):
            kind = ConnectionLost
        raise kind(_describe(error, using)) from error


def retry_if_rolled_back(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """Decorate a method to run again when the database rolled it back: nothing was done then."""

    @wraps(method)
    def retrying(store: S, /, *args: P.args, **named: P.kwargs) -> T:
        for _ in range(ATTEMPTS - 1):
            with suppress(RolledBack):
                return method(store, *args, **named)
        return method(store, *args, **named)

    return retrying


def retry_on_disconnect(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """Decorate a method to run once more in a new session, too, when the session was lost.

    Only for methods that find out whether they were done already.
    """
    attempt = retry_if_rolled_back(method)

    @wraps(method)
    def retrying(store: S, /, *args: P.args, **named: P.kwargs) -> T:
        try:
            return attempt(store, *args, **named)
        except ConnectionLost:
            return attempt(store, *args, **named)

    return retrying


@contextmanager
def write_transaction(using: str) -> Generator[None]:
    """For a statement that commits by itself: a process that is stopped after it keeps no lock.

    In the block of a `TestCase` it has a savepoint, so that a refused write does not break the transaction.
    """
    with read_connection(using):
        if not connections[using].in_atomic_block:
            yield
            return
        with transaction.atomic(using=using):
            yield


@contextmanager
def atomic_transaction(using: str) -> Generator[None]:
    """For several statements that are committed together or not at all."""
    with read_connection(using), transaction.atomic(using=using, durable=True):
        yield


def insert_row(using: str, model: type[Model], values: Mapping[str, Any]) -> None:
    """Execute one INSERT. Django's `save` would open a transaction, or try an UPDATE first."""
    connection, meta = connections[using], model._meta  # noqa: SLF001
    fields: list[Any] = [meta.get_field(name) for name in values]
    columns = ", ".join(connection.ops.quote_name(field.column) for field in fields)
    placeholders = ", ".join("%s" for _ in fields)
    prepared: list[Any] = [field.get_db_prep_save(values[field.name], connection) for field in fields]
    with connection.cursor() as cursor:
        table = connection.ops.quote_name(meta.db_table)
        cursor.execute(f"INSERT INTO {table} ({columns}) VALUES ({placeholders})", prepared)  # noqa: S608


def force_sync(using: str) -> Q:
    """Make a condition for a write that must be on the disk when it returns, whatever the project's settings.

    It is always true; evaluating it sets synchronous_commit for this transaction. Other databases have no
    such setting per transaction: an empty condition.
    """
    if connections[using].vendor != "postgresql":
        return Q()
    forced = RawSQL("set_config('synchronous_commit', 'on', true) <> ''", (), BooleanField())
    return Q(forced)


def refresh(using: str) -> None:
    """Drop a dead connection. Django does so between requests, but a sweep may run where there are none."""
    if not connections[using].in_atomic_block:
        connections[using].close_if_unusable_or_obsolete()


class RolledBack(JournalError):
    """The database rolled it back, because of concurrent writes. No change was made."""


class ConnectionLost(JournalError):
    """The session ended. The statement may have been executed or not."""


def _get_code(error: Error) -> object:
    """PostgreSQL's SQLSTATE, or MySQL's number."""
    cause = error.__cause__
    state = getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None)
    return state or next(iter(getattr(cause, "args", ())), None)


def _close_if_lost(using: str, error: Error) -> bool:
    """Whether the connection was lost. It is closed then, so that the next call opens another one.

    The error is looked at before `is_usable`: some drivers reconnect when they are asked that.
    """
    connection = connections[using]
    if connection.in_atomic_block:
        return False
    was_lost = isinstance(error, InterfaceError) or _get_code(error) in CONNECTION_LOST
    if not was_lost and connection.connection is not None and connection.is_usable():
        return False
    connection.close()
    return True


def impossible(why: str | DatabaseError) -> JournalError:
    return JournalError(f"the journal refused an impossible row: {_first_line(why)}")


def _is_open(connection: BaseDatabaseWrapper) -> bool:
    """Whether a transaction is open, by the rule of `atomic(durable=True)`."""
    blocks: list[Any] = connection.atomic_blocks
    if blocks:
        return not getattr(blocks[-1], "_from_testcase", False)
    return not connection.get_autocommit()


def migrate_command(using: str) -> str:
    """The command that creates the journal's tables in this database."""
    return "python manage.py migrate" + ("" if using == DEFAULT_DB_ALIAS else f" --database {using}")


def _describe(error: Error, using: str) -> str:
    return (
        f"the journal's database could not be read or written: {_first_line(error)} "
        f"(if it says that a table is missing: {migrate_command(using)})"
    )


def _first_line(message: str | Error) -> str:
    """The lines after the first may contain values of the row."""
    return str(message).partition("\n")[0]

"""Django's database as a journal needs it: nobody else's transaction around, and errors said plainly.

A write must be there when the call returns. Inside somebody's open `atomic` block it could be rolled back
after the service was told, so it is refused there; the block of a `TestCase` is exempt, as it is for
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
"""How often the database may undo one call."""
UNDONE = ("40001", "40P01", 1213, 1020)
"""A serialization failure and a deadlock, in PostgreSQL and in MySQL or MariaDB."""
LOST = (1053, 1927, 2006, 2013, 2055, 4031)
"""What MySQL and MariaDB say of a session that has ended."""


@contextmanager
def reading(using: str) -> Generator[None]:
    """Outside of any transaction, where what others wrote is seen; each statement is one of its own."""
    try:
        if _is_open(connections[using]):
            raise _inside()
        yield
    except IntegrityError:
        raise
    except Error as error:
        kind = Undone if _is_undone(error) else Broken if _is_broken(using, error) else JournalError
        raise kind(_told(error, using)) from error


def repeated_if_undone(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """Again when the database rolled it back."""

    @wraps(method)
    def tried(store: S, /, *args: P.args, **named: P.kwargs) -> T:
        for _ in range(ATTEMPTS - 1):
            with suppress(Undone):
                return method(store, *args, **named)
        return method(store, *args, **named)

    return tried


def repeated(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """Once more in a new session if the session broke, too: for what can tell that it was done already."""
    again = repeated_if_undone(method)

    @wraps(method)
    def tried(store: S, /, *args: P.args, **named: P.kwargs) -> T:
        try:
            return again(store, *args, **named)
        except Broken:
            return again(store, *args, **named)

    return tried


@contextmanager
def writing(using: str) -> Generator[None]:
    """For statements that stand alone: a process that is stopped between two of them keeps no lock.

    In the block of a `TestCase` each has a savepoint, so that one that is refused breaks nothing.
    """
    with reading(using):
        if not connections[using].in_atomic_block:
            yield
            return
        with transaction.atomic(using=using):
            yield


@contextmanager
def one_transaction(using: str) -> Generator[None]:
    """For several statements that are done together or not at all."""
    with reading(using), transaction.atomic(using=using, durable=True):
        yield


def insert_row(using: str, model: type[Model], values: Mapping[str, Any]) -> None:
    """One INSERT and nothing else: Django's own would open a transaction, or look first."""
    connection, meta = connections[using], model._meta  # noqa: SLF001
    fields: list[Any] = [meta.get_field(name) for name in values]
    columns = ", ".join(connection.ops.quote_name(field.column) for field in fields)
    marks = ", ".join("%s" for _ in fields)
    prepared: list[Any] = [field.get_db_prep_save(values[field.name], connection) for field in fields]
    with connection.cursor() as cursor:
        table = connection.ops.quote_name(meta.db_table)
        cursor.execute(f"INSERT INTO {table} ({columns}) VALUES ({marks})", prepared)  # noqa: S608


def is_on_disk(using: str) -> Q:
    """A condition of a write that must be on the disk when it is answered, whatever the project has chosen.

    Where the database does not let us choose, it is no condition.
    """
    if connections[using].vendor != "postgresql":
        return Q()
    forced = RawSQL("set_config('synchronous_commit', 'on', true) <> ''", (), BooleanField())
    return Q(forced)


def refresh(using: str) -> None:
    """Django does this between requests; a sweep may run where there are none."""
    if not connections[using].in_atomic_block:
        connections[using].close_if_unusable_or_obsolete()


class Undone(JournalError):
    """The database rolled it back, because others wrote at the same moment. Nothing was done."""


class Broken(JournalError):
    """The session ended. What was asked may have been done or not."""


def _is_undone(error: Error) -> bool:
    return _code_of(error) in UNDONE


def _code_of(error: Error) -> object:
    """PostgreSQL's SQLSTATE, or MySQL's number."""
    cause = error.__cause__
    state = getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None)
    return state or next(iter(getattr(cause, "args", ())), None)


def _is_broken(using: str, error: Error) -> bool:
    """Then it is closed, and the next call opens another one; Django would do so at the next request.

    Some drivers connect anew when they are asked whether a connection is usable: what they said goes first.
    """
    connection = connections[using]
    if connection.in_atomic_block:
        return False
    was_lost = isinstance(error, InterfaceError) or _code_of(error) in LOST
    if not was_lost and connection.connection is not None and connection.is_usable():
        return False
    connection.close()
    return True


def impossible(why: str | DatabaseError) -> JournalError:
    return JournalError(f"the journal refused an impossible row: {_first_line(why)}")


def _is_open(connection: BaseDatabaseWrapper) -> bool:
    """Whether somebody has a transaction open, as `atomic(durable=True)` would say."""
    blocks: list[Any] = connection.atomic_blocks
    if blocks:
        return not getattr(blocks[-1], "_from_testcase", False)
    return not connection.get_autocommit()


def _inside() -> JournalError:
    return JournalError(
        "the journal cannot write inside an open transaction, which could still be rolled back: sell "
        "outside of atomic() and ATOMIC_REQUESTS (non_atomic_requests exempts a view)"
    )


def migrate_command(using: str) -> str:
    """What makes the journal's table in this database."""
    return "python manage.py migrate" + ("" if using == DEFAULT_DB_ALIAS else f" --database {using}")


def _told(error: Error, using: str) -> str:
    return (
        f"the journal's database could not be read or written: {_first_line(error)} "
        f"(if it says that a table is missing: {migrate_command(using)})"
    )


def _first_line(said: str | Error) -> str:
    """What follows it may hold values."""
    return str(said).partition("\n")[0]

"""Django's database as a journal needs it: nobody else's transaction around, and errors said plainly.

A write must be there when the call returns. Inside somebody's open `atomic` block it could be rolled back
after the service was told, so it is refused there; the block of a `TestCase` is exempt, as it is for
`atomic(durable=True)`.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from django.db import DEFAULT_DB_ALIAS, DatabaseError, Error, IntegrityError, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from faregate.errors import JournalError

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")


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
        raise (_Broken if _is_broken(using) else JournalError)(_told(error, using)) from error


def once_more(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """If the session broke, again in a new one: a write can tell that it was done already."""

    @wraps(method)
    def tried(shelf: S, /, *args: P.args, **named: P.kwargs) -> T:
        try:
            return method(shelf, *args, **named)
        except _Broken:
            return method(shelf, *args, **named)

    return tried


@contextmanager
def writing(using: str, durable: bool = False) -> Generator[None]:
    """A transaction. What is `durable` is on the disk afterwards, whatever the project has chosen, if the
    database lets us choose.
    """
    with reading(using), transaction.atomic(using=using, durable=True):
        if durable and connections[using].vendor == "postgresql":
            with connections[using].cursor() as cursor:
                cursor.execute("SET LOCAL synchronous_commit TO on")
        yield


def refresh(using: str) -> None:
    """Django does this between requests; a sweep may run where there are none."""
    if not connections[using].in_atomic_block:
        connections[using].close_if_unusable_or_obsolete()


class _Broken(JournalError):
    """The session ended. What was asked may have been done or not."""


def _is_broken(using: str) -> bool:
    """Then it is closed, and the next call opens another one; Django would do so at the next request."""
    connection = connections[using]
    if connection.in_atomic_block:
        return False
    if connection.connection is not None and connection.is_usable():
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
        "the journal was asked to write inside an open transaction, which could still be rolled back: sell "
        "outside of atomic() and ATOMIC_REQUESTS (non_atomic_requests takes one view out)"
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

"""The rows of one namespace in Django's database (`faregate.journals.shelf.Shelf`).

A write must be there when the call returns. Inside somebody's open `atomic` block it could be rolled back
after the service was told, so it is refused there; the block of a `TestCase` is exempt, as it is for
`atomic(durable=True)`.
"""

import hmac
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar, cast

from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import DatabaseError, Error, IntegrityError, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Count, QuerySet, Sum

from faregate.django.journal.models import JournalRow
from faregate.errors import JournalError, Misconfigured
from faregate.journals.shelf import COLUMNS, Record, TransactionTaken

T = TypeVar("T")
PURGE = 8
"""Expired rows forgotten with each new one: more than come in, and few enough not to be noticed."""


def secret_keys() -> list[bytes]:
    """The journal's keys, made of `SECRET_KEY` and `SECRET_KEY_FALLBACKS`, newest first."""
    secrets: list[str | bytes] = [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]
    encoded = [secret.encode() if isinstance(secret, str) else secret for secret in secrets]
    return [hmac.digest(secret, b"faregate.django.journal", "sha256") for secret in encoded]


async def in_djangos_thread(call: Callable[[], T]) -> T:
    """Where Django has its connections for this request."""
    return await sync_to_async(call, thread_sensitive=True)()


class DjangoShelf:
    """Each write is a transaction of its own, on the database `using`."""

    def __init__(self, namespace: str, using: str) -> None:
        if len(namespace) > 255:
            raise Misconfigured("The service's address is too long for the journal: 250 characters at most.")
        if using not in connections:
            raise Misconfigured(f"DATABASES has no {using!r}, which the journal was told to use.")
        self._namespace = namespace
        self._using = using

    def _rows(self) -> QuerySet[JournalRow]:
        return JournalRow.objects.using(self._using).filter(namespace=self._namespace)

    def find(self, keys: Sequence[bytes]) -> Record | None:
        names = [key.hex() for key in keys]
        with self._reading():
            found = {row["key"]: row for row in self._rows().filter(key__in=names).values(*COLUMNS)}
        return next((_record(found[name]) for name in names if name in found), None)

    def insert(self, record: Record, rivals: Sequence[bytes], now: float) -> bool:
        """Two processes whose newest keys differ can both insert; then one transaction id decides."""
        if self.find(rivals) is not None:
            return False
        values: dict[str, Any] = {**record, "key": record["key"].hex(), "namespace": self._namespace}
        try:
            with self._writing():
                # Neither signals nor a look-up first: one INSERT.
                JournalRow.objects.using(self._using).bulk_create([JournalRow(**values)])
                self._forget_expired(self._expired(now, PURGE), now)
        except IntegrityError as error:
            if self.find(rivals) is None:
                raise _impossible(error) from error
            return False
        return True

    def replace(self, key: bytes, stamp: int, changes: Mapping[str, Any]) -> bool:
        try:
            with self._writing():
                return self._rows().filter(key=key.hex(), stamp=stamp).update(**changes) == 1
        except IntegrityError as error:
            transaction_id = changes.get("transaction_id")
            with self._reading():
                taken = transaction_id and self._rows().filter(transaction_id=transaction_id).exists()
            if taken:
                raise TransactionTaken from None
            raise _impossible(error) from error

    def delete(self, key: bytes, stamp: int) -> bool:
        with self._writing():
            return self._forget(key.hex(), "stamp =", stamp) == 1

    def due(self, now: float) -> Record | None:
        owed = self._rows().filter(expires_at__isnull=True, lease_until__lte=now, due_at__lte=now)
        with self._reading():
            self._refresh()
            row = owed.order_by("lease_until").values(*COLUMNS).first()
        return None if row is None else _record(row)

    def purge(self, now: float, limit: int) -> int:
        with self._reading():
            expired = self._expired(now, limit)
        with self._writing():
            return self._forget_expired(expired, now)

    def _expired(self, now: float, limit: int) -> list[str]:
        return list(self._rows().filter(expires_at__lte=now).values_list("key", flat=True)[:limit])

    def _forget_expired(self, keys: list[str], now: float) -> int:
        """On the condition again: a claim may have been taken up anew meanwhile."""
        return sum(self._forget(key, "expires_at <=", now) for key in keys)

    def _forget(self, key: str, condition: str, value: float) -> int:
        """As one conditional DELETE: Django's own may look first and delete without the condition."""
        connection = connections[self._using]
        names = JournalRow._meta.db_table, "key"  # noqa: SLF001
        table, name = map(connection.ops.quote_name, names)
        with connection.cursor() as cursor:
            cursor.execute(f"DELETE FROM {table} WHERE {name} = %s AND {condition} %s", [key, value])  # noqa: S608
            return int(cursor.rowcount)

    def measure(self) -> tuple[int, int]:
        with self._reading():
            found = self._rows().aggregate(rows=Count("key"), bytes=Sum("size"))
        return found["rows"], found["bytes"] or 0

    def disconnect(self) -> None:
        connections[self._using].close()

    def _refresh(self) -> None:
        """Django does this between requests; a sweep may run where there are none."""
        if not connections[self._using].in_atomic_block:
            connections[self._using].close_if_unusable_or_obsolete()

    @contextmanager
    def _reading(self) -> Generator[None]:
        """Outside of any transaction, where what others wrote is seen."""
        if _is_open(connections[self._using]):
            raise _inside()
        try:
            yield
        except IntegrityError:
            raise
        except Error as error:
            raise _told(error) from error

    @contextmanager
    def _writing(self) -> Generator[None]:
        with self._reading(), transaction.atomic(using=self._using, durable=True):
            yield


def _is_open(connection: BaseDatabaseWrapper) -> bool:
    """Whether somebody has a transaction open, as `atomic(durable=True)` would say."""
    blocks: list[Any] = connection.atomic_blocks
    if blocks:
        return not getattr(blocks[-1], "_from_testcase", False)
    return not connection.get_autocommit()


def _record(row: Mapping[str, Any]) -> Record:
    record: dict[str, Any] = {**row, "key": bytes.fromhex(row["key"])}
    for sealed in ("proof", "payment_response", "result"):
        # Some databases give a view of their own memory.
        record[sealed] = None if record[sealed] is None else bytes(record[sealed])
    return cast(Record, record)


def _inside() -> JournalError:
    return JournalError(
        "the journal was asked to write inside an open transaction, which could still be rolled back: sell "
        "outside of atomic() and ATOMIC_REQUESTS (non_atomic_requests takes one view out)"
    )


def _impossible(error: DatabaseError) -> JournalError:
    return JournalError(f"the journal refused an impossible row: {_first_line(error)}")


def _told(error: Error) -> JournalError:
    return JournalError(
        f"the journal's database could not be read or written: {_first_line(error)} "
        "(if it says that a table is missing: python manage.py migrate)"
    )


def _first_line(error: Error) -> str:
    """What follows it may hold values."""
    return str(error).partition("\n")[0]

"""The rows of one namespace in Django's database (`faregate.journals.shelf.Shelf`)."""

import hmac
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import IntegrityError, connections
from django.db.models import Count, Exists, Max, OuterRef, Q, QuerySet, Sum

from faregate.django.journal.database import impossible, once_more, reading, refresh, writing
from faregate.django.journal.models import JournalRow, LeaseOwner
from faregate.errors import Misconfigured
from faregate.journals.shelf import COLUMNS, SEALED, Due, KeyUsage, Record, TransactionTaken

T = TypeVar("T")
OWNER_RETENTION = 3600.0
"""An owner that died is forgotten after so many seconds."""
PURGE = 8
"""Expired rows forgotten with each new one: more than come in, and few enough not to be noticed."""

_TIMES = {
    "postgresql": "SELECT extract(epoch FROM clock_timestamp())",
    "mysql": "SELECT unix_timestamp(sysdate(6))",
}

_PLAIN = tuple(name for name in COLUMNS if name not in SEALED)
_NOTHING_SEALED = dict.fromkeys(SEALED)
_UNDECIDED = ("claimed", "open", "waiting", "running", "stuck")
_FROM: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("closed", "paid", "stuck"), (*_UNDECIDED, "ok", "failed")),
    **dict.fromkeys(("open", "waiting", "running", "ok", "failed"), _UNDECIDED),
    "settled": ("ok", "stuck"),
}
"""The states from which a row may come to another one. A constraint of the table sees no state before."""


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

    @once_more
    def find(self, keys: Sequence[bytes]) -> Record | None:
        names = [key.hex() for key in keys]
        with reading(self._using):
            found = {row["key"]: row for row in self._rows().filter(key__in=names).values(*COLUMNS)}
        return next((_record(found[name]) for name in names if name in found), None)

    @once_more
    def find_transaction(self, transaction_id: str) -> Record | None:
        with reading(self._using):
            row = self._rows().filter(transaction_id=transaction_id).values(*COLUMNS).first()
        return None if row is None else _record(row)

    @once_more
    def insert(self, record: Record, rivals: Sequence[bytes], now: float) -> bool:
        """Two processes whose newest keys differ can both insert; then one transaction id decides."""
        if (rival := self.find(rivals)) is not None:
            return rival["stamp"] == record["stamp"]
        values: dict[str, Any] = {**record, "key": record["key"].hex(), "namespace": self._namespace}
        try:
            with writing(self._using):
                # Neither signals nor a look-up first: one INSERT.
                JournalRow.objects.using(self._using).bulk_create([JournalRow(**values)])
                self._forget_expired(self._expired(now, PURGE), now)
        except IntegrityError as error:
            if self.find(rivals) is None:
                raise impossible(error) from error
            return False
        return True

    @once_more
    def replace(self, key: bytes, stamp: int, changes: Mapping[str, Any], durable: bool) -> bool:
        row = self._rows().filter(key=key.hex())
        try:
            with writing(self._using, durable):
                if row.filter(_may_become(changes), stamp=stamp).update(**changes) == 1:
                    return True
        except IntegrityError as error:
            if self._is_taken(changes.get("transaction_id")):
                raise TransactionTaken from None
            raise impossible(error) from error
        with reading(self._using):
            stands = row.values_list("stamp", flat=True).first()
        if stands == stamp:
            raise impossible("a row never goes back, and an outcome is decided once")
        return bool(stands == changes["stamp"])

    def _is_taken(self, transaction_id: str | None) -> bool:
        return transaction_id is not None and self.find_transaction(transaction_id) is not None

    @once_more
    def delete(self, key: bytes, stamp: int) -> bool:
        with writing(self._using):
            return self._forget(key.hex(), "stamp =", stamp) == 1

    @once_more
    def take_due(self, due: Due, changes: Mapping[str, Any]) -> Record | None:
        """Rows that others are taking are passed over where the database can; else who is quicker has it."""
        refresh(self._using)
        passes = connections[self._using].features.has_select_for_update_skip_locked
        rows = self._due(due)
        rows = rows.select_for_update(skip_locked=True) if passes else rows
        with writing(self._using) if passes else reading(self._using):
            while (row := rows.order_by("lease_until").values(*COLUMNS).first()) is not None:
                if self._rows().filter(key=row["key"], stamp=row["stamp"]).update(**changes) == 1:
                    return _record({**row, **changes})
        return None

    def _due(self, due: Due) -> QuerySet[JournalRow]:
        lives = Exists(LeaseOwner.objects.using(self._using).filter(id=OuterRef("owner"), until__gt=due.now))
        is_over = Q(lease_until__lte=due.now) | Q(~lives, touched_at__lte=due.silent_since)
        foreign = Q(due_at__lte=due.foreign_since, lease_until__lte=due.foreign_since)
        rows = self._owed().exclude(state="stuck").filter(due_at__lte=due.now)
        return rows.filter(is_over).filter(Q(seller=due.seller) | foreign)

    def renew(self, owner: str, until: float, now: float) -> None:
        """In the thread of the leases, which has a connection of its own: none is left open in it."""
        try:
            owners = LeaseOwner.objects.using(self._using)
            with writing(self._using):
                if not owners.filter(id=owner).update(until=until):
                    owners.create(id=owner, until=until)
                owners.filter(until__lte=now - OWNER_RETENTION).delete()
        finally:
            connections[self._using].close()

    @once_more
    def owner_until(self, owner: str) -> float:
        with reading(self._using):
            found = LeaseOwner.objects.using(self._using).filter(id=owner).values_list("until", flat=True)
            return next(iter(found), 0.0)

    @property
    def has_server_time(self) -> bool:
        """SQLite has no server, and one machine. Opens nothing."""
        return connections[self._using].vendor in _TIMES

    @once_more
    def server_time(self) -> float:
        """Seconds since 1970, as the database's server counts them."""
        with reading(self._using), connections[self._using].cursor() as cursor:
            cursor.execute(_TIMES[connections[self._using].vendor])
            return float(cursor.fetchone()[0])

    # For operators

    @once_more
    def key_ids(self) -> set[str]:
        """One step over the index for each key, and not one for each row."""
        found: list[str] = [""]
        with reading(self._using):
            ids = self._rows().order_by("key_id").values_list("key_id", flat=True)
            while (following := ids.filter(key_id__gt=found[-1]).first()) is not None:
                found.append(following)
        return set(found[1:])

    @once_more
    def usage_of_keys(self) -> list[KeyUsage]:
        owed = Count("id", filter=Q(expires_at__isnull=True))
        with reading(self._using):
            rows = self._rows().values("key_id")
            found = rows.annotate(rows=Count("id"), owed=owed, last_expiry=Max("expires_at"))
            return [KeyUsage(**row) for row in found]

    @once_more
    def namespaces(self) -> dict[str, int]:
        owed = JournalRow.objects.using(self._using).filter(expires_at__isnull=True)
        with reading(self._using):
            return dict(owed.values_list("namespace").annotate(Count("id")))

    @once_more
    def move(self, namespace: str) -> int:
        rows = JournalRow.objects.using(self._using)
        with writing(self._using, durable=True):
            here = rows.filter(namespace=self._namespace)
            keys, transactions = list(here.values_list("key", flat=True)), here.exclude(transaction_id=None)
            there = rows.filter(namespace=namespace).exclude(key__in=keys)
            there = there.exclude(
                transaction_id__in=list(transactions.values_list("transaction_id", flat=True))
            )
            return there.update(namespace=self._namespace)

    def _owed(self) -> QuerySet[JournalRow]:
        return self._rows().filter(expires_at__isnull=True)

    @once_more
    def owed(self, limit: int) -> list[Record]:
        with reading(self._using):
            return [
                _record({**_NOTHING_SEALED, **row})
                for row in self._owed().order_by("since").values(*_PLAIN)[:limit]
            ]

    @once_more
    def purge(self, now: float, limit: int) -> int:
        with reading(self._using):
            expired = self._expired(now, limit)
        with writing(self._using):
            return self._forget_expired(expired, now)

    def _expired(self, now: float, limit: int) -> list[str]:
        return list(self._rows().filter(expires_at__lte=now).values_list("key", flat=True)[:limit])

    def _forget_expired(self, keys: list[str], now: float) -> int:
        """On the condition again: a claim may have been taken up anew meanwhile. All in one order, so that
        two who do it at once do not wait for each other in a circle.
        """
        return sum(self._forget(key, "expires_at <=", now) for key in sorted(keys))

    def _forget(self, key: str, condition: str, value: float) -> int:
        """As one conditional DELETE: Django's own may look first and delete without the condition."""
        connection = connections[self._using]
        names = JournalRow._meta.db_table, "namespace", "key"  # noqa: SLF001
        table, namespace, name = map(connection.ops.quote_name, names)
        mine = f"{namespace} = %s AND {name} = %s"
        with connection.cursor() as cursor:
            values: list[str | float] = [self._namespace, key, value]
            cursor.execute(f"DELETE FROM {table} WHERE {mine} AND {condition} %s", values)  # noqa: S608
            return int(cursor.rowcount)

    @once_more
    def measure(self) -> tuple[int, int]:
        with reading(self._using):
            found = self._rows().aggregate(rows=Count("key"), bytes=Sum("size"))
        return found["rows"], found["bytes"] or 0

    def disconnect(self) -> None:
        connections[self._using].close()


def _may_become(changes: Mapping[str, Any]) -> Q:
    """What a row must be for these changes."""
    may = Q(result__isnull=True) if changes.get("result") is not None else Q()
    state = changes.get("state")
    return may if state is None else may & Q(state__in=(state, *_FROM.get(state, ())))


def _record(row: Mapping[str, Any]) -> Record:
    record: dict[str, Any] = {**row, "key": bytes.fromhex(row["key"])}
    for sealed in SEALED:
        # Some databases give a view of their own memory.
        record[sealed] = None if record[sealed] is None else bytes(record[sealed])
    return cast(Record, record)

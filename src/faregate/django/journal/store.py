"""The rows of one namespace in Django's database (`faregate.journals.store.RowStore`)."""

import hmac
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar, cast

from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import IntegrityError, connections
from django.db.models import Count, Exists, F, Max, OuterRef, Q, QuerySet, Sum
from django.db.models.functions import Coalesce

from faregate.django.journal.database import (
    ConnectionLost,
    atomic_transaction,
    force_sync,
    impossible,
    insert_row,
    read_connection,
    refresh,
    retry_if_rolled_back,
    retry_on_disconnect,
    write_transaction,
)
from faregate.django.journal.models import DELIVERED, REMEMBERED, UNFETCHED, JournalRow, LeaseOwner
from faregate.django.journal.owner_locks import make_owner_locks
from faregate.errors import ConfigurationError
from faregate.journals.states import PAID_NO_RESULT, SETTLED, TRANSITIONS, UNPAID, RowState
from faregate.journals.store import (
    COLUMNS,
    ENCRYPTED,
    OWNER_RETENTION,
    PAGE,
    PURGE_SECONDS,
    PURGE_WITH_INSERT,
    Due,
    KeyUsage,
    PurchaseTaken,
    Record,
    TransactionTaken,
)

T = TypeVar("T")

_TIMES = {
    # Both tell the time of the call. now() would be that of the transaction on PostgreSQL, of the statement
    # on MySQL.
    "postgresql": "SELECT extract(epoch FROM clock_timestamp())",
    "mysql": "SELECT unix_timestamp(sysdate(6))",
}

_WITHOUT_RESULT = tuple(name for name in COLUMNS if name != "result")
_PLAIN = tuple(name for name in COLUMNS if name not in ENCRYPTED)
_NOTHING_ENCRYPTED = dict.fromkeys(ENCRYPTED)
_DROP_RESULT: dict[str, Any] = {
    "state": PAID_NO_RESULT.value,
    "stamp": -1 - F("stamp"),
    "expires_at": F("forget_at"),
    "size": 0,
    **dict.fromkeys(("client", "body"), ""),
    **dict.fromkeys(("request_line", "payment_response", "receipt", "result")),
}
"""The changes of `Row.drop_result`."""
_FROM = {
    state.value: tuple(before.value for before, following in TRANSITIONS.items() if state in following)
    for state in RowState
}
"""The states that may precede each one: a condition of the UPDATE, as a constraint sees no old values."""


def derive_keys() -> list[bytes]:
    """Derive the journal's keys from `SECRET_KEY` and `SECRET_KEY_FALLBACKS`, newest first."""
    secrets: list[str | bytes] = [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]
    encoded = [secret.encode() if isinstance(secret, str) else secret for secret in secrets]
    return [hmac.digest(secret, b"faregate.django.journal", "sha256") for secret in encoded]


async def run_in_request_thread(call: Callable[[], T]) -> T:
    """Run it in the thread where Django has its connections for this request."""
    return await sync_to_async(call, thread_sensitive=True)()


class DjangoStore:
    """Each write is a transaction of its own, on the database `using`."""

    def __init__(self, namespace: str, using: str) -> None:
        if len(namespace) > 255:
            raise ConfigurationError(
                "The service's address is too long for the journal: 250 characters at most."
            )
        if using not in connections:
            raise ConfigurationError(f"DATABASES has no {using!r}, which FAREGATE['JOURNAL'] names.")
        self._namespace = namespace
        self._using = using
        self._purge_at = 0.0

        self.owner_locks = make_owner_locks(using)

    @property
    def namespace(self) -> str:
        return self._namespace

    def _rows(self) -> QuerySet[JournalRow]:
        return JournalRow.objects.using(self._using).filter(namespace=self._namespace)

    @retry_on_disconnect
    def find(self, keys: Sequence[bytes]) -> Record | None:
        names = [key.hex() for key in keys]
        with read_connection(self._using):
            rows = {row["key"]: row for row in self._rows().filter(key__in=names).values(*_WITHOUT_RESULT)}
        return next((_record(rows[name]) for name in names if name in rows), None)

    @retry_on_disconnect
    def find_transaction(self, transaction_id: str) -> Record | None:
        with read_connection(self._using):
            row = self._rows().filter(transaction_id=transaction_id).values(*_WITHOUT_RESULT).first()
        return None if row is None else _record(row)

    @retry_on_disconnect
    def find_purchase(self, purchase: str) -> Record | None:
        with read_connection(self._using):
            row = self._rows().filter(purchase=purchase).values(*_WITHOUT_RESULT).first()
        return None if row is None else _record(row)

    @retry_on_disconnect
    def find_authorization(self, hashes: Sequence[str], own: bytes, now: float) -> Record | None:
        is_kept = Q(expires_at__isnull=True) | Q(expires_at__gt=now) | Q(state=SETTLED.value)
        rows = self._rows().filter(is_kept, authorization_hash__in=hashes)
        rows = rows.exclude(key=own.hex()).exclude(state=UNPAID.value)
        with read_connection(self._using):
            first = rows.order_by(F("transaction_id").asc(nulls_last=True)).values(*_WITHOUT_RESULT).first()
        return None if first is None else _record(first)

    @retry_on_disconnect
    def find_result(self, key: bytes) -> bytes | None:
        with read_connection(self._using):
            result = self._rows().filter(key=key.hex()).values_list("result", flat=True).first()
        return None if result is None else bytes(result)

    @retry_on_disconnect
    def insert(self, record: Record, candidate_keys: Sequence[bytes], now: float) -> bool:
        """Add a row, unless a candidate is there. With one candidate, the constraint sees to that.

        Two processes whose newest keys differ may both insert one proof: the check and the INSERT are not one
        statement here. The service gives both the same transaction id, whose unique constraint stops one.
        """
        if len(candidate_keys) > 1 and (existing := self.find(candidate_keys)) is not None:
            return existing["stamp"] == record["stamp"]
        self._purge(now)
        for attempt in range(2):
            try:
                with write_transaction(self._using):
                    row = {**record, "key": record["key"].hex(), "namespace": self._namespace}
                    insert_row(self._using, JournalRow, row)
                return True
            except IntegrityError as error:
                if (existing := self.find(candidate_keys)) is not None:
                    return existing["stamp"] == record["stamp"]
                if attempt == 1:  # at the first one, there may have been a row that is deleted now
                    raise impossible(error) from error
        return False

    def _purge(self, now: float) -> None:
        if self._purge_at - PURGE_SECONDS <= now < self._purge_at:
            return
        dropped = self._drop_results(now, PURGE_WITH_INSERT)
        if max(dropped, self._delete_expired(now, PURGE_WITH_INSERT)) < PURGE_WITH_INSERT:
            self._purge_at = now + PURGE_SECONDS

    @retry_on_disconnect
    def replace(self, key: bytes, stamp: int, changes: Mapping[str, Any], durable: bool) -> bool:
        row = self._rows().filter(key=key.hex())
        try:
            with write_transaction(self._using):
                synced = force_sync(self._using) if durable else Q()
                if row.filter(_may_become(changes), synced, stamp=stamp).update(**changes) == 1:
                    return True
        except IntegrityError as error:
            if self._is_taken(changes.get("transaction_id")):
                raise TransactionTaken from None
            if (purchase := changes.get("purchase")) and self.find_purchase(purchase) is not None:
                raise PurchaseTaken from None
            raise impossible(error) from error
        with read_connection(self._using):
            stored = row.values_list("stamp", flat=True).first()
        # No other process wrote the row, so the condition on its state failed.
        if stored == stamp:
            raise impossible("a row never goes back, and an outcome is decided once")
        # True if this write is repeated: the first one succeeded, and its answer was lost.
        return bool(stored == changes["stamp"])

    def _is_taken(self, transaction_id: str | None) -> bool:
        return transaction_id is not None and self.find_transaction(transaction_id) is not None

    @retry_on_disconnect
    def delete(self, key: bytes, stamp: int) -> bool:
        with write_transaction(self._using):
            return self._delete_where([key.hex()], "stamp =", stamp) == 1

    def take_due(self, due: Due, changes: Mapping[str, Any]) -> Record | None:
        refresh(self._using)
        try:
            return self._take_due(due, changes)
        except ConnectionLost:
            return self._find_taken(changes["stamp"]) or self._take_due(due, changes)

    @retry_if_rolled_back
    def _take_due(self, due: Due, changes: Mapping[str, Any]) -> Record | None:
        with write_transaction(self._using):
            while (first := self._first_due(due)) is not None:
                key, stamp = first
                rows = self._rows().filter(key=key, stamp=stamp)
                row = rows.values(*_WITHOUT_RESULT).first()
                if row is not None and rows.update(**changes) == 1:
                    return _record({**row, **changes})
        return None

    def _find_taken(self, stamp: int) -> Record | None:
        """Find the row that an UPDATE took whose response was lost."""
        with read_connection(self._using):
            row = self._select_open().filter(stamp=stamp).values(*_WITHOUT_RESULT).first()
        return None if row is None else _record(row)

    def _first_due(self, due: Due) -> tuple[str, int] | None:
        """Find a row that is not locked (SKIP LOCKED, where the database has it); return key and stamp.

        Its own lock ends with the statement: a sweep that is stopped in the middle leaves no lock.
        """
        connection = connections[self._using]
        rows = self._due(due).order_by("lease_until").values_list("key", "stamp")[:1]
        query, values = rows.query.get_compiler(self._using).as_sql()
        passes = connection.features.has_select_for_update_skip_locked
        lock = f" {connection.ops.for_update_sql(skip_locked=True)}" if passes else ""
        with connection.cursor() as cursor:
            cursor.execute(query + lock, values)
            first = cursor.fetchone()
        return None if first is None else (str(first[0]), int(first[1]))

    def _due(self, due: Due) -> QuerySet[JournalRow]:
        lives = Exists(LeaseOwner.objects.using(self._using).filter(id=OuterRef("owner"), until__gt=due.now))
        is_silent = Q(~lives, ~Q(owner__in=due.living), touched_at__lte=due.silent_since)
        is_over = Q(lease_until__lte=due.now) | Q(owner="") | Q(owner__in=due.dead) | is_silent
        foreign = Q(due_at__lte=due.foreign_since, lease_until__lte=due.foreign_since)
        rows = self._select_open().exclude(state="stuck").filter(due_at__lte=due.now)
        return rows.filter(is_over).filter(Q(seller=due.seller) | foreign)

    def renew(self, owner: str, until: float, now: float) -> None:
        """Runs in the heartbeat's thread. Django keeps a connection per thread, so it is closed again."""
        try:
            self._renew(owner, until, now)
        finally:
            connections[self._using].close()

    @retry_on_disconnect
    def _renew(self, owner: str, until: float, now: float) -> None:
        owners = LeaseOwner.objects.using(self._using)
        with write_transaction(self._using):
            if not owners.filter(id=owner).update(until=until):
                insert_row(self._using, LeaseOwner, {"id": owner, "until": until})
            dead = list(owners.filter(until__lte=now - OWNER_RETENTION).values_list("id", flat=True))
            if dead:
                still_dead = owners.filter(id__in=dead, until__lte=now - OWNER_RETENTION)
                still_dead._raw_delete(self._using)  # noqa: SLF001 - `delete` would open a transaction

    @retry_on_disconnect
    def owner_until(self, owner: str) -> float:
        with read_connection(self._using):
            times = LeaseOwner.objects.using(self._using).filter(id=owner).values_list("until", flat=True)
            return next(iter(times), 0.0)

    @retry_on_disconnect
    def list_owners(self, now: float) -> list[str]:
        with read_connection(self._using):
            leased = self._select_open().exclude(state="stuck").filter(lease_until__gt=now)
            return list(leased.order_by().values_list("owner", flat=True).distinct())

    @property
    def has_server_time(self) -> bool:
        """Whether there is a server: SQLite has none, and one machine. Opens no connection."""
        return connections[self._using].vendor in _TIMES

    @retry_on_disconnect
    def get_server_time(self) -> float:
        """The server's clock: seconds since 1970."""
        with read_connection(self._using), connections[self._using].cursor() as cursor:
            cursor.execute(_TIMES[connections[self._using].vendor])
            return float(cursor.fetchone()[0])

    # For operators

    @retry_on_disconnect
    def key_ids(self) -> set[str]:
        with read_connection(self._using):
            return set(_list_distinct(self._rows(), "key_id"))

    @retry_on_disconnect
    def usage_of_keys(self) -> list[KeyUsage]:
        owed = Count("id", filter=Q(expires_at__isnull=True))
        with read_connection(self._using):
            rows = self._rows().values("key_id")
            last = Max(Coalesce("forget_at", "expires_at"))
            usages = rows.annotate(rows=Count("id"), owed=owed, last_expiry=last)
            return [KeyUsage(**row) for row in usages]

    @retry_on_disconnect
    def namespaces(self) -> dict[str, int]:
        owed = JournalRow.objects.using(self._using).filter(expires_at__isnull=True)
        with read_connection(self._using):
            return dict(owed.values_list("namespace").annotate(Count("id")))

    @retry_on_disconnect
    def move(self, namespace: str) -> int:
        rows = JournalRow.objects.using(self._using)
        with atomic_transaction(self._using):
            here = rows.filter(namespace=self._namespace)
            keys, transactions = list(here.values_list("key", flat=True)), here.exclude(transaction_id=None)
            there = rows.filter(namespace=namespace).exclude(key__in=keys)
            # Both are unique in a namespace, so what is here already stays, and its double stays there.
            there = there.exclude(
                transaction_id__in=list(transactions.values_list("transaction_id", flat=True))
            )
            return there.filter(force_sync(self._using)).update(namespace=self._namespace, purchase=None)

    def _select_open(self) -> QuerySet[JournalRow]:
        return self._rows().filter(expires_at__isnull=True)

    @retry_on_disconnect
    def list_owed(self, limit: int) -> list[Record]:
        with read_connection(self._using):
            return [
                _record({**_NOTHING_ENCRYPTED, **row})
                for row in self._select_open().order_by("since").values(*_PLAIN)[:limit]
            ]

    @retry_on_disconnect
    def list_unfetched(self, until: float, limit: int) -> list[Record]:
        with read_connection(self._using):
            rows = self._rows().filter(UNFETCHED, expires_at__lte=until).order_by("expires_at")
            return [_record({**_NOTHING_ENCRYPTED, **row}) for row in rows.values(*_PLAIN)[:limit]]

    def iterate(self) -> Iterator[Record]:
        last = ""
        while records := self._read_page(last):
            yield from records
            last = records[-1]["key"].hex()

    @retry_on_disconnect
    def _read_page(self, after: str) -> list[Record]:
        with read_connection(self._using):
            rows = self._rows().filter(key__gt=after).order_by("key").values(*_WITHOUT_RESULT)
            return [_record(row) for row in rows[:PAGE]]

    @retry_on_disconnect
    def list_namespaces(self) -> list[str]:
        with read_connection(self._using):
            return _list_distinct(JournalRow.objects.using(self._using), "namespace")

    @contextmanager
    def open_namespace(self, namespace: str) -> Generator["DjangoStore"]:
        yield DjangoStore(namespace, self._using)

    @retry_on_disconnect
    def drop_results(self, now: float, limit: int) -> int:
        return self._drop_results(now, limit)

    def _drop_results(self, now: float, limit: int) -> int:
        expired = self._rows().filter(DELIVERED, expires_at__lte=now)
        with write_transaction(self._using):
            keys = list(expired.values_list("key", flat=True)[:limit])
            return expired.filter(key__in=keys).update(**_DROP_RESULT) if keys else 0

    @retry_on_disconnect
    def purge(self, now: float, limit: int) -> int:
        return self._delete_expired(now, limit)

    @retry_on_disconnect
    def forget_delivered(self, limit: int) -> int:
        rows = self._rows().filter(REMEMBERED).order_by("expires_at")
        with write_transaction(self._using):
            keys = list(rows.values_list("key", flat=True)[:limit])
            return self._delete_where(keys, "delivered =", True) if keys else 0

    def _delete_expired(self, now: float, limit: int) -> int:
        """Repeat the condition in the DELETE: a row may have been claimed again since it was selected.

        The condition that the row is not settled is not repeated: a row that expires never becomes settled.
        """
        with write_transaction(self._using):
            expired = self._list_expired(now, limit)
            return self._delete_where(expired, "expires_at <=", now) if expired else 0

    def _list_expired(self, now: float, limit: int) -> list[str]:
        expired = self._rows().filter(expires_at__lte=now).exclude(state=SETTLED.value)
        return list(expired.values_list("key", flat=True)[:limit])

    def _delete_where(self, keys: Sequence[str], condition: str, value: float | bool) -> int:
        """Execute one conditional DELETE. Django's may SELECT first, and delete without the condition."""
        connection = connections[self._using]
        names = JournalRow._meta.db_table, "namespace", "key"  # noqa: SLF001
        table, namespace, name = map(connection.ops.quote_name, names)
        mine = f"{namespace} = %s AND {name} IN ({', '.join('%s' for _ in keys)})"
        with connection.cursor() as cursor:
            values: list[str | float | bool] = [self._namespace, *keys, value]
            cursor.execute(f"DELETE FROM {table} WHERE {mine} AND {condition} %s", values)  # noqa: S608
            return int(cursor.rowcount)

    @retry_on_disconnect
    def measure(self) -> tuple[int, int]:
        with read_connection(self._using):
            totals = self._rows().aggregate(rows=Count("key"), bytes=Sum("size"))
        return totals["rows"], totals["bytes"] or 0

    def disconnect(self) -> None:
        connections[self._using].close()


def _list_distinct(rows: QuerySet[JournalRow], column: str) -> list[str]:
    """Step over the index once per value, not once per row, as DISTINCT would."""
    distinct: list[str] = [""]
    values = rows.order_by(column).values_list(column, flat=True)
    while (following := values.filter(**{f"{column}__gt": distinct[-1]}).first()) is not None:
        distinct.append(following)
    return distinct[1:]


def _may_become(changes: Mapping[str, Any]) -> Q:
    """The condition that a row must meet for these changes."""
    allowed = Q(result__isnull=True) if changes.get("result") is not None else Q()
    state = changes.get("state")
    return allowed if state is None else allowed & Q(state__in=(state, *_FROM.get(state, ())))


def _record(row: Mapping[str, Any]) -> Record:
    record: dict[str, Any] = {"result": None, **row, "key": bytes.fromhex(row["key"])}
    for name in ENCRYPTED:
        # Some drivers return a memoryview of their own buffer.
        record[name] = None if record[name] is None else bytes(record[name])
    return cast(Record, record)

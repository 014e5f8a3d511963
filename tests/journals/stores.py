"""Every journal there is, made for a test: in this process, or in one that a test starts."""

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from faregate.journals.durations import JournalPolicy
from faregate.journals.memory import MemoryJournal
from faregate.journals.persistent import PersistentJournal
from faregate.journals.sqlite import SqliteJournal
from faregate.journals.store import Due, Record
from tests.django_site import databases
from tests.servers.shared import shared

STEADY = JournalPolicy(owner_lease=1e9, renew_every=math.inf)
"""Leases that end at their time alone: the clock of these tests jumps, and no thread keeps up with it."""
KEY, OTHER_KEY = b"k" * 32, b"o" * 32
AnyJournal = MemoryJournal | PersistentJournal


LEASED: dict[str, Any] = {
    "owner": "process",
    "touched_at": 1.0,
    "seller": "",
    "key_id": "key",
    "client": "",
    "body": "",
    "authorization_hash": "",
    "purchase": None,
}
"""Of a record, where these columns stand in it."""


def due_at(now: float) -> Due:
    """What a sweep of this seller may take, of processes that all live."""
    return Due(now, -1e9, "", -1e9)


class Clock:
    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def memory(place: Path, clock: Clock, **options: Any) -> MemoryJournal:
    return MemoryJournal(clock=clock, **{"policy": STEADY, **options})


def sqlite(place: Path, clock: Clock, **options: Any) -> SqliteJournal:
    namespace = "test https://service.example"
    options = {"keys": [KEY], "namespace": namespace, "timeout": 20, "policy": STEADY, **options}
    return SqliteJournal(place / "journal.db", clock=clock, **options)


def django(
    place: Path, clock: Clock, namespace: str = "test", server: str = "", **options: Any
) -> PersistentJournal:
    """In a database of the tests' project, under a namespace of the test's own: SQLite, or on a `server`."""
    from tests import django_site

    django_site.ready()
    from faregate.django.journal.store import DjangoStore, derive_keys, run_in_request_thread

    namespace = f"{namespace} {place}"
    options = {"keys": derive_keys(), "run": run_in_request_thread, "policy": STEADY, **options}
    using = databases.add(server) if server else "default"
    return PersistentJournal(DjangoStore(namespace, using), clock=clock, **options)


def redis(place: Path, clock: Clock, **options: Any) -> PersistentJournal:
    """In the Redis of this run of tests, under a namespace of the test's own."""
    from faregate.journals.redis import RedisJournal

    return RedisJournal(shared("redis"), clock=clock, **_own(place, options))


def postgres(place: Path, clock: Clock, **options: Any) -> PersistentJournal:
    """In the PostgreSQL of this run of tests, under a namespace of the test's own."""
    from faregate.journals.postgres import PostgresJournal

    return PostgresJournal(shared("postgres"), clock=clock, **_own(place, options))


def _own(place: Path, options: dict[str, Any]) -> dict[str, Any]:
    return {
        "keys": [KEY],
        "timeout": 20,
        "policy": STEADY,
        **options,
        "namespace": f"{options.get('namespace', 'test')} {place}",
    }


STORED: dict[str, Callable[..., PersistentJournal]] = {
    "sqlite": sqlite,
    "django": django,
    "django-postgres": partial(django, server="postgres"),
    "django-mariadb": partial(django, server="mariadb"),
    "redis": redis,
    "postgres": postgres,
}
JOURNALS: dict[str, Callable[..., AnyJournal]] = {"memory": memory, **STORED}


def find_class(kind: str) -> str:
    """Return the store that a test is spread for: the three databases of Django take turns."""
    return kind.partition("-")[0]


def disconnect(journal: AnyJournal) -> None:
    """Close what this thread has open."""
    if isinstance(journal, PersistentJournal):
        journal.disconnect()


def tamper(journal: PersistentJournal, record: Record, changes: dict[str, bytes]) -> None:
    """As somebody who can write the store, and need not obey its rules."""
    change = _TAMPER[type(journal._store).__name__]
    change(journal._store, record["key"], {**changes, "stamp": 1})


def _tamper_with_sqlite(store: Any, key: bytes, columns: dict[str, Any]) -> None:
    assignments = ", ".join(f"{name} = ?" for name in columns)
    change = f"UPDATE journal SET {assignments} WHERE key = ?"
    store._database.write(lambda file: file.execute("DROP TRIGGER IF EXISTS journal_decided_once"))
    store._database.write(lambda file: file.execute(change, (*columns.values(), key)))


def _tamper_with_django(store: Any, key: bytes, columns: dict[str, Any]) -> None:
    assert store._rows().filter(key=key.hex()).update(**columns) == 1


def _tamper_with_redis(store: Any, key: bytes, columns: dict[str, Any]) -> None:
    row = store._client._schema_key.replace("schema", f"row:{key.hex()}")
    words = [word for column in columns.items() for word in column]
    assert store._client._connections.call("HSET", row, *words) == 0


def _tamper_with_postgres(store: Any, key: bytes, columns: dict[str, Any]) -> None:
    import psycopg

    assignments = ", ".join(f"{name} = %s" for name in columns)
    change = f"UPDATE faregate_journal SET {assignments} WHERE namespace = %s AND key = %s"
    with psycopg.connect(shared("postgres")) as connection:
        connection.execute("SET session_replication_role = replica")  # no triggers
        values = (*columns.values(), store._namespace, key)
        assert connection.execute(change.encode(), values).rowcount == 1


_TAMPER: dict[str, Callable[[Any, bytes, dict[str, Any]], None]] = {
    "SqliteStore": _tamper_with_sqlite,
    "DjangoStore": _tamper_with_django,
    "RedisStore": _tamper_with_redis,
    "PostgresStore": _tamper_with_postgres,
}

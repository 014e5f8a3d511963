"""Every journal there is, made for a test: in this process, or in one that a test starts."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from faregate.journals.memory import MemoryJournal
from faregate.journals.sqlite import SqliteJournal
from faregate.journals.stored import StoredJournal
from tests.houses.shared import shared

KEY, OTHER_KEY = b"k" * 32, b"o" * 32
AnyJournal = MemoryJournal | StoredJournal


class Clock:
    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def memory(place: Path, clock: Clock, **options: Any) -> MemoryJournal:
    return MemoryJournal(clock=clock, **options)


def sqlite(place: Path, clock: Clock, **options: Any) -> SqliteJournal:
    options = {"keys": [KEY], "namespace": "test https://service.example", "patience": 20, **options}
    return SqliteJournal(place / "journal.db", clock=clock, **options)


def django(place: Path, clock: Clock, namespace: str = "test", **options: Any) -> StoredJournal:
    """In the database of the tests' project, under a namespace of the test's own."""
    from tests import django_site

    django_site.ready()
    from faregate.django.journal.shelf import DjangoShelf, in_djangos_thread, secret_keys

    namespace = f"{namespace} {place}"
    options = {"keys": secret_keys(), "run": in_djangos_thread, **options}
    return StoredJournal(DjangoShelf(namespace, "default"), namespace=namespace, clock=clock, **options)


def redis(place: Path, clock: Clock, **options: Any) -> StoredJournal:
    """In the Redis of this run of tests, under a namespace of the test's own."""
    from faregate.journals.redis import RedisJournal

    return RedisJournal(shared("redis"), clock=clock, **_own(place, options))


def postgres(place: Path, clock: Clock, **options: Any) -> StoredJournal:
    """In the PostgreSQL of this run of tests, under a namespace of the test's own."""
    from faregate.journals.postgres import PostgresJournal

    return PostgresJournal(shared("postgres"), clock=clock, **_own(place, options))


def _own(place: Path, options: dict[str, Any]) -> dict[str, Any]:
    return {
        "keys": [KEY],
        "patience": 20,
        **options,
        "namespace": f"{options.get('namespace', 'test')} {place}",
    }


STORED: dict[str, Callable[..., StoredJournal]] = {
    "sqlite": sqlite,
    "django": django,
    "redis": redis,
    "postgres": postgres,
}
KINDS: dict[str, Callable[..., AnyJournal]] = {"memory": memory, **STORED}


def done_with(journal: AnyJournal) -> None:
    """Close what this thread has open."""
    if isinstance(journal, StoredJournal):
        journal.disconnect()

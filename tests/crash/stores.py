"""The stores of both campaigns: their servers, how a seller is told where its journal is, what is in it."""

import json
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from faregate.journals.durations import DEFAULT_POLICY, JournalPolicy
from faregate.journals.persistent import PersistentJournal
from faregate.journals.urls import JournalContext, journal_from_url
from tests import servers
from tests.django_site.databases import settings_of

STORES = ("sqlite", "redis", "postgres")
DJANGO = ("django-sqlite", "django-postgres", "django-mariadb")
SERVERS = {
    "redis": (servers.redis_server, servers.REDIS_MISSING),
    "postgres": (servers.postgres_server, servers.POSTGRES_MISSING),
    "mariadb": (servers.mariadb_server, servers.MARIADB_MISSING),
}
KEYS = [b"k" * 32]


@dataclass(frozen=True)
class Place:
    """Where a journal is, as `FAREGATE_JOURNAL` has it. `database` is Django's settings, if it is in one."""

    journal: str
    database: str = ""


def server_of(kind: str) -> str:
    """The program that this kind needs, or nothing."""
    name = kind.removeprefix("django-")
    return name if name in SERVERS else ""


def missing(kind: str) -> str:
    """Why this kind cannot be run on this machine, or nothing."""
    server = server_of(kind)
    return SERVERS[server][1] if server else ""


@contextmanager
def serving(kind: str) -> Generator[str]:
    """A server of this kind while the block runs: its URL, empty where journals are files or in memory."""
    server = server_of(kind)
    if not server:
        yield ""
        return
    with SERVERS[server][0]() as url:
        yield url


def place_of(kind: str, url: str, folder: Path) -> Place:
    """A journal on the server of `serving`, or in a folder."""
    match kind:
        case "memory":
            return Place("memory:")
        case "django-sqlite":
            file = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(folder / "django.db")}
            return _in_django({**file, "OPTIONS": {"transaction_mode": "IMMEDIATE"}})
        case "django-postgres" | "django-mariadb":
            kept = {"OPTIONS": {}, "CONN_MAX_AGE": 60, "CONN_HEALTH_CHECKS": True}
            return _in_django({**settings_of(server_of(kind), url), **kept})
    return Place(url or f"sqlite:///{folder / 'journal.db'}")


def _in_django(settings: dict[str, Any]) -> Place:
    return Place("django:", json.dumps(settings))


def open_journal(url: str, namespace: str, policy: JournalPolicy = DEFAULT_POLICY) -> PersistentJournal:
    journal = journal_from_url(url, KEYS, JournalContext(namespace, "", policy))
    assert isinstance(journal, PersistentJournal)
    return journal


def row_states(url: str, namespace: str, transactions: Sequence[str]) -> dict[str, str | None]:
    """The state of each transaction's row, None where there is none; and of whatever else is owed."""
    journal = open_journal(url, namespace)
    try:
        found = {each: journal._store.find_transaction(each) for each in transactions}
        owed = {row["transaction_id"] or "": row["state"] for row in journal._store.list_owed(100)}
    finally:
        journal.disconnect()
    return {**owed, **{each: row and row["state"] for each, row in found.items()}}

"""The journals of a run: where each is, and how a seller is told."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import servers
from tests.django_site.databases import settings_of

KINDS = ("memory", "sqlite", "redis", "postgres", "django-sqlite", "django-postgres", "django-mariadb")
SERVERS = {
    "redis": (servers.redis_server, servers.REDIS_MISSING),
    "postgres": (servers.postgres_server, servers.POSTGRES_MISSING),
    "mariadb": (servers.mariadb_server, servers.MARIADB_MISSING),
}


@dataclass(frozen=True)
class Store:
    """`database` is Django's, where the journal is in one."""

    kind: str
    journal: str
    database: str = ""

    @property
    def workers(self) -> int:
        return 1 if self.forgets else 2

    @property
    def forgets(self) -> bool:
        """Whether it ends with its process."""
        return self.kind == "memory"


def server_of(kind: str) -> str:
    """The program that this kind needs, or nothing."""
    name = kind.removeprefix("django-")
    return name if name in SERVERS else ""


@contextmanager
def opened(kind: str, folder: Path) -> Generator[Store]:
    """The store, with a server of its own while the block runs."""
    server = server_of(kind)
    if not server:
        yield _on_disk(kind, folder)
        return
    with SERVERS[server][0]() as url:
        if not kind.startswith("django-"):
            yield Store(kind, url)
            return
        settings = {**settings_of(server, url), "OPTIONS": {}}
        yield Store(kind, "django:", _database({**settings, "CONN_MAX_AGE": 60, "CONN_HEALTH_CHECKS": True}))


def _on_disk(kind: str, folder: Path) -> Store:
    if kind == "memory":
        return Store(kind, "memory:")
    if kind == "sqlite":
        return Store(kind, f"sqlite://{folder / 'journal.db'}")
    settings = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(folder / "django.db")}
    return Store(kind, "django:", _database({**settings, "OPTIONS": {"transaction_mode": "IMMEDIATE"}}))


def _database(settings: dict[str, Any]) -> str:
    return json.dumps(settings)

"""Further databases of the project, each on the server that this run of tests shares."""

import os
from typing import Any
from urllib.parse import urlsplit

from tests.django_site import MIGRATED
from tests.servers.shared import shared

ENGINES = {"postgres": "django.db.backends.postgresql", "mariadb": "django.db.backends.mysql"}


def add(server: str, alias: str = "") -> str:
    """A database of the project on `postgres` or `mariadb`, with the journal's tables in it; its alias."""
    from django.core.management import call_command
    from django.db import connections

    alias = alias or server
    if alias not in connections.databases:
        said = settings_of(server, shared(server))
        connections.databases[alias] = connections.configure_settings({"default": {}, alias: said})[alias]
        migrated = f"{MIGRATED}_{server}_{said['NAME']}_{said['PORT']}"
        if migrated not in os.environ:
            call_command("migrate", "faregate_journal", database=alias, verbosity=0)
            os.environ[migrated] = "yes"
    return alias


def remove(alias: str) -> None:
    """The project has it no more; what is in it stays."""
    from django.db import connections

    connections[alias].close()
    del connections.databases[alias], connections[alias]


def settings_of(server: str, url: str) -> dict[str, Any]:
    """What Django's settings say of this server, by its URL."""
    if server == "mariadb":
        use_pymysql()
    parts = urlsplit(url)
    # Faster. What must be on the disk is forced there all the same.
    options = {"options": "-csynchronous_commit=off"} if server == "postgres" else {}
    return {
        "ENGINE": ENGINES[server],
        "NAME": parts.path.strip("/"),
        "USER": parts.username,
        "HOST": parts.hostname,
        "PORT": str(parts.port),
        "OPTIONS": options,
    }


def use_pymysql() -> None:
    """Django asks for mysqlclient, which needs a compiler."""
    import pymysql

    pymysql.install_as_MySQLdb()

"""Dying inside a write: each store's client is watched where it has spoken and was not answered yet."""

import sqlite3
from collections.abc import Callable
from typing import Any

from tests.torture.kills import Kills


def watch(kind: str, kills: Kills) -> None:
    """In a process that is to die: from now on `kills` hears of every write of this kind of journal."""
    WATCHED[kind](kills)


def _sqlite(kills: Kills) -> None:
    """Between the statement and its COMMIT."""
    connect = sqlite3.connect

    def watched(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection = connect(*arguments, **options)
        connection.set_trace_callback(lambda said: kills.writing() if said == "COMMIT" else None)
        return connection

    sqlite3.connect = watched


WATCHED: dict[str, Callable[[Kills], None]] = {"sqlite": _sqlite}

"""Older copies of the service's database, and their return, as the docs tell operators to do it."""

import shutil
import sqlite3
import time
from abc import ABC, abstractmethod
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from faregate.service.database.engine import Database
from faregate.service.database.generation import renew_generation
from faregate.service.database.upgrade import upgrade
from tests.servers.postgres import PostgresServer

DATABASE: Final = "service"
"""The name of the service's database on PostgreSQL."""


@dataclass(frozen=True)
class Restore:
    """A copy that was begun at one moment and took the place of the database at another (monotonic)."""

    copied_at: float
    restored_at: float

    def may_undo(self, asked_at: float, answered_at: float) -> bool:
        """Whether what was written for a request between these moments may not be in the copy."""
        return self.copied_at <= answered_at and asked_at <= self.restored_at


class Copies(ABC):
    """Takes one copy at a time, while the service runs, and puts it back, while no process of it lives."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._copied_at = 0.0
        self.restores: list[Restore] = []

    def copy(self) -> None:
        self._copied_at = time.monotonic()
        self._copy()

    def put_back(self) -> None:
        """Put the copy in the database's place, and run what `faregate service init` does."""
        self._put_back()
        upgrade(self.url)
        with closing(Database(self.url, pool_size=1)) as database:
            renew_generation(database)
        self.restores.append(Restore(self._copied_at, time.monotonic()))

    def may_undo(self, asked_at: float, answered_at: float) -> bool:
        """Whether a restore may have undone what was written for a request between these moments."""
        return any(restore.may_undo(asked_at, answered_at) for restore in self.restores)

    @abstractmethod
    def _copy(self) -> None: ...

    @abstractmethod
    def _put_back(self) -> None: ...


class SqliteCopies(Copies):
    """Copies of a file, made by SQLite's own backup."""

    def __init__(self, file: Path) -> None:
        super().__init__(f"sqlite:///{file}")
        self._file, self._copied = file, file.with_name("copy.db")

    def _copy(self) -> None:
        self._copied.unlink(missing_ok=True)
        with closing(sqlite3.connect(self._file)) as books, closing(sqlite3.connect(self._copied)) as copy:
            books.backup(copy)

    def _put_back(self) -> None:
        for kind in ("-wal", "-shm"):
            Path(f"{self._file}{kind}").unlink(missing_ok=True)
        shutil.move(self._copied, self._file)


class PostgresCopies(Copies):
    """Dumps of a database, put into a new one of the same name."""

    def __init__(self, server: PostgresServer, file: Path) -> None:
        super().__init__(server.url.replace("/postgres", f"/{DATABASE}"))
        self._server, self._file = server, file
        server.call("createdb", DATABASE)

    def _copy(self) -> None:
        self._server.call("pg_dump", "--format=custom", f"--file={self._file}", DATABASE)

    def _put_back(self) -> None:
        # The server may not have noticed yet that the processes were killed.
        self._server.call("dropdb", "--force", DATABASE)
        self._server.call("createdb", DATABASE)
        self._server.call("pg_restore", "--exit-on-error", f"--dbname={DATABASE}", str(self._file))

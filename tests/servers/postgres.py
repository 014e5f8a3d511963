"""A PostgreSQL server of the tests' own. It forces to the disk what it was told; the rest is kept small."""

import os
import shutil
import signal
import subprocess
from contextlib import AbstractContextManager
from pathlib import Path

from tests.servers.store_server import StoreServer
from tests.servers.unprivileged import as_somebody_else, lives, other_user

USER = "faregate"


def _programs() -> Path | None:
    """The newest ones: Debian keeps them in a folder per version, out of PATH."""
    versions = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    if versions:
        return max(versions, key=lambda path: int(path.parent.name))
    found = shutil.which("initdb")
    return Path(found).parent if found else None


_PROGRAMS = _programs()
POSTGRES_MISSING = "" if _PROGRAMS else "PostgreSQL (initdb, postgres) is not on this machine"
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "max_connections": "100",
    "shared_buffers": "32MB",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "jit": "off",
}


class PostgresServer(StoreServer):
    """Trusts whoever comes, or asks for `password`. `settings` are PostgreSQL's own."""

    stop_signal = signal.SIGINT

    def __init__(self, settings: dict[str, str] | None = None, password: str = "") -> None:
        super().__init__()
        self.settings = {**SETTINGS, **(settings or {})}
        self.password = password
        self.data = self.folder / "data"

    @property
    def url(self) -> str:
        secret = f":{self.password}" if self.password else ""
        return f"postgresql://{USER}{secret}@127.0.0.1:{self.port}/postgres"

    def open(self) -> None:
        if os.geteuid() == 0:
            shutil.chown(self.folder, other_user("postgres"))
        self._make()
        super().open()

    def _make(self) -> None:
        how = ["--no-sync", "--no-instructions", "--encoding=UTF8", "--locale=C", f"--username={USER}"]
        if self.password:
            (self.folder / "password").write_text(self.password)
            how += ["--auth=scram-sha-256", f"--pwfile={self.folder / 'password'}"]
        else:
            how += ["--auth=trust"]
        subprocess.run([*self._run("initdb"), *how, str(self.data)], check=True, capture_output=True,
                       cwd=self.folder)  # fmt: skip

    def command(self) -> list[str]:
        settings = {**self.settings, "port": str(self.port)}
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        return [*self._run("postgres"), "-D", str(self.data), *words]

    def _run(self, program: str) -> list[str]:
        assert _PROGRAMS is not None
        return [*as_somebody_else("postgres"), str(_PROGRAMS / program)]

    def call(self, program: str, *words: str) -> None:
        """Run one of PostgreSQL's client programs against this server, as `pg_dump`."""
        assert _PROGRAMS is not None
        place = ["--host=127.0.0.1", f"--port={self.port}", f"--username={USER}", "--no-password"]
        subprocess.run([str(_PROGRAMS / program), *place, *words], check=True, capture_output=True, cwd="/")

    def is_ready(self) -> bool:
        """A crash leaves the note of a server that was ready."""
        lines = self._written()
        return len(lines) > 7 and lines[7].strip() == "ready" and lives(int(lines[0]))

    def pid(self) -> int:
        return int(self._written()[0])

    def _written(self) -> list[str]:
        """The server's own note of where and how it is."""
        note = self.data / "postmaster.pid"
        return note.read_text().splitlines() if note.exists() else []


def postgres_server(
    settings: dict[str, str] | None = None, password: str = ""
) -> AbstractContextManager[str]:
    return PostgresServer(settings, password).serving()

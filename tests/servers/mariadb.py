"""A MariaDB server of the tests' own. It forces to the disk what it was told; the rest is kept small."""

import os
import shutil
import socket
import subprocess
from contextlib import AbstractContextManager
from pathlib import Path

from tests.servers.store_server import StoreServer
from tests.servers.unprivileged import as_somebody_else, lives, other_user

USER = "faregate"
DATABASE = "faregate"
_PROGRAM = shutil.which("mariadbd") or shutil.which("mariadbd", path="/usr/sbin")
_INSTALLER = shutil.which("mariadb-install-db")
MARIADB_MISSING = (
    "" if _PROGRAM and _INSTALLER else "MariaDB (mariadbd, mariadb-install-db) is not on this machine"
)
SETTINGS = {
    "bind-address": "127.0.0.1",
    "innodb-buffer-pool-size": "32M",
    "innodb-log-file-size": "16M",
    "innodb-flush-log-at-trx-commit": "1",
    "max-connections": "200",
    "max-allowed-packet": "64M",
    "character-set-server": "utf8mb4",
    "skip-name-resolve": "ON",
}


class MariadbServer(StoreServer):
    """Lets `USER` in without a password, from this machine. `settings` are MariaDB's own."""

    def __init__(self, settings: dict[str, str] | None = None) -> None:
        super().__init__()
        self.settings = {**SETTINGS, **(settings or {})}
        self.data = self.folder / "data"
        self.socket = self.folder / "socket"

    @property
    def url(self) -> str:
        return f"mysql://{USER}@127.0.0.1:{self.port}/{DATABASE}"

    def open(self) -> None:
        if os.geteuid() == 0:
            shutil.chown(self.folder, other_user("mysql"))
        self._make()
        super().open()

    def _make(self) -> None:
        assert _INSTALLER is not None
        (self.folder / "init.sql").write_text(
            f"CREATE DATABASE IF NOT EXISTS {DATABASE};\n"
            f"CREATE USER IF NOT EXISTS '{USER}'@'127.0.0.1';\n"
            f"GRANT ALL ON *.* TO '{USER}'@'127.0.0.1';\n"
        )
        how = ["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"]
        # Each has a tmpdir of its own: a server that starts removes temporary tables of the others there.
        places = [f"--datadir={self.data}", f"--tmpdir={self.folder}"]
        command = [*as_somebody_else("mysql"), _INSTALLER, *how, *places]
        made = subprocess.run(command, capture_output=True, text=True, cwd=self.folder)
        assert made.returncode == 0, f"{made.stdout}\n{made.stderr}"

    def command(self) -> list[str]:
        assert _PROGRAM is not None
        files = {
            "datadir": self.data,
            "tmpdir": self.folder,
            "socket": self.socket,
            "pid-file": self.folder / "pid",
        }
        settings = {**self.settings, **files, "init-file": self.folder / "init.sql", "port": self.port}
        words = [f"--{name}={value}" for name, value in settings.items()]
        return [*as_somebody_else("mysql"), _PROGRAM, "--no-defaults", *words]

    def is_ready(self) -> bool:
        """It greets whoever connects. A crash leaves the note of its pid behind."""
        if not (self._note.exists() and self._note.read_text().strip() and lives(self.pid())):
            return False
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(5)
            try:
                line.connect(str(self.socket))
                return bool(line.recv(5))
            except OSError:
                return False

    @property
    def _note(self) -> Path:
        return self.folder / "pid"

    def pid(self) -> int:
        return int(self._note.read_text())


def mariadb_server(settings: dict[str, str] | None = None) -> AbstractContextManager[str]:
    return MariadbServer(settings).serving()

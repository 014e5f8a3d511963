"""A Redis server of the tests' own. It keeps what it was told: every write is on the disk when it answers."""

import shutil
import socket
from contextlib import AbstractContextManager
from itertools import chain

from tests.servers.store_server import StoreServer

_PROGRAM = shutil.which("redis-server")
REDIS_MISSING = "" if _PROGRAM else "redis-server is not on this machine"
SAFE = {"appendonly": "yes", "appendfsync": "always", "maxmemory-policy": "noeviction", "save": ""}


class RedisServer(StoreServer):
    """`settings` are Redis's own, beside the safe ones or instead of them."""

    def __init__(self, settings: dict[str, str] | None = None) -> None:
        super().__init__()
        self.settings = {**SAFE, **(settings or {})}

    @property
    def url(self) -> str:
        password = self.settings.get("requirepass")
        return f"redis://{f':{password}@' if password else ''}127.0.0.1:{self.port}/0"

    def command(self) -> list[str]:
        own = {"bind": "127.0.0.1", "port": str(self.port), "dir": str(self.folder), "pidfile": "pid"}
        words = [[f"--{name}", *(value.split() or [""])] for name, value in (own | self.settings).items()]
        return [str(_PROGRAM), *chain.from_iterable(words)]

    def is_ready(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1) as asked:
                asked.sendall(b"PING\r\n")
                answer = asked.recv(100)
        except OSError:
            return False
        return answer.startswith((b"+PONG", b"-NOAUTH")) and (self.folder / "pid").exists()

    def pid(self) -> int:
        return int((self.folder / "pid").read_text())


def redis_server(settings: dict[str, str] | None = None) -> AbstractContextManager[str]:
    return RedisServer(settings).serving()

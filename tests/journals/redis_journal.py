"""A journal on a Redis server of the test's own."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from faregate.journals.redis import RedisJournal
from faregate.journals.redis.connections import Connections
from tests.journals.stores import KEY, Clock
from tests.servers import REDIS_MISSING, RedisServer
from tests.servers.shared import need


@contextmanager
def running(**settings: str) -> Generator[RedisServer]:
    need("redis", REDIS_MISSING)
    server = RedisServer({name.replace("_", "-"): value for name, value in settings.items()})
    try:
        server.open()
        yield server
    finally:
        server.leave()


@contextmanager
def opened(server: RedisServer, url: str = "", **options: Any) -> Generator[RedisJournal]:
    options = {"keys": [KEY], "namespace": "test", "clock": Clock(), **options}
    journal = RedisJournal(url or server.url, **options)
    try:
        yield journal
    finally:
        journal.disconnect()


def ask(server: RedisServer, *words: str | int) -> Any:
    connections = Connections(server.url, 5)
    try:
        return connections.call(*words)
    finally:
        connections.close()

"""A Redis server as one namespace sees it: the mark of its journal there, and scripts that are sent twice at
most. Who sends one again tells it so: whether it was done the first time is not known."""

import os
from collections.abc import Callable
from functools import cache, partial
from hashlib import sha1, sha256
from typing import Any, TypeVar, cast

from redis.exceptions import NoScriptError, RedisError

from faregate.journals.redis import errors
from faregate.journals.redis.connections import Connections, Word
from faregate.journals.redis.server_checks import ServerCheck
from faregate.journals.redis.url import place_of

T = TypeVar("T")
NAMESPACES = "faregate:namespaces"
"""The names of all namespaces in this server."""


class ScriptClient:
    """Half of `timeout` is for each of two tries."""

    def __init__(self, url: str, namespace: str, timeout: float) -> None:
        self._place = place_of(url)
        self._connections = Connections(url, timeout / 2, ServerCheck(self._place).look)
        self._call = self._connections.call
        self._namespace = namespace
        self._prefix = _prefix(namespace)
        self._schema = f"{self._prefix}schema"
        self._mark = ""
        self._again = partial(ScriptClient, url, timeout=timeout)

    def of(self, namespace: str) -> "ScriptClient":
        """The same server, as another namespace sees it."""
        return self._again(namespace)

    def namespaces(self) -> dict[str, int]:
        """How many rows each namespace owes something for."""
        names = [name.decode() for name in self._asked_twice(lambda _: self._call("SMEMBERS", NAMESPACES))]
        owed = {name: self._count(f"{_prefix(name)}owed") for name in names}
        return {name: number for name, number in owed.items() if number}

    def _count(self, index: str) -> int:
        return int(self._asked_twice(lambda _: self._call("ZCARD", index)))

    def run(self, script: str, *arguments: Word) -> list[Any]:
        """What a script of `faregate.journals.redis.scripts` answers. Raises `JournalError`."""
        mark = self._mark or self._opened()
        answer = self._asked_twice(lambda sent: self._evaluate(script, mark, sent, *arguments))
        if answer[0] == b"elsewhere":
            raise errors.elsewhere(answer[1].decode(), self._place)
        return cast(list[Any], answer)

    def time(self) -> float:
        """The server's clock."""
        seconds, micros = self._asked_twice(lambda _: self._call("TIME"))
        return int(seconds) + int(micros) / 1e6

    def disconnect(self) -> None:
        self._connections.close()
        self._mark = ""

    def _opened(self) -> str:
        """The mark of the journal there; in a server that has none yet, ours."""
        made = f"{errors.VERSION} {os.urandom(8).hex()} {self._namespace}"
        self._asked_twice(lambda _: self._call("SET", self._schema, made, "NX"))
        self._asked_twice(lambda _: self._call("SADD", NAMESPACES, self._namespace))
        mark = (self._asked_twice(lambda _: self._call("GET", self._schema)) or b"").decode()
        if mark.partition(" ")[0] != str(errors.VERSION):
            raise errors.elsewhere(mark, self._place)
        self._mark = mark
        return mark

    def _asked_twice(self, ask: Callable[[str], T]) -> T:
        try:
            try:
                return ask("first")
            except RedisError as error:
                if errors.is_another(error):
                    self._connections.close()
                elif not errors.is_lost(error):
                    raise
                return ask("again")
        except RedisError as error:
            raise errors.to_journal_error(error, self._place) from error

    def _evaluate(self, script: str, mark: str, sent: str, *arguments: Word) -> Any:
        words = (1, self._schema, mark, sent, *arguments)
        try:
            return self._call("EVALSHA", _digest(script), *words)
        except NoScriptError:
            return self._call("EVAL", script, *words)


def _prefix(namespace: str) -> str:
    return f"faregate:{{{sha256(namespace.encode()).hexdigest()[:32]}}}:"


@cache
def _digest(script: str) -> str:
    """How Redis names it."""
    return sha1(script.encode(), usedforsecurity=False).hexdigest()

"""A Redis server as one namespace sees it: runs the journal's script, and sends a command twice at most.

A command whose reply was lost may have been done. The second try says so ('again'), and the script finds out.
"""

import os
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from typing import Any, TypeVar, cast

from redis.exceptions import NoScriptError, RedisError

from faregate.journals.redis import errors
from faregate.journals.redis.connections import Connections, Word, describe_url
from faregate.journals.redis.schema import DIGEST, SCRIPT, VERSION
from faregate.journals.redis.server_checks import ServerCheck

T = TypeVar("T")
NAMESPACES = "faregate:namespaces"
"""The names of all namespaces in this server."""


class ScriptClient:
    """Each of the two tries has half of `timeout`."""

    def __init__(self, url: str, namespace: str, timeout: float) -> None:
        self._location = describe_url(url)
        self._connections = Connections(url, timeout / 2, ServerCheck(self._location).run)
        self._call = self._connections.call
        self._namespace = namespace
        self._schema_key = f"{_get_prefix(namespace)}schema"
        self._journal_id = ""
        self.for_namespace = partial(ScriptClient, url, timeout=timeout)

    def count_owed(self) -> dict[str, int]:
        """Count the open rows of each namespace in this server that has any."""
        names = [name.decode() for name in self._retry_once(lambda _: self._call("SMEMBERS", NAMESPACES))]
        counts = {name: self._count(f"{_get_prefix(name)}owed") for name in names}
        return {name: count for name, count in counts.items() if count}

    def _count(self, index: str) -> int:
        return int(self._retry_once(lambda _: self._call("ZCARD", index)))

    def run(self, command: str, *arguments: Word) -> list[Any]:
        """Run a command of journal.lua; return its reply. Raises `JournalError`."""
        journal_id = self._journal_id or self._open()
        reply = self._retry_once(lambda attempt: self._evaluate(journal_id, attempt, command, *arguments))
        if reply[0] == b"wrong_journal":
            raise errors.wrong_journal(reply[1].decode(), self._location)
        return cast(list[Any], reply)

    def get_time(self) -> float:
        """The server's clock, in seconds."""
        seconds, micros = self._retry_once(lambda _: self._call("TIME"))
        return int(seconds) + int(micros) / 1e6

    def disconnect(self) -> None:
        self._connections.close()
        self._journal_id = ""

    def _open(self) -> str:
        """Return the id of the journal in this server. If there is none, create one."""
        new_id = f"{VERSION} {os.urandom(8).hex()} {self._namespace}"
        self._retry_once(lambda _: self._call("SET", self._schema_key, new_id, "NX"))
        self._retry_once(lambda _: self._call("SADD", NAMESPACES, self._namespace))
        journal_id = (self._retry_once(lambda _: self._call("GET", self._schema_key)) or b"").decode()
        if journal_id.partition(" ")[0] != str(VERSION):
            raise errors.wrong_journal(journal_id, self._location)
        self._journal_id = journal_id
        return journal_id

    def _retry_once(self, send: Callable[[str], T]) -> T:
        """Call `send` with "first", and after a lost reply with "again"."""
        try:
            try:
                return send("first")
            except RedisError as error:
                if errors.is_failed_over(error):
                    # The name may lead to another server by now. All connections lead to the old one.
                    self._connections.close()
                elif not errors.is_lost(error):
                    raise
                return send("again")
        except RedisError as error:
            raise errors.to_journal_error(error, self._location) from error

    def _evaluate(self, *arguments: Word) -> Any:
        words = (1, self._schema_key, *arguments)
        try:
            return self._call("EVALSHA", DIGEST, *words)
        except NoScriptError:
            # Redis forgets its scripts with a restart, and runs none of a script that it does not know.
            return self._call("EVAL", SCRIPT, *words)


def _get_prefix(namespace: str) -> str:
    return f"faregate:{{{sha256(namespace.encode()).hexdigest()[:32]}}}:"

"""A Redis server as one namespace sees it: one thread sends what all callers ask for, in one round trip.

A command whose reply was lost may have been done. It is sent a second time, which says so ('again'), and the
script finds out.
"""

import os
from collections.abc import Callable, Sequence
from functools import partial
from hashlib import sha256
from typing import Any, NamedTuple

from redis.exceptions import RedisError

from faregate.errors import ConfigurationError
from faregate.journals.redis import errors
from faregate.journals.redis.connections import (
    Connections,
    SendCommand,
    ServerCheck,
    Word,
    describe_url,
    encode_command,
    encode_count,
    encode_words,
)
from faregate.journals.redis.schema import DIGEST, SCRIPT, VERSION
from faregate.journals.writer import Task, Writer

NAMESPACES = "faregate:namespaces"
"""The names of all namespaces in this server."""


class RedisCommand(NamedTuple):
    """A command of journal.lua, or one of Redis's own. `parse` makes its result of the reply."""

    words: int
    encoded: Sequence[bytes]
    parse: Callable[[Any], Any]
    in_script: bool = True


def return_reply(reply: Any) -> Any:
    """The `parse` of a command whose reply is its result."""
    return reply


def make_command(*words: Word, parse: Callable[[Any], Any]) -> RedisCommand:
    """Make a command of journal.lua."""
    return RedisCommand(len(words), encode_words(words), parse)


class ScriptClient:
    """A caller waits up to `timeout` seconds for its turn, and as long for the server: half for each try."""

    def __init__(self, url: str, namespace: str, timeout: float) -> None:
        self._location = describe_url(url)
        # No method of ours: an unused journal must be collected, with the thread of its leases.
        prepare = partial(_prepare_connection, ServerCheck(self._location))
        self._connections = Connections(url, timeout / 2, prepare)
        self.namespace = namespace
        self._schema_key = f"{_get_prefix(namespace)}schema"
        self._journal_id = ""
        self.writer: Writer[RedisCommand] = Writer(
            self._execute, timeout, partial(errors.did_not_answer, self._location)
        )
        self.for_namespace = partial(ScriptClient, url, timeout=timeout)

    def run(self, *words: Word, parse: Callable[[Any], Any] = return_reply) -> Any:
        """Run a command of journal.lua. Raises `JournalError`."""
        return self.writer.call(make_command(*words, parse=parse))

    def get_time(self) -> float:
        """The server's clock, in seconds."""
        seconds, micros = self._call("TIME")
        return int(seconds) + int(micros) / 1e6

    def list_namespaces(self) -> list[str]:
        """List the namespaces that this server has had rows of."""
        return sorted(name.decode() for name in self._call("SMEMBERS", NAMESPACES))

    def count_owed(self) -> dict[str, int]:
        """Count the open rows of each namespace in this server that has any."""
        names = self.list_namespaces()
        counts = {name: int(self._call("ZCARD", f"{_get_prefix(name)}owed")) for name in names}
        return {name: count for name, count in counts.items() if count}

    def disconnect(self) -> None:
        """Close the connection, and end the thread of the writer."""
        self.writer.stop()
        self._connections.close()
        self._journal_id = ""

    def _call(self, *words: Word) -> Any:
        return self.writer.call(RedisCommand(len(words), encode_words(words), return_reply, False))

    def _execute(self, batch: Sequence[Task[RedisCommand]]) -> None:
        """Perform all of them in one round trip. An error of one does not touch the others."""
        commands = [task.work for task in batch]
        journal_id = self._journal_id
        if not journal_id and any(command.in_script for command in commands):
            journal_id = self._open_journal()
        replies = self._send_twice(partial(self._encode, commands, journal_id))
        for task, command, reply in zip(batch, commands, replies, strict=True):
            try:
                task.result = command.parse(self._check_reply(reply))
            except Exception as error:
                task.error = error.with_traceback(None)  # it would keep this batch

    def _encode(self, commands: Sequence[RedisCommand], journal_id: str, attempt: str) -> list[list[bytes]]:
        # Each command names the journal's id. A server that was emptied or replaced meanwhile refuses it.
        [prefix] = encode_words(("EVALSHA", DIGEST, 1, self._schema_key, journal_id, attempt))
        return [
            # The prefix has six words.
            [encode_count(6 + command.words), prefix, *command.encoded]
            if command.in_script
            else [encode_count(command.words), *command.encoded]
            for command in commands
        ]

    def _send_twice(self, encode: Callable[[str], list[list[bytes]]]) -> list[Any]:
        """Return the reply or error of each command. Some errors have a second try on a new connection."""
        replies = self._connections.send(encode("first"))
        repeated = [number for number, reply in enumerate(replies) if errors.needs_connection(reply)]
        if repeated:
            # A new connection may lead to another server after a fail-over, and brings the script along.
            self._connections.close()
            encoded = encode("again")
            again = self._connections.send([encoded[number] for number in repeated])
            for number, reply in zip(repeated, again, strict=True):
                replies[number] = reply
        return replies

    def _check_reply(self, reply: Any) -> Any:
        """Raise what an error means, anew for each caller."""
        if isinstance(reply, ConfigurationError):
            raise ConfigurationError(str(reply))
        if isinstance(reply, RedisError):
            raise errors.to_row_error(reply, self._location) from reply
        return reply

    def _open_journal(self) -> str:
        """Return the id of the journal in this server. If there is none, create one."""
        new_id = f"{VERSION} {os.urandom(8).hex()} {self.namespace}"
        commands = [
            # SET NX, then GET: processes that start at once all use the first one's id.
            encode_command("SET", self._schema_key, new_id, "NX"),
            encode_command("SADD", NAMESPACES, self.namespace),
            encode_command("GET", self._schema_key),
        ]
        replies = self._send_twice(lambda _: commands)
        _, _, stored_id = [self._check_reply(reply) for reply in replies]
        journal_id = str((stored_id or b"").decode())
        if journal_id.partition(" ")[0] != str(VERSION):
            raise errors.wrong_journal(journal_id, self._location)
        self._journal_id = journal_id
        return journal_id


def _prepare_connection(check: ServerCheck, send: SendCommand) -> None:
    """Redis forgets its scripts with a restart, so each new connection brings ours along."""
    check.run(send)
    send("SCRIPT", "LOAD", SCRIPT)


def _get_prefix(namespace: str) -> str:
    return f"faregate:{{{sha256(namespace.encode()).hexdigest()[:32]}}}:"

"""Dying inside a write: each store's client is watched where it has spoken and was not answered yet."""

import re
import sqlite3
import threading
import time
from collections.abc import Callable, Generator
from functools import partial
from typing import Any

import psycopg
from redis.connection import AbstractConnection

from faregate.journals import writer
from faregate.journals.postgres import pipeline
from tests.crash.points.kill_wrappers import Kills


def watch(kills: Kills) -> None:
    """In a process that is to die: from now on `kills` hears of every write of a journal."""
    _writer(kills)
    _sqlite(kills)
    for watched in (_redis, _postgres):
        watched(kills.writing)


def _writer(kills: Kills) -> None:
    """Before a batch is performed, and when it is done and nobody was answered. Payers share batches."""
    patched: Any = writer
    perform, answer, take = patched._perform, patched.answer_all, patched._take_batch

    def performing(batch: Any, execute: Any) -> None:
        kills.reach("batch:begin")
        perform(batch, execute)

    def answering(batch: Any) -> None:
        kills.reach("batch:answer")
        answer(batch)

    def taking(*arguments: Any) -> Any:
        time.sleep(0.002)
        return take(*arguments)

    patched._perform, patched.answer_all, patched._take_batch = performing, answering, taking


def _sqlite(kills: Kills) -> None:
    """Between the statements of a transaction, before its COMMIT, or in a statement that commits itself."""
    connect = sqlite3.connect

    def hear(connection: sqlite3.Connection, said: str) -> None:
        if said == "COMMIT":
            kills.writing()
        elif said.startswith(("INSERT", "UPDATE", "DELETE")):
            if connection.in_transaction:
                kills.reach("batch:middle")
            else:
                kills.writing()

    def connecting(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*arguments, **options)
        connection.set_trace_callback(partial(hear, connection))
        return connection

    patched: Any = sqlite3
    patched.connect = connecting


def _redis(writing: Callable[[], None]) -> None:
    """When the server was sent the script and has not answered."""
    send: Any = AbstractConnection.send_packed_command

    def sending(self: Any, parts: Any, **options: Any) -> None:
        send(self, parts, **options)
        if any(part.startswith(b"*") and _REDIS_WRITE.search(part) for part in parts):
            writing()

    patched: Any = AbstractConnection
    patched.send_packed_command = sending


_REDIS_WRITE = re.compile(rb"\r\n\$5\r\nfirst\r\n\$\d\r\n(insert|replace)\r\n")
"""Where a command of the journal's script begins."""


def _postgres(writing: Callable[[], None]) -> None:
    """When the server was sent the statement and has not answered."""
    patched: Any = psycopg.Connection
    batches: Any = pipeline
    execute, wait, run = patched.execute, patched.wait, batches.run_transaction
    here = threading.local()

    def executing(self: Any, query: Any, *arguments: Any, **options: Any) -> Any:
        here.writes = isinstance(query, bytes) and query.startswith((b"UPDATE", b"WITH"))
        try:
            return execute(self, query, *arguments, **options)
        finally:
            here.writes = False

    def running(connection: Any, queries: Any) -> Any:
        here.writes = any(query.sql.startswith(("UPDATE", "INSERT")) for query in queries)
        try:
            return run(connection, queries)
        finally:
            here.writes = False

    def waiting(self: Any, answering: Generator[Any, Any, Any], *arguments: Any, **options: Any) -> Any:
        heard = writing if getattr(here, "writes", False) else None
        return wait(self, _watched(answering, heard), *arguments, **options)

    patched.execute, patched.wait, batches.run_transaction = executing, waiting, running


def _watched(
    answering: Generator[Any, Any, Any], heard: Callable[[], None] | None
) -> Generator[Any, Any, Any]:
    """psycopg waits first for the answer: what it asks is on its way then."""
    try:
        wanted = next(answering)
        if heard is not None:
            heard()
        while True:
            wanted = answering.send((yield wanted))
    except StopIteration as finished:
        return finished.value

"""What a durable journal writes for a sale, by hand: rows of 600 bytes. Not fit for use.

A sale that survives a crash is written when it is claimed, before its work, before it is completed and when
it is settled. The two in the middle are synced. With the service inside, its own four are among them
(`whole_sales.py`). What many payers write at the same time is committed, and synced, once.
"""

import asyncio
import os
import secrets
import sqlite3
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

SyncWrite = Callable[[str, bool], None]
Write = Callable[[str, bool], Awaitable[Any]]
"""Writes the row of a proof; synced or not."""
_UPSERT = "INSERT INTO sales VALUES (?, ?) ON CONFLICT (proof) DO UPDATE SET row = excluded.row"


def make_row() -> str:
    return secrets.token_hex(300)


class Sales(Protocol):
    """A table of sales. One thread at a time commits."""

    def commit(self, batch: Sequence[tuple[str, bool]]) -> None: ...


class SqliteSales:
    def __init__(self, url: str) -> None:
        path = url.removeprefix("sqlite:///")
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("CREATE TABLE sales (proof TEXT PRIMARY KEY, row TEXT)")

    def commit(self, batch: Sequence[tuple[str, bool]]) -> None:
        is_synced = any(is_synced for _, is_synced in batch)
        self._connection.execute(f"PRAGMA synchronous = {'FULL' if is_synced else 'NORMAL'}")
        if len(batch) == 1:
            self._connection.execute(_UPSERT, (batch[0][0], make_row()))
            return
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany(_UPSERT, [(proof, make_row()) for proof, _ in batch])
        self._connection.execute("COMMIT")


class PostgresSales:
    def __init__(self, url: str) -> None:
        import psycopg

        self._synced, self._unsynced = (psycopg.connect(url, autocommit=True) for _ in range(2))
        self._unsynced.execute("SET synchronous_commit = off")
        self._synced.execute("CREATE TABLE sales (proof TEXT PRIMARY KEY, row TEXT)")

    def commit(self, batch: Sequence[tuple[str, bool]]) -> None:
        connection = self._synced if any(is_synced for _, is_synced in batch) else self._unsynced
        statement = _UPSERT.replace("?", "%s")
        if len(batch) == 1:
            connection.execute(statement, (batch[0][0], make_row()), prepare=True)
            return
        with connection.transaction(), connection.cursor() as cursor:
            cursor.executemany(statement, [(proof, make_row()) for proof, _ in batch])


def share_commits(sales: Sales) -> SyncWrite:
    """The thread that gets the lock writes for all that wait."""
    lock, waiting = threading.Lock(), deque[tuple[str, bool, threading.Event]]()

    def write(proof: str, is_synced: bool) -> None:
        written = threading.Event()
        waiting.append((proof, is_synced, written))
        with lock:
            if written.is_set():
                return
            batch = [waiting.popleft() for _ in range(len(waiting))]
            sales.commit([(proof, is_synced) for proof, is_synced, _ in batch])
            for *_, each in batch:
                each.set()

    return write


def share_commits_in_thread(sales: Sales) -> Write:
    """An event loop that waited for the disk itself would serve nothing meanwhile."""
    thread = ThreadPoolExecutor(1)
    waiting: list[tuple[str, bool, asyncio.Future[None]]] = []
    writers = set[asyncio.Task[None]]()

    async def write_all() -> None:
        while waiting:
            batch = waiting.copy()
            waiting.clear()
            rows = [(proof, is_synced) for proof, is_synced, _ in batch]
            await asyncio.get_running_loop().run_in_executor(thread, sales.commit, rows)
            for *_, written in batch:
                if not written.done():  # its payer has left
                    written.set_result(None)
        writers.clear()

    def write(proof: str, is_synced: bool) -> Awaitable[None]:
        written = asyncio.get_running_loop().create_future()
        waiting.append((proof, is_synced, written))
        if not writers:
            writers.add(asyncio.ensure_future(write_all()))
        return written

    return write


def open_redis(url: str) -> Write:
    """Redis syncs each write of the server, or none."""
    import redis.asyncio

    client: Any = redis.asyncio.from_url(url)
    return lambda proof, is_synced: client.set(proof, make_row())


async def _skip(proof: str, is_synced: bool) -> None:
    """Write nothing: sales that are not kept."""


def open_async_sales() -> Write:
    """Open what the harness asks for, in an event loop."""
    url = os.environ["BENCH_JOURNAL"]
    if url == "memory:":
        return _skip
    return open_redis(url) if url.startswith("redis") else share_commits_in_thread(open_database(url))


def open_sales() -> SyncWrite:
    """Open what the harness asks for, for threads."""
    url = os.environ["BENCH_JOURNAL"]
    return (lambda proof, is_synced: None) if url == "memory:" else share_commits(open_database(url))


def open_database(url: str) -> Sales:
    return SqliteSales(url) if url.startswith("sqlite:") else PostgresSales(url)

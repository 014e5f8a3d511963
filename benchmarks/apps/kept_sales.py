"""What a durable journal writes for a sale, by hand: four rows of 600 bytes, two of them on the disk.

A sale that survives a crash is written when it is claimed, before its work, before it is completed and when
it is settled. The two in the middle are synced. Not fit for use.
"""

import asyncio
import os
import secrets
import sqlite3
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

SyncWrite = Callable[[str, bool], None]
Write = Callable[[str, bool], Awaitable[Any]]
"""Writes the row of a proof; synced or not."""
_UPSERT = "INSERT INTO sales VALUES (?, ?) ON CONFLICT (proof) DO UPDATE SET row = excluded.row"


def make_row() -> str:
    return secrets.token_hex(300)


class Sales:
    """An SQLite file. What many payers write at the same time is committed, and synced, once."""

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


def open_sqlite(url: str) -> SyncWrite:
    """The thread that gets the lock writes for all that wait."""
    sales, lock, waiting = Sales(url), threading.Lock(), deque[tuple[str, bool, threading.Event]]()

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


def open_sqlite_in_thread(url: str) -> Write:
    """An event loop that waited for the disk itself would serve nothing meanwhile."""
    sales, thread = Sales(url), ThreadPoolExecutor(1)
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


async def open_postgres(url: str) -> Write:
    """For one payer: nothing is batched."""
    import psycopg

    synced = await psycopg.AsyncConnection.connect(url, autocommit=True)
    other = await psycopg.AsyncConnection.connect(url, autocommit=True)
    await other.execute("SET synchronous_commit = off")
    await synced.execute("CREATE TABLE sales (proof TEXT PRIMARY KEY, row TEXT)")
    statement = _UPSERT.replace("?", "%s")

    async def write(proof: str, is_synced: bool) -> None:
        await (synced if is_synced else other).execute(statement, (proof, make_row()), prepare=True)

    return write


async def open_redis(url: str) -> Write:
    """Redis syncs each write of the server, or none."""
    import redis.asyncio

    client: Any = redis.asyncio.from_url(url)
    return lambda proof, is_synced: client.set(proof, make_row())


async def open_kept_sales() -> Write | None:
    """Open what the harness asks for; None for sales that are not kept."""
    url = os.environ["BENCH_JOURNAL"]
    if url.startswith("sqlite:"):
        return open_sqlite_in_thread(url)
    if url.startswith("postgres"):
        return await open_postgres(url)
    return await open_redis(url) if url.startswith("redis") else None

"""What a durable journal writes for a sale, by hand: four rows of 600 bytes, two of them on the disk.

A sale that survives a crash is written when it is claimed, before its work, before it is completed and when
it is settled. The two in the middle are synced. One payer at a time: nothing is batched. Not fit for use.
"""

import asyncio
import os
import secrets
import sqlite3
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

SyncWrite = Callable[[str, bool], None]
Write = Callable[[str, bool], Awaitable[Any]]
"""Writes the row of a proof; synced or not."""
_UPSERT = "INSERT INTO sales VALUES (?, ?) ON CONFLICT (proof) DO UPDATE SET row = excluded.row"


def make_row() -> str:
    return secrets.token_hex(300)


def open_sqlite(url: str) -> SyncWrite:
    connection = sqlite3.connect(
        url.removeprefix("sqlite:///"), isolation_level=None, check_same_thread=False
    )
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE sales (proof TEXT PRIMARY KEY, row TEXT)")

    def write(proof: str, is_synced: bool) -> None:
        connection.execute(f"PRAGMA synchronous = {'FULL' if is_synced else 'NORMAL'}")
        connection.execute(_UPSERT, (proof, make_row()))

    return write


def open_sqlite_in_thread(url: str) -> Write:
    """An event loop that waited for the disk itself would serve nothing meanwhile."""
    write, thread = open_sqlite(url), ThreadPoolExecutor(1)
    return lambda proof, is_synced: asyncio.get_running_loop().run_in_executor(
        thread, write, proof, is_synced
    )


async def open_postgres(url: str) -> Write:
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

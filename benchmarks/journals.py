"""Sales per second of each journal, and processor time of each: claim, start, decide and release.

    .venv-faregate/bin/python benchmarks/journals.py  # every journal whose program is here
    .venv-faregate/bin/python benchmarks/journals.py --journals memory sqlite --callers 1 64 --seconds 2
    PYTHONPATH=../old/src .venv-faregate/bin/python benchmarks/journals.py --callers 1 16  # another checkout

Without a paywall, a service or work: what a sale costs beyond them. Callers are threads, or tasks of an event
loop. `two syncs` writes as much to a file and syncs it twice per sale, each caller a file of its own: what no
journal that keeps its word does without, when there is one caller. All take turns within each round; medians.
"""

import argparse
import asyncio
import inspect
import os
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.servers import POSTGRES_MISSING, REDIS_MISSING, postgres_server, redis_server

from faregate.core.claim_types import Claimant, Claimed
from faregate.core.models import Response, WorkSucceeded
from faregate.journals.memory import MemoryJournal
from faregate.journals.postgres import PostgresJournal
from faregate.journals.redis import RedisJournal
from faregate.journals.sqlite import SqliteJournal

RESULT = WorkSucceeded(Response(200, (("content-type", "application/json"),), os.urandom(2048)))
KEYS = [b"k" * 32]
HERE = Claimant("GET /report")
Sell = Callable[[str], Any]
"""Makes one sale. `asynchronous` journals give an awaitable."""


class Figures(NamedTuple):
    rate: float
    cpu_ms: float
    """Of user and system, per sale."""


async def sell_through(journal: Any, name: str) -> None:
    """Sell through a journal of either kind: what a blocking one gives is no awaitable."""

    async def get(answer: Any) -> Any:
        return await answer if inspect.isawaitable(answer) else answer

    claim = await get(journal.claim(name, HERE))
    assert isinstance(claim, Claimed)
    assert await get(journal.record_transaction(claim.lease, f"txn_{name}", "acr_1", 54.0))
    assert await get(journal.record_outcome(claim.lease, RESULT))
    await get(journal.record_settlement(claim.lease, "cGFpZA==", "receipt" * 40, True))


def by(journal: Any, is_async: bool) -> Sell:
    used = journal.as_async() if is_async and hasattr(journal, "as_async") else journal

    def sell(name: str) -> Any:
        selling = sell_through(used, name)
        if is_async:
            return selling
        try:
            selling.send(None)
        except StopIteration:
            return None
        raise AssertionError("a blocking journal waited")

    return sell


@contextmanager
def memory(place: Path, url: str, is_async: bool) -> Iterator[Sell]:
    yield by(MemoryJournal(max_rows=10**9, max_bytes=10**12), is_async)


@contextmanager
def two_syncs(place: Path, url: str, is_async: bool) -> Iterator[Sell]:
    mine = threading.local()
    numbers = count()

    def sell(name: str) -> Any:
        if not hasattr(mine, "file"):
            mine.file = (place / f"{next(numbers)}").open("wb", buffering=0)
        for _ in range(2):
            mine.file.write(RESULT.result.body)
            os.fdatasync(mine.file)
        return asyncio.sleep(0) if is_async else None

    yield sell


@contextmanager
def sqlite(place: Path, url: str, is_async: bool) -> Iterator[Sell]:
    journal = SqliteJournal(place / "journal.db", keys=KEYS, timeout=30)
    yield by(journal, is_async)
    journal.disconnect()


@contextmanager
def redis(place: Path, url: str, is_async: bool) -> Iterator[Sell]:
    journal = RedisJournal(url, keys=KEYS, namespace=str(place), timeout=30)
    yield by(journal, is_async)
    journal.disconnect()


@contextmanager
def postgres(place: Path, url: str, is_async: bool) -> Iterator[Sell]:
    journal = PostgresJournal(url, keys=KEYS, namespace=str(place), timeout=30)
    yield by(journal, is_async)
    journal.disconnect()


JOURNALS = {"memory": memory, "two syncs": two_syncs, "sqlite": sqlite, "redis": redis, "postgres": postgres}
SERVERS: dict[str, Callable[[], AbstractContextManager[str]]] = {
    **({} if REDIS_MISSING else {"redis": redis_server}),
    **({} if POSTGRES_MISSING else {"postgres": postgres_server}),
}


def measure(name: str, url: str, callers: int, seconds: float, is_async: bool) -> Figures:
    """Measure a journal that is new."""
    with tempfile.TemporaryDirectory() as folder, JOURNALS[name](Path(folder), url, is_async) as sell:
        run = run_tasks if is_async else run_threads
        run(sell, 1, 0.2, "first")
        began, cpu = time.perf_counter(), time.process_time()
        sold = run(sell, callers, seconds, "then")
        return Figures(
            sold / (time.perf_counter() - began), (time.process_time() - cpu) / max(1, sold) * 1000
        )


def run_threads(sell: Sell, callers: int, seconds: float, prefix: str) -> int:
    sold: list[int] = []
    end = time.perf_counter() + seconds

    def call(caller: int) -> None:
        number = 0
        while time.perf_counter() < end:
            sell(f"{prefix}-{caller}-{number}")
            number += 1
        sold.append(number)

    threads = [threading.Thread(target=call, args=[caller]) for caller in range(callers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(sold)


def run_tasks(sell: Sell, callers: int, seconds: float, prefix: str) -> int:
    end = time.perf_counter() + seconds

    async def call(caller: int) -> int:
        number = 0
        while time.perf_counter() < end:
            await sell(f"{prefix}-{caller}-{number}")
            number += 1
        return number

    async def call_all() -> int:
        return sum(await asyncio.gather(*(call(caller) for caller in range(callers))))

    return asyncio.run(call_all())


Key = tuple[str, bool, int]


def table(found: dict[Key, list[Figures]], names: list[str], callers: list[int]) -> str:
    """A row for each journal and kind of caller: sales per second, and milliseconds of processor time."""
    lines = ["| journal | callers |" + "".join(f" {many} at once | CPU ms |" for many in callers)]
    lines.append("|---|---|" + "---:|---:|" * len(callers))
    for name in names:
        for is_async, kind in ((False, "threads"), (True, "tasks")):
            cells = ""
            for many in callers:
                own = found[name, is_async, many]
                rate, cpu = median(one.rate for one in own), median(one.cpu_ms for one in own)
                cells += f" {rate:,.0f} | {cpu:.2f} |"
            lines.append(f"| {name} | {kind} |{cells}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Sales per second of each journal.")
    here = [name for name in JOURNALS if name in SERVERS or name not in ("redis", "postgres")]
    parser.add_argument("--journals", nargs="+", choices=here, default=here)
    parser.add_argument("--callers", nargs="+", type=int, default=[1, 16, 64])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    plan = parser.parse_args()
    found: dict[Key, list[Figures]] = defaultdict(list)
    for number in range(plan.rounds):
        for name in plan.journals:
            for is_async in (False, True):
                for callers in plan.callers:
                    # A server of its own for each: what the last one left behind is not measured.
                    with SERVERS.get(name, lambda: nullcontext(""))() as url:
                        figures = measure(name, url, callers, plan.seconds, is_async)
                    found[name, is_async, callers].append(figures)
        print(f"round {number + 1} of {plan.rounds}", file=sys.stderr)
    print(table(found, plan.journals, plan.callers))


if __name__ == "__main__":
    main()

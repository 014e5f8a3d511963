"""Sales per second of each journal: claim, start, decide and release, by one caller and by many at once.

    .venv/bin/python benchmarks/journals.py                 # every journal whose program is here
    .venv/bin/python benchmarks/journals.py --journals memory sqlite --callers 1 64 --rounds 3 --seconds 2

Without a paywall, a service or work: what a sale costs beyond them. `two syncs` writes as much to a file and
syncs it twice per sale, each caller a file of its own: what no journal that keeps its word does without,
when there is one caller. All take turns within each round; medians, and ratios taken within a round.
"""

import argparse
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
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.servers import POSTGRES_MISSING, REDIS_MISSING, postgres_server, redis_server

from faregate.core.claims import Claimed
from faregate.core.models import Response, Succeeded
from faregate.journals.memory import MemoryJournal
from faregate.journals.postgres import PostgresJournal
from faregate.journals.redis import RedisJournal
from faregate.journals.sqlite import SqliteJournal

RESULT = Succeeded(Response(200, (("content-type", "application/json"),), os.urandom(2048)))
KEYS = [b"k" * 32]
Sell = Callable[[str], None]


def by(journal: Any) -> Sell:
    def sell(name: str) -> None:
        claim = journal.claim(name, "GET /report")
        assert isinstance(claim, Claimed)
        assert journal.record_transaction(claim.lease, f"txn_{name}", "acr_1", 54.0)
        assert journal.record_outcome(claim.lease, RESULT)
        journal.record_settlement(claim.lease, "cGFpZA==", "receipt" * 40, True)

    return sell


@contextmanager
def memory(place: Path, url: str) -> Iterator[Sell]:
    yield by(MemoryJournal(max_rows=10**9, max_bytes=10**12))


@contextmanager
def two_syncs(place: Path, url: str) -> Iterator[Sell]:
    mine = threading.local()
    numbers = count()

    def sell(name: str) -> None:
        if not hasattr(mine, "file"):
            mine.file = (place / f"{next(numbers)}").open("wb", buffering=0)
        for _ in range(2):
            mine.file.write(RESULT.result.body)
            os.fdatasync(mine.file)

    yield sell


@contextmanager
def sqlite(place: Path, url: str) -> Iterator[Sell]:
    journal = SqliteJournal(place / "journal.db", keys=KEYS, patience=30)
    yield by(journal)
    journal.disconnect()


@contextmanager
def redis(place: Path, url: str) -> Iterator[Sell]:
    journal = RedisJournal(url, keys=KEYS, namespace=str(place), patience=30)
    yield by(journal)
    journal.disconnect()


@contextmanager
def postgres(place: Path, url: str) -> Iterator[Sell]:
    journal = PostgresJournal(url, keys=KEYS, namespace=str(place), patience=30)
    yield by(journal)
    journal.disconnect()


JOURNALS = {"memory": memory, "two syncs": two_syncs, "sqlite": sqlite, "redis": redis, "postgres": postgres}
SERVERS: dict[str, Callable[[], AbstractContextManager[str]]] = {
    **({} if REDIS_MISSING else {"redis": redis_server}),
    **({} if POSTGRES_MISSING else {"postgres": postgres_server}),
}


def rate(name: str, url: str, callers: int, seconds: float) -> float:
    """Sales per second in a journal that is new."""
    sold: list[int] = []
    with tempfile.TemporaryDirectory() as folder, JOURNALS[name](Path(folder), url) as sell:
        sell("first")
        together = threading.Barrier(callers + 1)

        def call(caller: int) -> None:
            together.wait()
            end, number = time.perf_counter() + seconds, 0
            while time.perf_counter() < end:
                sell(f"{caller}-{number}")
                number += 1
            sold.append(number)

        threads = [threading.Thread(target=call, args=[caller]) for caller in range(callers)]
        for thread in threads:
            thread.start()
        together.wait()
        began = time.perf_counter()
        for thread in threads:
            thread.join()
        return sum(sold) / (time.perf_counter() - began)


def table(rates: dict[tuple[str, int], list[float]], names: list[str], callers: list[int]) -> str:
    """A row for each journal. A ratio is to one caller of `two syncs`, if that was measured."""
    lines = ["| journal |" + "".join(f" {many} at once | x two syncs |" for many in callers)]
    lines.append("|---|" + "---:|---:|" * len(callers))
    floor = rates.get(("two syncs", 1), [])
    for name in names:
        cells = ""
        for many in callers:
            own = rates[name, many]
            ratios = [rate / base for rate, base in zip(own, floor, strict=False)]
            cells += f" {median(own):,.0f} | {f'{median(ratios):.2f}' if ratios else '-'} |"
        lines.append(f"| {name} |{cells}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Sales per second of each journal.")
    here = [name for name in JOURNALS if name in SERVERS or name not in ("redis", "postgres")]
    parser.add_argument("--journals", nargs="+", choices=here, default=here)
    parser.add_argument("--callers", nargs="+", type=int, default=[1, 8, 64])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    plan = parser.parse_args()
    rates: dict[tuple[str, int], list[float]] = defaultdict(list)
    for number in range(plan.rounds):
        for name in plan.journals:
            for callers in plan.callers:
                # A server of its own for each: what the last one left behind is not measured.
                with SERVERS.get(name, lambda: nullcontext(""))() as url:
                    rates[name, callers].append(rate(name, url, callers, plan.seconds))
        print(f"round {number + 1} of {plan.rounds}", file=sys.stderr)
    print(table(rates, plan.journals, plan.callers))


if __name__ == "__main__":
    main()

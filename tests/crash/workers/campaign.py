"""One store: its server, the service and the seller in processes of their own, payers, and a killer."""

import asyncio
import contextlib
import shutil
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from faregate.emulator import TEST_KEY, Emulator, Fault
from faregate.emulator.server import listen, run
from faregate.merchant.client import MerchantClient
from faregate.system import get_url
from tests.crash import stores
from tests.crash.sellers import serve_seller
from tests.crash.workers.checker import Charge, Evidence, Execution, judge
from tests.crash.workers.killer import Killer
from tests.crash.workers.payers import Payers
from tests.crash.workers.seller import DATABASE, EXECUTIONS, WORKERS
from tests.support.lines import read_lines
from tests.support.processes import fork

FAULTS = (
    Fault(kind="reset", operation="complete", probability=0.05),
    Fault(kind="cut", operation="access", probability=0.02),
    Fault(kind="status", operation="complete", status=503, probability=0.05),
    Fault(kind="latency", seconds=0.3, probability=0.05),
)
"""What goes wrong at the service, if it is asked for."""
AFTERWARDS = 30.0
"""Seconds that payers have to finish what they began, when nobody is killed any more."""
Print = Callable[[str], None]


def run_on(
    kind: str,
    seconds: float,
    seed: int,
    payers: int,
    tell: Print = lambda _: None,
    every: float | None = None,
    faults: bool = False,
) -> dict[str, Any]:
    """What came of it. Raises `RuntimeError` if the seller does not start."""
    folder = Path(tempfile.mkdtemp(prefix="faregate-kills-"))
    forgets = kind == "memory"  # it ends with its process
    try:
        # The service first: it is forked, and a process that forks must have no threads.
        with _service(seed, FAULTS if faults else ()) as service, stores.serving(kind) as server:
            place = stores.place_of(kind, server, folder)
            with _seller(place, 1 if forgets else 2, service, folder) as (url, pid):
                began = time.monotonic()
                crowd = Payers(url, payers, seed, began + seconds, began + seconds + AFTERWARDS)
                killer = Killer(pid, seed, began + seconds, every)
                asyncio.run(_play(crowd, killer, tell))
            evidence = Evidence(crowd.purchases, _charges(service), _executions(folder), killer.deaths)
        said = {
            "store": kind,
            "seconds": seconds,
            "seed": seed,
            "kills": len(killer.deaths),
            "stops": killer.stops,
        }
        log = (folder / "log").read_text(errors="replace")
        return {
            **said,
            **judge(evidence, forgets=forgets),
            "answers": dict(crowd.answers),
            "log": log[-4000:],
        }
    finally:
        shutil.rmtree(folder)


async def _play(crowd: Payers, killer: Killer, tell: Print) -> None:
    async def show() -> None:
        while True:
            await asyncio.sleep(1.0)
            delivered = sum(payment.ended == "delivered" for payment in crowd.payments)
            told = f"{len(crowd.payments)} payments, {delivered} delivered"
            tell(f"{told}, {len(killer.deaths)} kills, {killer.stops} stops")

    showing = asyncio.create_task(show())
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(crowd.run())
            group.create_task(killer.run())
    finally:
        showing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await showing


@contextmanager
def _service(seed: int, faults: Sequence[Fault]) -> Generator[str]:
    listener = listen()
    emulator = Emulator(seed=seed)
    for fault in faults:
        emulator.faults.add(fault)
    process = fork(partial(run, emulator, listener, control=False))
    url = get_url(listener)
    listener.close()
    try:
        yield url
    finally:
        process.kill()


@contextmanager
def _seller(place: stores.Place, workers: int, service: str, folder: Path) -> Generator[tuple[str, int]]:
    """Its URL, and the process that starts its workers."""
    settings = {
        "FAREGATE_API_KEY": TEST_KEY,
        "FAREGATE_BASE_URL": service,
        "FAREGATE_PUBLIC_URL": "https://seller.example",
        "FAREGATE_JOURNAL": place.journal,
        EXECUTIONS: str(folder / "executions"),
        DATABASE: place.database,
        WORKERS: str(workers),
    }
    with serve_seller("tests.crash.workers.seller", "/quick", settings, folder) as (port, pid):
        yield f"http://127.0.0.1:{port}", pid


def _charges(service: str) -> list[Charge]:
    with MerchantClient(TEST_KEY, service) as client:
        return [
            Charge(one.id, (one.payer or "").lower(), one.status or "") for one in client.iter_transactions()
        ]


def _executions(folder: Path) -> list[Execution]:
    return [Execution(**line) for line in read_lines(folder / "executions")]

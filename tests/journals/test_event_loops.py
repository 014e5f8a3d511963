"""A journal that blocks, in an event loop that does not; and under a paywall, sync and async."""

import asyncio
import sqlite3
import threading
from collections.abc import Awaitable
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from faregate.asgi import PaywallMiddleware
from faregate.core.claim_types import Claimant, InProgress, PendingPayment, Recoverable, RequestMismatch
from faregate.core.recovery import SweepReport
from faregate.emulator import Emulator, Wallet
from faregate.errors import JournalError
from faregate.journals import event_loops
from faregate.journals.event_loops import MAX_THREADS, run_in_thread
from faregate.journals.memory import MemoryJournal
from faregate.journals.sqlite import SqliteJournal
from faregate.journals.urls import as_async
from faregate.paywall import Paywall
from tests.adapters.asgi import CONTENT, Plain, a_paywall, ask, header
from tests.core.flow_script import ACR, RECEIPT, TXN
from tests.journals.rows import GOOD, HERE, LEASE, WORK_SECONDS, fresh
from tests.journals.stores import STORED, Clock, disconnect, find_class
from tests.support.products import spread

LOOPS = ("asyncio", "trio")


def test_a_journal_that_never_waits_is_used_as_it_is() -> None:
    journal = MemoryJournal()
    assert as_async(journal) is journal


@pytest.mark.parametrize("kind", spread("kind", STORED, find_class))
def test_each_call_is_awaited_and_gives_the_same(kind: str, tmp_path: Path) -> None:
    clock = Clock()
    blocking = STORED[kind](tmp_path, clock)
    journal: Any = as_async(blocking)

    async def sell() -> None:
        lease = fresh(await journal.claim("proof", HERE))
        assert await journal.claim("proof", Claimant("GET /other")) == RequestMismatch()
        assert await journal.record_transaction(lease, TXN, ACR, WORK_SECONDS) is True
        assert await journal.record_outcome(lease, GOOD) is True
        await journal.schedule_retry(lease)
        again = await journal.claim("proof", HERE)
        assert isinstance(again, Recoverable)
        await journal.record_settlement(again.payment.lease, "cGFpZA==", RECEIPT, True)
        await journal.record_pending(fresh(await journal.claim("waits", HERE)), "txn_waits", ACR)
        clock.now += LEASE
        entry: PendingPayment | None = await journal.lease_next()
        assert entry is not None
        await journal.record_final(entry.lease, True)
        await journal.abandon_claim(fresh(await journal.claim("dropped", HERE)))
        fresh(await journal.claim("dropped", HERE))
        if kind == "django":
            await cast(Awaitable[None], blocking._run(blocking.disconnect))

    asyncio.run(sell())
    assert blocking._store.measure()[0] == 3
    disconnect(blocking)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_loop_goes_on_while_a_call_waits_for_the_disk(loop: str, tmp_path: Path) -> None:
    blocking = SqliteJournal(tmp_path / "journal.db", keys=[b"k" * 32])
    blocking.claim("proof", HERE)
    journal: Any = as_async(blocking)
    other = sqlite3.connect(tmp_path / "journal.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    done: list[str] = []

    async def claim(proof: str) -> None:
        await journal.claim(proof, HERE)
        done.append(proof)

    async def sell() -> None:
        async with anyio.create_task_group() as tasks:
            for number in range(2 * MAX_THREADS):
                tasks.start_soon(claim, f"proof {number}")
            await anyio.sleep(0.1)
            assert done == []
            # The threads that handlers run in are not those that wait.
            assert anyio.to_thread.current_default_thread_limiter().borrowed_tokens == 0
            other.execute("COMMIT")

    anyio.run(sell, backend=loop)
    assert len(done) == 2 * MAX_THREADS
    other.close()
    blocking.disconnect()


@pytest.mark.parametrize("loop", LOOPS)
def test_waiting_too_long_for_a_free_thread_is_an_error(loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that hangs does not make payers wait for each other, however many come."""
    monkeypatch.setattr(event_loops, "THREAD_TIMEOUT", 0.05)
    hanging = threading.Event()
    answers: list[bool] = []

    async def hang() -> None:
        answers.append(await run_in_thread(lambda: hanging.wait(30)))

    async def sell() -> None:
        async with anyio.create_task_group() as tasks:
            for _ in range(MAX_THREADS):
                tasks.start_soon(hang)
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(JournalError, match="all 8 threads of the journal were busy"):
                await run_in_thread(int)
            hanging.set()
        assert await run_in_thread(int) == 0

    anyio.run(sell, backend=loop)
    assert answers == [True] * MAX_THREADS


def test_two_paywalls_that_share_a_file_are_one_seller(tmp_path: Path) -> None:
    """As two workers are: the second hands out what the first was paid for, and nothing runs twice."""
    emulator, plain = Emulator(), Plain()
    one, other = (a_paywall(emulator, journal=f"sqlite:///{tmp_path}/journal.db") for _ in range(2))
    first = PaywallMiddleware(plain, one, offers={"/": "daily_report"})
    second = PaywallMiddleware(plain, other, offers={"/": "daily_report"})
    proof = Wallet().pay(header(ask(first, "/"), b"payment-required"))
    sold, again = ask(first, "/", proof), ask(second, "/", proof)
    assert (sold[0]["status"], sold[1]["body"]) == (200, CONTENT.encode())
    assert again == sold
    assert plain.runs == 1
    assert (one.sweep(), asyncio.run(other.asweep())) == (SweepReport(), SweepReport())
    for made in (one, other):
        assert isinstance(made.journal, SqliteJournal)
        assert made.journal.claim(proof, Claimant("GET /elsewhere")) == RequestMismatch()
        made.journal.disconnect()


def test_what_one_worker_started_another_does_not_run(tmp_path: Path) -> None:
    arguments: Any = {
        "environ": {"FAREGATE_BASE_URL": "emulator:"},
        "journal": f"sqlite:///{tmp_path}/journal.db",
    }
    one, other = Paywall(**arguments), Paywall(**arguments)
    one.journal.claim("proof", HERE)
    assert other.journal.claim("proof", HERE) == InProgress()
    for made in (one, other):
        assert isinstance(made.journal, SqliteJournal)
        made.journal.disconnect()

"""Several threads and processes on one database."""

import json
import secrets
import threading
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import pytest

from faregate.rules.http import ParsedListQuery
from faregate.rules.payments import PaymentVerified
from faregate.rules.receipts import build_transaction
from faregate.rules.records import STATUSES
from faregate.service.database.attempts import AttemptSchedule
from faregate.service.database.engine import Database
from faregate.service.database.sql_store import SqlStore
from tests.service.sales import PAYER, authorize, open_store, resolve, settle, sign, submit, succeeded
from tests.service.writer import connect
from tests.support.preloaded import PreloadedPython
from tests.support.threads import run_in_threads

SAME = 15
"""Payments that every thread and process tries to authorize."""


def run_at_once(*calls: Callable[[], object]) -> None:
    """Run each call in a thread; raise what one of them raised."""
    failures: list[BaseException] = []
    barrier = threading.Barrier(len(calls))

    def run(call: Callable[[], object]) -> None:
        try:
            barrier.wait()
            call()
        except BaseException as error:
            failures.append(error)

    run_in_threads(*(partial(run, call) for call in calls))
    if failures:
        raise failures[0]


@contextmanager
def processes(url: str, count: int, *arguments: str) -> Generator[list[PreloadedPython]]:
    """Writers that wait for a line before they begin."""
    command = ["-m", "tests.service.writer", url, *arguments]
    with ExitStack() as stack:
        started = [stack.enter_context(PreloadedPython(command)) for _ in range(count)]
        try:
            for process in started:
                assert process.stdout.readline() == "ready\n"
            yield started
        finally:
            for process in started:
                process.kill()


def begin(started: list[PreloadedPython]) -> None:
    for process in started:
        process.stdin.write("\n")
        process.stdin.flush()


def collect(started: list[PreloadedPython]) -> list[str]:
    """The lines that they printed."""
    lines: list[str] = []
    for process in started:
        output, _ = process.communicate(timeout=120)
        assert process.returncode == 0
        lines += output.split()
    return lines


@pytest.mark.every_value
def test_calls_at_once_share_the_payers_funds(database: Database) -> None:
    """Each found them free when it looked, and would let its seller work for nothing."""
    store = open_store(database)
    context = resolve(store)
    made: list[object] = []

    def pay() -> None:
        for _ in range(3):
            payment = sign(context)
            made.append(store.authorize(context, payment, PaymentVerified(PAYER, 1, 4 * payment.value)))

    run_at_once(*[pay] * 6)
    assert (len(made), sum(one is not None for one in made)) == (18, 4)


@pytest.mark.every_value
def test_a_balance_read_before_a_payment_covers_no_second_one(database: Database) -> None:
    """All read the balance at once; some then pay, and their money has left while others are authorized."""
    store = open_store(database)
    settle(store)  # in the balance already
    context = resolve(store)
    payments = [sign(context) for _ in range(18)]
    before = [store.find_uses(context.terms.token, payment) for payment in payments]
    verified = PaymentVerified(PAYER, 1, 4 * context.terms.amount)
    calls = iter(zip(payments, before, strict=True))
    paid: list[object] = []

    def pay() -> None:
        for payment, seen in [next(calls) for _ in range(3)]:
            made = store.authorize(context, payment, verified, seen)
            if made is not None:
                recorded = store.record_outcome(made, succeeded(made))
                assert recorded is not None
                assert store.begin_attempt(recorded) is not None
                paid.append(store.record_settled(recorded, f"0x{secrets.token_hex(32)}", None))

    run_at_once(*[pay] * 6)
    assert len(paid) == 4
    payment = sign(context)  # a balance that is read afterwards has lost them already
    seen = store.find_uses(context.terms.token, payment)
    assert store.authorize(context, payment, PaymentVerified(PAYER, 1, payment.value), seen) is not None


@pytest.mark.every_value
def test_one_authorization_makes_one_transaction(url: str, database: Database) -> None:
    """Tried by four threads and two processes."""
    store = open_store(database)
    with processes(url, 2, "authorize", str(SAME)) as started:
        begin(started)
        made: list[str] = []

        def authorize_all() -> None:
            context = resolve(store)
            for number in range(SAME):
                payment = sign(context, nonce=f"0x{number:064x}", header=f"proof {number}")
                found = store.authorize(context, payment, PaymentVerified(PAYER))
                if found is not None:
                    made.append(found.id)

        run_at_once(*[authorize_all] * 4)
        made += collect(started)
    page = store.list_transactions(query(store), None, None)
    assert len(made) == len(set(made)) == page.count == SAME
    assert {one.id for one in page.records} == set(made)
    assert store.list_payers(query(store)).count == 1


@pytest.mark.every_value
def test_one_attempt_of_eight_at_once_begins(database: Database) -> None:
    store = open_store(database)
    for _ in range(5):
        made, begun = submit(store), list[Any]()
        run_at_once(*[lambda: begun.append(store.begin_attempt(made))] * 8)  # noqa: B023 - joined before the next
        assert sum(one is not None for one in begun) == 1


@pytest.mark.every_value
def test_each_due_payment_is_taken_by_one_worker(database: Database) -> None:
    store = open_store(database, attempt_schedule=AttemptSchedule(first_retry=0.0))
    made = {submit(store).id for _ in range(20)}
    taken: list[str] = []

    def work() -> None:
        while jobs := store.take_jobs(2):
            taken.extend(transaction.id for transaction, _ in jobs)

    run_at_once(*[work] * 4)
    # A worker may find all that is left locked by others, and stop early; nothing is taken twice.
    taken += [transaction.id for transaction, _ in store.take_jobs(100)]
    assert sorted(taken) == sorted(made)


@pytest.mark.every_value
def test_outcomes_that_race_are_recorded_once(database: Database) -> None:
    from tests.service.sales import failed, succeeded

    store = open_store(database)
    for _ in range(5):
        made, recorded = authorize(store), list[Any]()
        outcomes = (succeeded(made), failed(made)) * 2
        run_at_once(*[lambda one=one: recorded.append(store.record_outcome(made, one)) for one in outcomes])  # noqa: B023
        assert sum(one is not None for one in recorded) == 1


def test_a_list_never_changes_while_four_processes_write(url: str, database: Database) -> None:
    """Lists of every status, taken while others write, and read again at the end."""
    store = open_store(database)
    seen: dict[tuple[Any, ...], str] = {}
    with processes(url, 4, "sell", "1") as started:
        begin(started)
        end = time.monotonic() + 1
        # On a busy machine longer, until there is enough to see.
        while time.monotonic() < end or (len(seen) <= 50 and time.monotonic() < end + 30):
            as_of = store.fix_snapshot(None)
            for status in (None, *STATUSES):
                seen[as_of, status] = show(store, as_of, status)
            time.sleep(0.02)
        written = sum(map(int, collect(started)))
    fresh = connect(url)
    changed = [key for key, shown in seen.items() if show(fresh, *key) != shown]
    fresh._database.close()
    assert changed == []
    assert len(seen) > 50
    assert written > 50


def query(store: SqlStore, **changes: Any) -> ParsedListQuery:
    as_of = store.fix_snapshot(None)
    assert as_of is not None
    return ParsedListQuery(
        **{"as_of": as_of, "newest_first": True, "page": 1, "page_size": 100, "filters": {}, **changes}
    )


def show(store: SqlStore, as_of: Any, status: str | None) -> str:
    """One page of the list and its length, as the API would answer."""
    page = store.list_transactions(query(store, as_of=as_of, page_size=20), status, None)
    items = [build_transaction(one, as_of).model_dump(mode="json") for one in page.records]
    payers = [
        (one.id, str(one.last_transaction_at)) for one in store.list_payers(query(store, as_of=as_of)).records
    ]
    return json.dumps([page.count, items, payers])

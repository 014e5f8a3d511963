"""Stamps and lists: what was answered once never changes."""

import threading
from collections.abc import Callable
from datetime import timedelta

import pytest

from faregate.service.database.clock import Stamps
from faregate.service.database.engine import Database
from faregate.service.database.sql_store import SqlStore
from faregate.service.database.types import to_microseconds
from tests.service.databases import MovedClock
from tests.service.sales import HASH, authorize, submit

pytestmark = pytest.mark.every_value

TICK = timedelta(microseconds=1)


def test_what_follows_a_list_is_stamped_later(store: SqlStore, clock: MovedClock) -> None:
    before = submit(store)
    as_of = store.fix_snapshot(None)
    assert as_of == clock.moment
    after = authorize(store, "0x00000000000000000000000000000000000000a1")
    assert before.created_at == clock.moment
    assert after.created_at == after.payer.created_at == clock.moment + TICK
    assert store.now() == clock.moment  # expiry and leases go by the clock
    failed = store.record_failed(before, None)
    assert failed.changed_at > as_of


def test_a_receipt_names_the_moment_of_the_settlement(store: SqlStore, clock: MovedClock) -> None:
    made = submit(store)
    as_of = store.fix_snapshot(clock.move(60))
    clock.move(-30)  # the clock of this process is behind that of whoever asked for the list
    store._stamps._latest = 0
    done = store.record_settled(made, HASH, None)
    assert done.settled is not None
    assert as_of is not None
    assert done.settled.at == done.changed_at == as_of + TICK
    assert done.settled.receipt.issued_at == as_of
    again = store.find_transaction(made.id)
    assert again is not None
    assert again.settled == done.settled


def test_a_moment_in_the_future_is_refused(store: SqlStore, clock: MovedClock) -> None:
    assert store.fix_snapshot(clock.moment + TICK) is None
    assert store.fix_snapshot(clock.moment) == clock.moment


def test_an_earlier_list_leaves_the_fence(store: SqlStore, clock: MovedClock) -> None:
    later = clock.moment
    store.fix_snapshot(later)
    assert store.fix_snapshot(later - timedelta(hours=1)) == later - timedelta(hours=1)
    assert authorize(store).created_at == later + TICK


def test_the_slower_of_two_lists_leaves_the_fence(store: SqlStore, clock: MovedClock) -> None:
    """Both read the old fence; the one of the later moment moved it first."""
    store.fix_snapshot(clock.moment)
    store._stamps._move_fence(store.account.id, to_microseconds(clock.moment) - 1_000_000)
    assert authorize(store).created_at == clock.moment + TICK


def test_a_list_is_never_earlier_than_the_last_one(store: SqlStore, clock: MovedClock) -> None:
    """Although the clock of another process is ahead."""
    ahead = clock.move(60)
    store.fix_snapshot(ahead)
    clock.move(-60)
    assert store.fix_snapshot(None) == ahead
    assert store.fix_snapshot(ahead) == ahead


class TestLocks:
    """PostgreSQL only: SQLite has one writer at a time."""

    @pytest.fixture(autouse=True)
    def _only_postgres(self, database: Database) -> None:
        if database.is_sqlite:
            pytest.skip("SQLite has one writer at a time")

    def test_a_list_waits_for_writers_under_way(self, store: SqlStore, database: Database) -> None:
        stamps, account = store._stamps, store.account.id
        with database.write() as connection:
            given = stamps.take(connection, account)
            waiting = start(lambda: store.fix_snapshot(None))
            waiting.join(0.3)
            assert waiting.is_alive()
        waiting.join(5)
        assert not waiting.is_alive()
        assert stamps.now() >= given

    def test_writers_do_not_wait_for_each_other(self, store: SqlStore, database: Database) -> None:
        with database.write() as connection:
            store._stamps.take(connection, store.account.id)
            assert authorize(store) is not None

    def test_a_writer_sees_the_fence_that_it_waited_for(
        self, store: SqlStore, database: Database, stamps: Stamps, clock: MovedClock
    ) -> None:
        account, fence = store.account.id, to_microseconds(clock.moment) + 1_000
        stamped: list[int] = []

        def write() -> None:
            with database.write() as connection:
                stamped.append(stamps.take(connection, account))

        with database.write() as connection:
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock(402001, {account})")
            writing = start(write)
            writing.join(0.3)
            assert stamped == []
            connection.exec_driver_sql(f"UPDATE accounts SET fence = {fence} WHERE id = {account}")
        writing.join(5)
        assert stamped == [fence + 1]


def start(call: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=call)
    thread.start()
    return thread

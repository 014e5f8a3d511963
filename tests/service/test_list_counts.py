"""How long lists are: what a process adds to an earlier count is what another one counts afresh."""

import random
import secrets
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event

from faregate.rules.http import ParsedListQuery
from faregate.rules.payments import SettlementPending
from faregate.service.database.engine import Database
from faregate.service.database.sql_store import SqlStore
from faregate.service.database.upgrade import upgrade
from tests.service.databases import MovedClock
from tests.service.sales import PAYER, authorize, failed, open_store, settle, submit

STATUSES = (None, "authorized", "settling", "reconciling", "failed", "succeeded")
OTHER = "0x00000000000000000000000000000000000000aA"


def count_all(store: SqlStore, as_of: datetime, payers: tuple[str, ...]) -> dict[tuple[str, str], int]:
    query = ParsedListQuery(as_of=as_of, page=1, page_size=1, newest_first=True, filters={})
    kinds = [(status, payer) for status in STATUSES for payer in (None, *payers)]
    found = {(str(a), str(b)): store.list_transactions(query, a, b).count for a, b in kinds}
    return {**found, ("payers", ""): store.list_payers(query).count}


def test_a_later_list_is_as_long_as_if_it_were_counted_afresh(database: Database, clock: MovedClock) -> None:
    store = open_store(database, clock)
    open_sales = [submit(store) for _ in range(3)]
    steps: list[Callable[[], object]] = [
        lambda: settle(store),
        lambda: authorize(store, OTHER),
        lambda: store.record_outcome(authorize(store), failed(authorize(store))),
        lambda: settle(store, OTHER),
        lambda: store.record_failed(open_sales[0], None),
        lambda: postpone(store),
        lambda: store.record_settled(open_sales[1], f"0x{secrets.token_hex(32)}", None),
        lambda: store.record_settled(open_sales[2], f"0x{secrets.token_hex(32)}", None),
    ]
    moments: list[datetime] = []
    for step in steps:
        step()
        clock.move(1)
        moment = store.fix_snapshot(None)
        assert moment is not None
        payer = store.list_payers(
            ParsedListQuery(as_of=moment, page=1, page_size=1, newest_first=False, filters={})
        ).records[0]
        moments.append(moment)
        if len(moments) % 2 == 0:  # every second moment is listed only after a later one
            for one in (moment, moments[-2]):
                fresh = open_store(database, clock)
                assert count_all(store, one, (payer.id,)) == count_all(fresh, one, (payer.id,))


def test_an_end_before_its_beginning_is_counted_once(database: Database, clock: MovedClock) -> None:
    # The clock of the process that authorized is ahead of that of the process that settles.
    ahead = open_store(database, clock)
    clock.move(10)
    made = submit(ahead)
    clock.move(-8)
    open_store(database, clock).record_settled(made, f"0x{secrets.token_hex(32)}", None)
    store = open_store(database, clock)
    for seconds in (1, 5, 5):
        clock.move(seconds)
        moment = store.fix_snapshot(None)
        assert moment is not None
        assert count_all(store, moment, ()) == count_all(open_store(database, clock), moment, ())


def postpone(store: SqlStore) -> None:
    made = submit(store)
    attempt = store.begin_attempt(made)
    assert attempt is not None
    store.postpone(made, attempt, SettlementPending("reconciling"), None)


def test_pages_are_the_same_whatever_was_read_before(database: Database, clock: MovedClock) -> None:
    store = open_store(database, clock)
    for number in range(23):
        settle(store, PAYER if number % 3 else OTHER)
        clock.move(number % 2)  # some are made in one moment, and are ordered by their ids
    moment = store.fix_snapshot(None)
    assert moment is not None
    later = settle(store).id
    pages = [(page, newest) for page in range(1, 10) for newest in (True, False)]
    jumps = random.Random(7).sample(pages, len(pages))
    for status in (None, "succeeded", "failed"):
        for size in (1, 3, 5):
            for asked in (pages, pages[::-1], jumps):
                for page, newest_first in asked:
                    query = ParsedListQuery(moment, newest_first, page, size, {})
                    found = [one.id for one in store.list_transactions(query, status, None).records]
                    fresh = open_store(database, clock).list_transactions(query, status, None).records
                    assert found == [one.id for one in fresh]
                    assert later not in found
    payers = [store.list_payers(ParsedListQuery(moment, False, page, 1, {})).records for page in (1, 2)]
    assert {found.identifier for [found] in payers} == {PAYER, OTHER}


def test_a_walk_through_a_list_skips_nothing(
    database: Database, clock: MovedClock, request: pytest.FixtureRequest
) -> None:
    store = open_store(database, clock)
    for _ in range(30):
        settle(store)
    moment = store.fix_snapshot(None)
    assert moment is not None
    offsets: list[int] = []

    def watch(_c: object, _u: object, statement: str, _p: object, context: Any, _m: object) -> None:
        if "OFFSET" in statement:
            offsets.append(context.compiled_parameters[0]["start"])

    event.listen(Engine, "before_cursor_execute", watch)
    request.addfinalizer(lambda: event.remove(Engine, "before_cursor_execute", watch))
    for newest_first in (True, False):
        offsets.clear()
        for page in range(1, 16):
            store.list_transactions(ParsedListQuery(moment, newest_first, page, 2, {}), None, None)
        assert offsets == [0] * 15


@pytest.mark.parametrize("newest_first", [True, False])
def test_a_walk_reads_nothing_twice(
    tmp_path: Path, newest_first: bool, request: pytest.FixtureRequest
) -> None:
    """SQLite tells how much it does. It once began each page at the newest end, and walked from there."""
    upgrade(url := f"sqlite:///{tmp_path / 'service.db'}")
    store = open_store(Database(url))
    for _ in range(60):
        settle(store)
    moment = store.fix_snapshot(None)
    assert moment is not None
    done: list[int] = []

    def watch(connection: Any, _u: object, statement: str, *_: object) -> None:
        is_page = "OFFSET" in statement
        connection.connection.dbapi_connection.set_progress_handler(count if is_page else None, 1)
        done.extend([0] * is_page)

    def count() -> None:
        done[-1] += 1

    event.listen(Engine, "before_cursor_execute", watch)
    request.addfinalizer(lambda: event.remove(Engine, "before_cursor_execute", watch))
    for status in (None, "succeeded"):
        done.clear()
        for page in range(1, 29):
            store.list_transactions(ParsedListQuery(moment, newest_first, page, 2, {}), status, None)
        assert len(done) == 28
        assert max(done) - min(done) < 60, "a record takes several instructions"

"""A parked payment is not attempted and raises no alarm. Its money stays reserved; the chain may end it."""

from importlib import import_module

import pytest
from sqlalchemy import text

from faregate.rules.payments import SettlementPending
from faregate.service.database.engine import Database
from faregate.service.database.reports import count_pending, list_pending_payments
from faregate.service.database.sql_store import SqlStore
from tests.service.databases import START, MovedClock
from tests.service.sales import HASH, authorize, get_reserved, settle, submit

pytestmark = pytest.mark.every_value
REASON = "its payer was emptied"


def test_nobody_attempts_it(store: SqlStore, clock: MovedClock) -> None:
    made = submit(store)
    parked = store.park(made, REASON)
    assert parked is not None
    assert parked.parked is not None
    assert (parked.parked.at, parked.parked.reason, parked.status) == (START, REASON, "settling")
    clock.move(3600)
    assert store.take_jobs(10) == []
    assert store.begin_attempt(made) is None
    assert store.count_read(parked) is None
    assert get_reserved(store) == made.payment.value


def test_an_attempt_under_way_ends_without_another(store: SqlStore, clock: MovedClock) -> None:
    made = submit(store)
    attempt = store.begin_attempt(made)
    assert attempt is not None
    assert store.park(made, REASON) is not None
    postponed = store.postpone(made, attempt, SettlementPending("reconciling"), None)
    assert (postponed.status, postponed.row["next_attempt_at"]) == ("reconciling", None)
    clock.move(3600)
    assert store.take_jobs(10) == []


def test_what_the_chain_proves_is_recorded(store: SqlStore) -> None:
    made = submit(store)
    assert store.begin_attempt(made) is not None
    assert store.park(made, REASON) is not None
    ended = store.record_settled(made, HASH, None)
    assert ended.status == "succeeded"
    assert (ended.parked, ended.row["parked_reason"]) == (None, REASON)


def test_it_is_attempted_again_after_a_retry(store: SqlStore, clock: MovedClock) -> None:
    made = submit(store)
    assert store.begin_attempt(made) is not None
    assert store.park(made, REASON) is not None
    clock.move(3600)
    again = store.unpark(made)
    assert again is not None
    assert (again.parked, again.row["parked_reason"]) == (None, REASON)
    # The command that allows it makes the first attempt itself: an operator may have decided what it does.
    assert store.take_jobs(10) == []
    clock.move(1)
    [(taken, attempt)] = store.take_jobs(10)
    assert (taken.id, attempt.number, attempt.sent_before) == (made.id, 2, True)


def test_only_what_is_attempted_can_be_parked(store: SqlStore) -> None:
    for made in (authorize(store), settle(store)):
        assert store.park(made, REASON) is None
        assert store.unpark(made) is None
    open_one = submit(store)
    assert store.park(open_one, REASON) is not None
    assert store.park(open_one, "another") is None
    found = store.find_transaction(open_one.id)
    assert found is not None
    assert found.row["parked_reason"] == REASON


def test_it_is_counted_apart_and_raises_no_alarm(
    store: SqlStore, database: Database, clock: MovedClock
) -> None:
    old = submit(store)
    clock.move(60)
    submit(store)
    assert store.park(old, REASON) is not None
    for account in (None, store.account.id):
        with database.read() as connection:
            pending = count_pending(connection, account)
        assert (pending.settling, pending.reconciling, pending.parked) == (1, 0, 1)
        assert pending.oldest_at == clock.moment
    # The books are compared with the chain all the same.
    assert old.id in list(list_pending_payments(database, store.account.id))


def test_the_migration_settles_what_was_submitted(
    store: SqlStore, database: Database, clock: MovedClock
) -> None:
    """An earlier version left a simulated payment authorized until its first attempt."""
    migration = import_module("faregate.service.database.migrations.versions.0008_parked_payments")
    submitted, open_one, ended = submit(store), authorize(store), settle(store)
    clock.move(5)
    fixed = store.fix_snapshot(None)
    with database.write() as connection:
        connection.execute(text("UPDATE transactions SET settling_at = NULL"))
        connection.execute(text(migration._SETTLE_SUBMITTED))
    found = [store.find_transaction(one.id) for one in (submitted, open_one, ended)]
    assert [one and one.status for one in found] == ["settling", "authorized", "succeeded"]
    assert fixed is not None
    assert found[0] is not None
    assert found[0].status_at(fixed) == "authorized"
    assert found[2] is not None
    assert found[2].row["settling_at"] is None

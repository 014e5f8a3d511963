"""A PostgreSQL journal among others who use its rows, and what the server says then."""

import threading

import psycopg
import pytest

from faregate.core.claim_types import InProgress
from faregate.errors import JournalError, JournalUnreadable
from faregate.journals.postgres import PostgresJournal, connection, pipeline, pool, store
from faregate.journals.store import PURGE_SECONDS
from tests.core.flow_script import OTHER_TXN, TXN
from tests.journals import postgres_schema
from tests.journals.postgres_schema import asked, asked_inside, get_store, postgres, stamp_of, with_setting
from tests.journals.rows import GOOD, HERE, LEASE, started
from tests.journals.stores import Clock

url, journal = postgres_schema.url, postgres_schema.journal


def test_a_locked_row_is_an_error_until_it_is_unlocked(journal: PostgresJournal, url: str) -> None:
    lease = started(journal)
    with psycopg.connect(url) as other:
        other.execute("SELECT FROM faregate_journal FOR UPDATE")
        with pytest.raises(JournalError, match="locked for another writer for too long"):
            journal.record_outcome(lease, GOOD)
        assert journal.claim("proof", HERE) == InProgress()  # reading waits for nobody
    assert journal.record_outcome(lease, GOOD)


def test_a_write_that_waited_sees_what_the_other_wrote(url: str) -> None:
    """The other one was quicker, by whatever isolation the server has by default."""
    journal = postgres(with_setting(url, "default_transaction_isolation=repeatable read"))
    started(journal)
    stamp, found = stamp_of(journal, TXN), get_store(journal).find_transaction(TXN)
    assert found is not None
    answers: list[bool] = []
    waiting = threading.Thread(
        target=lambda: answers.append(get_store(journal).replace(found["key"], stamp, {"stamp": 2}, True))
    )
    with psycopg.connect(url) as other:
        other.execute("UPDATE faregate_journal SET stamp = 1")
        waiting.start()
        while asked(url, "SELECT count(*) FROM pg_locks WHERE NOT granted") == [(0,)]:
            assert waiting.is_alive()
        other.commit()
    waiting.join()
    assert answers == [False]
    assert stamp_of(journal, TXN) == 1
    journal.disconnect()


def test_a_sweep_skips_a_locked_row(url: str) -> None:
    clock = Clock()
    journal = postgres(url, clock=clock, timeout=30)
    started(journal)
    clock.now += 1
    started(journal, "another", OTHER_TXN)
    clock.now += LEASE
    with psycopg.connect(url) as other:
        other.execute("SELECT FROM faregate_journal WHERE transaction_id = %s FOR UPDATE", [TXN])
        entry = journal.lease_next()
        assert entry is not None
        assert entry.transaction_id == OTHER_TXN
        assert journal.lease_next() is None
    entry = journal.lease_next()
    assert entry is not None
    assert entry.transaction_id == TXN
    journal.disconnect()


def test_locked_rows_are_purged_later(url: str) -> None:
    clock = Clock()
    journal = postgres(url, clock=clock)
    journal.claim("first", HERE)
    clock.now += 1e6
    with psycopg.connect(url) as other:
        other.execute("SELECT FROM faregate_journal FOR UPDATE")
        journal.claim("second", HERE)
        assert get_store(journal).measure() == (2, 0)
    clock.now += PURGE_SECONDS
    journal.claim("third", HERE)
    assert get_store(journal).measure() == (2, 0)
    journal.disconnect()


def test_a_read_only_server_is_reported(journal: PostgresJournal, url: str) -> None:
    started(journal)
    standby = postgres(with_setting(url, "default_transaction_read_only=on"))
    with pytest.raises(JournalError, match="read-only, a standby perhaps: name the server that takes writes"):
        standby.claim("another", HERE)
    assert standby.get_hold(TXN) is not None
    standby.disconnect()


@pytest.mark.parametrize(
    ("code", "kind", "says"),
    [
        ("53100", JournalError, "has no room left on its disk"),
        ("53200", JournalError, "has no memory left"),
        ("57014", JournalError, "did not finish in the time"),
        ("XX001", JournalUnreadable, "is damaged"),
        ("0A000", JournalError, "could not be read or written"),
        ("23000", JournalError, "refused an impossible row"),
    ],
)
def test_server_errors_are_explained_and_lose_no_row(
    journal: PostgresJournal, url: str, code: str, kind: type[JournalError], says: str
) -> None:
    lease = started(journal)
    asked(
        url,
        f"CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION USING "
        f"ERRCODE = '{code}', MESSAGE = 'as it is', DETAIL = 'a secret'; END $$",
    )
    asked(url, "CREATE TRIGGER fail BEFORE UPDATE ON faregate_journal EXECUTE FUNCTION fail()")
    with pytest.raises(kind, match=f"{says}.*as it is") as told:
        journal.record_outcome(lease, GOOD)
    assert "secret" not in str(told.value)
    asked(url, "DROP TRIGGER fail ON faregate_journal")
    assert journal.claim("proof", HERE) == InProgress()
    assert journal.record_outcome(lease, GOOD)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("no_such_database", 'accepts no connection.*database "no_such_database" does not exist'),
        ("postgres?port=1", "accepts no connection"),
    ],
)
def test_an_unreachable_server_is_reported(url: str, name: str, says: str) -> None:
    with pytest.raises(JournalError, match=says):
        postgres(f"{url.partition('?')[0].rpartition('/')[0]}/{name}").claim("proof", HERE)


PREPARED = "SELECT count(*) FROM pg_prepared_statements"


def test_each_statement_is_prepared_once(journal: PostgresJournal) -> None:
    for number in range(10):
        started(journal, str(number), f"txn_{number}")
    assert asked_inside(journal, PREPARED) == 4  # insert, drop of results, purge and update


def test_no_statement_is_prepared_behind_a_pooler(
    journal: PostgresJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind one, sessions change from call to call."""
    monkeypatch.setattr(pool, "is_pooled", lambda _: True)
    lease = started(journal)
    assert journal.record_outcome(lease, GOOD)
    for _ in range(10):  # psycopg would prepare by itself what it has executed five times
        journal.list_holds(1)
    assert asked_inside(journal, PREPARED) == 0


def test_a_pooler_gives_out_process_ids_of_its_own(journal: PostgresJournal) -> None:
    for pid, pooled in ((b"pg_backend_pid()", False), (b"1 + pg_backend_pid()", True)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(connection, "_SESSION", b"SELECT " + pid)
            assert get_store(journal)._pool.run(lambda it, _: connection.is_pooled(it)) is pooled


@pytest.mark.parametrize("change", ["DEALLOCATE ALL", "PREPARE {} AS SELECT 1"])
def test_statements_are_no_longer_prepared_once_one_is_missing(
    journal: PostgresJournal, url: str, change: str
) -> None:
    """Such a session is not the one in which we prepared them, whatever process id it gave."""
    started(journal)
    if "{}" in change:
        journal.disconnect()
    name = pipeline._compile(store._insert(1)).name.decode()
    get_store(journal)._pool.run(lambda it, _: it.execute(change.format(name).encode()))
    lease = started(journal, "another", OTHER_TXN)
    assert journal.record_outcome(lease, GOOD)
    assert asked(url, "SELECT count(*) FROM faregate_journal") == [(2,)]
    assert asked_inside(journal, PREPARED) == 0

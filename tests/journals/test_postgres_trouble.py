"""What can go wrong with a PostgreSQL server and on the way to it, and that nothing is lost or done twice."""

import logging
import os
import signal
import threading
from collections.abc import Callable, Generator
from typing import Any, cast

import psycopg
import pytest

from faregate.errors import JournalError, JournalUnreadable
from faregate.journals.postgres import PostgresJournal
from faregate.journals.shelf import Record
from faregate.model import Response, Succeeded
from faregate.records import Again, InProgress
from tests.core.play import ACR, OTHER_TXN, TXN
from tests.houses import POSTGRES_MISSING, PostgresHouse
from tests.houses.network import Network, lossy_network
from tests.houses.shared import need
from tests.journals.kinds import Clock
from tests.journals.postgres_at import asked, asked_inside, own_schema, postgres, shelf_of, with_setting
from tests.journals.test_contract import GOOD, HERE, LEASE, WORK_SECONDS, decided, fresh, started
from tests.journals.test_impossible import BEGUN, CLAIMED

MY_PID = "SELECT pg_backend_pid()"
TAKING = {"fence": 9, "lease_until": 1e9, "stamp": 99}


@pytest.fixture
def url() -> Generator[str]:
    with own_schema() as url:
        yield url


@pytest.fixture
def journal(url: str) -> Generator[PostgresJournal]:
    made = postgres(url, patience=0.4)
    yield made
    made.disconnect()


@pytest.fixture(scope="module")
def house() -> Generator[PostgresHouse]:
    """A server that tests may stop and kill. Left alone, it forces nothing to the disk for ten seconds."""
    need("postgres", POSTGRES_MISSING)
    settings = {"synchronous_commit": "off", "wal_writer_delay": "10000", "autovacuum": "off"}
    made = PostgresHouse(settings, password="right-horse")
    try:
        made.open()
        yield made
    finally:
        made.leave()


# On the way


def record(number: int, state: str = "claimed") -> Record:
    bound = {**BEGUN, "transaction_id": f"txn{number}", "state": state} if state != "claimed" else {}
    return cast(Record, {"key": bytes([number]) * 32, **CLAIMED, "stamp": number, **bound})


Shelf = Any
WRITES: dict[str, tuple[Callable[[Shelf], Any], Any]] = {
    "insert": (lambda shelf: shelf.insert(record(2), [record(2)["key"]], 0.0), True),
    "replace": (
        lambda shelf: shelf.replace(
            record(1)["key"], 1, {**BEGUN, "state": "running", "result": None, "stamp": 50}, True
        ),
        True,
    ),
    "delete": (lambda shelf: shelf.delete(record(1)["key"], 1), True),
    "take_due": (lambda shelf: shelf.take_due(100.0, TAKING)["transaction_id"], "txn3"),
    "find": (lambda shelf: shelf.find([record(1)["key"]])["stamp"], 1),
    "measure": (lambda shelf: shelf.measure(), (3, 0)),
}


@pytest.fixture
def network(url: str) -> Generator[Network]:
    with lossy_network(port_of(url)) as network:
        yield network


@pytest.fixture
def distant(url: str, network: Network) -> Generator[PostgresJournal]:
    """A journal on the other side of a network that loses things, with a claimed row and two that are due."""
    made = postgres(url.replace(f":{port_of(url)}/", f":{network.port}/"), patience=5)
    for row in (record(1), record(3, "open"), record(4, "open")):
        assert shelf_of(made).insert(row, [row["key"]], 0.0)
    yield made
    made.disconnect()


def port_of(url: str) -> int:
    return int(psycopg.conninfo.conninfo_to_dict(url)["port"] or 0)


@pytest.mark.parametrize("what", ["answer", "request"])
@pytest.mark.parametrize("name", WRITES)
def test_a_call_whose_answer_is_lost_says_the_same_as_if_it_were_not(
    distant: PostgresJournal, network: Network, name: str, what: str
) -> None:
    call, expected = WRITES[name]
    network.lose(what)
    assert call(shelf_of(distant)) == expected
    assert network.lost == 1


@pytest.mark.parametrize("what", ["answer", "request"])
def test_a_row_whose_taking_was_lost_is_taken_once(
    distant: PostgresJournal, network: Network, url: str, what: str
) -> None:
    network.lose(what)
    shelf_of(distant).take_due(100.0, TAKING)
    assert asked(url, "SELECT transaction_id FROM faregate_journal WHERE stamp = 99") == [("txn3",)]


def test_who_asked_in_vain_twice_is_told(distant: PostgresJournal, network: Network) -> None:
    network.lose("answer")
    network.close()
    with pytest.raises(JournalError, match="gives no connection"):
        distant.claim("proof", HERE)


def test_another_stamp_is_not_taken_for_ours(distant: PostgresJournal) -> None:
    shelf, key = shelf_of(distant), record(1)["key"]
    assert not shelf.insert(cast(Record, {**record(1), "stamp": 7}), [key], 0.0)
    assert not shelf.replace(key, 7, {"stamp": 8}, False)
    assert not shelf.delete(key, 7)
    assert not shelf.delete(record(2)["key"], 2)
    assert shelf.replace(key, 1, {"stamp": 8}, False)
    assert shelf.replace(key, 1, {"stamp": 8}, False)


def test_a_server_that_never_answers_is_asked_once_more_and_then_does_nothing(
    journal: PostgresJournal, url: str
) -> None:
    ticket = started(journal)
    frozen: int = asked_inside(journal, MY_PID)
    os.kill(frozen, signal.SIGSTOP)
    try:
        assert journal.decide(ticket, GOOD)
    finally:
        os.kill(frozen, signal.SIGCONT)
    assert journal.decide(ticket, GOOD) is False
    assert asked(url, "SELECT state FROM faregate_journal") == [("ok",)]


# The server


def test_a_server_that_ended_our_sessions_is_asked_anew(journal: PostgresJournal, url: str) -> None:
    ticket = started(journal)
    for _ in range(2):
        asked(url, "SELECT pg_terminate_backend(%s, 5000)", asked_inside(journal, MY_PID))
    assert journal.decide(ticket, GOOD)


def test_a_server_may_be_stopped_and_started(house: PostgresHouse) -> None:
    journal = postgres(house.url, namespace="stopped")
    ticket = started(journal)
    house.stop()
    for _ in range(2):
        with pytest.raises(
            JournalError, match=r"the journal in PostgreSQL 127\.0\.0\.1.* gives no connection"
        ):
            journal.decide(ticket, GOOD)
    house.start()
    assert journal.decide(ticket, GOOD)
    journal.disconnect()


def test_what_must_be_on_the_disk_is_there_when_a_server_crashes(house: PostgresHouse) -> None:
    """However careless the server is by default."""
    assert asked(house.url, "SHOW synchronous_commit") == [("off",)]
    for what, state in ((started, "running"), (decided, "ok")):
        journal = postgres(house.url, namespace=f"crashed {state}")
        what(journal)
        house.kill()
        house.start()
        [holding] = journal.holdings(10)
        assert holding.state == state
        journal.disconnect()


def test_what_need_not_be_on_the_disk_waits_for_no_disk(house: PostgresHouse) -> None:
    journal = postgres(house.url, namespace="quick")
    ticket = started(journal)
    [[before]] = asked(house.url, "SELECT pg_current_wal_insert_lsn()")
    journal.decide(ticket, GOOD)
    assert asked(house.url, "SELECT pg_current_wal_flush_lsn() > %s::text::pg_lsn", before) == [(True,)]
    [[before]] = asked(house.url, "SELECT pg_current_wal_insert_lsn()")
    journal.hold(ticket)
    journal.claim("another", HERE)
    assert asked(house.url, "SELECT pg_current_wal_flush_lsn() > %s::text::pg_lsn", before) == [(False,)]
    journal.disconnect()


def test_a_server_that_forces_nothing_to_the_disk_is_told_of(
    house: PostgresHouse, caplog: pytest.LogCaptureFixture
) -> None:
    house.stop()
    careful = house.settings
    house.settings = {**careful, "fsync": "off", "full_page_writes": "off"}
    house.start()
    try:
        with caplog.at_level(logging.WARNING, "faregate"):
            journal = postgres(house.url)
            journal.due()
            journal.disconnect()
            journal.due()
    finally:
        journal.disconnect()
        house.stop()
        house.settings = careful
        house.start()
    first, second = (message.getMessage() for message in caplog.records)
    assert "fsync = off: when its machine loses power, payments may be forgotten" in first
    assert "full_page_writes = off" in second


def test_no_error_holds_the_password(house: PostgresHouse) -> None:
    journal = postgres(house.url.replace("right-horse", "wrong-horse"))
    with pytest.raises(JournalError, match="password authentication failed") as told:
        journal.claim("proof", HERE)
    error: BaseException | None = told.value
    while error is not None:
        assert "wrong-horse" not in repr(error)
        error = error.__cause__ or error.__context__
    assert "right-horse" not in repr(vars(postgres(house.url)))


def test_nothing_of_a_payment_can_be_read_from_the_servers_disk(house: PostgresHouse) -> None:
    """Through every state: not in its tables, its log of changes, or what it tells of itself."""
    canaries = [
        f"{name}-canary" for name in ("proof", "url", "header", "body", "value", "response", "receipt")
    ]
    proof, url, header, body, value, response, receipt = canaries
    journal = postgres(house.url, namespace="canaries")
    good = Succeeded(Response(200, ((header, header),), body.encode() * 1000), ((value, value),))
    ticket = fresh(journal.claim(proof, f"GET /{url}"))
    journal.start(ticket, TXN, ACR, WORK_SECONDS)
    journal.decide(ticket, good)
    journal.release(ticket, response, receipt, True)
    assert isinstance(journal.claim(proof, f"GET /{url}"), Again)
    journal.wait(fresh(journal.claim(f"{proof}-2", f"GET /{url}")), OTHER_TXN, ACR)
    with pytest.raises(JournalError, match="impossible row"):
        shelf_of(journal).replace(
            ticket.key, stamp_of(journal, TXN), {"proof": proof.encode(), "stamp": 1}, True
        )
    journal.disconnect()
    house.stop()
    seen = b"".join(path.read_bytes() for path in house.folder.rglob("*") if path.is_file())
    house.start()
    assert TXN.encode() in seen
    assert [canary for canary in (*canaries[1:], f"{proof}-2", "GET /") if canary.encode() in seen] == []


def stamp_of(journal: PostgresJournal, transaction_id: str) -> int:
    record = shelf_of(journal).find_transaction(transaction_id)
    assert record is not None
    return record["stamp"]


# Others who use it


def test_a_row_that_somebody_else_keeps_locked_is_an_error_and_then_works_again(
    journal: PostgresJournal, url: str
) -> None:
    ticket = started(journal)
    with psycopg.connect(url) as other:
        other.execute("SELECT FROM faregate_journal FOR UPDATE")
        with pytest.raises(JournalError, match="locked for another writer for too long"):
            journal.decide(ticket, GOOD)
        assert journal.claim("proof", HERE) == InProgress()  # reading waits for nobody
    assert journal.decide(ticket, GOOD)


def test_who_waited_for_another_writer_sees_what_that_one_wrote(url: str) -> None:
    """The other one was quicker, by whatever isolation the server has by default."""
    journal = postgres(with_setting(url, "default_transaction_isolation=repeatable read"))
    started(journal)
    stamp, found = stamp_of(journal, TXN), shelf_of(journal).find_transaction(TXN)
    assert found is not None
    answers: list[bool] = []
    waiting = threading.Thread(
        target=lambda: answers.append(shelf_of(journal).replace(found["key"], stamp, {"stamp": 2}, True))
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


def test_a_sweep_passes_over_a_row_that_somebody_else_keeps_locked(url: str) -> None:
    clock = Clock()
    journal = postgres(url, clock=clock, patience=30)
    started(journal)
    clock.now += 1
    started(journal, "another", OTHER_TXN)
    clock.now += LEASE
    with psycopg.connect(url) as other:
        other.execute("SELECT FROM faregate_journal WHERE transaction_id = %s FOR UPDATE", [TXN])
        entry = journal.due()
        assert entry is not None
        assert entry.transaction_id == OTHER_TXN
        assert journal.due() is None
    entry = journal.due()
    assert entry is not None
    assert entry.transaction_id == TXN
    journal.disconnect()


def test_rows_that_are_being_looked_at_are_forgotten_another_time(url: str) -> None:
    clock = Clock()
    journal = postgres(url, clock=clock)
    journal.claim("first", HERE)
    clock.now += 1e6
    with psycopg.connect(url) as other:
        other.execute("SELECT FROM faregate_journal FOR UPDATE")
        journal.claim("second", HERE)
        assert shelf_of(journal).measure() == (2, 0)
    journal.claim("third", HERE)
    assert shelf_of(journal).measure() == (2, 0)
    journal.disconnect()


def test_of_eight_threads_each_takes_rows_of_its_own(url: str) -> None:
    clock = Clock()
    journal = postgres(url, clock=clock, connections=8, patience=30)
    names = [f"txn_{number:03}" for number in range(64)]
    for name in names:
        started(journal, name, name)
    clock.now += LEASE
    taken: list[str] = []

    def sweep() -> None:
        while (entry := journal.due()) is not None:
            taken.append(entry.transaction_id)

    threads = [threading.Thread(target=sweep) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == names
    journal.disconnect()


# What the server says


def test_a_server_that_takes_no_writes_is_told_of(journal: PostgresJournal, url: str) -> None:
    started(journal)
    standby = postgres(with_setting(url, "default_transaction_read_only=on"))
    with pytest.raises(JournalError, match="read-only, a standby perhaps: name the server that takes writes"):
        standby.claim("another", HERE)
    assert standby.claim("proof", HERE) == InProgress()
    standby.disconnect()


def test_a_session_that_is_read_only_is_left_for_one_that_is_not(house: PostgresHouse) -> None:
    """After a fail-over the old sessions stay where they were."""
    postgres(house.url).due()
    asked(house.url, "ALTER DATABASE postgres SET default_transaction_read_only = on")
    journal = postgres(house.url, namespace="failed over")
    assert journal.holdings(1) == []
    asked(house.url, "BEGIN READ WRITE; ALTER DATABASE postgres RESET default_transaction_read_only; COMMIT")
    fresh(journal.claim("proof", HERE))
    journal.disconnect()


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
def test_what_a_server_says_is_told_plainly_and_what_was_written_stands(
    journal: PostgresJournal, url: str, code: str, kind: type[JournalError], says: str
) -> None:
    ticket = started(journal)
    asked(
        url,
        f"CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION USING "
        f"ERRCODE = '{code}', MESSAGE = 'as it is', DETAIL = 'a secret'; END $$",
    )
    asked(url, "CREATE TRIGGER fail BEFORE UPDATE ON faregate_journal EXECUTE FUNCTION fail()")
    with pytest.raises(kind, match=f"{says}.*as it is") as told:
        journal.decide(ticket, GOOD)
    assert "secret" not in str(told.value)
    asked(url, "DROP TRIGGER fail ON faregate_journal")
    assert journal.claim("proof", HERE) == InProgress()
    assert journal.decide(ticket, GOOD)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("no_such_database", 'gives no connection.*database "no_such_database" does not exist'),
        ("postgres?port=1", "gives no connection"),
    ],
)
def test_a_server_that_cannot_be_reached_is_told_of(url: str, name: str, says: str) -> None:
    with pytest.raises(JournalError, match=says):
        postgres(f"{url.partition('?')[0].rpartition('/')[0]}/{name}").claim("proof", HERE)


def test_a_pooler_that_forgets_prepared_statements_is_got_along_with(journal: PostgresJournal) -> None:
    shelf = shelf_of(journal)
    for _ in range(10):
        assert shelf.measure() == (0, 0)
    assert asked_inside(journal, "SELECT count(*) FROM pg_prepared_statements") > 0
    shelf._pool.run(
        lambda connection, _: connection.execute("DO $$ BEGIN EXECUTE 'DEALLOCATE ALL'; END $$").rowcount
    )
    for _ in range(20):
        assert shelf.measure() == (0, 0)
    assert asked_inside(journal, "SELECT count(*) FROM pg_prepared_statements") == 0

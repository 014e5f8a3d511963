"""PostgreSQL servers that stop, crash, are careless or read-only; and what can be read from their disks."""

import logging
from collections.abc import Generator

import pytest

from faregate.errors import JournalError
from tests.core.flow_script import TXN
from tests.journals.canaries import find_leaks, write_canaries
from tests.journals.postgres_schema import asked, get_store, postgres
from tests.journals.rows import GOOD, HERE, decided, fresh, started
from tests.servers import POSTGRES_MISSING, PostgresServer
from tests.servers.shared import need


@pytest.fixture(scope="module")
def server() -> Generator[PostgresServer]:
    """A server that tests may stop and kill. Left alone, it forces nothing to the disk for ten seconds."""
    need("postgres", POSTGRES_MISSING)
    settings = {"synchronous_commit": "off", "wal_writer_delay": "10000", "autovacuum": "off"}
    made = PostgresServer(settings, password="right-horse")
    try:
        made.open()
        yield made
    finally:
        made.leave()


def test_a_server_may_be_stopped_and_started(server: PostgresServer) -> None:
    journal = postgres(server.url, namespace="stopped")
    lease = started(journal)
    server.stop()
    for _ in range(2):
        with pytest.raises(
            JournalError, match=r"the journal in PostgreSQL 127\.0\.0\.1.* accepts no connection"
        ):
            journal.record_outcome(lease, GOOD)
    server.start()
    assert journal.record_outcome(lease, GOOD)
    journal.disconnect()


def test_durable_writes_survive_a_crash_of_the_server(server: PostgresServer) -> None:
    """However careless the server is by default."""
    assert asked(server.url, "SHOW synchronous_commit") == [("off",)]
    for what, state in ((started, "running"), (decided, "ok")):
        journal = postgres(server.url, namespace=f"crashed {state}")
        what(journal)
        server.kill()
        server.start()
        [holding] = journal.list_holds(10)
        assert holding.state == state
        journal.disconnect()


def test_other_writes_do_not_wait_for_the_disk(server: PostgresServer) -> None:
    journal = postgres(server.url, namespace="quick")
    lease = started(journal)
    [[before]] = asked(server.url, "SELECT pg_current_wal_insert_lsn()")
    journal.record_outcome(lease, GOOD)
    assert asked(server.url, "SELECT pg_current_wal_flush_lsn() > %s::text::pg_lsn", before) == [(True,)]

    def is_flushed(number: int) -> bool:
        [[before]] = asked(server.url, "SELECT pg_current_wal_insert_lsn()")
        journal.schedule_retry(lease)
        journal.claim(f"another {number}", HERE)
        [[flushed]] = asked(server.url, "SELECT pg_current_wal_flush_lsn() > %s::text::pg_lsn", before)
        return bool(flushed)

    # The server flushes by itself, every 0.2 s.
    assert not all(is_flushed(number) for number in range(5))
    journal.disconnect()


def test_a_server_without_fsync_is_warned_of(
    server: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.stop()
    careful = server.settings
    server.settings = {**careful, "fsync": "off", "full_page_writes": "off"}
    server.start()
    try:
        with caplog.at_level(logging.WARNING, "faregate"):
            journal = postgres(server.url)
            journal.lease_next()
            journal.disconnect()
            journal.lease_next()
    finally:
        journal.disconnect()
        server.stop()
        server.settings = careful
        server.start()
    # Heartbeats of other tests' journals may log at the same time that the server is gone.
    messages = (record.getMessage() for record in caplog.records)
    first, second = (message for message in messages if " = off" in message)
    assert "fsync = off: when its machine loses power, payments may be forgotten" in first
    assert "full_page_writes = off" in second


def test_no_error_holds_the_password(server: PostgresServer) -> None:
    journal = postgres(server.url.replace("right-horse", "wrong-horse"))
    with pytest.raises(JournalError, match="password authentication failed") as told:
        journal.claim("proof", HERE)
    error: BaseException | None = told.value
    while error is not None:
        assert "wrong-horse" not in repr(error)
        error = error.__cause__ or error.__context__
    assert "right-horse" not in repr(vars(postgres(server.url)))


def test_nothing_of_a_payment_can_be_read_from_the_servers_disk(server: PostgresServer) -> None:
    """Not in its tables, its log of changes, or what it tells of itself."""
    journal = postgres(server.url, namespace="secret")
    write_canaries(journal, bytes)
    row = get_store(journal).find_transaction(TXN)
    assert row is not None
    with pytest.raises(JournalError, match="impossible row"):
        get_store(journal).replace(row["key"], row["stamp"], {"proof": b"plain", "stamp": 1}, True)
    journal.disconnect()
    server.stop()
    seen = b"".join(path.read_bytes() for path in server.folder.rglob("*") if path.is_file())
    server.start()
    assert find_leaks(seen) == []


def test_a_read_only_session_is_replaced(server: PostgresServer) -> None:
    """After a fail-over the old sessions stay where they were."""
    postgres(server.url).lease_next()
    asked(server.url, "ALTER DATABASE postgres SET default_transaction_read_only = on")
    journal = postgres(server.url, namespace="failed over")
    assert journal.list_holds(1) == []
    asked(server.url, "BEGIN READ WRITE; ALTER DATABASE postgres RESET default_transaction_read_only; COMMIT")
    fresh(journal.claim("proof", HERE))
    journal.disconnect()

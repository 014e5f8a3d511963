"""What is the PostgreSQL journal's own: its address, its tables, its connections."""

import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import psycopg
import pytest

from faregate.core.claim_types import Claimed, InProgress
from faregate.errors import ConfigurationError, JournalError, JournalUnreadable
from faregate.journals.postgres import PostgresJournal
from faregate.journals.postgres.schema import VERSION
from faregate.journals.urls import as_async
from tests.core.flow_script import ACR, TXN
from tests.journals import postgres_schema
from tests.journals.postgres_schema import asked, asked_inside, get_store, postgres, with_setting
from tests.journals.processes import RACE, run, run_together, said
from tests.journals.rows import GOOD, HERE, WORK_SECONDS, decided, fresh, started
from tests.journals.stores import KEY
from tests.support.threads import run_in_threads

url, journal = postgres_schema.url, postgres_schema.journal
TABLES = ["faregate_journal", "faregate_journal_owner", "faregate_journal_version"]
_FOUND = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema() ORDER BY tablename"


def tables(url: str) -> list[str]:
    return [name for [name] in asked(url, _FOUND)]


# Its address


def test_nothing_is_opened_before_it_is_needed(journal: PostgresJournal, url: str) -> None:
    postgres("postgresql://nobody@127.0.0.1:1/nowhere")
    assert tables(url) == []
    assert journal.lease_next() is None
    assert tables(url) == TABLES


SPACED = ["postgresql://user:sec ret@host/db"] if psycopg.pq.version() >= 18_00_00 else []
"""An earlier libpq reads the space as a part of the password."""


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://user:sec%ret@host/db",
        *SPACED,
        "postgresql://user:sec@ret@host/db",
        "postgresql://user:sec/ret@host/db",
        "postgresql://user:123@45/6@host/db",
        "postgresql://user:secret@host/db?no_such_setting=1",
        "host",
    ],
)
def test_an_invalid_url_is_reported_without_its_password(address: str) -> None:
    with pytest.raises(ConfigurationError, match=r"postgresql://user:password@host.*percent-encoded") as told:
        postgres(address)
    assert not any(part in str(told.value) for part in ("sec", "ret", "123", "45"))


def test_at_least_one_connection_is_needed() -> None:
    with pytest.raises(ConfigurationError, match="at least one connection"):
        postgres("postgresql://user@host/db", connections=0)


# Its tables


def test_many_processes_make_the_tables_at_once(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TESTS_POSTGRES", url)
    assert run_together("postgres", tmp_path, RACE, 6) == list(range(10))
    assert asked(url, "SELECT version FROM faregate_journal_version") == [(VERSION,)]


@pytest.mark.parametrize(
    ("version", "advice"), [(VERSION + 1, "use the newer"), (VERSION - 1, "finish what")]
)
def test_another_version_is_refused_and_left_alone(
    journal: PostgresJournal, url: str, version: int, advice: str
) -> None:
    lease = started(journal)
    journal.disconnect()
    asked(url, "UPDATE faregate_journal_version SET version = %s", version)
    with pytest.raises(JournalUnreadable, match=f"of version {version}, .* {advice}"):
        journal.record_outcome(lease, GOOD)
    asked(url, "UPDATE faregate_journal_version SET version = %s", VERSION)
    assert journal.record_outcome(lease, GOOD)


def test_a_journal_is_made_anew_where_the_tables_of_another_version_were_dropped(
    journal: PostgresJournal, url: str
) -> None:
    """As the message of another version advises. PostgreSQL keeps the functions."""
    started(journal)
    journal.disconnect()
    asked(url, "DROP TABLE faregate_journal, faregate_journal_owner, faregate_journal_version")
    another = PostgresJournal(url, keys=[b"k" * 32], namespace="test")
    assert another.record_outcome(started(another), GOOD)
    another.disconnect()


@pytest.mark.parametrize(
    "made",
    [
        ["CREATE TABLE faregate_journal (id integer)"],
        ["CREATE TABLE faregate_journal_version (version integer)"],
        ["CREATE TABLE faregate_journal (id integer)", "CREATE TABLE faregate_journal_version (id integer)"],
        ["CREATE VIEW faregate_journal AS SELECT 1", "CREATE VIEW faregate_journal_version AS SELECT 1"],
    ],
)
def test_foreign_tables_are_refused_and_left_alone(
    journal: PostgresJournal, url: str, made: list[str]
) -> None:
    for statement in made:
        asked(url, statement)
    before = tables(url)
    with pytest.raises(JournalUnreadable, match="a schema of its own"):
        journal.claim("proof", HERE)
    assert tables(url) == before


def test_removed_tables_are_not_created_again(journal: PostgresJournal, url: str) -> None:
    started(journal)
    [[schema]] = asked(url, "SELECT current_schema()")
    asked(url, f"ALTER SCHEMA {schema} RENAME TO aside_{schema}; CREATE SCHEMA {schema}")
    for _ in range(3):
        with pytest.raises(JournalUnreadable, match="restart to start anew"):
            journal.claim("proof", HERE)
        journal.disconnect()
    assert tables(url) == []
    asked(url, f"DROP SCHEMA {schema}; ALTER SCHEMA aside_{schema} RENAME TO {schema}")
    assert journal.claim("proof", HERE) == InProgress()


def test_incomplete_tables_are_not_completed(journal: PostgresJournal, url: str) -> None:
    asked(url, "CREATE TABLE faregate_journal_expiring (id integer)")
    with pytest.raises(JournalUnreadable, match="a schema of its own"):
        journal.claim("proof", HERE)
    assert tables(url) == ["faregate_journal_expiring"]


def test_the_user_needs_few_rights(journal: PostgresJournal, url: str) -> None:
    """The first start makes tables; after that, reading and writing rows is enough."""
    user = asked(url, "SELECT current_schema()")[0][0]
    asked(url, f"CREATE ROLE {user} LOGIN; GRANT USAGE ON SCHEMA {user} TO {user}")
    poor = postgres(url.replace("faregate@", f"{user}@"))
    try:
        with pytest.raises(JournalError, match="CREATE on the schema for the first start"):
            poor.claim("proof", HERE)
        journal.lease_next()
        asked(url, f"GRANT SELECT, INSERT, UPDATE, DELETE ON {', '.join(TABLES)} TO {user}")
        decided(poor)
    finally:
        poor.disconnect()
        asked(url, f"DROP OWNED BY {user}; DROP ROLE {user}")


@pytest.mark.parametrize(
    "change", ["generation = 0", "size = -1", "redelivered = -1", "holds_so_far = -1", "key = 'x'"]
)
def test_no_row_is_nonsense(journal: PostgresJournal, url: str, change: str) -> None:
    started(journal)
    with pytest.raises(psycopg.errors.CheckViolation):
        asked(url, f"UPDATE faregate_journal SET {change}")


# Its connections


def test_threads_share_a_few_connections(url: str) -> None:
    journal = postgres(f"{url}&application_name=few", connections=2)
    claims: list[Any] = []
    run_in_threads(*(lambda n=n: claims.append(journal.claim(f"{n}", HERE)) for n in range(16)))
    assert sum(isinstance(claim, Claimed) for claim in claims) == 16
    assert asked(url, "SELECT count(*) <= 3 FROM pg_stat_activity WHERE application_name = 'few'") == [
        (True,)
    ]
    journal.disconnect()


def test_waiting_too_long_for_a_connection_is_an_error(url: str) -> None:
    journal = postgres(url, connections=1, timeout=0.2)
    taken, done = threading.Event(), threading.Event()

    def keep(connection: object, again: bool) -> bool:
        taken.set()
        return done.wait(30)

    keeper = threading.Thread(target=partial(get_store(journal)._pool.run, keep))
    keeper.start()
    assert taken.wait(30)
    with pytest.raises(JournalError, match="in use for too long"):
        journal.claim("proof", HERE)
    done.set()
    keeper.join()
    fresh(journal.claim("proof", HERE))
    journal.disconnect()


def test_connections_are_closed_with_the_journal(url: str) -> None:
    journal = postgres(f"{url}&application_name=gone")
    journal.lease_next()
    [connection] = get_store(journal)._pool._get_pool()._idle
    assert not connection.closed
    del journal
    assert connection.closed


FORKED_WHILE_ASKING = """
started = threading.Event()
def ask(connection, again):
    started.set()
    connection.execute("SELECT pg_sleep(0.3)")
asker = threading.Thread(target=journal._store._pool.run, args=(ask,))
journal.claim("before", HERE)
asker.start()
started.wait()
if (child := os.fork()) == 0:
    os._exit(0 if all(journal.claim("before", HERE) == InProgress() for _ in range(9)) else 1)
asker.join()
print(json.dumps(os.waitpid(child, 0)[1]))
"""


def test_a_fork_during_another_threads_query(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TESTS_POSTGRES", url)
    assert said(run("postgres", tmp_path, FORKED_WHILE_ASKING)) == 0


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_event_loops_of_both_kinds_can_use_it(url: str, backend: str) -> None:
    journal = postgres(url)

    async def main() -> None:
        awaited = as_async(journal)
        claim = await awaited.claim("proof", HERE)  # type: ignore[misc]
        assert await awaited.record_transaction(fresh(claim), TXN, ACR, WORK_SECONDS)  # type: ignore[misc]

    anyio.run(main, backend=backend)
    assert journal.claim("proof", HERE) == InProgress()
    journal.disconnect()


def test_it_uses_the_servers_clock(url: str) -> None:
    journal = PostgresJournal(url, keys=[KEY])
    assert abs(journal._clock() - time.time()) < 60
    journal.disconnect()


def test_it_reads_committed_rows_whatever_the_servers_default_isolation(url: str) -> None:
    journal = postgres(with_setting(url, "default_transaction_isolation=repeatable read"))
    assert asked_inside(journal, "SHOW transaction_isolation") == "read committed"
    journal.disconnect()

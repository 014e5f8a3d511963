"""The Django journal on PostgreSQL: all that every journal must do, and what only this database can do."""

import math
import threading
import time
from collections.abc import Generator
from pathlib import Path
from typing import cast

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from faregate.errors import JournalError
from faregate.journals.shelf import Record
from faregate.journals.stored import StoredJournal
from faregate.journals.terms import JournalContext, Terms
from faregate.records import InProgress
from tests import django_site
from tests.core.play import OTHER_TXN, TXN
from tests.journals.kinds import KEY, STEADY, Clock
from tests.journals.postgres_at import asked, own_schema
from tests.journals.test_contract import *  # noqa: F403
from tests.journals.test_contract import GOOD, HERE, LEASE, started
from tests.journals.test_impossible import CLAIMED

django_site.ready()

from django.core.management import call_command  # noqa: E402
from django.db import connections  # noqa: E402

from faregate.django.journal import make_journal  # noqa: E402
from faregate.django.journal.shelf import DjangoShelf  # noqa: E402

TABLE = "faregate_journal_journalrow"
globals().pop("test_the_sweep_waits_longer_each_time")  # it asks 1,500 times what the row alone decides


@pytest.fixture(scope="module")
def url() -> Generator[str]:
    """A schema of the project's, under the name `other` while these tests run."""
    with own_schema() as url:
        given = conninfo_to_dict(url)
        database = {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": given["dbname"],
            "USER": given["user"],
            "HOST": given["host"],
            "PORT": given["port"],
            "OPTIONS": {"options": f"{given['options']} -csynchronous_commit=off"},
        }
        made = connections.configure_settings({"default": {}, "other": database})
        connections.databases["other"] = made["other"]
        call_command("migrate", "faregate_journal", database="other", verbosity=0)
        yield url
        connections["other"].close()
        del connections.databases["other"], connections["other"]


@pytest.fixture  # type: ignore[no-redef]
def journal(url: str, clock: Clock, tmp_path: Path) -> Generator[StoredJournal]:
    made = StoredJournal(DjangoShelf(str(tmp_path), "other"), keys=[KEY], terms=STEADY, clock=clock)
    yield made
    made.disconnect()
    asked(url, f"TRUNCATE {TABLE}")


def test_a_sweep_passes_over_a_row_that_somebody_else_keeps_locked(
    journal: StoredJournal, clock: Clock, url: str
) -> None:
    started(journal)
    clock.now += 1
    started(journal, "another", OTHER_TXN)
    clock.now += LEASE
    with psycopg.connect(url) as other:
        other.execute(f"SELECT FROM {TABLE} WHERE transaction_id = '{TXN}' FOR UPDATE".encode())
        entry = journal.due()
        assert entry is not None
        assert entry.transaction_id == OTHER_TXN
        assert journal.due() is None


def test_the_clocks_of_the_machines_need_not_agree(
    journal: StoredJournal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine whose clock was ten seconds ahead took over what others were working on."""

    def another_machine() -> StoredJournal:
        return make_journal(JournalContext(str(tmp_path), "", Terms(renew_every=math.inf)), using="other")

    started(another_machine())
    defaults = StoredJournal.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "clock", lambda: time.time() + 3600)
    ahead = another_machine()
    assert ahead.claim("proof", HERE) == InProgress()
    assert ahead.due() is None


def test_of_eight_threads_each_takes_rows_of_its_own(journal: StoredJournal, clock: Clock) -> None:
    names = [f"txn_{number:03}" for number in range(40)]
    for name in names:
        started(journal, name, name)
    clock.now += LEASE
    taken: list[str] = []

    def sweep() -> None:
        while (entry := journal.due()) is not None:
            taken.append(entry.transaction_id)
        journal.disconnect()

    threads = [threading.Thread(target=sweep) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == names


def test_what_must_be_on_the_disk_is_forced_there_whatever_the_project_chose(
    journal: StoredJournal, url: str
) -> None:
    ticket = started(journal)
    [[before]] = asked(url, "SELECT pg_current_wal_insert_lsn()")
    assert journal.decide(ticket, GOOD)
    assert asked(url, "SELECT pg_current_wal_flush_lsn() > %s::text::pg_lsn", before) == [(True,)]


def test_what_was_written_already_is_not_written_again(journal: StoredJournal) -> None:
    """As if its answer had been lost."""
    shelf, row = journal._shelf, cast(Record, {"key": b"\1" * 32, **CLAIMED})
    assert shelf.insert(row, [row["key"]], 0.0)
    assert shelf.insert(row, [row["key"]], 0.0)
    assert not shelf.insert(cast(Record, {**row, "stamp": 7}), [row["key"]], 0.0)
    assert shelf.replace(row["key"], 1, {"stamp": 2}, True)
    assert shelf.replace(row["key"], 1, {"stamp": 2}, True)
    assert not shelf.replace(row["key"], 1, {"stamp": 3}, True)


def test_a_session_that_the_server_ended_is_begun_anew(journal: StoredJournal, url: str) -> None:
    ticket = started(journal)
    end_session(url)
    assert journal.decide(ticket, GOOD)
    end_session(url)
    assert [holding.state for holding in journal.holdings(10)] == ["ok"]


def end_session(url: str) -> None:
    with connections["other"].cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        [pid] = cursor.fetchone()
    assert asked(url, "SELECT pg_terminate_backend(%s, 5000)", pid) == [(True,)]


def test_a_server_that_is_gone_is_an_error_and_then_works_again(
    journal: StoredJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticket = started(journal)
    journal.disconnect()
    with monkeypatch.context() as gone:
        gone.setitem(connections["other"].settings_dict, "PORT", "1")
        with pytest.raises(JournalError, match="could not be read or written"):
            journal.decide(ticket, GOOD)
    assert journal.decide(ticket, GOOD)

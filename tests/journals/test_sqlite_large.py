"""Large results in a SQLite file: kept beside their rows, written once, and gone with them."""

from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from faregate.core.claim_types import Lease, PendingPayment, Recoverable, Replayable
from faregate.core.models import Response, WorkFailed, WorkSucceeded
from faregate.errors import JournalUnreadable
from faregate.journals.sqlite import SqliteJournal
from faregate.journals.sqlite.store import APART
from tests.core.flow_script import OTHER_TXN, RECEIPT, TXN
from tests.journals.rows import HERE, fresh, started
from tests.journals.sqlite_file import asked, written
from tests.journals.stores import Clock, sqlite

BODY = bytes(range(256)) * (APART // 128)
LARGE = WorkSucceeded(Response(200, (("a", "1"),), BODY), (("tokens", "3"),), 7)
RESPONSE = "cGFpZA=="


@pytest.fixture
def journal(tmp_path: Path, clock: Clock) -> Generator[SqliteJournal]:
    made = sqlite(tmp_path, clock)
    yield made
    made.disconnect()


def decided(journal: SqliteJournal) -> Lease:
    lease = started(journal)
    assert journal.record_outcome(lease, LARGE)
    return lease


def owed(journal: SqliteJournal) -> PendingPayment:
    claim = journal.claim("proof", HERE)
    assert isinstance(claim, Recoverable)
    return claim.payment


def kept(journal: SqliteJournal) -> object:
    return asked(journal, "SELECT count(*) FROM large")


def test_it_is_written_once_whatever_happens_to_its_row(journal: SqliteJournal, tmp_path: Path) -> None:
    log = tmp_path / "journal.db-wal"
    lease = decided(journal)
    before = log.stat().st_size
    assert before > len(BODY)
    journal.schedule_retry(lease)
    entry = owed(journal)
    assert entry.outcome == LARGE
    journal.schedule_retry(entry.lease)
    taken = journal.lease_hold(TXN)
    assert taken is not None
    assert taken.outcome == LARGE
    journal.record_settlement(taken.lease, RESPONSE, RECEIPT, True)
    assert journal.claim("proof", HERE) == Replayable(LARGE.result, RESPONSE, TXN)
    assert log.stat().st_size - before < len(BODY)
    assert kept(journal) == 1


def test_a_sweep_reads_it(journal: SqliteJournal, clock: Clock) -> None:
    decided(journal)
    clock.now += 1000
    entry = journal.lease_next()
    assert entry is not None
    assert entry.outcome == LARGE


def closed(journal: SqliteJournal, clock: Clock) -> None:
    journal.record_final(decided(journal), False)


def forgotten(journal: SqliteJournal, clock: Clock) -> None:
    journal.record_settlement(decided(journal), RESPONSE, RECEIPT, True)
    assert kept(journal) == 1
    clock.now += 1e6
    fresh(journal.claim("another", HERE))


def claimed_anew(journal: SqliteJournal, clock: Clock) -> None:
    journal.record_settlement(decided(journal), RESPONSE, RECEIPT, True)
    clock.now += 1e6
    fresh(journal.claim("proof", HERE))


@pytest.mark.parametrize("end", [closed, forgotten, claimed_anew])
def test_it_is_deleted_with_its_row(
    journal: SqliteJournal, clock: Clock, end: Callable[[SqliteJournal, Clock], None]
) -> None:
    end(journal, clock)
    assert kept(journal) == 0


def test_who_lost_its_row_leaves_nothing(journal: SqliteJournal, clock: Clock) -> None:
    lease = started(journal)
    clock.now += 1000
    entry = owed(journal)
    assert not journal.record_outcome(lease, LARGE)
    assert journal.record_outcome(entry.lease, WorkFailed("interrupted"))
    late = {"result": bytes(APART + 1), "stamp": 2}
    assert not journal._store.replace(lease.key, 1, late, True)
    assert kept(journal) == 0


def test_one_that_is_missing_is_an_error_and_not_taken_for_no_work(
    journal: SqliteJournal, clock: Clock
) -> None:
    """Else the work that was done would be reported as interrupted."""
    decided(journal)
    started(journal, "another", OTHER_TXN)
    written(journal, "DELETE FROM large")
    clock.now += 1000
    with pytest.raises(JournalUnreadable):
        journal.claim("proof", HERE)
    entry = journal.lease_next()
    assert entry is not None
    assert entry.transaction_id == OTHER_TXN

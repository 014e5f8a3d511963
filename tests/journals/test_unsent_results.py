"""Whether a result left whose sender died soon after recording the delivery. With killed processes."""

from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path
from threading import Thread

import pytest

from faregate.core.claim_types import EarlierPayment, Replayable
from faregate.journals.persistent import PersistentJournal
from faregate.journals.postgres.store import PostgresStore
from faregate.journals.row_rules import UNSENT_SECONDS
from faregate.journals.sqlite.database import SqliteDatabase
from faregate.journals.sqlite.store import SqliteStore
from tests.core.flow_script import ACR
from tests.journals.rows import HERE, WORK_SECONDS, fresh
from tests.journals.stores import STORED, Clock, disconnect, find_class
from tests.journals.test_owner_locks import LOCKED, NOW, SILENT
from tests.journals.test_purchases import begin, led_to_first, settle, signed, started
from tests.support.preloaded import PreloadedPython
from tests.support.products import spread
from tests.support.waiting import eventually

SENDER = """
import sys, time
from pathlib import Path
from faregate.journals.durations import JournalPolicy
from tests.journals.stores import STORED, Clock
from tests.journals.test_purchases import settle, started
kind, place, now = sys.argv[1], Path(sys.argv[2]), float(sys.argv[3])
journal = STORED[kind](place, Clock(now), policy=JournalPolicy(renew_every=3600.0))
settle(journal, started(journal, 1))
print("sending", flush=True)
time.sleep(60)
"""


@pytest.fixture
def send(tmp_path: Path) -> Generator[Callable[[str], PreloadedPython]]:
    senders: list[PreloadedPython] = []

    def send(kind: str) -> PreloadedPython:
        disconnect(STORED[kind](tmp_path, Clock()))  # this process starts the server, or migrates
        sender = PreloadedPython(["-c", SENDER, kind, str(tmp_path), str(NOW)])
        senders.append(sender)
        assert sender.stdout.readline().strip() == "sending"
        return sender

    yield send
    for sender in senders:
        sender.kill()
        sender.close()


@pytest.fixture
def open_journal(tmp_path: Path) -> Generator[Callable[[str, Clock], PersistentJournal]]:
    journals: list[PersistentJournal] = []

    def open_journal(kind: str, clock: Clock) -> PersistentJournal:
        journals.append(STORED[kind](tmp_path, clock, policy=SILENT))
        return journals[-1]

    yield open_journal
    for journal in journals:
        journal.disconnect()


@pytest.fixture(autouse=True)
def _no_test_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Django takes no locks in its test environment, which another test may have set up."""
    monkeypatch.delattr("django.core.mail.outbox", raising=False)


Send = Callable[[str], PreloadedPython]
Open = Callable[[str, Clock], PersistentJournal]
BATCHED = tuple(kind for kind in LOCKED if kind in ("sqlite", "postgres"))
each_store = pytest.mark.parametrize("kind", spread("kind", LOCKED, find_class))


@each_store
def test_a_payer_whose_sender_was_killed_gets_the_result_and_pays_once(
    kind: str, send: Send, open_journal: Open
) -> None:
    sender = send(kind)
    journal = open_journal(kind, Clock(NOW + 1))
    sender.kill()
    sender.wait()
    led_to_first(journal, 2)
    assert isinstance(journal.claim_transaction("txn_1", HERE), Replayable)
    # This process has sent it, and lives: the next payment is another purchase.
    started(journal, 3)


@each_store
def test_the_next_payment_is_another_purchase_while_the_sender_lives(
    kind: str, send: Send, open_journal: Open
) -> None:
    sender = send(kind)
    journal = open_journal(kind, Clock(NOW + 1))
    second = started(journal, 2)
    sender.kill()
    sender.wait()
    settle(journal, second)
    started(journal, 3)


@each_store
def test_the_death_of_a_sender_long_after_the_delivery_means_nothing(
    kind: str, send: Send, open_journal: Open
) -> None:
    sender = send(kind)
    journal = open_journal(kind, Clock(NOW + UNSENT_SECONDS))
    sender.kill()
    sender.wait()
    started(journal, 2)


@each_store
def test_of_two_payments_after_a_delivery_one_runs(kind: str, send: Send, open_journal: Open) -> None:
    send(kind)
    journal, other = open_journal(kind, Clock(NOW + 1)), open_journal(kind, Clock(NOW + 1))
    started(journal, 2)
    assert begin(other, 3)[1] == EarlierPayment("txn_2")


@each_store
def test_a_named_purchase_is_not_made_again_while_its_sender_lives(kind: str, open_journal: Open) -> None:
    named = replace(HERE, identifier="order_0123456789abcdef")
    journal = open_journal(kind, Clock(NOW))
    settle(journal, started(journal, 1, named))
    assert begin(journal, 2, named)[1] == EarlierPayment("txn_1")


def count_changes(journal: PersistentJournal) -> list[int]:
    """The number of statements that wrote rows since, in the only value of a list."""
    statements: list[str] = []
    changes = [0]

    def trace(statement: str) -> None:
        # A statement is said again for each trigger that it sets off.
        if statement.startswith("UPDATE journal") and statement not in statements:
            statements.append(statement)
            changes[0] += 1

    database: SqliteDatabase = getattr(journal, "_store")._database  # noqa: B009
    database.write(lambda connection: connection.set_trace_callback(trace))
    return changes


@pytest.mark.parametrize("kind", spread("kind", BATCHED, find_class))
def test_the_next_purchase_of_a_payer_is_one_write(
    kind: str, open_journal: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where stores work in batches, the write that begins it ends the one before."""
    journal = open_journal(kind, Clock(NOW))
    settle(journal, started(journal, 1))
    for store in (SqliteStore, PostgresStore):
        monkeypatch.setattr(store, "find_purchase", None)
    started(journal, 2)


def test_what_ends_a_purchase_is_one_statement_of_sqlite(open_journal: Open) -> None:
    journal = open_journal("sqlite", Clock(NOW))
    settle(journal, started(journal, 1))
    lease = fresh(journal.claim(signed(2), HERE))
    changes = count_changes(journal)
    assert journal.record_transaction(lease, "txn_2", ACR, WORK_SECONDS, HERE) is True
    assert changes == [2]  # the end, and what was tried before


def test_next_purchases_in_one_batch_of_sqlite_begin_together(
    open_journal: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = open_journal("sqlite", Clock(NOW))
    payers = [f"0x{number:040x}" for number in range(1, 4)]
    for number, payer in enumerate(payers[:2]):
        settle(journal, begin(journal, number, HERE, payer)[0])
    monkeypatch.setattr(SqliteStore, "find_purchase", None)
    leases = [fresh(journal.claim(signed(10 + number, payer), HERE)) for number, payer in enumerate(payers)]
    changes = count_changes(journal)
    database: SqliteDatabase = getattr(journal, "_store")._database  # noqa: B009
    begun: list[object] = []

    def start(number: int) -> None:
        lease, transaction_id = leases[number], f"txn_next_{number}"
        begun.append(journal.record_transaction(lease, transaction_id, ACR, WORK_SECONDS, HERE))

    with database._executing:  # the first thread has the turn, and the others wait together
        threads = [Thread(target=start, args=(number,)) for number in range(3)]
        threads[0].start()
        assert eventually(database.writer._turn.lock.locked)
        for thread in threads[1:]:
            thread.start()
        assert eventually(lambda: len(database.writer._turn.waiting) == 2)
    for thread in threads:
        thread.join()
    assert begun == [True] * 3
    assert changes[0] <= 5

"""Whether a result left whose sender died soon after recording the delivery. With killed processes."""

from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from faregate.core.claims import EarlierPayment, Replayable
from faregate.journals.persistent import PersistentJournal
from faregate.journals.row import UNSENT_SECONDS
from tests.journals.rows import HERE
from tests.journals.stores import STORED, Clock, disconnect, find_class
from tests.journals.test_owner_locks import LOCKED, NOW, SILENT
from tests.journals.test_purchases import begin, led_to_first, settle, started
from tests.support.preloaded import PreloadedPython
from tests.support.products import spread

SENDER = """
import sys, time
from pathlib import Path
from faregate.journals.policy import JournalPolicy
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

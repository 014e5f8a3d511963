"""Leases end with their process, and rows are left to those whose they are. For every stored journal."""

import math
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from faregate.core.claim_types import Claimed, InProgress, Lease, Recoverable, Replayable, SettlementWrite
from faregate.errors import ConfigurationError, JournalError, JournalFull, JournalUnreadable
from faregate.journals import heartbeat as heartbeats
from faregate.journals.durations import JournalPolicy
from faregate.journals.heartbeat import Heartbeat
from faregate.journals.persistent import PersistentJournal
from tests.core.flow_script import ACR, OTHER_TXN, RECEIPT, TXN
from tests.journals.rows import GOOD, HERE, LEASE, WORK_SECONDS, decided, fresh, owed, started
from tests.journals.stores import KEY, OTHER_KEY, STORED, Clock, find_class
from tests.support.products import spread

TERMS = JournalPolicy(renew_every=float("inf"))
"""No thread: the tests renew when they want it."""
SILENCE = TERMS.owner_lease
Open = Callable[..., PersistentJournal]


@pytest.fixture
def clock() -> Clock:
    return Clock(1_000_000.0)


@pytest.fixture(params=spread("open_one", STORED, find_class))
def open_one(request: pytest.FixtureRequest, clock: Clock, tmp_path: Path) -> Generator[Open]:
    """Each is another process, with its own leases."""
    made: list[PersistentJournal] = []

    def open_one(**options: Any) -> PersistentJournal:
        options = {"keys": [KEY], "policy": TERMS, **options}
        made.append(STORED[request.param](tmp_path, clock, **options))
        return made[-1]

    yield open_one
    for journal in made:
        journal.disconnect()


def beat(journal: PersistentJournal) -> None:
    """One renewal of all that it has."""
    assert journal._heartbeat.renew_all()


# A process that dies


def test_a_claim_of_a_dead_process_is_free_soon(open_one: Open, clock: Clock) -> None:
    mine, theirs = open_one(), open_one()
    mine.claim("proof", HERE)
    clock.now += SILENCE - 1
    assert theirs.claim("proof", HERE) == InProgress()
    clock.now += 1
    fresh(theirs.claim("proof", HERE))


def test_work_of_a_dead_process_is_given_up_soon(open_one: Open, clock: Clock) -> None:
    """The lease was as long as the longest work: its payer waited two minutes."""
    mine, theirs = open_one(), open_one()
    started(mine)
    clock.now += SILENCE - 1
    assert theirs.lease_next() is None
    assert theirs.claim("proof", HERE) == InProgress()
    clock.now += 1
    taken = theirs.lease_next()
    assert taken is not None
    assert (taken.transaction_id, taken.outcome) == (TXN, None)
    assert mine.claim("proof", HERE) == InProgress()  # a sweep has it now


def test_the_payer_may_take_the_row_before_the_sweep(open_one: Open, clock: Clock) -> None:
    mine, theirs = open_one(), open_one()
    decided(mine)
    clock.now += SILENCE
    assert owed(theirs.claim("proof", HERE)).outcome == GOOD
    assert theirs.lease_next() is None


def test_a_living_process_keeps_its_leases(open_one: Open, clock: Clock) -> None:
    mine, theirs = open_one(), open_one()
    started(mine)
    for _ in range(10):
        clock.now += SILENCE - 1
        beat(mine)
        assert theirs.lease_next() is None
        assert theirs.claim("proof", HERE) == InProgress()
    clock.now += SILENCE
    assert theirs.lease_next() is not None


def test_one_write_renews_all_leases(open_one: Open, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    mine, theirs = open_one(), open_one()
    for number in range(5):
        started(mine, f"proof {number}", f"txn{number}")
    writes: list[str] = []
    for name in ("insert", "replace", "delete", "renew"):
        monkeypatch.setattr(mine._store, name, _counted(getattr(mine._store, name), name, writes))
    clock.now += SILENCE - 1
    beat(mine)
    assert writes == ["renew"]
    clock.now += SILENCE - 1
    assert theirs.lease_next() is None


def _counted(write: Callable[..., Any], name: str, writes: list[str]) -> Callable[..., Any]:
    def counted(*arguments: Any) -> Any:
        writes.append(name)
        return write(*arguments)

    return counted


def test_no_lease_is_renewed_past_its_own_end(open_one: Open, clock: Clock) -> None:
    mine, theirs = open_one(), open_one()
    started(mine)
    clock.now += WORK_SECONDS + TERMS.completion_lease
    beat(mine)
    assert isinstance(theirs.claim("proof", HERE), Recoverable)


def test_a_lease_that_was_given_back_has_no_owner(open_one: Open) -> None:
    mine, theirs = open_one(), open_one()
    assert mine.schedule_retry(decided(mine))
    assert isinstance(theirs.claim("proof", HERE), Recoverable)
    assert not mine._heartbeat._leases


def test_dead_owners_are_deleted(open_one: Open, clock: Clock) -> None:
    mine, theirs = open_one(), open_one()
    started(mine)
    beat(mine)
    owner = mine._heartbeat.owner
    assert theirs._store.owner_until(owner) == clock.now + SILENCE
    clock.now += 3600 + SILENCE
    started(theirs, "another", OTHER_TXN)
    beat(theirs)
    assert theirs._store.owner_until(owner) == 0.0


def test_a_suspended_process_delivers_nothing_twice(open_one: Open, clock: Clock) -> None:
    mine, theirs = open_one(), open_one()
    slow = decided(mine)
    clock.now += SILENCE
    taken = owed(theirs.claim("proof", HERE))
    assert theirs.record_settlement(taken.lease, "cGFpZA==", RECEIPT, True) is SettlementWrite.FIRST
    assert mine.record_settlement(slow, "cGFpZA==", RECEIPT, True) is SettlementWrite.DELIVERED_ELSEWHERE
    assert not mine.record_outcome(slow, GOOD)
    assert [theirs.claim("proof", HERE) for _ in range(3)] == [Replayable(GOOD.result, "cGFpZA==", TXN)] * 3


def test_a_suspended_process_delivers_what_a_sweep_settled(open_one: Open, clock: Clock) -> None:
    mine, theirs = open_one(), open_one()
    slow = decided(mine)
    clock.now += SILENCE
    taken = theirs.lease_next()
    assert taken is not None
    assert theirs.record_settlement(taken.lease, "cGFpZA==", RECEIPT, False) is SettlementWrite.FIRST
    assert mine.record_settlement(slow, "cGFpZA==", RECEIPT, True) is SettlementWrite.REPEATED
    assert (
        theirs.record_settlement(taken.lease, "cGFpZA==", RECEIPT, True)
        is SettlementWrite.DELIVERED_ELSEWHERE
    )


def test_only_the_first_of_two_processes_delivers(open_one: Open, clock: Clock) -> None:
    """Who had taken the row over delivered as well: one payment, two results, also with `replay=False`."""
    mine, theirs = open_one(), open_one()
    slow = decided(mine)
    clock.now += SILENCE
    taken = owed(theirs.claim("proof", HERE))
    assert mine.record_settlement(slow, "cGFpZA==", RECEIPT, True) is SettlementWrite.FIRST
    assert (
        theirs.record_settlement(taken.lease, "cGFpZA==", RECEIPT, True)
        is SettlementWrite.DELIVERED_ELSEWHERE
    )
    assert (
        mine.record_settlement(slow, "cGFpZA==", RECEIPT, True) is SettlementWrite.REPEATED
    )  # its answer was lost
    assert [theirs.claim("proof", HERE) for _ in range(3)] == [Replayable(GOOD.result, "cGFpZA==", TXN)] * 3


# A store that cannot be written


def start(journal: PersistentJournal) -> Lease:
    return fresh(journal.claim("proof", HERE))


FAILED_WRITES: dict[
    str, tuple[Callable[[PersistentJournal], Lease], Callable[[PersistentJournal, Lease], object]]
] = {
    "start of the work": (start, lambda journal, lease: journal.record_transaction(lease, TXN, ACR, 60.0)),
    "claim": (start, lambda journal, lease: journal.abandon_claim(lease)),
    "pending": (start, lambda journal, lease: journal.record_pending(lease, TXN, ACR)),
    "resumption": (start, lambda journal, lease: journal.record_resumption(lease, TXN, ACR, OTHER_TXN)),
    "outcome": (started, lambda journal, lease: journal.record_outcome(lease, GOOD)),
    "retry": (decided, lambda journal, lease: journal.schedule_retry(lease)),
    "settlement": (
        decided,
        lambda journal, lease: journal.record_settlement(lease, "cGFpZA==", RECEIPT, False),
    ),
    "end": (decided, lambda journal, lease: journal.record_final(lease, False)),
}


class NoRoom:
    """A store that can be read, and not written, while it is full."""

    def __init__(self, journal: PersistentJournal, patch: pytest.MonkeyPatch) -> None:
        self.is_full = True
        for name in ("replace", "delete"):
            patch.setattr(journal._store, name, self._refuse(getattr(journal._store, name)))

    def _refuse(self, write: Callable[..., Any]) -> Callable[..., Any]:
        def refuse(*args: Any) -> Any:
            if self.is_full:
                raise JournalError("there is no room")
            return write(*args)

        return refuse


@pytest.mark.parametrize("write", FAILED_WRITES)
def test_the_lease_of_a_failed_write_is_given_back_when_there_is_room(
    write: str, open_one: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The payer got 409 until the lease was over, for up to three minutes."""
    mine, theirs = open_one(), open_one()
    prepare, fail = FAILED_WRITES[write]
    lease = prepare(mine)
    disk = NoRoom(mine, monkeypatch)
    with pytest.raises(JournalError, match="no room"):
        fail(mine, lease)
    beat(mine)
    assert theirs.claim("proof", HERE) == InProgress()
    disk.is_full = False
    beat(mine)
    claim = theirs.claim("proof", HERE)
    assert isinstance(claim, Claimed if prepare is start else Recoverable)
    if isinstance(claim, Recoverable):
        assert claim.payment.outcome == (GOOD if prepare is decided else None)


def test_a_row_that_was_taken_over_is_not_given_back(
    open_one: Open, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, theirs = open_one(), open_one()
    lease = started(mine)
    disk = NoRoom(mine, monkeypatch)
    with pytest.raises(JournalError, match="no room"):
        mine.record_outcome(lease, GOOD)
    clock.now += 2 * LEASE
    taken = owed(theirs.claim("proof", HERE))
    disk.is_full = False
    beat(mine)
    assert open_one().claim("proof", HERE) == InProgress()
    assert theirs.record_outcome(taken.lease, GOOD)


def test_a_lease_whose_write_was_repeated_is_kept(open_one: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    mine, theirs = open_one(), open_one()
    lease = started(mine)
    disk = NoRoom(mine, monkeypatch)
    with pytest.raises(JournalError, match="no room"):
        mine.record_outcome(lease, GOOD)
    disk.is_full = False
    assert mine.record_outcome(lease, GOOD)
    beat(mine)
    assert theirs.claim("proof", HERE) == InProgress()


def test_a_failed_write_does_not_end_the_leases_of_other_work(
    open_one: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, theirs = open_one(), open_one()
    started(mine, "other", OTHER_TXN)
    lease = started(mine)
    disk = NoRoom(mine, monkeypatch)
    with pytest.raises(JournalError, match="no room"):
        mine.record_outcome(lease, GOOD)
    disk.is_full = False
    beat(mine)
    assert theirs.claim("other", HERE) == InProgress()
    assert isinstance(theirs.claim("proof", HERE), Recoverable)


# The thread


class Renewals:
    """What a heartbeat writes, and the moment to wait for."""

    def __init__(self) -> None:
        self.owners: list[str] = []
        self.make_fault: Callable[[], Exception] | None = None
        self._changed = threading.Condition()

    def renew(self, owner: str) -> None:
        with self._changed:
            self.owners.append(owner)
            self._changed.notify_all()
        if self.make_fault is not None:
            raise self.make_fault()

    def give_back(self, lease: Lease) -> None:
        raise AssertionError("no write failed")

    def wait_for(self, number: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.owners) >= number, 30)


def started_thread(heartbeat: Heartbeat, seconds: float = 60) -> threading.Thread:
    heartbeat.add(b"a", seconds)
    assert heartbeat._thread is not None
    return heartbeat._thread


def assert_ends(thread: threading.Thread) -> None:
    thread.join(30)
    assert not thread.is_alive()


def test_a_thread_renews_while_there_is_something_to_renew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeats, "IDLE_SECONDS", 0.0)
    renewals = Renewals()
    heartbeat = Heartbeat(renewals.renew, renewals.give_back, 0.01)
    assert heartbeat._thread is None
    thread = started_thread(heartbeat)
    heartbeat.add(b"b", 60)
    renewals.wait_for(3)
    heartbeat.remove(b"a")
    renewals.wait_for(len(renewals.owners) + 2)
    heartbeat.remove(b"b")
    assert_ends(thread)
    assert set(renewals.owners) == {heartbeat.owner}
    heartbeat.add(b"c", 60)  # a new one
    renewals.wait_for(len(renewals.owners) + 1)


def test_a_lease_that_was_not_given_back_is_renewed_until_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeats, "IDLE_SECONDS", 0.0)
    renewals = Renewals()
    heartbeat = Heartbeat(renewals.renew, renewals.give_back, 0.01)
    assert_ends(started_thread(heartbeat, 0.1))
    assert renewals.owners
    assert not heartbeat._leases


def test_leases_that_are_given_back_meanwhile_do_not_end_the_thread() -> None:
    """The dict changed while it was looked through, the thread ended, and nothing was renewed again."""
    renewals = Renewals()
    heartbeat = Heartbeat(renewals.renew, renewals.give_back, 60)

    class End(float):
        """To look at it is a moment in which another thread gives a lease back."""

        def __le__(self, moment: float) -> bool:
            heartbeat.remove(b"last")
            return super().__le__(moment)

    for name in (b"first", b"second", b"last"):
        heartbeat.add(name, 60)
        heartbeat._leases[name] = End(0.0 if name == b"first" else math.inf)
    assert heartbeat.renew_all()
    assert list(heartbeat._leases) == [b"second"]
    assert renewals.owners == [heartbeat.owner]


def test_a_thread_that_could_not_be_started_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    renewals = Renewals()
    heartbeat = Heartbeat(renewals.renew, renewals.give_back, 60)

    def fail(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        with pytest.raises(RuntimeError, match="can't start"):
            heartbeat.add(b"a", 60)
    heartbeat.add(b"b", 60)
    assert heartbeat._thread is not None
    assert heartbeat._thread.is_alive()


@pytest.mark.parametrize("fault", [JournalError, ValueError])
def test_a_store_that_fails_does_not_end_the_thread(
    fault: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeats, "IDLE_SECONDS", 0.0)
    renewals = Renewals()
    renewals.make_fault = fault
    heartbeat = Heartbeat(renewals.renew, renewals.give_back, 0.01)
    thread = started_thread(heartbeat)
    renewals.wait_for(3)
    heartbeat.remove(b"a")
    assert_ends(thread)


def test_a_heartbeat_does_not_keep_its_journal_from_being_collected() -> None:
    renewals = Renewals()
    heartbeat = Heartbeat(renewals.renew, renewals.give_back, 0.01)
    thread = started_thread(heartbeat)
    renewals.wait_for(1)
    del heartbeat
    assert_ends(thread)


FORKING = """
import ctypes
import os
import sys

from faregate.journals.heartbeat import Heartbeat


class Renewals:
    def renew(self, owner):
        pass

    def give_back(self, lease):
        pass


renewals = Renewals()
heartbeat = Heartbeat(renewals.renew, renewals.give_back, 60)
heartbeat.add(b"a", 60)
owner, (reading, writing) = heartbeat.owner, os.pipe()
child = os.fork() if sys.argv[1] == "os" else ctypes.PyDLL(None).fork()
if child == 0:
    is_parent = sys.argv[1] == "os" and heartbeat.is_owner(owner)  # a sweep may ask before it leases a row
    heartbeat.note_use()
    is_new = not (is_parent or heartbeat.is_owner(owner) or heartbeat._leases or heartbeat._thread)
    os.write(writing, b"1" if is_new else b"0")
    os._exit(0)
os.waitpid(child, 0)
assert os.read(reading, 1) == b"1"
assert heartbeat.owner == owner
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.parametrize("fork", ["os", "C"])
def test_a_forked_child_is_another_owner(fork: str) -> None:
    """Also one of uWSGI, which forks without the functions of `os.register_at_fork`.

    In a process of its own: a child of a fork in C may wait for threads that wanted the interpreter.
    """
    subprocess.run([sys.executable, "-c", FORKING, fork], check=True, timeout=60)


def test_a_server_without_threads_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """uWSGI runs none unless it is told to: leases would end under work that takes ten seconds."""
    renewals = Renewals()
    monkeypatch.setitem(sys.modules, "uwsgi", SimpleNamespace(opt={"http": b":80"}))
    with pytest.raises(ConfigurationError, match="enable-threads = true"):
        Heartbeat(renewals.renew, renewals.give_back, 1.0).add(b"a", 60)
    monkeypatch.setitem(sys.modules, "uwsgi", SimpleNamespace(opt={"enable-threads": True}))
    Heartbeat(renewals.renew, renewals.give_back, 60.0).add(b"a", 60)


# Another seller


def test_a_sweep_leaves_another_sellers_rows_alone(open_one: Open, clock: Clock) -> None:
    one, other = open_one(seller="one"), open_one(seller="other")
    one.schedule_retry(decided(one))
    clock.now += 600
    assert other.lease_next() is None
    entry = one.lease_next()
    assert entry is not None
    assert not entry.foreign
    one.schedule_retry(entry.lease)
    clock.now += TERMS.adoption_delay + 600
    entry = other.lease_next()  # perhaps the API key was changed
    assert entry is not None
    assert entry.foreign
    other.postpone(entry.lease)
    clock.now += 600
    assert other.lease_next() is None
    assert one.claim("proof", HERE) is not None
    clock.now += TERMS.adoption_delay
    assert owed(other.claim("proof", HERE)).foreign


def test_rows_of_another_seller_do_not_hide_ones_own(open_one: Open, clock: Clock) -> None:
    one, other = open_one(seller="one"), open_one(seller="other")
    for number in range(80):
        other.record_pending(fresh(other.claim(f"their proof {number}", HERE)), f"txn their {number}", ACR)
    one.record_pending(fresh(one.claim("proof", HERE)), TXN, ACR)
    clock.now += 60
    entry = one.lease_next()
    assert entry is not None
    assert entry.transaction_id == TXN
    assert one.lease_next() is None


def test_silent_work_of_another_seller_is_left_alone_too(open_one: Open, clock: Clock) -> None:
    one, other = open_one(seller="one"), open_one(seller="other")
    started(other)
    clock.now += SILENCE
    assert one.lease_next() is None
    assert open_one(seller="other").lease_next() is not None


# Other keys


def test_rows_under_an_unknown_key_are_noticed(open_one: Open) -> None:
    """A worker without the newest key would ask for a payment that others have taken."""
    old, new, both = open_one(), open_one(keys=[OTHER_KEY, KEY]), open_one(keys=[KEY, OTHER_KEY])
    assert not old.has_unknown_keys()
    started(old)
    assert not new.has_unknown_keys()
    started(new, "another", OTHER_TXN)
    assert old.has_unknown_keys()
    assert not both.has_unknown_keys()
    assert isinstance(old.claim("another", HERE), Claimed)  # it does not see the row


def test_what_each_key_is_needed_for(open_one: Open, clock: Clock) -> None:
    old, new = open_one(), open_one(keys=[OTHER_KEY])
    assert old.usage_of_keys() == []
    started(old)
    old.claim("second", HERE)
    started(new, "another", OTHER_TXN)
    clock.now += 1
    new.claim("third", HERE)
    usage = {
        used.key_id: (used.rows, used.owed, used.last_expiry, known) for used, known in old.usage_of_keys()
    }
    [mine], [theirs] = old._keyring.key_ids, new._keyring.key_ids
    lease = 2 * TERMS.claim_lease
    assert usage == {mine: (2, 1, clock.now - 1 + lease, True), theirs: (2, 1, clock.now + lease, False)}


def test_a_row_that_a_sweep_cannot_decrypt_is_left_to_its_payer(open_one: Open, clock: Clock) -> None:
    """The sweep put its lease off, and the payer was told "in progress" by everybody else."""
    mine, stale = open_one(), open_one(keys=[OTHER_KEY])
    decided(mine)
    clock.now += SILENCE
    with pytest.raises(JournalUnreadable, match=f"^{TXN}: .*not among this journal's"):
        stale.lease_next()
    assert stale.lease_next() is None  # put off, for the sweep
    [held] = stale.list_holds(10)
    assert (held.transaction_id, held.readable) == (TXN, False)
    assert stale.get_hold(TXN) == held
    assert owed(mine.claim("proof", HERE)).outcome == GOOD
    [held] = mine.list_holds(10)
    assert held.readable


# Other addresses


def test_rows_are_moved_to_another_namespace(open_one: Open) -> None:
    old, new = open_one(namespace="test https://old"), open_one(namespace="test https://new")
    assert old.schedule_retry(decided(old))
    lease = started(old, "settled", OTHER_TXN)
    large = GOOD.__class__(GOOD.result.__class__(200, (), b"x" * 100_000), (), 1)
    assert old.record_outcome(lease, large)
    assert old.record_settlement(lease, "cGFpZA==", RECEIPT, True) is SettlementWrite.FIRST
    started(new, "here already", "txn here")
    there = next(name for name in new.namespaces() if "https://old" in name)
    assert new.namespaces()[there] == 1
    assert new.move(there) == 2
    assert there not in new.namespaces()
    assert new.move(there) == 0
    assert owed(new.claim("proof", HERE)).outcome == GOOD
    assert new.claim("settled", HERE) == Replayable(large.result, "cGFpZA==", OTHER_TXN)
    assert isinstance(old.claim("proof", HERE), Claimed)


def test_a_proof_known_in_both_namespaces_is_not_moved(open_one: Open) -> None:
    old, new = open_one(namespace="test https://old"), open_one(namespace="test https://new")
    started(old)
    started(old, "twin", OTHER_TXN)
    started(new, "proof", "txn of its own")
    started(new, "encoded anew", OTHER_TXN)
    there = next(name for name in new.namespaces() if "https://old" in name)
    assert new.move(there) == 0
    assert old.claim("proof", HERE) == InProgress()
    assert new.claim("proof", HERE) == InProgress()


# A full journal


def test_a_full_journal_refuses_without_measuring_again(
    open_one: Open, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each refused claim counted all rows, and all others waited for that."""
    journal = open_one(max_rows=1)
    lease = fresh(journal.claim("proof", HERE))
    looks: list[str] = []
    for name in ("measure", "purge"):
        monkeypatch.setattr(journal._store, name, _counted(getattr(journal._store, name), name, looks))
    for _ in range(100):
        with pytest.raises(JournalFull):
            journal.claim("another", HERE)
    assert looks == ["purge", "measure"]
    assert journal.abandon_claim(lease)
    fresh(journal.claim("another", HERE))
    others = open_one(max_rows=1)
    with pytest.raises(JournalFull):
        others.claim("third", HERE)
    clock.now += 2 * TERMS.claim_lease + 1  # what was abandoned expires
    fresh(others.claim("third", HERE))

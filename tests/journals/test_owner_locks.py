"""A process that died has no leases left; one that lives keeps them. With real processes that are killed."""

import os
import signal
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from faregate.core.claims import InProgress, PendingPayment, Resumable
from faregate.journals import file_locks, session_locks
from faregate.journals.owner_locks import has_lock
from faregate.journals.persistent import PersistentJournal
from faregate.journals.policy import JournalPolicy
from tests.core.flow_script import TXN
from tests.journals.rows import HERE, fresh
from tests.journals.stores import STORED, Clock, disconnect, find_class
from tests.support.preloaded import PreloadedPython
from tests.support.products import spread

NOW = 1000.0
LOCKED = ("sqlite", "postgres", "django", "django-postgres")
SILENT = JournalPolicy(renew_every=3600.0)
"""The thread keeps the lock, and renews nothing: what is known of a process is known from its lock."""

OWNER = """
import os, signal, sys, time
from pathlib import Path
from faregate.journals.policy import JournalPolicy
from tests.core.flow_script import ACR, TXN
from tests.journals.stores import STORED, Clock
from tests.journals.rows import GOOD, HERE, WORK_SECONDS
kind, place, now, options = sys.argv[1], Path(sys.argv[2]), float(sys.argv[3]), eval(sys.argv[4])
journal = STORED[kind](place, Clock(now), policy=JournalPolicy(renew_every=3600.0), **options)
lease = journal.claim("proof", HERE).lease
assert journal.record_transaction(lease, TXN, ACR, WORK_SECONDS)
"""
WAIT = """
print("working", flush=True)
time.sleep(60)
"""


class Owner:
    """A process that works for `proof`, and has its lease."""

    def __init__(self, kind: str, place: Path, code: str = WAIT, **options: Any) -> None:
        disconnect(STORED[kind](place, Clock()))  # this process starts the server, or migrates
        self.process = PreloadedPython(["-c", OWNER + code, kind, str(place), str(NOW), repr(options)])
        self.said = self.process.stdout.readline().strip()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            stream.close()


Start = Callable[..., Owner]


@pytest.fixture
def start(tmp_path: Path) -> Generator[Start]:
    made: list[Owner] = []

    def start(kind: str, code: str = WAIT, **options: Any) -> Owner:
        made.append(Owner(kind, tmp_path, code, **options))
        return made[-1]

    yield start
    for owner in made:
        owner.kill()


@pytest.fixture
def clock() -> Clock:
    return Clock(NOW + 1)


@pytest.fixture
def open_one(tmp_path: Path, clock: Clock) -> Generator[Callable[..., PersistentJournal]]:
    made: list[PersistentJournal] = []

    def open_one(kind: str, **options: Any) -> PersistentJournal:
        made.append(STORED[kind](tmp_path, clock, policy=SILENT, **options))
        return made[-1]

    yield open_one
    for journal in made:
        journal.disconnect()


Open = Callable[..., PersistentJournal]
each_store = pytest.mark.parametrize("kind", spread("kind", LOCKED, find_class))


def take(journal: PersistentJournal, seconds: float = 1.0) -> PendingPayment:
    """What the returning payer takes, within a second."""
    end = time.monotonic() + seconds
    while isinstance(claim := journal.claim("proof", HERE), InProgress):
        assert time.monotonic() < end, "the row of a dead process is still leased"
        time.sleep(0.02)
    assert isinstance(claim, Resumable)
    return claim.entry


@each_store
def test_the_payer_of_a_killed_process_is_served_within_a_second(
    kind: str, start: Start, open_one: Open
) -> None:
    owner, journal = start(kind), open_one(kind)
    assert journal.claim("proof", HERE) == InProgress()
    owner.kill()
    assert take(journal).transaction_id == TXN


@each_store
def test_a_sweep_takes_over_from_a_killed_process_at_once(kind: str, start: Start, open_one: Open) -> None:
    owner, journal = start(kind), open_one(kind)
    assert journal.lease_next() is None
    owner.kill()
    time.sleep(0.2)
    taken = journal.lease_next()
    assert taken is not None
    assert taken.transaction_id == TXN


@each_store
def test_a_stopped_process_keeps_its_lease_until_it_ends(
    kind: str, start: Start, open_one: Open, clock: Clock
) -> None:
    owner, journal = start(kind), open_one(kind)
    os.kill(owner.process.pid, signal.SIGSTOP)
    clock.now += SILENT.owner_lease + 1
    assert journal.claim("proof", HERE) == InProgress()
    assert journal.lease_next() is None
    os.kill(owner.process.pid, signal.SIGCONT)
    clock.now += 3600.0  # the upper bound
    assert journal.lease_next() is not None


FORKED = """
import multiprocessing
child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
child.start()
print(child.pid, flush=True)
time.sleep(60)
"""


@each_store
def test_a_child_does_not_keep_the_lock_of_its_parent(kind: str, start: Start, open_one: Open) -> None:
    owner, journal = start(kind, FORKED), open_one(kind)
    child = int(owner.said)
    try:
        owner.kill()
        os.kill(child, 0)
        take(journal)
    finally:
        os.kill(child, signal.SIGKILL)


CHILD_ENDS = """
if (child := os.fork()) == 0:
    sys.exit()
os.waitpid(child, 0)
"""
CHILD_SELLS = """
if (child := os.fork()) == 0:
    journal.claim("another", HERE)
    journal.disconnect()
    sys.exit()
os.waitpid(child, 0)
"""


@pytest.mark.parametrize("code", [CHILD_ENDS, CHILD_SELLS])
@each_store
def test_a_child_that_ends_takes_no_lock_from_its_parent(
    kind: str, code: str, start: Start, open_one: Open, clock: Clock
) -> None:
    if kind.startswith("django") and code == CHILD_SELLS:
        code = code.replace("os.fork()", "(disconnect(journal), os.fork())[1]").replace(
            "if ", "from tests.journals.stores import disconnect\nif ", 1
        )
    start(kind, code + WAIT)
    journal = open_one(kind)
    clock.now += SILENT.owner_lease
    assert journal.claim("proof", HERE) == InProgress()


@each_store
def test_two_journals_of_one_process(kind: str, open_one: Open, clock: Clock) -> None:
    mine, theirs = open_one(kind), open_one(kind)
    fresh(mine.claim("proof", HERE))
    assert has_lock(mine._heartbeat.owner)
    clock.now += SILENT.owner_lease
    assert theirs.claim("proof", HERE) == InProgress()
    assert mine.claim("proof", HERE) == InProgress()
    assert mine._heartbeat._owner_lock is not None
    mine._heartbeat._owner_lock.release()  # as at the end of its process
    fresh(theirs.claim("proof", HERE))


# Where the lock tells nothing


def assert_times_decide(journal: PersistentJournal, clock: Clock) -> None:
    assert journal.claim("proof", HERE) == InProgress()
    clock.now = NOW + SILENT.owner_lease - 0.01
    assert journal.lease_next() is None
    clock.now = NOW + SILENT.owner_lease
    assert journal.lease_next() is not None


def test_a_lock_file_that_was_removed(start: Start, open_one: Open, clock: Clock, tmp_path: Path) -> None:
    start("sqlite")
    journal = open_one("sqlite")
    (tmp_path / "journal.db-owners").unlink()
    journal.claim("another", HERE)  # creates it again
    assert (tmp_path / "journal.db-owners").exists()
    assert_times_decide(journal, clock)


def test_a_lock_file_that_was_removed_is_taken_anew(open_one: Open, clock: Clock, tmp_path: Path) -> None:
    mine, theirs = open_one("sqlite"), open_one("sqlite")
    fresh(mine.claim("proof", HERE))
    before, lock = mine._heartbeat.owner, mine._heartbeat._owner_lock
    (tmp_path / "journal.db-owners").unlink()
    assert lock is not None
    lock.keep(0)
    assert mine._heartbeat.renew_all()
    assert mine._heartbeat.owner == lock.owner != before
    assert mine._heartbeat.is_owner(before)
    fresh(mine.claim("another", HERE))
    clock.now += SILENT.owner_lease
    assert theirs.claim("another", HERE) == InProgress()
    assert theirs._store.owner_until(before) > NOW


@pytest.mark.parametrize("error", [PermissionError, OSError])
def test_a_folder_that_cannot_be_written(
    error: type[OSError], open_one: Open, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Any, *rest: Any) -> int:
        raise error("refused")

    mine, theirs = open_one("sqlite"), open_one("sqlite")
    theirs.list_holds(1)  # creates the journal
    monkeypatch.setattr(file_locks, "_open", refuse)
    clock.now = NOW
    fresh(mine.claim("proof", HERE))
    assert not has_lock(mine._heartbeat.owner)
    assert theirs.claim("proof", HERE) == InProgress()
    clock.now += SILENT.owner_lease
    fresh(theirs.claim("proof", HERE))


def test_another_kernel(start: Start, open_one: Open, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is on a network: a lock there may be nobody's business here."""
    start("sqlite").kill()
    monkeypatch.setattr(file_locks, "_get_boot_id", lambda: "another")
    assert_times_decide(open_one("sqlite"), clock)


def test_a_system_without_such_locks(
    open_one: Open, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_locks, "fcntl", None)
    mine, theirs = open_one("sqlite"), open_one("sqlite")
    clock.now = NOW
    fresh(mine.claim("proof", HERE))
    assert theirs.claim("proof", HERE) == InProgress()
    clock.now += SILENT.owner_lease
    fresh(theirs.claim("proof", HERE))


def test_a_lock_that_a_closed_descriptor_dropped_is_taken_again(open_one: Open, tmp_path: Path) -> None:
    journal = open_one("sqlite")
    fresh(journal.claim("proof", HERE))
    os.close(os.open(tmp_path / "journal.db-owners", os.O_RDONLY))
    before, lock = journal._heartbeat.owner, journal._heartbeat._owner_lock
    assert lock is not None
    lock.keep(0)
    assert lock.owner == before
    looked = PreloadedPython(["-c", LOOK, str(tmp_path / "journal.db"), before])
    output, _ = looked.communicate(timeout=30)
    assert output.strip() == "True"


LOOK = """
import sys
from faregate.journals.file_locks import FileLocks
print(FileLocks(sys.argv[1]).judge([sys.argv[2]])[sys.argv[2]])
"""


def test_no_descriptor_is_left_open(tmp_path: Path, clock: Clock) -> None:
    before = len(file_locks._files)
    for number in range(5):
        (tmp_path / str(number)).mkdir()
        lock = file_locks.FileLocks(tmp_path / str(number) / "journal.db").take()
        assert lock is None  # no journal there
        (tmp_path / str(number) / "journal.db").touch()
        lock = file_locks.FileLocks(tmp_path / str(number) / "journal.db").take()
        assert lock is not None
        lock.release()
    file_locks._close_unused()
    assert len(file_locks._files) <= before


# A row without an owner


@pytest.mark.parametrize("kind", spread("kind", tuple(STORED), find_class))
def test_a_clock_that_was_set_back_locks_nobody_out(kind: str, tmp_path: Path, clock: Clock) -> None:
    """Held, and so without an owner: its times lie in the future."""
    journal = STORED[kind](tmp_path, clock, policy=JournalPolicy(renew_every=float("inf")))
    lease = fresh(journal.claim("proof", HERE))
    journal.record_pending(lease, TXN, "acr_1")
    clock.now -= 86_400.0
    assert isinstance(claim := journal.claim("proof", HERE), Resumable)
    assert journal.abandon_claim(claim.entry.lease)
    journal.disconnect()

"""A process that died has no leases left; one that lives keeps them. With real processes that are killed."""

import os
import signal
import socket
import time
from collections.abc import Callable, Generator
from functools import partial
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import pytest

from faregate.core.claim_types import Claim, InProgress, PendingPayment, Recoverable
from faregate.errors import JournalError
from faregate.journals import file_locks, session_locks
from faregate.journals.durations import JournalPolicy
from faregate.journals.owner_locks import has_lock
from faregate.journals.persistent import PersistentJournal
from faregate.journals.postgres import PostgresJournal
from tests.core.flow_script import TXN
from tests.journals.postgres_schema import asked
from tests.journals.rows import HERE, fresh, owed, started
from tests.journals.stores import KEY, STORED, Clock, disconnect, find_class
from tests.servers.network import Network, lossy_network
from tests.servers.shared import shared
from tests.support.preloaded import PreloadedPython
from tests.support.products import spread
from tests.support.waiting import eventually

NOW = 1000.0
LOCKED = ("sqlite", "postgres", "django", "django-postgres")
SILENT = JournalPolicy(renew_every=3600.0)
"""The thread keeps the lock, and renews nothing: what is known of a process is known from its lock."""

OWNER = """
import os, signal, sys, time
from pathlib import Path
from faregate.journals.durations import JournalPolicy
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


@pytest.fixture(autouse=True)
def _no_test_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Django takes no locks in its test environment, which another test may have set up."""
    monkeypatch.delattr("django.core.mail.outbox", raising=False)


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
    assert isinstance(claim, Recoverable)
    return claim.payment


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
def test_an_operator_sees_that_the_work_of_a_killed_process_is_due(
    kind: str, start: Start, open_one: Open, clock: Clock
) -> None:
    owner, journal = start(kind), open_one(kind)

    def list_due() -> list[bool]:
        """The command reads its clock before it opens the journal."""
        now = clock.now
        clock.now += 0.1
        with journal.read_namespace(journal._store.namespace) as reader:
            return [hold.due_at <= now for hold in reader.list_holds(10)]

    assert list_due() == [False]
    owner.kill()
    time.sleep(0.2)
    assert list_due() == [True]


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
    assert mine._heartbeat.owner_lock is not None
    mine._heartbeat.owner_lock.release()  # as at the end of its process
    claims = list[Claim]()

    def is_taken_over() -> bool:
        claims.append(theirs.claim("proof", HERE))
        return claims[-1] != InProgress()

    assert eventually(is_taken_over)  # PostgreSQL ends a session some time after its connection was closed
    fresh(claims[-1])


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
    before, lock = mine._heartbeat.owner, mine._heartbeat.owner_lock
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


def test_a_system_without_such_locks(open_one: Open, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
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
    before, lock = journal._heartbeat.owner, journal._heartbeat.owner_lock
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
    """The lease was given back at a time that lies in the future now."""
    journal = STORED[kind](tmp_path, clock, policy=JournalPolicy(renew_every=float("inf")))
    journal.record_pending(fresh(journal.claim("proof", HERE)), TXN, "acr_1")
    journal.abandon_claim(owed(journal.claim("proof", HERE)).lease)
    clock.now += 3600.0
    journal.abandon_claim(fresh(journal.claim("proof", HERE)))
    clock.now -= 1800.0
    journal.abandon_claim(fresh(journal.claim("proof", HERE)))
    clock.now -= 900.0
    taken = journal.lease_next()
    assert taken is not None
    assert taken.transaction_id == TXN
    journal.disconnect()


# PostgreSQL: what ends a session, and what stands between


@pytest.fixture
def network() -> Generator[Network]:
    with lossy_network(urlsplit(shared("postgres")).port or 0) as network:
        yield network


def test_a_process_that_is_cut_off_lives_as_long_as_its_renewals_say(
    network: Network, open_one: Open, clock: Clock, tmp_path: Path
) -> None:
    """Behind a proxy, the end of a connection says nothing of the process."""
    parts = urlsplit(shared("postgres"))
    distant = parts._replace(netloc=parts.netloc.replace(f":{parts.port}", f":{network.port}")).geturl()
    options: Any = {"keys": [KEY], "namespace": f"test {tmp_path}", "policy": SILENT}
    owner, journal = PostgresJournal(distant, clock=Clock(NOW), **options), open_one("postgres")
    fresh(owner.claim("proof", HERE))
    assert not has_lock(owner._heartbeat.owner)
    network.close()
    assert journal.claim("proof", HERE) == InProgress()
    clock.now = NOW + SILENT.owner_lease
    fresh(journal.claim("proof", HERE))
    owner.disconnect()


each_postgres = pytest.mark.parametrize("kind", spread("kind", ("postgres", "django-postgres"), find_class))


def end_session(pid: int) -> None:
    """As an operator or a crash of the server does."""
    [(gone,)] = asked(shared("postgres"), "SELECT pg_terminate_backend(%s)", pid)
    assert gone


def has_another_session(lock: Any, pid: int) -> bool:
    return lock._session is not None and lock._session.backend_pid != pid


@each_postgres
def test_a_process_takes_a_lost_lock_again_at_once(kind: str, open_one: Open, clock: Clock) -> None:
    mine, theirs = open_one(kind), open_one(kind)
    fresh(mine.claim("proof", HERE))
    before, lock = mine._heartbeat.owner, cast(Any, mine._heartbeat.owner_lock)
    clock.now += SILENT.owner_lease
    for _ in range(3):
        end_session(pid := lock._session.backend_pid)
        assert theirs.claim("proof", HERE) == InProgress()
        assert eventually(partial(has_another_session, lock, pid))
        assert theirs.claim("proof", HERE) == InProgress()
    assert mine._heartbeat.owner == before


def test_a_server_that_restarted_knows_no_deaths_of_before(
    open_one: Open, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, theirs = open_one("postgres"), open_one("postgres")
    clock.now = NOW
    started(mine)
    before, lock = mine._heartbeat.owner, mine._heartbeat.owner_lock
    assert lock is not None
    cast(Any, lock)._session.close()  # all locks are gone
    monkeypatch.setattr(session_locks, "_name_place", lambda started: "restarted")
    assert_times_decide(theirs, clock)
    lock.keep(0.1)
    assert mine._heartbeat.renew_all()
    fresh(mine.claim("another", HERE))
    assert has_lock(mine._heartbeat.owner)
    assert mine._heartbeat.owner != before
    clock.now += SILENT.owner_lease
    assert theirs.claim("another", HERE) == InProgress()


class FakeSession:
    """A session of PostgreSQL, or of what stands before it."""

    def __init__(self, **answers: Any) -> None:
        self._ends = socket.socketpair() if "unix" in answers else _connect()
        self.backend_pid = 7
        own = self._ends[0].getsockname() or (None, None)
        self.address, self.port = answers.get("address", own[0]), answers.get("port", own[1])
        self.pid = answers.get("pid", 7)
        self.locked, self.shown = answers.get("locked", True), answers.get("shown", 1)
        self.limits = answers.get("limits", ("2", "1", "3", "0"))
        self.is_closed = False
        self.fileno = self._ends[0].fileno

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        if "pg_backend_pid(), " in statement:
            return [(self.pid, self.address, self.port, 150_000, 1)]
        if "set_config" in statement:
            return [self.limits]
        return [(self.locked,)] if "pg_try" in statement else [(self.shown,)]

    def close(self) -> None:
        self.is_closed = True
        for end in self._ends:
            end.close()


def _connect() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return socket.create_connection(listener.getsockname()), listener.accept()[0]


UNIX = {"unix": True, "address": None, "port": None, "limits": ("0",)}


@pytest.mark.parametrize("answers", [{}, UNIX])
def test_a_direct_session_is_trusted(answers: dict[str, Any]) -> None:
    session = FakeSession(**answers)
    lock = session_locks.SessionLocks(lambda: session, session.query).take()
    assert lock is not None
    lock.release()
    assert session.is_closed


@pytest.mark.parametrize(
    "answers",
    [
        {"pid": 8},
        {**UNIX, "pid": 8},
        {"port": 1},
        {"address": "192.0.2.1"},
        {"address": None, "port": None},
        {"unix": True, "address": "127.0.0.1", "port": 1},
        {"limits": ("0", "0", "0", "0")},
        {"locked": False},
        {"shown": 0},
    ],
    ids=["pooler", "pooler on a unix socket", "proxy", "address translation", "socket behind a proxy",
         "proxy on a unix socket", "no limit of silence", "taken", "no locks at all"],
)  # fmt: skip
def test_a_session_that_is_not_direct_is_not_trusted(answers: dict[str, Any]) -> None:
    session = FakeSession(**answers)
    assert session_locks.SessionLocks(lambda: session, session.query).take() is None
    assert session.is_closed


def test_a_server_without_a_free_connection_still_sells(clock: Clock) -> None:
    def refuse() -> Any:
        raise JournalError("too many connections")

    assert session_locks.SessionLocks(refuse, lambda statement: []).take() is None

"""Many threads write in one transaction: each gets its own answer, and nobody one that is not true."""

import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Generator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from faregate.core.claim_types import SettlementWrite
from faregate.errors import JournalError
from faregate.journals import writer
from faregate.journals.sqlite.batch import Change
from faregate.journals.sqlite.database import SqliteDatabase
from faregate.journals.store import TransactionTaken
from tests.core.flow_script import ACR, RECEIPT, TXN
from tests.journals.failing_disk import with_failing_disk
from tests.journals.rows import GOOD, HERE, WORK_SECONDS, fresh
from tests.journals.stores import Clock, sqlite
from tests.support.threads import join_threads, run_in_threads, start_threads

Act = Callable[[sqlite3.Connection], Any]


@pytest.fixture(params=["call", "perform"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads hand over to the thread of the writer, or write for each other."""
    monkeypatch.setattr(Writing, "way", request.param)


@pytest.fixture
def file(tmp_path: Path) -> Generator[SqliteDatabase]:
    made = opened(tmp_path, 20)
    yield made
    made.disconnect()


def opened(place: Path, timeout: float) -> SqliteDatabase:
    file = SqliteDatabase(place / "journal.db", timeout)
    file.write(lambda connection: connection.execute("CREATE TABLE notes (note INTEGER UNIQUE)"))
    return file


def note(number: int) -> Act:
    def act(connection: sqlite3.Connection) -> int:
        connection.execute("INSERT INTO notes VALUES (?)", (number,))
        return number

    return act


def notes(file: SqliteDatabase) -> list[int]:
    found = file.read(
        lambda connection: connection.execute("SELECT note FROM notes ORDER BY note").fetchall()
    )
    return [number for (number,) in found]


class Writing(threading.Thread):
    """A thread that writes once, and what came of it. It is not started."""

    way = "call"

    def __init__(self, file: SqliteDatabase, act: Act, durable: bool = True) -> None:
        super().__init__(daemon=True)
        self.file = file
        self.act = act
        self.durable = durable
        self.answer: Any = None
        self.error: BaseException | None = None
        self.on_failing_disk = False

    def run(self) -> None:
        alone(with_failing_disk(self.write)) if self.on_failing_disk else self.write()

    def write(self) -> None:
        try:
            self.answer = getattr(self.file.writer, self.way)(Change(self.act, self.durable))
        except BaseException as error:
            self.error = error

    def over(self) -> "Writing":
        self.join(30)
        assert not self.is_alive()
        return self


class Slow:
    """An act that lasts until it is let go."""

    def __init__(self, act: Act = lambda _: None) -> None:
        self.act = act
        self.began, self.let_go = threading.Event(), threading.Event()

    def __call__(self, connection: sqlite3.Connection) -> Any:
        self.began.set()
        assert self.let_go.wait(30)
        return self.act(connection)


def in_one_batch(file: SqliteDatabase, *writes: Writing, on_failing_disk: bool = False) -> None:
    """They come while another write goes on, in this order."""
    slow = Slow()
    before = Writing(file, slow, durable=False)
    if on_failing_disk:
        file.disconnect()  # the thread of the writer is started anew, by one whose disk fails
    for writing in (before, *writes) if on_failing_disk else ():
        writing.on_failing_disk = True
    before.start()
    assert slow.began.wait(30)
    for number, write in enumerate(writes, 1):
        write.start()
        wait_until(partial(waiting, file, number))
    slow.let_go.set()
    if on_failing_disk:
        for write in writes:
            write.join(30)
        file.disconnect()
    else:
        before.over()
    assert before.error is None


def on_failing_disk(file: SqliteDatabase, act: Callable[[], Any]) -> None:
    def run() -> None:
        file.disconnect()
        act()
        file.disconnect()

    alone(with_failing_disk(run))


def alone(thread: threading.Thread) -> None:
    thread.start()
    thread.join()


def waiting(file: SqliteDatabase, many: int) -> bool:
    return file.writer._queue.qsize() + len(file.writer._turn.waiting) == many


def wait_until(it_is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not it_is_so():
        assert time.monotonic() < end
        time.sleep(0.001)


def find_writer(file: SqliteDatabase) -> str:
    """Write, and return the name of the thread that did."""
    return str(file.write(lambda _: threading.current_thread().name))


def find_writer_for_thread(file: SqliteDatabase) -> str:
    names = list[str]()
    alone(threading.Thread(target=lambda: names.append(find_writer(file)), name="caller"))
    [name] = names
    return name


def test_a_lone_thread_writes_itself_and_the_main_thread_lets_the_writer(file: SqliteDatabase) -> None:
    """A signal handler raises in the main thread only, maybe in the middle of a write."""
    assert find_writer_for_thread(file) == "caller"
    assert find_writer(file) == "faregate journal"
    interruptible = Change(lambda _: threading.current_thread().name)
    assert file.call(interruptible, may_be_interrupted=True) == threading.main_thread().name


def is_waiting(file: SqliteDatabase, many: int) -> bool:
    return len(file.writer._turn.waiting) == many


def test_of_threads_that_write_at_the_same_time_one_writes_for_all(file: SqliteDatabase) -> None:
    statements, names, slow = list[str](), list[str](), Slow()
    file.write(lambda connection: connection.set_trace_callback(statements.append))

    def write(act: Act) -> None:
        def write_and_name(connection: sqlite3.Connection) -> str:
            act(connection)
            return threading.current_thread().name

        names.append(file.write(write_and_name))

    threads = [threading.Thread(target=write, args=[slow])]
    threads += [threading.Thread(target=write, args=[note(number)]) for number in range(5)]
    threads[0].start()
    assert slow.began.wait(30)
    for number, thread in enumerate(threads[1:], 1):
        thread.start()
        wait_until(partial(is_waiting, file, number))
    slow.let_go.set()
    for thread in threads:
        thread.join(30)
    assert names[0] == threads[0].name
    assert len({*names[1:]}) == 1
    assert notes(file) == list(range(5))
    assert statements.count("COMMIT") == 3  # of who asked for this, the slow one's, and theirs


def test_the_main_thread_writes_for_no_other(file: SqliteDatabase) -> None:
    """What a signal handler raises there ends its own write only."""
    names, slow = list[str](), Slow()
    name = Change(lambda _: threading.current_thread().name)
    threads = [threading.Thread(target=file.write, args=[slow])]
    threads.append(threading.Thread(target=lambda: names.append(file.call(name))))
    threads[0].start()
    assert slow.began.wait(30)
    letting_go = threading.Timer(0.2, slow.let_go.set)
    letting_go.start()
    task = writer.Task(name)
    task.notify = lambda: names.append(task.result)
    file.writer._turn.waiting.append(task)
    assert file.call(name, may_be_interrupted=True) == threading.main_thread().name
    assert names == []
    threads[1].start()
    for thread in (*threads, letting_go):
        thread.join(30)
    assert names == [threads[1].name] * 2


def test_two_hundred_threads_share_one_commit_and_each_gets_its_own_answer(file: SqliteDatabase) -> None:
    said: list[str] = []
    file.write(lambda connection: connection.set_trace_callback(said.append))
    writes = [Writing(file, note(number)) for number in range(200)]
    in_one_batch(file, *writes)
    assert [write.over().answer for write in writes] == list(range(200))
    assert notes(file) == list(range(200))
    assert said.count("COMMIT") == 3  # of who asked for this, of who kept them waiting, and theirs


def test_a_write_is_visible_as_soon_as_it_returns(file: SqliteDatabase) -> None:
    missed: list[int] = []

    def write_and_look(first: int) -> None:
        for number in range(first, first + 50):
            file.write(note(number), durable=False)
            if number not in notes(file):
                missed.append(number)

    run_in_threads(*(partial(write_and_look, 1000 * number) for number in range(8)))
    assert (missed, len(notes(file))) == ([], 400)


def test_readers_do_not_wait_for_writers(file: SqliteDatabase) -> None:
    slow = Slow(note(1))
    write = Writing(file, slow)
    write.start()
    assert slow.began.wait(30)
    assert notes(file) == []
    slow.let_go.set()
    assert write.over().error is None
    assert notes(file) == [1]


# What goes wrong with one


def test_a_refused_write_does_not_affect_others_in_its_batch(file: SqliteDatabase) -> None:
    file.write(note(0))

    def half(then: int) -> Act:
        def act(connection: sqlite3.Connection) -> None:
            note(100 + then)(connection)
            note(0)(connection)

        return act

    def mistaken(connection: sqlite3.Connection) -> None:
        note(200)(connection)
        raise LookupError

    writes = [Writing(file, act) for act in (half(1), note(1), mistaken, note(2), half(2))]
    in_one_batch(file, *writes)
    assert [type(write.over().error) for write in writes] == [
        TransactionTaken,
        type(None),
        LookupError,
        type(None),
        TransactionTaken,
    ]
    assert notes(file) == [0, 1, 2]


def test_a_refused_write_alone_leaves_nothing_behind(file: SqliteDatabase) -> None:
    def act(connection: sqlite3.Connection) -> None:
        note(1)(connection)
        note(1)(connection)

    with pytest.raises(TransactionTaken):
        file.write(act)
    assert notes(file) == []


# What goes wrong for all


def test_a_failed_sync_is_an_error_for_the_whole_batch(file: SqliteDatabase) -> None:
    """All or none of it may be there later: what was not synced need not be lost either."""
    writes = [Writing(file, note(number), durable=number > 2) for number in range(6)]
    in_one_batch(file, *writes, on_failing_disk=True)
    errors = [write.over().error for write in writes]
    assert [f"the disk of the journal {file.path} failed" in str(error) for error in errors] == [True] * 6
    assert len(set(map(id, errors))) == 6
    found = notes(file)
    assert found in ([], list(range(6)))
    assert file.write(note(6)) == 6
    assert notes(file) == [*found, 6]


def test_a_log_that_may_have_a_hole_is_not_added_to(file: SqliteDatabase, tmp_path: Path) -> None:
    """What was not synced when a sync failed need never be; and what comes after a hole is lost with it."""
    log = tmp_path / "journal.db-wal"
    file.write(lambda connection: connection.execute("CREATE TABLE bulk AS SELECT zeroblob(100000)"))
    file.write(note(1), durable=False)
    before = log.stat().st_size

    on_failing_disk(file, lambda: refusal(file, note(2)))
    assert log.stat().st_size > before
    file.write(note(3))
    assert log.stat().st_size < before
    assert notes(file) in ([1, 3], [1, 2, 3])


def test_a_full_disk_is_an_error_for_the_whole_batch(file: SqliteDatabase) -> None:
    file.write(lambda connection: connection.execute("PRAGMA max_page_count = 20").fetchone())
    large: Act = lambda connection: connection.execute("INSERT INTO notes VALUES (zeroblob(1000000))")  # noqa: E731
    writes = [Writing(file, act) for act in (note(1), large, note(2))]
    in_one_batch(file, *writes)
    assert ["no room on the disk" in str(write.over().error) for write in writes] == [True] * 3
    assert notes(file) == []
    file.write(note(3))
    assert notes(file) == [3]


def test_a_file_locked_by_another_program_is_an_error_for_each_writer_and_works_later(tmp_path: Path) -> None:
    file = opened(tmp_path, 0.3)
    other = sqlite3.connect(tmp_path / "journal.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    writes = [Writing(file, note(number)) for number in range(8)]
    for write in writes:
        write.start()
    assert {str(write.over().error) for write in writes} == {
        f"the journal {file.path} was locked by another writer for too long: a process hangs, or "
        "the disk is on another machine"
    }
    other.close()
    assert notes(file) == []
    assert file.write(note(9)) == 9
    file.disconnect()


# Signals


class Interrupted(Exception):
    pass


def interrupt(*_: object) -> None:
    raise Interrupted


@pytest.mark.parametrize("begun", [True, False])
def test_a_signal_ends_the_wait_but_not_a_write_that_has_begun(file: SqliteDatabase, begun: bool) -> None:
    slow = Slow(note(1) if begun else note(0))
    other = Writing(file, slow)
    if not begun:
        other.start()
        assert slow.began.wait(30)
    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        with pytest.raises(Interrupted):
            file.write(slow if begun else note(1))
    finally:
        signal.signal(signal.SIGALRM, before)
    slow.let_go.set()
    file.write(note(2))
    assert notes(file) == ([1, 2] if begun else [0, 2])


# Patience


def test_a_write_that_timed_out_is_not_executed_later(tmp_path: Path) -> None:
    file = opened(tmp_path, 0.3)
    slow = Slow()
    before, impatient = Writing(file, slow), Writing(file, note(1))
    before.start()
    assert slow.began.wait(30)
    impatient.start()
    assert "locked by another writer" in str(impatient.over().error)
    slow.let_go.set()
    assert before.over().error is None
    file.write(note(2))
    assert notes(file) == [2]
    file.disconnect()


def test_a_writer_in_a_batch_waits_for_the_commit(tmp_path: Path) -> None:
    file = opened(tmp_path, 1.0)
    slow = Slow(note(0))
    leads, taken = Writing(file, slow), Writing(file, note(1))
    in_one_batch(file, leads, taken)
    assert slow.began.wait(30)
    taken.join(1.5)
    assert taken.is_alive()
    slow.let_go.set()
    assert taken.over().answer == 1
    assert notes(file) == [0, 1]
    file.disconnect()


def test_it_can_be_disconnected_while_threads_write(file: SqliteDatabase) -> None:
    stop = threading.Event()

    def write(first: int) -> None:
        while not stop.is_set():
            file.write(note(first), durable=False)
            first += 1

    threads = start_threads(*(partial(write, 10**6 * number) for number in range(8)))
    for _ in range(20):
        file.disconnect()
    stop.set()
    join_threads(threads)


# What is forced to the disk


@pytest.mark.parametrize("is_durable", [True, False])
def test_a_batch_is_synced_if_one_of_its_writes_is_durable(file: SqliteDatabase, is_durable: bool) -> None:
    file.write(note(0))
    another = sqlite3.connect(file.path)  # keeps the log: the head of a new one is always synced
    another.execute("SELECT * FROM notes").fetchall()
    writes = [Writing(file, note(number), durable=is_durable and number == 2) for number in (1, 2, 3)]
    in_one_batch(file, *writes, on_failing_disk=True)
    if is_durable:
        assert ["the disk of the journal" in str(write.error) for write in writes] == [True] * 3
    else:
        assert [write.answer for write in writes] == [1, 2, 3]
    another.close()


def refusal(file: SqliteDatabase, act: Act, durable: bool = True) -> str:
    with pytest.raises(JournalError) as raised:
        file.write(act, durable)
    return str(raised.value)


def test_a_paid_request_syncs_twice(tmp_path: Path) -> None:
    """A thread whose disk cannot sync gets through all that need not be."""
    journal: Any = sqlite(tmp_path, Clock())
    journal.claim("another", HERE)
    # Another process has the file open: otherwise a write that was not synced may be found when it is opened.
    another = sqlite3.connect(tmp_path / "journal.db")
    another.execute("SELECT count(*) FROM journal").fetchone()
    answers: list[Any] = []

    def unlucky(act: Callable[[], Any]) -> None:
        on_failing_disk(journal._store._database, lambda: answers.append(said(act)))

    def said(act: Callable[[], Any]) -> Any:
        try:
            return act()
        except JournalError as error:
            return str(error)

    unlucky(lambda: journal.claim("proof", HERE))
    lease = fresh(answers.pop())
    steps: list[Callable[[], Any]] = [
        lambda: journal.record_transaction(lease, TXN, ACR, WORK_SECONDS),
        lambda: journal.record_outcome(lease, GOOD),
    ]
    for step in steps:
        unlucky(step)
        assert "the disk of the journal" in answers.pop()
        assert step()
    unlucky(lambda: journal.record_settlement(lease, "cGFpZA==", RECEIPT, True))
    assert answers == [SettlementWrite.FIRST]
    another.close()
    journal.disconnect()

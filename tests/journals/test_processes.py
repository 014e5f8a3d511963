"""What several processes share, and what is left when one of them is killed."""

import os
import signal
from pathlib import Path

import pytest

from faregate.core.claim_types import InProgress, Replayable
from faregate.core.models import Response, WorkSucceeded
from tests.core.flow_script import ACR, RECEIPT, TXN
from tests.journals.processes import RACE, START, run, run_together, said
from tests.journals.rows import GOOD, HERE, LEASE, WORK_SECONDS, fresh, owed
from tests.journals.stores import STORED, Clock, disconnect, find_class
from tests.support.products import spread


@pytest.fixture(params=spread("kind", STORED, find_class))
def kind(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    disconnect(STORED[request.param](tmp_path, Clock()))  # the Django kind migrates
    return str(request.param)


KILLED = """
steps = (
    lambda: journal.claim(last, HERE).lease,
    lambda: journal.record_transaction(lease, f"txn_{last}", ACR, WORK_SECONDS),
    lambda: journal.record_outcome(lease, GOOD),
    lambda: journal.record_settlement(lease, "cGFpZA==", RECEIPT, True),
)
for number, last in enumerate(("claimed", "running", "ok", "settled"), 1):
    if (child := os.fork()) == 0:
        lease = steps[0]()
        for step in steps[1:number]:
            step()
        os.kill(os.getpid(), signal.SIGKILL)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
print("null")
"""


def test_writes_survive_their_killed_process(kind: str, tmp_path: Path) -> None:
    assert said(run(kind, tmp_path, KILLED)) is None
    clock = Clock()
    journal = STORED[kind](tmp_path, clock)
    assert journal.claim("settled", HERE) == Replayable(GOOD.result, "cGFpZA==", "txn_settled")
    for last in ("claimed", "running", "ok"):
        assert journal.claim(last, HERE) == InProgress()
    clock.now += LEASE
    fresh(journal.claim("claimed", HERE))
    for last, outcome in (("running", None), ("ok", GOOD)):
        entry = owed(journal.claim(last, HERE))
        assert (entry.transaction_id, entry.outcome) == (f"txn_{last}", outcome)
    disconnect(journal)


def test_a_process_killed_during_a_write_has_written_nothing(tmp_path: Path) -> None:
    killed = run(
        "sqlite",
        tmp_path,
        """
journal.record_transaction(journal.claim("proof", HERE).lease, TXN, ACR, WORK_SECONDS)
def forget_all_and_die(connection):
    connection.execute("DELETE FROM journal")
    os.kill(os.getpid(), signal.SIGKILL)
journal._store._database.write(forget_all_and_die)
""",
    )
    assert said(killed, -signal.SIGKILL) is None
    journal = STORED["sqlite"](tmp_path, Clock())
    assert journal.claim("proof", HERE) == InProgress()
    disconnect(journal)


def test_one_of_sixteen_threads_wins_each_proof(kind: str, tmp_path: Path) -> None:
    assert run_together(kind, tmp_path, RACE, 4) == list(range(10))


SWEEP = f"""
{START}
taken = []
while (entry := journal.lease_next()) is not None:
    taken.append(entry.transaction_id)
print(json.dumps(taken) + "\\n", end="", flush=True)  # one write: processes share the pipe
"""


def test_two_sweeps_take_each_row_once(kind: str, tmp_path: Path) -> None:
    journal = STORED[kind](tmp_path, Clock())
    names = [f"txn_{number:03}" for number in range(20)]
    for name in names:
        journal.record_transaction(fresh(journal.claim(name, HERE)), name, ACR, WORK_SECONDS)
    disconnect(journal)
    assert run_together(kind, tmp_path, SWEEP, 2, now=1000.0 + LEASE) == names


FORKED = """
assert isinstance(journal.claim("before", HERE), Claimed)
if (child := os.fork()) == 0:
    assert [journal.claim("before", HERE) for _ in range(20)] == [InProgress()] * 20
    assert isinstance(journal.claim("child", HERE), Claimed)
    (place / "child is there").touch()
    wait_for("parent is gone")
    # Had the child's locks been its parent's, SQLite's log would be away now with what the child wrote.
    assert kind != "sqlite" or (place / "journal.db-wal").exists()
    assert isinstance(journal.claim("later", HERE), Claimed)
    sys.exit(0)  # in good order, with all that Python cleans up
assert [journal.claim("before", HERE) for _ in range(20)] == [InProgress()] * 20
assert isinstance(journal.claim("parent", HERE), Claimed)
wait_for("child is there")
journal.disconnect()
(place / "parent is gone").touch()
assert os.waitpid(child, 0)[1] == 0
proofs = ("before", "child", "parent", "later")
print(json.dumps([journal.claim(proof, HERE) == InProgress() for proof in proofs]))
"""


@pytest.mark.parametrize("kind", ["sqlite", "postgres"], indirect=True)
def test_a_journal_that_is_open_can_be_forked(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONWARNINGS", "error")
    assert said(run(kind, tmp_path, FORKED)) == [True] * 4


FORKED_WHILE_WRITING = """
def write(connection):
    (place / "writing").touch()
    time.sleep(0.3)
writer = threading.Thread(target=journal._store._database.write, args=[write])
journal.claim("before", HERE)
writer.start()
wait_for("writing")
if (child := os.fork()) == 0:
    os._exit(0 if journal.claim("before", HERE) == InProgress() else 1)
writer.join()
print(json.dumps(os.waitpid(child, 0)[1]))
"""


def test_a_fork_waits_for_the_write_of_another_thread(tmp_path: Path) -> None:
    assert said(run("sqlite", tmp_path, FORKED_WHILE_WRITING)) == 0


FORKED_UNSEEN = """
from faregate.errors import JournalError
from faregate.journals.sqlite.database import SqliteDatabase
SqliteDatabase.before_fork = lambda database: None
journal.claim("before", HERE)
if (child := os.fork()) == 0:
    try:
        journal.claim("child", HERE)
    except JournalError as error:
        os._exit(0 if "lazy-apps" in str(error) else 1)
    os._exit(2)
status = os.waitpid(child, 0)[1]
print(json.dumps([status, journal.claim("before", HERE) == InProgress()]))
"""


def test_a_connection_carried_over_an_unseen_fork_is_refused(tmp_path: Path) -> None:
    assert said(run("sqlite", tmp_path, FORKED_UNSEEN)) == [0, True]


QUEUED = """
from faregate.journals.sqlite.batch import Change
file = journal._store._database
began, let_go = threading.Event(), threading.Event()
def slow(connection):
    began.set()
    assert let_go.wait(30)
def until(count):
    while len(file.writer._turn.waiting) < count: time.sleep(0.001)
won = []
def claim(number):
    claim = journal.claim(f"proof {number}", HERE)
    won.append(isinstance(claim, Claimed))
threads = [threading.Thread(target=file.writer.call, args=[Change(slow)])]
threads[0].start()
assert began.wait(30)
for number in range(20):
    threads.append(threading.Thread(target=claim, args=[number]))
    threads[-1].start()
until(20)
"""

FORKED_WHILE_MANY_WAIT = """
threading.Timer(0.3, let_go.set).start()
if (child := os.fork()) == 0:
    os._exit(0 if isinstance(journal.claim("child", HERE), Claimed) else 1)
status = os.waitpid(child, 0)[1]
for thread in threads: thread.join()
seen = [journal.claim(proof, HERE) == InProgress() for proof in ("child", "proof 0", "proof 19")]
print(json.dumps([status, len(won), all(won), all(seen)]))
"""


def test_a_fork_waits_for_queued_writes(tmp_path: Path) -> None:
    assert said(run("sqlite", tmp_path, QUEUED + FORKED_WHILE_MANY_WAIT)) == [0, 20, True, True]


KILLED_WITH_MANY = """
def die(connection):
    os.kill(os.getpid(), signal.SIGKILL)
threading.Thread(target=file.write, args=[die]).start()
until(21)
(place / "told before").write_text(str(len(won)))
let_go.set()
time.sleep(30)
"""


def test_a_process_killed_during_a_batch_has_written_none_of_it(tmp_path: Path) -> None:
    assert said(run("sqlite", tmp_path, QUEUED + KILLED_WITH_MANY), -signal.SIGKILL) is None
    assert (tmp_path / "told before").read_text() == "0"
    journal = STORED["sqlite"](tmp_path, Clock())
    for number in range(20):
        fresh(journal.claim(f"proof {number}", HERE))
    disconnect(journal)


SIGNALS = """
import random
file = journal._store._database
file.write(lambda connection: connection.execute("CREATE TABLE notes (note INTEGER UNIQUE)"))
told, stop, hits, chance = [], threading.Event(), 0, random.Random(1)
def write(number):
    file.write(lambda connection: connection.execute("INSERT INTO notes VALUES (?)", (number,)))
    told.append(number)
def write_on(number):
    while not stop.is_set():
        write(number)
        number += 1
def interrupt(*_):
    raise KeyboardInterrupt
signal.signal(signal.SIGALRM, interrupt)
threads = [threading.Thread(target=write_on, args=[10**6 * place]) for place in (1, 2, 3)]
for thread in threads: thread.start()
number = 0
while hits < 200:
    number += 1
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.00001, 0.002))
            write(number)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        hits += 1
stop.set()
for thread in threads: thread.join()
file.write(lambda connection: None)
found = file.read(lambda connection: connection.execute("SELECT note FROM notes").fetchall())
lost = set(told) - {number for (number,) in found}
writers = {number // 10**6 for number in told}
print(json.dumps([sorted(lost), len(writers - {0}), file.writer._queue.qsize()]))
"""


def test_signals_at_any_moment_stop_only_their_own_thread(tmp_path: Path) -> None:
    assert said(run("sqlite", tmp_path, SIGNALS)) == [[], 3, 0]


def test_a_file_may_be_opened_first_by_many_at_once(tmp_path: Path) -> None:
    assert run_together("sqlite", tmp_path, RACE, 6) == list(range(10))


def test_a_result_as_large_as_may_be_sold_is_kept(kind: str, tmp_path: Path) -> None:
    journal = STORED[kind](tmp_path, Clock())
    large = WorkSucceeded(Response(200, (), os.urandom(1024) * 8 * 1024))
    lease = fresh(journal.claim("large", HERE))
    journal.record_transaction(lease, TXN, ACR, WORK_SECONDS)
    assert journal.record_outcome(lease, large)
    journal.record_settlement(lease, "cGFpZA==", RECEIPT, True)
    assert journal.claim("large", HERE) == Replayable(large.result, "cGFpZA==", TXN)
    disconnect(journal)

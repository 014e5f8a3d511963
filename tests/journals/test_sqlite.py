"""What is the SQLite file's own: where it is, what is in it, and what can go wrong with it."""

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest
from sqlalchemy import make_url

from faregate.core.claim_types import InProgress, Replayable
from faregate.core.models import Response, WorkSucceeded
from faregate.errors import ConfigurationError, JournalError, JournalUnreadable
from faregate.journals.durations import DEFAULT_POLICY
from faregate.journals.sqlite import SqliteJournal
from faregate.journals.sqlite.schema import VERSION
from faregate.journals.sqlite.store import SqliteStore
from faregate.journals.urls import JournalContext, journal_from_url
from tests.core.flow_script import ACR, RECEIPT, TXN
from tests.journals.canaries import find_leaks, write_canaries
from tests.journals.failing_disk import without_locks
from tests.journals.rows import GOOD, HERE, WORK_SECONDS, fresh, released, started
from tests.journals.sqlite_file import asked, written
from tests.journals.stores import KEY, Clock, sqlite

ROOT = Path(__file__).resolve().parents[2]
BIG = WorkSucceeded(Response(200, (), b"x" * 1_000_000))


@pytest.fixture
def journal(tmp_path: Path) -> Generator[SqliteJournal]:
    made = sqlite(tmp_path, Clock(), timeout=0.2)
    yield made
    made.disconnect()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


def test_nothing_is_opened_before_it_is_needed(journal: SqliteJournal, tmp_path: Path) -> None:
    assert not list(tmp_path.iterdir())
    assert journal.lease_next() is None
    assert {path.name for path in tmp_path.iterdir()} == {"journal.db", "journal.db-wal", "journal.db-shm"}


def test_the_file_is_private_to_its_owner(journal: SqliteJournal, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        journal.claim("proof", HERE)
    finally:
        os.umask(before)
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}


def test_the_file_uses_a_wal_and_full_fsync(journal: SqliteJournal) -> None:
    journal.claim("proof", HERE)
    assert (asked(journal, "PRAGMA journal_mode"), asked(journal, "PRAGMA fullfsync")) == ("wal", 1)


def test_the_folder_must_exist(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"make .*/nowhere first"):
        SqliteJournal(tmp_path / "nowhere" / "journal.db", keys=[KEY])


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=f"{tmp_path} is a folder: name a file in it"):
        SqliteJournal(tmp_path, keys=[KEY])


@pytest.mark.parametrize("name", ["a b.db", "100%.db", "%20.db", "a&mode=ro#b.db"])
def test_special_characters_of_urls_are_plain_in_a_path(tmp_path: Path, name: str) -> None:
    journal = open_url(f"sqlite:///{tmp_path}/{name}")
    started(journal)
    journal.disconnect()
    assert {path.name for path in tmp_path.iterdir()} <= {name, f"{name}-owners"}


def open_url(url: str) -> SqliteJournal:
    journal = journal_from_url(url, [KEY], JournalContext("test", "", DEFAULT_POLICY))
    assert isinstance(journal, SqliteJournal)
    return journal


@pytest.mark.parametrize(
    "url", ["sqlite:///shop.db", "sqlite:////{folder}/shop.db", "sqlite:///data/shop.db"]
)
def test_a_url_names_the_file_that_sqlalchemy_would_open(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service's database and the journal are named in one way: four slashes for an absolute path."""
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path)
    url = url.format(folder=str(tmp_path).removeprefix("/"))
    journal = open_url(url)
    started(journal)
    journal.disconnect()
    named = make_url(url).database
    assert named is not None
    [created] = tmp_path.rglob("shop.db")
    assert created == tmp_path / named


@pytest.fixture
def own_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to start in, with an empty folder beside it to which absolute paths lead."""
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(tmp_path / "home")
    return tmp_path


def test_a_journal_of_three_slashes_is_not_begun_anew_elsewhere(own_root: Path) -> None:
    """What was an absolute path is now a relative one: the old file has payments that are open."""
    old = own_root / "shop.db"
    journal = open_url(f"sqlite:///{old}")
    started(journal)
    journal.disconnect()
    path = str(old).removeprefix("/")
    (own_root / "home" / path).parent.mkdir(parents=True)  # also where the folder of the relative path exists
    with pytest.raises(ConfigurationError) as refused:
        open_url(f"sqlite:///{path}")
    relative = own_root / "home" / path
    assert f"that is {relative}, which does not exist, but {old} does" in str(refused.value)
    assert f"Set it to 'sqlite:///{old}' to use that journal" in str(refused.value)
    assert f"to 'sqlite:///{relative}' to begin a new one" in str(refused.value)
    assert not relative.exists()
    relative.touch()  # a relative journal that is there is the one that is meant
    assert open_url(f"sqlite:///{path}")


def test_a_relative_folder_that_does_not_exist_is_named_in_both_readings(own_root: Path) -> None:
    path = f"{str(own_root).removeprefix('/')}/new/shop.db"
    with pytest.raises(ConfigurationError) as refused:
        open_url(f"sqlite:///{path}")
    assert f"Set it to 'sqlite:////{path}' if you mean /{path}, or make" in str(refused.value)
    assert f"make {own_root}/home/{path.removesuffix('/shop.db')} first" in str(refused.value)


def test_three_slashes_in_the_root_folder_are_both_readings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """systemd starts a service in `/`."""
    monkeypatch.chdir("/")
    (tmp_path / "shop.db").touch()
    assert open_url(f"sqlite:///{str(tmp_path).removeprefix('/')}/shop.db")


def test_a_file_stays_where_it_was_when_the_process_goes_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    journal = SqliteJournal("journal.db", keys=[KEY])
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    started(journal)
    journal.disconnect()
    assert (tmp_path / "journal.db").exists()


def test_a_file_that_cannot_be_made_says_so(tmp_path: Path) -> None:
    (tmp_path / "journal.db").symlink_to(tmp_path / "nowhere" / "journal.db")
    with pytest.raises(JournalError, match=r"journal\.db"):
        sqlite(tmp_path, Clock()).claim("proof", HERE)


def test_a_newer_schema_is_refused_and_left_alone(journal: SqliteJournal, file: Path) -> None:
    lease = started(journal)
    journal.disconnect()
    version(file, VERSION + 1)
    before = file.read_bytes()
    with pytest.raises(JournalUnreadable, match=f"of version {VERSION + 1}.* use the newer faregate"):
        journal.record_outcome(lease, GOOD)
    assert file.read_bytes() == before
    version(file, VERSION)
    assert journal.record_outcome(lease, GOOD)


def version(file: Path, number: int) -> None:
    connection = sqlite3.connect(file)
    connection.execute(f"PRAGMA user_version = {number}")
    connection.close()


def test_an_older_schema_is_refused_and_left_alone(journal: SqliteJournal, file: Path) -> None:
    started(journal)
    journal.disconnect()
    version(file, VERSION - 1)
    before = file.read_bytes()
    with pytest.raises(JournalUnreadable, match=f"of version {VERSION - 1}.* then move the file away"):
        journal.lease_next()
    assert file.read_bytes() == before


def test_another_programs_database_is_refused_and_left_alone(journal: SqliteJournal, file: Path) -> None:
    connection = sqlite3.connect(file)
    connection.execute("CREATE TABLE orders (id INTEGER)")
    connection.close()
    before = file.read_bytes()
    with pytest.raises(JournalUnreadable, match="another program's database"):
        journal.claim("proof", HERE)
    assert file.read_bytes() == before


@pytest.mark.parametrize("damage", ["head", "middle"])
def test_a_damaged_file_is_reported_and_not_recreated(
    journal: SqliteJournal, file: Path, damage: str
) -> None:
    for number in range(50):
        journal.claim(f"proof {number}", HERE)
    journal.disconnect()
    content = bytearray(file.read_bytes())
    start = 0 if damage == "head" else 4096
    content[start : len(content) if damage == "middle" else 100] = b"\xa5" * (
        len(content) - 4096 if damage == "middle" else 100
    )
    file.write_bytes(content)
    for _ in range(2):
        with pytest.raises(JournalUnreadable, match="is damaged"):
            journal.claim("proof 1", HERE)
    assert file.read_bytes() == content


def test_a_removed_file_is_not_recreated(journal: SqliteJournal, file: Path) -> None:
    released(journal)
    aside = file.with_name("aside")
    file.rename(aside)
    for _ in range(2):
        with pytest.raises(JournalUnreadable, match="was removed"):
            journal.claim("proof", HERE)
    assert not file.exists()
    journal.disconnect()
    aside.rename(file)
    assert isinstance(journal.claim("proof", HERE), Replayable)


def test_a_replaced_file_is_refused(journal: SqliteJournal, tmp_path: Path) -> None:
    started(journal)
    (tmp_path / "other").mkdir()
    other = sqlite(tmp_path / "other", Clock())
    other.claim("proof", HERE)
    other.disconnect()
    (tmp_path / "other" / "journal.db").replace(tmp_path / "journal.db")
    with pytest.raises(JournalUnreadable, match="replaced"):
        journal.claim("proof", HERE)


def test_a_full_disk_is_an_error_and_what_was_written_stands(journal: SqliteJournal) -> None:
    lease = started(journal)
    written(journal, "PRAGMA max_page_count = 30")
    with pytest.raises(JournalError, match="no room on the disk"):
        journal.record_outcome(lease, BIG)
    assert journal.claim("proof", HERE) == InProgress()
    assert journal.record_outcome(lease, BIG)


def test_a_file_locked_by_another_program_is_an_error_and_then_works_again(
    journal: SqliteJournal, file: Path
) -> None:
    lease = started(journal)
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(JournalError, match="locked by another writer"):
        journal.record_outcome(lease, GOOD)
    assert journal.get_hold(TXN) is not None  # what only reads waits for nobody
    other.close()
    assert journal.record_outcome(lease, GOOD)


def test_a_disk_that_cannot_lock_is_refused_and_says_so(journal: SqliteJournal) -> None:
    said: list[str] = []

    def claim() -> None:
        with pytest.raises(JournalError) as caught:
            journal.claim("proof", HERE)
        said.append(str(caught.value))

    thread = without_locks(claim)  # and the thread of the writer, which it starts
    thread.start()
    thread.join()
    journal.disconnect()
    [told] = said
    assert "cannot lock files" in told
    assert "name a file on a disk of this machine" in told
    started(journal)


READ_ONLY = """
import os, sys
from pathlib import Path
from faregate.core.claim_types import Claimant
from tests.journals.stores import Clock, sqlite
place = Path(sys.argv[1])
journal = sqlite(place, Clock())
journal.lease_next()
journal.disconnect()
(place / "journal.db").chmod(0o444)
place.chmod(0o555)
os.getuid() or os.setuid(65534)
journal.claim("proof", Claimant("GET /"))
"""


def test_a_file_that_may_not_be_written_says_so() -> None:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    with tempfile.TemporaryDirectory() as place:  # pytest's own are for one user alone
        command = [sys.executable, "-c", READ_ONLY, place]
        found = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
        Path(place).chmod(0o755)
    assert "cannot be written" in found.stderr.splitlines()[-1]
    assert "give both to the user that the app runs as" in found.stderr.splitlines()[-1]


def test_an_outcome_stands_whatever_somebody_writes(journal: SqliteJournal) -> None:
    released(journal)
    assert isinstance(journal._store, SqliteStore)
    for change in ("result = x'00'", "state = 'claimed'", "state = 'failed'"):
        with pytest.raises(JournalError, match=r"decided once|never goes back"):
            written(journal, f"UPDATE journal SET {change}")


def test_a_power_cut_takes_no_more_than_what_was_not_yet_on_the_disk(
    journal: SqliteJournal, tmp_path: Path
) -> None:
    """Wherever in the log it struck: what came before is there, and nothing is there by half."""
    log = tmp_path / "journal.db-wal"
    ends: list[int] = []
    lease = fresh(journal.claim("proof", HERE))
    ends.append(log.stat().st_size)
    journal.record_transaction(lease, TXN, ACR, WORK_SECONDS)
    ends.append(log.stat().st_size)
    journal.record_outcome(lease, WorkSucceeded(Response(200, (), os.urandom(9000))))
    ends.append(log.stat().st_size)
    journal.record_settlement(lease, "cGFpZA==", RECEIPT, True)
    ends.append(log.stat().st_size)
    states = ("claimed", "running", "ok", "settled")
    for cut in range(ends[0], ends[-1] + 1, 1024):
        for tail in (b"", os.urandom(512)):
            found = state_after(tmp_path, log.read_bytes()[:cut] + tail)
            assert found == states[sum(end <= cut for end in ends) - 1]


def state_after(place: Path, log: bytes) -> str:
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(place / "journal.db", folder)
        (Path(folder) / "journal.db-wal").write_bytes(log)
        left = sqlite(Path(folder), Clock())
        assert (asked(left, "PRAGMA integrity_check"), asked(left, "SELECT count(*) FROM journal")) == (
            "ok",
            1,
        )
        state = str(asked(left, "SELECT state FROM journal"))
        left.disconnect()
    return state


def test_nothing_of_a_payment_can_be_read_from_the_disk(journal: SqliteJournal, tmp_path: Path) -> None:
    """The files are looked at while they are open, and after."""

    def look() -> bytes:
        return b"".join(path.read_bytes() for path in sorted(tmp_path.iterdir()))

    seen = write_canaries(journal, look)
    journal.disconnect()
    assert find_leaks(seen + look()) == []


def test_sqlite_is_imported_only_when_used() -> None:
    code = "import sys, faregate; sys.exit(sum(name in sys.modules for name in ('sqlite3', 'cryptography')))"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0

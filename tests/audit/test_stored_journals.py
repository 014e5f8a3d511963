"""What an audit of the stored journals found."""

import threading
from pathlib import Path

import pytest

from faregate.errors import JournalError
from faregate.journals.sqlite.database import SqliteDatabase


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_write_that_ends_the_writers_thread_leaves_no_lock_behind(tmp_path: Path) -> None:
    """All other processes of the shop waited for this one to write again."""
    file, another = (SqliteDatabase(tmp_path / "journal.db", timeout=0.1) for _ in range(2))
    writers: list[threading.Thread] = []

    def end_thread(_: object) -> None:
        writers.append(threading.current_thread())
        raise SystemExit

    with pytest.raises(JournalError):
        file.write(end_thread)
    writers[0].join()  # or the warning that pytest makes of it belongs to another test
    another.write(lambda _: None)
    file.write(lambda _: None)
    for each in (file, another):
        each.disconnect()

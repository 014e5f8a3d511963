"""What an audit of the stored journals found."""

from pathlib import Path
from typing import Any

import pytest

from faregate.journals.sqlite.database import Database


class Interrupted:
    """A connection to which a signal comes when its write has just begun."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, statement: str, *values: Any) -> Any:
        done = self._connection.execute(statement, *values)
        if statement.startswith("BEGIN"):
            raise KeyboardInterrupt
        return done


def test_a_signal_at_the_start_of_a_write_leaves_no_lock_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All other processes of the shop waited for this one to write again."""
    file, another = (Database(tmp_path / "journal.db", timeout=0.1) for _ in range(2))
    file.write(lambda _: None)
    connection: Any = file._writer._connection
    with monkeypatch.context() as patched:
        patched.setattr(file._writer, "_connection", Interrupted(connection))
        with pytest.raises(KeyboardInterrupt):
            file.write(lambda _: None)
    assert not connection.in_transaction
    assert another.write(lambda its: its.in_transaction)

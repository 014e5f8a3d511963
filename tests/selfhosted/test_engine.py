"""Connections: what may be written, and what errors may say."""

import pytest
from sqlalchemy import insert, text

from faregate.errors import ConfigurationError
from faregate.selfhosted.database.engine import Database
from faregate.selfhosted.database.errors import DatabaseError
from faregate.selfhosted.database.schema import accounts

pytestmark = pytest.mark.every_value

SECRET = "hunter2-secret"


@pytest.mark.parametrize(
    "url", ["nonsense hunter2", "mysql://u:hunter2@h/d", "sqlite://", "sqlite:///:memory:"]
)
def test_another_kind_of_database_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ConfigurationError, match="postgresql://user:password@host") as caught:
        Database(url)
    assert "hunter2" not in str(caught.value)


def test_an_unreachable_server_is_named_without_its_password() -> None:
    database = Database(f"postgresql://somebody:{SECRET}@127.0.0.1:1/nowhere")
    with pytest.raises(DatabaseError, match=r"127\.0\.0\.1") as caught, database.read():
        pass
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_refused_row_is_not_shown(database: Database) -> None:
    row = {"org": SECRET, "environment": "else", "name": "n", "pay_to": "0x", "created_at": 0}
    with pytest.raises(DatabaseError, match="refused") as caught, database.write() as connection:
        connection.execute(insert(accounts), row)
    assert SECRET not in str(caught.value)


def test_a_failed_transaction_writes_nothing(database: Database) -> None:
    row = {"org": "org_1", "environment": "test", "name": "n", "pay_to": "0x", "created_at": 0}

    def fail() -> None:
        with database.write() as connection:
            connection.execute(insert(accounts), row)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    with database.read() as connection:
        assert connection.execute(accounts.select()).all() == []


def test_sqlite_commits_to_the_disk(database: Database) -> None:
    if not database.is_sqlite:
        pytest.skip("SQLite only")
    with database.write() as connection:
        found = [
            connection.execute(text(f"PRAGMA {name}")).scalar() for name in ("journal_mode", "synchronous")
        ]
    assert found == ["wal", 2]


def test_a_writer_waits_for_another_only_so_long(url: str, database: Database) -> None:
    other = Database(url, timeout=0.2)
    with database.write() as connection:
        connection.execute(text("DELETE FROM alembic_version"))
        with pytest.raises(DatabaseError, match=r"for too long|lock timeout"), other.write() as waiting:
            waiting.execute(text("DELETE FROM alembic_version"))
    other.close()

"""What stands in a journal's SQLite file."""

from faregate.journals.sqlite import SqliteJournal
from faregate.journals.sqlite.store import SqliteStore


def asked(journal: SqliteJournal, question: str) -> object:
    assert isinstance(journal._store, SqliteStore)
    [answer] = journal._store._database.read(lambda connection: connection.execute(question).fetchone())
    return answer


def written(journal: SqliteJournal, statement: str) -> None:
    assert isinstance(journal._store, SqliteStore)
    journal._store._database.write(lambda connection: connection.execute(statement).fetchall())

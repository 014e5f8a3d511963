"""Where a trial's journal is, and what its rows say in the end."""

from typing import Any

from faregate.journals.sqlite import SqliteJournal
from faregate.journals.stored import StoredJournal
from faregate.journals.terms import Terms

KINDS = ("sqlite", "redis", "postgres")
KEYS = [b"k" * 32]


def open_journal(kind: str, store: str, namespace: str, terms: Terms) -> StoredJournal:
    """`store` is a file's path or a server's URL."""
    options: dict[str, Any] = {"keys": KEYS, "namespace": namespace, "terms": terms}
    if kind == "sqlite":
        return SqliteJournal(store, **options)
    raise ValueError(kind)


def states(kind: str, store: str, namespace: str, transactions: list[str]) -> dict[str, str | None]:
    """The state of each transaction's row; None where there is none."""
    import sqlite3
    if not __import__("os").path.exists(store):
        return dict.fromkeys(transactions)
    connection = sqlite3.connect(store)
    try:
        rows = dict(connection.execute("SELECT transaction_id, state FROM journal WHERE namespace = ?", (namespace,)).fetchall())
    except sqlite3.OperationalError:
        rows = {}
    finally:
        connection.close()
    return {each: rows.get(each) for each in transactions}


def unfinished(state: str | None) -> bool:
    return state in ("claimed", "open", "waiting", "running", "decided", "ok", "failed")

"""Where a trial's journal is, and what its rows say in the end."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from faregate.journals.persistent import PersistentJournal
from faregate.journals.policy import DEFAULT_POLICY, JournalContext, JournalPolicy
from faregate.journals.registry import journal_from_url
from tests import servers

KINDS = ("sqlite", "redis", "postgres")
MISSING = {"sqlite": "", "redis": servers.REDIS_MISSING, "postgres": servers.POSTGRES_MISSING}
KEYS = [b"k" * 32]


@contextmanager
def server(kind: str) -> Generator[str]:
    """A server of this kind while the block runs: its URL, empty where each trial has a file of its own."""
    if kind == "redis":
        with servers.redis_server() as url:
            yield url
    elif kind == "postgres":
        with servers.postgres_server() as url:
            yield url
    else:
        yield ""


def place_of(url: str, folder: Path) -> str:
    """The name of a trial's journal, as `FAREGATE_JOURNAL` has it."""
    return url or f"sqlite://{folder / 'journal.db'}"


def opened(place: str, namespace: str, policy: JournalPolicy = DEFAULT_POLICY) -> PersistentJournal:
    journal = journal_from_url(place, KEYS, JournalContext(namespace, "", policy))
    assert isinstance(journal, PersistentJournal)
    return journal


def states(place: str, namespace: str, transactions: Sequence[str]) -> dict[str, str | None]:
    """The state of each transaction's row, None where there is none; and of whatever else is owed."""
    journal = opened(place, namespace)
    try:
        found = {each: journal._store.find_transaction(each) for each in transactions}
        owed = {row["transaction_id"] or "": row["state"] for row in journal._store.list_owed(100)}
    finally:
        journal.disconnect()
    return {**owed, **{each: row and row["state"] for each, row in found.items()}}

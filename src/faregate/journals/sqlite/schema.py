"""The schema of the file. Constraints and triggers refuse what must not happen to a row.

A change of the schema gets a new `VERSION`, and, once there are releases, a migration from each older one.
"""

import sqlite3
from pathlib import Path

from faregate.errors import JournalUnreadable
from faregate.journals.sql import FORBIDDEN_TRANSITION, UNFETCHED, build_checks

VERSION = 10
APPLICATION_ID = 0x66677431
"""Marks the file as ours. SQLite keeps it in the file's header."""

_CONSTRAINTS = ",\n".join(f"CONSTRAINT {name} CHECK ({check})" for name, check in build_checks().items())

TABLES = (
    f"""
    CREATE TABLE journal (
        namespace TEXT NOT NULL,
        key BLOB NOT NULL CHECK (length(key) = 32),
        stamp INTEGER NOT NULL,
        fence INTEGER NOT NULL,
        generation INTEGER NOT NULL CHECK (generation >= 1),
        state TEXT NOT NULL,
        request TEXT NOT NULL,
        transaction_id TEXT,
        revision_id TEXT NOT NULL,
        since REAL NOT NULL,
        owner TEXT NOT NULL,
        touched_at REAL NOT NULL,
        seller TEXT NOT NULL,
        key_id TEXT NOT NULL,
        client TEXT NOT NULL,
        body TEXT NOT NULL,
        authorization_hash TEXT NOT NULL,
        purchase TEXT,
        lease_until REAL NOT NULL,
        due_at REAL NOT NULL,
        expires_at REAL,
        forget_at REAL,
        delivered INTEGER NOT NULL CHECK (delivered IN (0, 1)),
        redelivered INTEGER NOT NULL CHECK (redelivered >= 0),
        holds_so_far INTEGER NOT NULL CHECK (holds_so_far >= 0),
        size INTEGER NOT NULL CHECK (size >= 0),
        reason TEXT NOT NULL,
        proof BLOB,
        request_line BLOB,
        payer BLOB,
        payment_response BLOB,
        receipt BLOB,
        result BLOB,
        PRIMARY KEY (namespace, key),
        CONSTRAINT one_row_per_transaction UNIQUE (namespace, transaction_id),
        {_CONSTRAINTS}
    )
    """,
    """
    CREATE INDEX journal_owed ON journal (namespace, lease_until, due_at)
    WHERE expires_at IS NULL AND state <> 'stuck'
    """,
    # Covers `measure` as well, and finds the stuck ones among those that never expire.
    "CREATE INDEX journal_expiring ON journal (namespace, expires_at, size)",
    "CREATE INDEX journal_keys ON journal (namespace, key_id)",
    """
    CREATE INDEX journal_authorizations ON journal (namespace, authorization_hash)
    WHERE authorization_hash <> ''
    """,
    "CREATE UNIQUE INDEX journal_purchases ON journal (namespace, purchase) WHERE purchase IS NOT NULL",
    # A sale that goes well never has a row in it.
    f"CREATE INDEX journal_unfetched ON journal (namespace, expires_at) WHERE {UNFETCHED}",
    # Processes that hold leases for longer than their rows say, and how long each is known to live.
    "CREATE TABLE owner (id TEXT NOT NULL PRIMARY KEY, until REAL NOT NULL) WITHOUT ROWID",
    f"""
    CREATE TRIGGER journal_never_back BEFORE UPDATE OF state ON journal
    WHEN {FORBIDDEN_TRANSITION}
    BEGIN SELECT RAISE(ABORT, 'a row never goes back'); END
    """,
    """
    CREATE TRIGGER journal_decided_once BEFORE UPDATE OF result ON journal
    WHEN OLD.result IS NOT NULL AND NEW.result IS NOT NULL
    BEGIN SELECT RAISE(ABORT, 'an outcome is decided once'); END
    """,
    # A large result, in parts: it is never in memory as a whole. Its row has an empty one, because SQLite
    # writes the whole row for whatever changes in it.
    """
    CREATE TABLE large (
        namespace TEXT NOT NULL,
        key BLOB NOT NULL,
        number INTEGER NOT NULL CHECK (number >= 0),
        result BLOB NOT NULL CHECK (length(result) > 0),
        PRIMARY KEY (namespace, key, number)
    )
    """,
    """
    CREATE TRIGGER large_goes_with_its_result AFTER UPDATE OF result ON journal WHEN NEW.result IS NULL
    BEGIN DELETE FROM large WHERE namespace = OLD.namespace AND key = OLD.key; END
    """,
    """
    CREATE TRIGGER large_goes_with_its_row AFTER DELETE ON journal WHEN OLD.result = x''
    BEGIN DELETE FROM large WHERE namespace = OLD.namespace AND key = OLD.key; END
    """,
)


_SERVICE = (
    "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name IN ('alembic_version', 'gas_accounts')"
)


def _is_service(connection: sqlite3.Connection) -> bool:
    """Whether the file has the tables of the service, which a journal may stand beside."""
    [tables] = connection.execute(_SERVICE).fetchone()
    return bool(tables == 2)


def exists(connection: sqlite3.Connection, path: Path) -> bool:
    """Whether the file has this schema; False if it is empty, or has the service's tables alone.

    Raises `JournalUnreadable` otherwise.
    """
    [application] = connection.execute("PRAGMA application_id").fetchone()
    [version] = connection.execute("PRAGMA user_version").fetchone()
    if application == APPLICATION_ID and version == VERSION:
        return True
    if application == APPLICATION_ID:
        if version > VERSION:
            advice = "use the newer faregate that wrote it"
        else:
            # Moved away, a file of the service would take all payments with it.
            way = "set FAREGATE_JOURNAL to a new file" if _is_service(connection) else "move the file away"
            advice = f"let the faregate that wrote it finish what is open, then {way}"
        raise JournalUnreadable(
            f"the journal {path} is of version {version}, and this faregate knows {VERSION}: {advice}"
        )
    [tables] = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if tables and not application and not version and _is_service(connection):
        return False
    if application or version or tables:
        raise JournalUnreadable(f"{path} is another program's database: name another file for the journal")
    return False


def create(connection: sqlite3.Connection, path: Path) -> None:
    """Create the tables, unless another process was quicker. Call it inside a transaction."""
    if exists(connection, path):
        return
    for statement in TABLES:
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {VERSION}")

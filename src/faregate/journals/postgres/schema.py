"""The schema of the tables. Constraints and triggers refuse what must not happen to a row.

A change of the schema gets a new `VERSION`, and, once there are releases, a migration from each older one.
"""

from contextlib import suppress

import psycopg
from psycopg import errors as psycopg_errors
from psycopg.rows import TupleRow

from faregate.journals.postgres import errors
from faregate.journals.sql import FORBIDDEN_TRANSITION, UNFETCHED, build_checks

VERSION = 9
LOCK = 0x666172656761746A
"""The advisory lock held while the tables are created: an arbitrary number, never to be changed.

`CREATE TABLE IF NOT EXISTS` would not do: two sessions at once can both pass the check, and one then fails.
"""

_CHECKS = {
    **build_checks("NEW."),
    "key_is_a_hash": "octet_length(NEW.key) = 32",
    "leased_at_least_once": "NEW.generation >= 1",
    "redelivered_is_a_count": "NEW.redelivered >= 0",
    "holds_so_far_is_a_count": "NEW.holds_so_far >= 0",
    "size_is_a_count": "NEW.size >= 0",
}
_CHECK_ROW = "\n".join(
    f"""
        IF NOT ({condition}) THEN
            RAISE check_violation USING MESSAGE = 'a row breaks the rule {name}', CONSTRAINT = '{name}';
        END IF;"""
    for name, condition in _CHECKS.items()
)

TABLES = (
    """
    CREATE TABLE faregate_journal (
        namespace text NOT NULL,
        key bytea NOT NULL,
        stamp bigint NOT NULL,
        fence bigint NOT NULL,
        generation bigint NOT NULL,
        state text NOT NULL,
        request text NOT NULL,
        transaction_id text,
        revision_id text NOT NULL,
        since double precision NOT NULL,
        owner text NOT NULL,
        touched_at double precision NOT NULL,
        seller text NOT NULL,
        key_id text NOT NULL,
        client text NOT NULL,
        body text NOT NULL,
        authorization_hash text NOT NULL,
        purchase text,
        lease_until double precision NOT NULL,
        due_at double precision NOT NULL,
        expires_at double precision,
        forget_at double precision,
        delivered boolean NOT NULL,
        redelivered bigint NOT NULL,
        holds_so_far bigint NOT NULL,
        size bigint NOT NULL,
        reason text NOT NULL,
        proof bytea,
        request_line bytea,
        payer bytea,
        payment_response bytea,
        receipt bytea,
        result bytea,
        PRIMARY KEY (namespace, key),
        CONSTRAINT faregate_journal_one_row_per_transaction UNIQUE (transaction_id, namespace)
    )
    """,
    # Encrypted data cannot be compressed: EXTERNAL saves PostgreSQL the try.
    """
    ALTER TABLE faregate_journal ALTER proof SET STORAGE EXTERNAL, ALTER result SET STORAGE EXTERNAL
    """,
    """
    CREATE INDEX faregate_journal_owed ON faregate_journal (namespace, lease_until)
    WHERE expires_at IS NULL AND state <> 'stuck'
    """,
    # Of the indexes on all rows, only the primary key's begins with `namespace`: without statistics, as after
    # creation, the planner may take any that does to find a row by its key, and read the whole namespace.
    # This one covers `measure` as well, and finds the stuck ones among those that never expire.
    "CREATE INDEX faregate_journal_expiring ON faregate_journal (expires_at, namespace, size)",
    "CREATE INDEX faregate_journal_keys ON faregate_journal (key_id, namespace)",
    """
    CREATE INDEX faregate_journal_authorizations ON faregate_journal (authorization_hash, namespace)
    WHERE authorization_hash <> ''
    """,
    """
    CREATE UNIQUE INDEX faregate_journal_one_row_per_purchase ON faregate_journal (purchase, namespace)
    WHERE purchase IS NOT NULL
    """,
    # A sale that goes well never has a row in it.
    f"CREATE INDEX faregate_journal_unfetched ON faregate_journal (expires_at, namespace) WHERE {UNFETCHED}",
    # Processes that hold leases for longer than their rows say, and how long each is known to live.
    "CREATE TABLE faregate_journal_owner (id text PRIMARY KEY, until double precision NOT NULL)",
    # Functions stay when an operator drops the tables of another version.
    """
    CREATE OR REPLACE FUNCTION faregate_journal_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN RAISE EXCEPTION USING MESSAGE = TG_ARGV[0], ERRCODE = 'integrity_constraint_violation'; END $$
    """,
    # PostgreSQL parses a CHECK constraint, and the condition of a trigger, with each statement; a function
    # once per session. A third of the server's time for a sale was that.
    f"""
    CREATE OR REPLACE FUNCTION faregate_journal_check_row() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF TG_OP = 'UPDATE' THEN
            IF {FORBIDDEN_TRANSITION} THEN
                RAISE integrity_constraint_violation USING MESSAGE = 'a row never goes back';
            END IF;
        END IF;{_CHECK_ROW}
        RETURN NEW;
    END $$
    """,
    """
    CREATE TRIGGER faregate_journal_row_is_possible BEFORE INSERT OR UPDATE ON faregate_journal
    FOR EACH ROW EXECUTE FUNCTION faregate_journal_check_row()
    """,
    """
    CREATE TRIGGER faregate_journal_decided_once BEFORE UPDATE OF result ON faregate_journal
    FOR EACH ROW WHEN (OLD.result IS NOT NULL AND NEW.result IS NOT NULL)
    EXECUTE FUNCTION faregate_journal_refuse('an outcome is decided once')
    """,
    "CREATE TABLE faregate_journal_version (version integer NOT NULL)",
)
_TABLES_EXIST = (
    b"SELECT to_regclass('faregate_journal') IS NOT NULL, to_regclass('faregate_journal_version') IS NOT NULL"
)
_VERSION = b"SELECT version FROM faregate_journal_version"
_SET_LOCAL = b"SELECT set_config('lock_timeout', %s, true), set_config('synchronous_commit', 'on', true)"


def exists(connection: psycopg.Connection[TupleRow], location: str) -> bool:
    """Whether this schema is there; False if neither the journal nor its version is.

    Raises `JournalUnreadable` if only one of the two is, or another version.
    """
    tables = connection.execute(_TABLES_EXIST).fetchone()
    if tables == (False, False):
        return False
    if tables != (True, True):
        raise errors.foreign_table(location)
    try:
        [[version]] = connection.execute(_VERSION).fetchall()
    except (psycopg_errors.UndefinedColumn, ValueError):
        raise errors.foreign_table(location) from None
    if version != VERSION:
        raise errors.other_version(location, version, VERSION)
    return True


def create(connection: psycopg.Connection[TupleRow], location: str, timeout: str) -> None:
    """Create all tables or none. Another process may be quicker; then its tables must have our version."""
    with suppress(psycopg_errors.DuplicateTable, psycopg_errors.UniqueViolation), connection.transaction():
        connection.execute(_SET_LOCAL, [timeout])
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])
        for statement in TABLES:
            connection.execute(statement.encode())
        connection.execute("INSERT INTO faregate_journal_version VALUES (%s)", [VERSION])
    if not exists(connection, location):
        raise errors.foreign_table(location)

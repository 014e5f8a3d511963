"""Sessions of the console. Each has a secret of its own, of which only the hash is stored.

So a copy of the database opens no session. A session ends after `SESSION_SECONDS`, at a logout, and at once
when its key is revoked.
"""

import secrets
from datetime import datetime
from hashlib import sha256
from typing import Final

from sqlalchemy import bindparam, delete, insert

from faregate.service.database.engine import Database
from faregate.service.database.keys import SELECT_OWNER, KeyOwner, read_owner
from faregate.service.database.schema import api_keys, console_sessions
from faregate.service.database.statements import Statement
from faregate.service.database.types import to_microseconds

SESSION_SECONDS: Final = 8 * 3600
_S: Final = console_sessions.c
_FIND: Final = Statement(
    SELECT_OWNER.join(console_sessions, (_S.account == api_keys.c.account) & (_S.key == api_keys.c.id)).where(
        _S.secret_hash == bindparam("secret_hash"), _S.created_at > bindparam("oldest")
    )
)
_DELETE: Final = delete(console_sessions).where(_S.secret_hash == bindparam("of_hash"))
_DELETE_OVER: Final = delete(console_sessions).where(_S.created_at <= bindparam("oldest"))


def create_session(database: Database, owner: KeyOwner, now: datetime) -> str:
    """Begin a session with this key; return its secret. Sessions that are over are removed."""
    secret = secrets.token_hex(32)
    values = {
        "secret_hash": _hash(secret),
        "account": owner.account.id,
        "key": owner.key_id,
        "created_at": to_microseconds(now),
    }
    with database.write() as connection:
        connection.execute(_DELETE_OVER, {"oldest": _find_oldest(now)})
        connection.execute(insert(console_sessions), values)
    return secret


def find_session_owner(database: Database, secret: str, now: datetime) -> KeyOwner | None:
    """Find whose session this is; None if it is over, or its key is not valid any more."""
    rows = database.query(_FIND, {"secret_hash": _hash(secret), "oldest": _find_oldest(now)})
    return read_owner(rows[0]) if rows else None


def end_session(database: Database, secret: str) -> None:
    with database.write() as connection:
        connection.execute(_DELETE, {"of_hash": _hash(secret)})


def _find_oldest(now: datetime) -> int:
    return to_microseconds(now) - SESSION_SECONDS * 1_000_000


def _hash(secret: str) -> bytes:
    return sha256(secret.encode()).digest()

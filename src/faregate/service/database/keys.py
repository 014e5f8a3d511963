"""API keys: made once, shown once, stored as a hash. Several may be valid at once, for rotation.

A key has 192 random bits, so that its plain SHA-256 can be stored and looked up: it cannot be guessed, and
how long a look-up by hash takes says nothing about the key.
"""

import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import Any, Final

from sqlalchemy import Connection, bindparam, insert, select, update

from faregate.errors import ConfigurationError
from faregate.rules.account import CAPABILITIES, Capability
from faregate.rules.ids import build_id
from faregate.service.database.accounts import COLUMNS, AccountRow
from faregate.service.database.engine import Database
from faregate.service.database.schema import accounts, api_keys
from faregate.service.database.statements import Row, Statement
from faregate.service.database.types import to_datetime, to_microseconds

_SHOWN: Final = 4
_KEY_COLUMNS: Final = (
    api_keys.c.id,
    api_keys.c.prefix,
    api_keys.c.last_four,
    api_keys.c.name,
    api_keys.c.capabilities,
    api_keys.c.created_at,
    api_keys.c.revoked_at,
)
_LIST: Final = (
    select(*_KEY_COLUMNS)
    .where(api_keys.c.account == bindparam("of_account"))
    .order_by(api_keys.c.created_at, api_keys.c.id)
)
_IS_VALID: Final = api_keys.c.revoked_at.is_(None)
SELECT_OWNER: Final = (
    select(api_keys.c.id.label("key_id"), api_keys.c.capabilities, *COLUMNS)
    .join(accounts, accounts.c.id == api_keys.c.account)
    .where(_IS_VALID)
)
"""The columns of `read_owner`, of keys that are valid."""
_OF_ID: Final = (api_keys.c.account == bindparam("of_account")) & (api_keys.c.id == bindparam("key"))
_FIND: Final = Statement(SELECT_OWNER.where(api_keys.c.key_hash == bindparam("key_hash")))
_FOUND: Final = ("key_id", "capabilities", *(column.name for column in COLUMNS))
_REVOKE: Final = update(api_keys).where(_OF_ID, _IS_VALID).values(revoked_at=bindparam("now"))


@dataclass(frozen=True, slots=True)
class StoredKey:
    """A key as it can be shown: never the key itself."""

    id: str
    prefix: str
    last_four: str
    name: str
    capabilities: tuple[Capability, ...]
    created_at: datetime
    revoked_at: datetime | None


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key that was just made. `secret` cannot be read again."""

    stored: StoredKey
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class KeyOwner:
    """Whom a valid key belongs to, and what it may do."""

    key_id: str
    account: AccountRow
    capabilities: frozenset[Capability]


def create_key(
    connection: Connection,
    account: AccountRow,
    now: datetime,
    *,
    name: str = "",
    capabilities: Sequence[Capability] = CAPABILITIES,
    secret: str | None = None,
) -> NewKey:
    """Make a key of this account; a given `secret` must have the prefix of its environment."""
    prefix = f"svc_{account.environment}_"
    secret = prefix + secrets.token_hex(24) if secret is None else secret
    if not secret.startswith(prefix) or len(secret) < len(prefix) + _SHOWN:
        raise ConfigurationError(f"A key of the {account.environment} environment begins with {prefix}.")
    unknown = sorted(set(capabilities) - set(CAPABILITIES))
    if unknown:
        raise ConfigurationError(f"{unknown[0]} is no capability: choose from {', '.join(CAPABILITIES)}.")
    identifier, created_at = build_id("key", now, secrets.randbits(74)), to_microseconds(now)
    values = {
        "account": account.id,
        "id": identifier,
        "key_hash": hash_key(secret),
        "prefix": prefix,
        "last_four": secret[-_SHOWN:],
        "name": name,
        "capabilities": json.dumps(list(capabilities)),
        "created_at": created_at,
    }
    connection.execute(insert(api_keys), values)
    stored = StoredKey(
        identifier,
        prefix,
        secret[-_SHOWN:],
        name,
        tuple(capabilities),
        to_datetime(created_at),
        None,
    )
    return NewKey(stored, secret)


def list_keys(connection: Connection, account: int) -> tuple[StoredKey, ...]:
    """List the account's keys, oldest first, with those that were revoked."""
    return tuple(_to_key(row) for row in connection.execute(_LIST, {"of_account": account}))


def revoke_key(connection: Connection, account: int, key_id: str, now: datetime) -> bool:
    """Revoke the key from now on; False if the account has no such valid key."""
    values = {"of_account": account, "key": key_id, "now": to_microseconds(now)}
    return connection.execute(_REVOKE, values).rowcount == 1


def find_key_owner(database: Database, secret: str) -> KeyOwner | None:
    """Find the account of a valid key. Asked with every request, so that a revoked key ends at once."""
    rows = database.query(_FIND, {"key_hash": hash_key(secret)})
    return read_owner(rows[0]) if rows else None


def hash_key(secret: str) -> bytes:
    return sha256(secret.encode()).digest()


def read_owner(row: Row) -> KeyOwner:
    """Read what `SELECT_OWNER` selected."""
    key_id, capabilities, *account = (row[name] for name in _FOUND)
    return KeyOwner(key_id, AccountRow(*account), frozenset(json.loads(capabilities)))


def _to_key(row: Any) -> StoredKey:
    identifier, prefix, last_four, name, capabilities, created_at, revoked_at = row
    return StoredKey(
        identifier,
        prefix,
        last_four,
        name,
        tuple(json.loads(capabilities)),
        to_datetime(created_at),
        None if revoked_at is None else to_datetime(revoked_at),
    )

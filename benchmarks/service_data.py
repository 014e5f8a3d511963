"""A seller in a new database, and as many transactions as are asked for, inserted in bulk.

The rows are copies of three that the store itself wrote (settled, failed and open), with ids, payers, nonces
and times of their own: one is made each second, up to now.
"""

import secrets
import time
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

from sqlalchemy import delete, insert, select, text, update
from tests.service.sales import authorize, failed, open_store, settle

from faregate.rules.ids import build_id
from faregate.service.database.accounts import list_accounts
from faregate.service.database.catalog import load_catalog
from faregate.service.database.engine import Database
from faregate.service.database.keys import create_key
from faregate.service.database.schema import accounts, attempts, payers, transactions
from faregate.service.database.sql_store import SqlStore
from faregate.service.database.types import to_datetime
from faregate.service.database.upgrade import upgrade

PAYERS = 1000
_BATCH = 2000
_PAY_TO = "0x00000000000000000000000000000000000000Fe"


def prepare(url: str, size: int) -> str:
    """Create tables, catalog and key in an empty database, and this many transactions; return the key."""
    upgrade(url)
    database = Database(url, pool_size=2, timeout=60)
    try:
        store = open_store(database)
        with database.write() as connection:
            # Real payments are refused for the address of the example.
            connection.execute(update(accounts).values(pay_to=_PAY_TO))
            key = create_key(connection, store.account, store.now()).secret
        if size:
            _fill(database, store, size)
        return key
    finally:
        database.close()


def find_revision(url: str, resource: str = "text_summary") -> str:
    """Return the id of the revision that is sold."""
    database = Database(url, pool_size=1)
    try:
        with database.read() as connection:
            catalog = load_catalog(connection, list_accounts(connection)[0])
        return catalog.listings[resource].active.id
    finally:
        database.close()


def get_address(number: int) -> str:
    """Return the address of this payer."""
    return f"0x{number:040x}"


def _fill(database: Database, store: SqlStore, size: int) -> None:
    kinds = _write_templates(store)
    now = int(time.time()) * 1_000_000
    with database.write() as connection:
        found = {row["id"]: dict(row) for row in connection.execute(select(transactions)).mappings()}
        connection.execute(delete(attempts))
        connection.execute(delete(transactions))
        connection.execute(delete(payers))
        connection.execute(insert(payers), list(_build_payers(store.account.id, now - size * 1_000_000)))
        templates = {kind: found[identifier] for kind, identifier in kinds.items()}
        rows: list[dict[str, Any]] = []
        for number in range(size):
            rows.append(_build_row(templates, number, now - (size - number) * 1_000_000))
            if len(rows) == _BATCH or number == size - 1:
                connection.execute(insert(transactions), rows)
                rows = []
    if not database.is_sqlite:  # as autovacuum does within a minute
        with database.read() as connection:
            connection.execute(text("VACUUM ANALYZE transactions"))
            connection.execute(text("VACUUM ANALYZE payers"))


def _write_templates(store: SqlStore) -> dict[str, str]:
    settled, broken, left = settle(store), authorize(store), authorize(store)
    assert store.record_outcome(broken, failed(broken)) is not None
    return {"succeeded": settled.id, "failed": broken.id, "authorized": left.id}


def _build_payers(account: int, moment: int) -> Iterator[dict[str, Any]]:
    for number in range(PAYERS):
        address = get_address(number)
        made = build_id("pyr", to_datetime(moment), secrets.randbits(74))
        row = {"account": account, "id": made, "address": address, "identifier": address}
        yield {**row, "created_at": moment + number}


def _build_row(templates: dict[str, dict[str, Any]], number: int, moment: int) -> dict[str, Any]:
    """Build one row: one in 100 failed, one in 1,000 was never completed."""
    kind = "authorized" if number % 1000 == 7 else "failed" if number % 100 == 50 else "succeeded"
    at = to_datetime(moment)
    row = {
        **templates[kind],
        "id": build_id("txn", at, secrets.randbits(74)),
        "payment_request_id": build_id("prq", at, secrets.randbits(74)),
        # The first payer bought every second time.
        "payer": get_address(0 if number % 2 else number // 2 % PAYERS),
        "nonce": f"0x{secrets.token_hex(32)}",
        "proof_hash": sha256(number.to_bytes(8, "big")).digest(),
        "created_at": moment,
        "expires_at": moment + 600_000_000,
    }
    if kind != "authorized":
        row["finished_at"] = moment + 400_000
    if kind == "succeeded":
        row |= {"submitted_at": moment + 200_000, "settling_at": moment + 200_000}
        row["transaction_hash"] = f"0x{secrets.token_hex(32)}"
    return row

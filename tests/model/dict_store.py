"""A shelf in a dict: it refuses what every store should, and can fail, or let others in between two calls."""

import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

from faregate.journals.store import Due, KeyUsage, PurchaseTaken, Record, TransactionTaken, may_be_removed
from tests.model.invariants import Violation

FORGOTTEN_AT_ONCE = 8
OWED = frozenset(("open", "waiting", "running", "ok", "failed", "stuck"))
FINAL = frozenset(("settled", "closed", "paid"))
WITH_PROOF = OWED | {"claimed"}
WITH_PURCHASE = frozenset(("running", "ok", "stuck", "settled", "paid"))
WITH_RESULT = frozenset(("ok", "failed", "settled"))

Around = Callable[[str], None]


class DictStore:
    """`before` and `after` are called around a call, with its name. What they raise is the store's fault."""

    def __init__(self) -> None:
        self.rows: dict[bytes, Record] = {}
        self.transactions: dict[str, bytes] = {}
        self.before: Around = lambda name: None
        self.after: Around = lambda name: None

    @property
    def namespace(self) -> str:
        return ""

    def find(self, keys: Sequence[bytes]) -> Record | None:
        self.before("find")
        return next((self.rows[key] for key in keys if key in self.rows), None)

    def find_result(self, key: bytes) -> bytes | None:
        self.before("find_result")
        return self.rows[key]["result"] if key in self.rows else None

    def find_transaction(self, transaction_id: str) -> Record | None:
        self.before("find_transaction")
        return self.rows.get(self.transactions.get(transaction_id, b""))

    def find_purchase(self, purchase: str) -> Record | None:
        self.before("find_purchase")
        return next((row for row in self.rows.values() if row["purchase"] == purchase), None)

    def find_authorization(self, hashes: Sequence[str], own: bytes, now: float) -> Record | None:
        self.before("find_authorization")
        others = [
            row
            for row in self.rows.values()
            if row["authorization_hash"] in hashes and row["key"] != own and row["state"] != "closed"
            if not may_be_removed(row, now)
        ]
        return min(others, key=lambda row: row["transaction_id"] is None, default=None)

    def insert(self, record: Record, candidate_keys: Sequence[bytes], now: float) -> bool:
        self.before("insert")
        self.drop_results(now, FORGOTTEN_AT_ONCE)
        self._forget_expired(now, FORGOTTEN_AT_ONCE)
        there = self.rows.get(record["key"])
        if there is not None and there["stamp"] == record["stamp"]:
            return True
        free = not any(key in self.rows for key in candidate_keys)
        if free:
            self._write(record, None)
        self.after("insert")
        return free

    def replace(self, key: bytes, stamp: int, changes: Mapping[str, Any], durable: bool) -> bool:
        self.before("replace")
        there = self.rows.get(key)
        if there is None or there["stamp"] != stamp:
            return there is not None and there["stamp"] == changes["stamp"]
        self._write(cast(Record, {**there, **changes}), there)
        self.after("replace")
        return True

    def delete(self, key: bytes, stamp: int) -> bool:
        self.before("delete")
        there = self.rows.get(key)
        if there is None or there["stamp"] != stamp:
            return False
        self._forget(there)
        self.after("delete")
        return True

    def take_due(self, due: Due, changes: Mapping[str, Any]) -> Record | None:
        self.before("take_due")
        rows = [row for row in self.rows.values() if _is_due(row, due.now)]
        if not rows:
            return None
        row = min(rows, key=lambda row: row["lease_until"])
        self._write(cast(Record, {**row, **changes}), row)
        self.after("take_due")
        return self.rows[row["key"]]

    # All is done by one process, which lives, with one key

    def renew(self, owner: str, until: float, now: float) -> None: ...

    def owner_until(self, owner: str) -> float:
        return math.inf

    def key_ids(self) -> set[str]:
        return {row["key_id"] for row in self.rows.values()}

    def usage_of_keys(self) -> list[KeyUsage]:
        return []

    def namespaces(self) -> dict[str, int]:
        return {}

    def move(self, namespace: str) -> int:
        return 0

    def list_owed(self, limit: int) -> list[Record]:
        owed = [row for row in self.rows.values() if row["expires_at"] is None]
        return sorted(owed, key=lambda row: row["since"])[:limit]

    def list_unfetched(self, until: float, limit: int) -> list[Record]:
        settled = [row for row in self.rows.values() if row["state"] == "settled" and not row["delivered"]]
        return [row for row in settled if (row["expires_at"] or 0.0) <= until][:limit]

    def iterate(self) -> Iterator[Record]:
        yield from list(self.rows.values())

    def list_namespaces(self) -> list[str]:
        return []

    @contextmanager
    def open_namespace(self, namespace: str) -> Generator["DictStore"]:
        yield DictStore()

    def drop_results(self, now: float, limit: int) -> int:
        rows = [row for row in self.rows.values() if row["state"] == "settled" and row["delivered"]]
        over = [row for row in rows if (row["expires_at"] or 0.0) <= now][:limit]
        for row in over:
            changes: dict[str, Any] = {"state": "paid", "expires_at": row["forget_at"], "size": 0}
            nothing = dict.fromkeys(("request_line", "payment_response", "receipt", "result"))
            text = {"client": "", "body": "", "stamp": -1 - row["stamp"]}
            self._write(cast(Record, {**row, **changes, **nothing, **text}), row)
        return len(over)

    def forget_delivered(self, limit: int) -> int:
        return 0

    def purge(self, now: float, limit: int) -> int:
        return self._forget_expired(now, limit)

    def measure(self) -> tuple[int, int]:
        return len(self.rows), sum(row["size"] for row in self.rows.values())

    def disconnect(self) -> None: ...

    def _forget_expired(self, now: float, limit: int) -> int:
        over = [row for row in self.rows.values() if may_be_removed(row, now)]
        for row in over[:limit]:
            self._forget(row)
        return len(over[:limit])

    def _forget(self, row: Record) -> None:
        del self.rows[row["key"]]
        if row["transaction_id"] is not None:
            del self.transactions[row["transaction_id"]]

    def _has_other(self, purchase: str, key: bytes) -> bool:
        return any(row["purchase"] == purchase and row["key"] != key for row in self.rows.values())

    def _write(self, row: Record, before: Record | None) -> None:
        transaction_id = row["transaction_id"]
        if transaction_id is not None and self.transactions.get(transaction_id, row["key"]) != row["key"]:
            raise TransactionTaken
        purchase = row["purchase"]
        if purchase is not None and self._has_other(purchase, row["key"]):
            raise PurchaseTaken
        if fault := impossible(row, before):
            raise Violation(f"a row that cannot be: {fault}")
        self.rows[row["key"]] = row
        if transaction_id is not None:
            self.transactions[transaction_id] = row["key"]


def _is_due(row: Record, now: float) -> bool:
    owed = row["expires_at"] is None and row["state"] != "stuck"
    return owed and row["lease_until"] <= now and row["due_at"] <= now


def impossible(row: Record, before: Record | None) -> str:
    """Which rule a row breaks, by itself or by what it was before; empty if none."""
    state = row["state"]
    settled = state == "settled"
    broken = {
        "a transaction, and it is only claimed": (row["transaction_id"] is None) != (state == "claimed"),
        "owed, and it expires": (row["expires_at"] is None) != (state in OWED),
        "its result": state != "stuck" and (row["result"] is not None) != (state in WITH_RESULT),
        "what proves its payment": ((row["payment_response"] is not None) != settled)
        or (state != "paid" and (row["receipt"] is not None) != settled),
        "a purchase, and no result can come": row["purchase"] is not None and state not in WITH_PURCHASE,
        "its proof": (row["proof"] is not None) != (state in WITH_PROOF),
        "it changed": before is not None and _changed_for_the_worse(row, before),
    }
    return next((fault for fault, is_so in broken.items() if is_so), "")


def _changed_for_the_worse(row: Record, before: Record) -> bool:
    dropped = before["state"] == "settled" and row["state"] == "paid"
    ended = before["state"] in FINAL and row["state"] != before["state"] and not dropped
    again = row["state"] == "claimed" and before["state"] != "claimed"
    other = None not in (row["result"], before["result"]) and row["result"] != before["result"]
    return ended or again or other

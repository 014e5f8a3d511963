"""What must not happen to a row is refused by the store itself, whoever asks for it: for every store."""

import os
from collections.abc import Generator
from pathlib import Path
from typing import Any, cast

import pytest

from faregate.errors import JournalError
from faregate.journals.store import Record, RowStore, TransactionTaken
from tests.journals.kinds import STORED, Clock, done_with
from tests.journals.records import BEGUN, CLAIMED

DECIDED: dict[str, Any] = {**BEGUN, "result": b"result"}
FINAL: dict[str, Any] = {"transaction_id": "txn", "proof": None}
STATES: dict[str, dict[str, Any]] = {
    "claimed": {},
    "open": BEGUN,
    "waiting": BEGUN,
    "running": BEGUN,
    "ok": DECIDED,
    "failed": DECIDED,
    "stuck": {**BEGUN, "reason": "refused"},
    "settled": {**FINAL, "result": b"result", "payment_response": b"paid", "receipt": b"receipt"},
    "closed": FINAL,
    "paid": FINAL,
}
ENDS = ("settled", "closed", "paid")
SOME = {
    "transaction_id": "txn",
    "expires_at": 3.0,
    "reason": "refused",
    "proof": b"some",
    "payment_response": b"some",
    "receipt": b"some",
    "result": b"some",
}
"""What is there in some states, and not in the others."""


@pytest.fixture(params=STORED)
def shelf(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[RowStore]:
    journal = STORED[request.param](tmp_path, Clock())
    yield journal._store
    done_with(journal)


def claimed(shelf: RowStore) -> dict[str, Any]:
    row = {"key": os.urandom(32), **CLAIMED}
    assert shelf.insert(cast(Record, row), [row["key"]], 0.0)
    return row


def in_state(state: str, row: dict[str, Any]) -> dict[str, Any]:
    """What was decided stays."""
    after = {**row, **CLAIMED, **STATES[state], "state": state, "stamp": row["stamp"]}
    decided = row["result"] is not None and after["result"] is not None
    return {**after, "result": row["result"]} if decided else after


def brought_to(shelf: RowStore, state: str) -> dict[str, Any]:
    """The row as it is then. A settled one was `ok` before."""
    row = claimed(shelf)
    for step in (*(("ok",) if state == "settled" else ()), state):
        after = in_state(step, row)
        assert changed(shelf, row, after)
        row = {**after, "stamp": row["stamp"] + 1}
    assert stands(shelf, row)
    return row


def stands(shelf: RowStore, row: dict[str, Any]) -> bool:
    return bool(shelf.find([row["key"]]) == row)


def changed(shelf: RowStore, row: dict[str, Any], after: dict[str, Any]) -> bool:
    changes = {name: value for name, value in after.items() if value != row[name]}
    return shelf.replace(row["key"], row["stamp"], {**changes, "stamp": row["stamp"] + 1}, False)


def is_refused(shelf: RowStore, row: dict[str, Any], after: dict[str, Any]) -> bool:
    """And nothing of it was written."""
    with pytest.raises(JournalError, match="impossible row"):
        changed(shelf, row, after)
    return stands(shelf, row)


@pytest.mark.parametrize("state", STATES)
def test_what_a_state_needs_is_there_and_nothing_else(shelf: RowStore, state: str) -> None:
    row = brought_to(shelf, state)
    for name, some in SOME.items():
        none = "" if name == "reason" else None
        if (state, name) != ("stuck", "result"):
            assert is_refused(shelf, row, {**row, name: some if row[name] in (None, "") else none}), name


@pytest.mark.parametrize("state", STATES)
def test_a_row_never_goes_back(shelf: RowStore, state: str) -> None:
    """Nor anywhere else where no way leads, with all that it would need there."""
    row = brought_to(shelf, state)
    for other in STATES:
        if other != state and not there_is_a_way(state, other):
            assert is_refused(shelf, row, in_state(other, row)), other


def there_is_a_way(state: str, other: str) -> bool:
    if state in ENDS or other == "claimed":
        return False
    if other == "settled":
        return state in ("ok", "stuck")
    return state not in ("ok", "failed") or other in (*ENDS, "stuck")


@pytest.mark.parametrize("state", ["ok", "failed", "settled"])
def test_an_outcome_is_decided_once(shelf: RowStore, state: str) -> None:
    row = brought_to(shelf, state)
    assert is_refused(shelf, row, {**row, "result": b"another"})


def test_there_are_no_other_states(shelf: RowStore) -> None:
    """Though everything else be as no other rule forbids it."""
    row = claimed(shelf)
    assert is_refused(shelf, row, {**row, "state": "decided", "transaction_id": "txn"})


def test_a_transaction_belongs_to_one_row(shelf: RowStore) -> None:
    brought_to(shelf, "running")
    twin = claimed(shelf)
    with pytest.raises(TransactionTaken):
        changed(shelf, twin, in_state("running", twin))
    assert stands(shelf, twin)
    assert changed(shelf, twin, {**in_state("running", twin), "transaction_id": "another"})

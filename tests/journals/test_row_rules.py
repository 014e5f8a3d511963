"""The states of a row: the table itself, that `Row` keeps to it, and that every store enforces it."""

import os
from collections.abc import Generator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, cast

import pytest

from faregate.core.claim_types import Claimed, Lease, Recoverable, Replayable, ReplayPolicy
from faregate.core.models import WorkFailed
from faregate.errors import JournalError
from faregate.journals.durations import DEFAULT_POLICY
from faregate.journals.row_rules import Fingerprint, Holder, Row
from faregate.journals.states import (
    COLUMN_RULES,
    DECIDED,
    FINAL,
    MAY_HAVE_REASON,
    OWED,
    TRANSITIONS,
    RowState,
)
from faregate.journals.store import Record, RowStore, TransactionTaken
from tests.journals.records import BEGUN, CLAIMED
from tests.journals.rows import GOOD
from tests.journals.stores import STORED, Clock, disconnect

# The table


def test_final_states_are_never_left_but_by_a_result_that_is_dropped() -> None:
    left = {state: TRANSITIONS[state] for state in FINAL if TRANSITIONS[state]}
    assert left == {RowState.SETTLED: (RowState.PAID_NO_RESULT,)}


def test_nothing_becomes_unclaimed() -> None:
    assert not any(RowState.CLAIMED in following for following in TRANSITIONS.values())


def test_only_a_stored_result_can_be_settled() -> None:
    before = {state for state, following in TRANSITIONS.items() if RowState.SETTLED in following}
    assert before == {RowState.SUCCEEDED, RowState.STUCK}


def test_a_decided_row_can_only_end_or_get_stuck() -> None:
    assert all(set(TRANSITIONS[state]) <= {*FINAL, RowState.STUCK} for state in DECIDED)


def test_every_state_is_claimed_owed_or_final() -> None:
    assert sorted(state.value for state in (RowState.CLAIMED, *OWED, *FINAL)) == sorted(
        s.value for s in RowState
    )


# `Row`

NOW = 1_000.0
HERE = Fingerprint("request")
HOLDER = Holder("owner", "seller", 7)


def row_in(state: RowState, outcome: Any) -> Row:
    row = Row.create(b"k" * 32, "key", HERE, "proof", "GET /", HOLDER, NOW, DEFAULT_POLICY)
    transaction = "" if state is RowState.CLAIMED else "txn"
    return replace(row, state=state, outcome=outcome, transaction_id=transaction, expires_at=None)


def writes(lease: Lease, now: float) -> list[tuple[str, tuple[Any, ...]]]:
    """Every method that writes a row, with its arguments."""
    policy = DEFAULT_POLICY
    return [
        ("claim_again", (HERE, ReplayPolicy.PROVEN_PAYER, now, policy, HOLDER, 0.0)),
        ("record_transaction", (lease, "txn", "acr", 60.0, now, policy)),
        ("record_resumption", (lease, "txn", "acr", "txn_0", now, policy)),
        ("record_pending", (lease, "txn", "acr", now, policy)),
        ("learn_transaction", ("txn", "acr", False)),
        ("learn_transaction", ("txn", "acr", True)),
        ("record_outcome", (lease, GOOD, now, policy)),
        ("record_outcome", (lease, WorkFailed("failed"), now, policy)),
        ("hold_or_mark_stuck", (lease, now, policy)),
        ("mark_stuck", (lease, "refused", now)),
        ("postpone", (lease, now, policy)),
        ("record_settlement", (lease, "response", "receipt", True, now, policy)),
        ("record_final", (lease, True, "handler_error", "receipt", now, policy)),
        ("record_final", (lease, False, "payment_failed", "", now, policy)),
        ("abandon_claim", (lease, now, policy)),
    ]


CHANGES_ROW = (Claimed, Recoverable, Replayable)
"""The results of `claim_again` with which the row may have changed."""


def states_after(state: RowState, outcome: Any) -> set[RowState]:
    """The states that a row may have after one write, with and without the lease, young and old."""
    states: set[RowState] = set()
    for fence, age in product((HOLDER.fence, 1), (0.0, DEFAULT_POLICY.max_age + 1)):
        for method, arguments in writes(Lease(b"k" * 32, fence), NOW + age):
            row = row_in(state, outcome)
            result = getattr(row, method)(*arguments)
            changed = isinstance(result, CHANGES_ROW) if method == "claim_again" else result
            assert changed or row == row_in(state, outcome), method
            states.add(row.state)
    return states


OUTCOMES = (None, GOOD, WorkFailed("failed"))


@pytest.mark.parametrize("outcome", OUTCOMES, ids=["undecided", "good", "failed"])
@pytest.mark.parametrize("state", RowState)
def test_a_row_makes_only_transitions_of_the_table(state: RowState, outcome: Any) -> None:
    assert states_after(state, outcome) <= {state, *TRANSITIONS[state]}


def test_a_row_reaches_every_state() -> None:
    assert set().union(*(states_after(*start) for start in product(RowState, OUTCOMES))) == set(RowState)


# Every store

RESULT: dict[str, Any] = {**BEGUN, "result": b"result"}
ENDED: dict[str, Any] = {"transaction_id": "txn", "proof": None}
COLUMNS: dict[RowState, dict[str, Any]] = {
    RowState.CLAIMED: {},
    RowState.UNSTARTED: BEGUN,
    RowState.WAITING: BEGUN,
    RowState.RUNNING: BEGUN,
    RowState.SUCCEEDED: RESULT,
    RowState.FAILED: RESULT,
    RowState.STUCK: {**BEGUN, "reason": "refused"},
    RowState.SETTLED: {
        **ENDED,
        "forget_at": 4.0,
        "result": b"result",
        "payment_response": b"paid",
        "receipt": b"receipt",
    },
    RowState.UNPAID: ENDED,
    RowState.PAID_NO_RESULT: ENDED,
}
FILLED: dict[str, Any] = {
    "transaction_id": "txn",
    "expires_at": 3.0,
    "forget_at": 4.0,
    "reason": "refused",
    **dict.fromkeys(("proof", "payment_response", "receipt", "result"), b"some"),
}
"""A value for each column that only some states have."""


@pytest.fixture(params=STORED)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[RowStore]:
    journal = STORED[request.param](tmp_path, Clock())
    yield journal._store
    disconnect(journal)


def insert_claim(store: RowStore) -> dict[str, Any]:
    row = {"key": os.urandom(32), **CLAIMED}
    assert store.insert(cast(Record, row), [row["key"]], 0.0)
    return row


def with_state(row: dict[str, Any], state: RowState) -> dict[str, Any]:
    """The row with all that `state` needs. A result that it has already stays."""
    after = {**row, **CLAIMED, **COLUMNS[state], "state": state.value, "stamp": row["stamp"]}
    keeps_result = row["result"] is not None and after["result"] is not None
    return {**after, "result": row["result"]} if keeps_result else after


def insert_in_state(store: RowStore, state: RowState, transaction_id: str = "txn") -> dict[str, Any]:
    row = insert_claim(store)
    for step in (*((RowState.SUCCEEDED,) if state is RowState.SETTLED else ()), state):
        after = with_state(row, step)
        if step is not RowState.CLAIMED:
            after["transaction_id"] = transaction_id
        assert write(store, row, after)
        row = {**after, "stamp": row["stamp"] + 1}
    assert is_stored(store, row)
    return row


def is_stored(store: RowStore, row: dict[str, Any]) -> bool:
    found = {**(store.find([row["key"]]) or {}), "result": store.find_result(row["key"])}
    return found == row


def write(store: RowStore, row: dict[str, Any], after: dict[str, Any]) -> bool:
    changed = {name: value for name, value in after.items() if value != row[name]}
    return store.replace(row["key"], row["stamp"], {**changed, "stamp": row["stamp"] + 1}, False)


def is_refused(store: RowStore, row: dict[str, Any], after: dict[str, Any]) -> bool:
    """Whether the write is refused, and nothing of it was written."""
    with pytest.raises(JournalError, match="impossible row"):
        write(store, row, after)
    return is_stored(store, row)


@pytest.mark.parametrize("state", RowState)
def test_a_store_enforces_the_columns_of_each_state(store: RowStore, state: RowState) -> None:
    row = insert_in_state(store, state)
    optional = {rule.column for rule in COLUMN_RULES if state in rule.optional_in}
    optional |= {"reason"} if state in MAY_HAVE_REASON else set()
    for name, value in FILLED.items():
        empty = "" if name == "reason" else None
        if name not in optional:
            assert is_refused(store, row, {**row, name: value if row[name] in (None, "") else empty}), name


@pytest.mark.parametrize("name", FILLED)
def test_a_store_enforces_the_columns_of_a_row_that_it_inserts(store: RowStore, name: str) -> None:
    row: dict[str, Any] = {"key": os.urandom(32), **CLAIMED}
    row[name] = FILLED[name] if row[name] in (None, "") else None
    with pytest.raises(JournalError, match="impossible row"):
        store.insert(cast(Record, row), [row["key"]], 0.0)
    assert store.find([row["key"]]) is None


@pytest.mark.parametrize("state", RowState)
def test_a_store_allows_the_transitions_of_the_table_and_no_other(store: RowStore, state: RowState) -> None:
    for other in RowState:
        transaction_id = f"txn-{other.value}"
        row = insert_in_state(store, state, transaction_id)
        after = with_state(row, other)
        if other is not RowState.CLAIMED:
            after["transaction_id"] = transaction_id
        if other is state or other in TRANSITIONS[state]:
            assert write(store, row, after), other
            assert is_stored(store, {**after, "stamp": row["stamp"] + 1}), other
        else:
            assert is_refused(store, row, after), other


@pytest.mark.parametrize("state", [*DECIDED, RowState.SETTLED])
def test_a_store_lets_an_outcome_be_decided_once(store: RowStore, state: RowState) -> None:
    row = insert_in_state(store, state)
    assert is_refused(store, row, {**row, "result": b"another"})


def test_a_store_refuses_an_unknown_state(store: RowStore) -> None:
    """Even if no other rule is broken."""
    row = insert_claim(store)
    assert is_refused(store, row, {**row, "state": "decided", "transaction_id": "txn"})


def test_a_transaction_belongs_to_one_row(store: RowStore) -> None:
    insert_in_state(store, RowState.RUNNING)
    second = insert_claim(store)
    with pytest.raises(TransactionTaken):
        write(store, second, with_state(second, RowState.RUNNING))
    assert is_stored(store, second)
    assert write(store, second, {**with_state(second, RowState.RUNNING), "transaction_id": "another"})

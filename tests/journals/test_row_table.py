"""A packed row is the row that it was, and the garbage collector does not visit it."""

import gc
from dataclasses import replace

import pytest

from faregate.core.models import Outcome, Response, WorkFailed, WorkSucceeded
from faregate.journals.row_rules import Row
from faregate.journals.row_table import RowTable
from faregate.journals.states import FINAL, RowState

KEY = b"key"
RESULT = Response(201, (("content-type", "text/plain"), ("x", "é")), b"\x00body", released=True, code="paid")
OUTCOMES: list[Outcome | None] = [
    None,
    WorkFailed("handler_error"),
    WorkSucceeded(RESULT),
    WorkSucceeded(RESULT, (("pages", "2"), ("tokens", "0.5")), 17),
]
ROW = Row(KEY, "id", "request", "", "GET /", 7, 1.0, 2.0, 3.0, "owner", 4.0, forget_at=5.0)
ROW.state = RowState.UNPAID


@pytest.mark.parametrize("outcome", OUTCOMES, ids=repr)
@pytest.mark.parametrize("state", FINAL)
def test_a_packed_row_is_found_as_it_was(state: RowState, outcome: Outcome | None) -> None:
    row = replace(ROW, state=state, outcome=outcome)
    rows = RowTable()
    rows.pack(row)
    assert list(rows.read_all()) == [row]
    assert rows.find_expiry(KEY) == 3.0
    found = rows.find(KEY)
    assert found == row
    if isinstance(outcome, WorkSucceeded):
        assert found is not None
        assert isinstance(found.outcome, WorkSucceeded)
        assert (found.outcome.result.released, found.outcome.result.code) == (True, "paid")


def test_a_row_that_was_found_may_be_changed() -> None:
    rows = RowTable()
    rows.pack(ROW)
    found = rows.find(KEY)
    assert found is not None
    found.redelivered = 2
    assert rows.find(KEY) is found
    assert [row.redelivered for row in rows.read_all()] == [2]


def test_the_garbage_collector_skips_packed_rows() -> None:
    # Not constants: the suite freezes those, and the collector leaves them as they are.
    headers = tuple([(name.title(), value) for name, value in RESULT.headers])
    outcome = WorkSucceeded(Response(200, headers, b"body"), tuple([(f"page {n}", "1") for n in range(2)]))
    rows = RowTable()
    rows.pack(replace(ROW, state=RowState.SETTLED, outcome=outcome))
    for _ in range(4):  # a tuple is looked at after those that it holds
        gc.collect()
    assert not gc.is_tracked(rows[KEY])


@pytest.mark.parametrize("state", [state for state in RowState if state not in FINAL])
def test_a_row_that_has_not_ended_is_not_packed(state: RowState) -> None:
    with pytest.raises(ValueError, match="not in tuple"):
        RowTable().pack(replace(ROW, state=state))


def test_what_is_missing_has_no_expiry() -> None:
    rows = RowTable()
    assert (rows.find(KEY), rows.find_expiry(KEY)) == (None, None)

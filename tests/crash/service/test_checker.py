"""What the checker expects of the audit, and which losses a restore explains."""

import json
from dataclasses import dataclass, replace

import pytest

from faregate.service.chain.abi import encode_topic
from tests.crash.service.checker import Used, find_serving, list_differences
from tests.crash.service.copies import Restore

PAYER = "0x" + "11" * 20


@dataclass
class Row:
    """Stands for a row of the books."""

    id: str = "txn_1"
    payer: str = PAYER
    nonce: str = "0x01"
    final_status: str | None = None
    submitted_at: int | None = None
    finished_at: int | None = None
    transaction_hash: str | None = None
    settled_again: str | None = None
    outcome: str | None = None


USED = Used(encode_topic(PAYER), "0x01", "0xa", True)
SUCCEEDED = Row(final_status="succeeded", submitted_at=1, finished_at=2, transaction_hash="0xa")


@pytest.mark.parametrize(
    ("rows", "used", "expected"),
    [
        ([SUCCEEDED], [USED], []),
        ([], [USED], [("missing", "0xa")]),
        ([SUCCEEDED], [], [("unpaid", "txn_1")]),
        ([Row(final_status="succeeded", transaction_hash="0xb")], [USED], [("hash", "txn_1")]),
        ([replace(SUCCEEDED, transaction_hash="0xb", settled_again="0xa")], [USED], []),
        ([replace(SUCCEEDED, submitted_at=None)], [USED], [("charged", "txn_1")]),
        ([Row()], [USED], [("charged", "txn_1")]),
        ([Row(submitted_at=1)], [USED], []),
        ([Row(final_status="failed", submitted_at=1, finished_at=2)], [USED], [("charged", "txn_1")]),
        ([Row(final_status="failed", submitted_at=1, finished_at=2)], [], []),
    ],
)
def test_what_the_audit_must_name(rows: list[Row], used: list[Used], expected: list[tuple[str, str]]) -> None:
    assert list(list_differences(rows, used)) == expected


@pytest.mark.parametrize(
    ("asked", "answered", "is_undone"),
    [(1, 2, False), (2, 4, True), (4, 5, True), (6, 8, True), (8, 9, False)],
)
def test_a_restore_explains_the_loss_of_what_was_written_since_the_copy(
    asked: float, answered: float, *, is_undone: bool
) -> None:
    assert Restore(copied_at=3, restored_at=7).may_undo(asked, answered) is is_undone


@pytest.mark.parametrize(
    ("code", "serving"),
    [("resumed:txn_2", "txn_2"), ("resumed:txn_3", "txn_1"), ("interrupted", "txn_1"), (None, "txn_1")],
)
def test_a_payment_that_resumed_another_is_served_by_that_one(code: str | None, serving: str) -> None:
    outcome = None if code is None else json.dumps({"outcome": "failed", "failure_code": code})
    row = Row(final_status="failed", outcome=outcome)
    by_id = {"txn_1": row, "txn_2": Row("txn_2", final_status="succeeded")}
    assert find_serving(by_id, row).id == serving

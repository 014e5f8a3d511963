"""Each wrong is seen, in records that are right but for this one."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.crash.points.checker import WRONGS, Evidence, Received, judge
from tests.support.promises import Wrong

ID = "txn_1"
DONE = {"operation": "complete", "transaction": ID, "body": "succeeded"}
CONTENT = Received(200, "", True, True, "content", True, {ID: "succeeded"})
INSTRUCTIONS = Received(402, "payment_required", False, True, "", False, {ID: "failed"})
RIGHT = Evidence({ID: "succeeded"}, [DONE], [ID], [CONTENT], {ID: "settled"})

Change = Callable[[Evidence], Evidence]
CHANGES: dict[str, Change] = {
    Wrong.LOST: lambda right: replace(right, transactions={**right.transactions, "txn_2": "authorized"}),
    Wrong.SECOND_EXECUTION: lambda right: replace(right, executions=[ID, ID]),
    Wrong.UNPAID_RELEASE: lambda right: replace(
        right, received=[replace(CONTENT, statuses={ID: "settling"})]
    ),
    Wrong.CONTRADICTION: lambda right: replace(right, calls=[DONE, {**DONE, "body": "failed"}]),
    Wrong.NOT_DELIVERED: lambda right: replace(right, received=[]),
    Wrong.PAY_AGAIN: lambda right: replace(
        right, received=[CONTENT, replace(INSTRUCTIONS, statuses={ID: "succeeded"})]
    ),
    Wrong.NOT_FINAL: lambda right: replace(right, rows={ID: "ok"}),
    "untrue rows": lambda right: replace(right, rows={ID: "closed"}),
    "differing results": lambda right: replace(right, received=[CONTENT, replace(CONTENT, body="other")]),
}


def wrongs(evidence: Evidence) -> dict[str, int]:
    return {name: count for name, count in judge(evidence)[0].items() if count}


def test_what_is_right_is_not_blamed() -> None:
    assert wrongs(RIGHT) == {}
    failed = Evidence({ID: "failed"}, [{**DONE, "body": "failed"}], [ID], [INSTRUCTIONS], {ID: "closed"})
    assert wrongs(failed) == {}


@pytest.mark.parametrize("wrong", WRONGS)
def test_a_wrong_is_seen(wrong: str) -> None:
    assert wrongs(CHANGES[wrong](RIGHT)) == {wrong: 1}


def test_content_without_a_receipt_is_an_unpaid_release() -> None:
    assert wrongs(replace(RIGHT, received=[replace(CONTENT, receipt=False)])) == {Wrong.UNPAID_RELEASE: 1}


def test_content_that_came_in_part_is_released_and_not_delivered() -> None:
    cut = replace(CONTENT, whole=False, statuses={ID: "settling"})
    assert wrongs(replace(RIGHT, received=[cut])) == {Wrong.UNPAID_RELEASE: 1, Wrong.NOT_DELIVERED: 1}

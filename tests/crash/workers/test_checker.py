"""Each wrong is seen, in records that are right but for this one; and nothing else is blamed."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.crash.workers.checker import LIMIT, WRONGS, Charge, Evidence, Execution, is_wrong, judge
from tests.crash.workers.payers import Payment, Purchase
from tests.support.promises import Wrong

FIRST = Payment("0x1", 10.0, interruptions=1, ended="pay again", seconds=9.0)
SECOND = Payment("0x2", 20.0, ended="delivered", seconds=1.0, transaction="txn_2", has_receipt=True)
CHARGES = (Charge("txn_1", "0x1", "failed"), Charge("txn_2", "0x2", "succeeded"))
EXECUTIONS = (Execution("txn_1", 7), Execution("txn_2", 8))


def right(
    first: Payment = FIRST, second: Payment = SECOND, leaks: int = 0, deaths: tuple[float, ...] = (12.0,)
) -> Evidence:
    """A purchase whose first payment met a worker that died, and whose second one was served."""
    return Evidence([Purchase("/quick", [first, second], leaks)], CHARGES, EXECUTIONS, deaths)


CHARGED = (replace(CHARGES[0], status="succeeded"), CHARGES[1])
CHANGES: dict[str, tuple[Callable[[], Evidence], dict[str, int]]] = {
    "a second execution": (
        lambda: replace(right(), executions=(*EXECUTIONS, Execution("txn_2", 9))),
        {Wrong.SECOND_EXECUTION: 1},
    ),
    "charged twice": (
        lambda: replace(right(), charges=CHARGED),
        {"double charges": 1, Wrong.NOT_DELIVERED: 1},
    ),
    "charged and never delivered": (
        lambda: right(second=replace(SECOND, ended="409 proof_already_used")),
        {Wrong.NOT_DELIVERED: 1, "refused": 1},
    ),
    "delivered and not charged": (
        lambda: replace(right(), charges=(CHARGES[0], replace(CHARGES[1], status="failed"))),
        {Wrong.UNPAID_RELEASE: 1},
    ),
    "delivered what somebody else paid": (
        lambda: right(second=replace(SECOND, transaction="txn_1")),
        {Wrong.UNPAID_RELEASE: 1},
    ),
    "delivered without a receipt": (
        lambda: right(second=replace(SECOND, has_receipt=False)),
        {Wrong.UNPAID_RELEASE: 1},
    ),
    "content in another answer": (lambda: right(leaks=1), {Wrong.UNPAID_RELEASE: 1}),
    "left open": (
        lambda: replace(right(), charges=(replace(CHARGES[0], status="authorized"), CHARGES[1])),
        {Wrong.NOT_FINAL: 1},
    ),
    "never answered": (lambda: right(first=replace(FIRST, ended="")), {"unserved": 1}),
}


def wrongs(said: dict[str, Any]) -> dict[str, int]:
    return {name: count for name, count in said["wrongs"].items() if count}


def test_what_is_right_is_not_blamed() -> None:
    said = judge(right())
    assert wrongs(said) == {}
    assert not is_wrong(said)
    assert (said["payments"], said["delivered"], said["pay_again"], said["slowest_return"]) == (2, 1, 1, 9.0)


@pytest.mark.parametrize("change", CHANGES)
def test_a_wrong_is_seen(change: str) -> None:
    make, expected = CHANGES[change]
    said = judge(make())
    assert wrongs(said) == expected
    assert is_wrong(said)


def test_every_wrong_can_be_seen() -> None:
    assert {name for _, expected in CHANGES.values() for name in expected} == set(WRONGS)


def test_a_payer_who_waits_too_long_is_a_wrong() -> None:
    late = replace(FIRST, seconds=LIMIT + 1)
    assert is_wrong(judge(right(first=late)))
    # The worker that took over was killed as well, five seconds after the first.
    again = replace(late, interruptions=2, interrupted_at=5.0)
    assert not is_wrong(judge(right(first=again)))
    assert judge(right(first=again))["longest_wait"] == LIMIT + 1


def test_nobody_delivered_is_a_wrong() -> None:
    assert is_wrong(judge(Evidence([], [], [])))


def test_a_journal_in_memory_may_forget_what_was_open_when_its_process_died() -> None:
    lost = replace(right(), charges=CHARGED, executions=(*EXECUTIONS, Execution("txn_1", 8)))
    said = judge(lost, forgets=True)
    assert wrongs(said) == {}
    assert said["forgotten"][Wrong.NOT_DELIVERED] == 1
    assert said["forgotten"]["double charges"] == 1
    assert said["forgotten"][Wrong.SECOND_EXECUTION] == 1


def test_but_nothing_else() -> None:
    alive = replace(right(deaths=(5.0, 40.0)), charges=CHARGED)
    assert wrongs(judge(alive, forgets=True)) == {"double charges": 1, Wrong.NOT_DELIVERED: 1}
    twice = replace(right(), executions=(*EXECUTIONS, Execution("txn_1", 7)))
    assert wrongs(judge(twice, forgets=True)) == {Wrong.SECOND_EXECUTION: 1}
    unpaid = right(first=replace(FIRST, ended="delivered", transaction="txn_1", has_receipt=True))
    assert wrongs(judge(unpaid, forgets=True)) == {Wrong.UNPAID_RELEASE: 1}

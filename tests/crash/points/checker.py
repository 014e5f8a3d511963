"""Three records that know nothing of each other, compared: the service's, the handler's, the payers'.

The journal is asked only whether it is done, and whether it says what the service says.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tests.support.promises import Wrong

OPEN = ("authorized", "settling", "reconciling")
UNFINISHED = ("claimed", "open", "waiting", "running", "ok", "failed")

WRONGS = {
    Wrong.LOST: "transactions",
    Wrong.SECOND_EXECUTION: "executed",
    Wrong.UNPAID_RELEASE: "releases",
    Wrong.CONTRADICTION: "completed",
    Wrong.NOT_DELIVERED: "succeeded",
    Wrong.PAY_AGAIN: "instructions",
    Wrong.NOT_FINAL: "transactions",
    "untrue rows": "transactions",
    "differing results": "results",
}
"""What must never happen, and of how many."""


@dataclass
class Received:
    """What one use of the proof got, and how the payments stood just then."""

    status: int | None
    code: str
    content: bool
    whole: bool
    body: str
    receipt: bool
    statuses: dict[str, str] = field(default_factory=dict)


@dataclass
class Evidence:
    """`rows`: the state of each transaction's row, None where there is none; `owed` are all that are owed."""

    transactions: dict[str, str]
    calls: list[dict[str, Any]]
    executions: list[str]
    received: list[Received]
    rows: dict[str, str | None]


def judge(evidence: Evidence) -> tuple[dict[str, int], dict[str, int]]:
    """How often each wrong was done, and of how many."""
    completes = _completes(evidence)
    succeeded = _sold(evidence, completes)
    contents = [use for use in evidence.received if use.content]
    instructions = [use for use in evidence.received if use.status == 402]
    results = {use.body for use in contents if use.whole}
    wrongs = {
        Wrong.LOST: sum(_is_lost(evidence, each) for each in evidence.transactions),
        Wrong.SECOND_EXECUTION: sum(times - 1 for times in Counter(evidence.executions).values()),
        Wrong.UNPAID_RELEASE: sum(not _is_paid(use) for use in contents),
        Wrong.CONTRADICTION: sum(len(bodies) > 1 for bodies in completes.values()),
        Wrong.NOT_DELIVERED: len(succeeded) if succeeded and not results else 0,
        Wrong.PAY_AGAIN: sum(_is_unfair(use) for use in instructions),
        Wrong.NOT_FINAL: sum(state in UNFINISHED for state in evidence.rows.values()),
        "untrue rows": sum(_is_untrue(evidence, each) for each in evidence.transactions),
        "differing results": max(0, len(results) - 1),
    }
    counts = {
        "transactions": len(evidence.transactions),
        "executed": len(set(evidence.executions)),
        "releases": len(contents),
        "completed": len(completes),
        "succeeded": len(succeeded),
        "instructions": len(instructions),
        "stuck": list(evidence.rows.values()).count("stuck"),
        "results": len([use for use in contents if use.whole]),
    }
    return wrongs, counts


_AGREED = {"settled": ("succeeded",), "paid": ("succeeded",), "closed": ("failed",)}


def _completes(evidence: Evidence) -> dict[str, set[str]]:
    """What the service was told of each transaction."""
    told: dict[str, set[str]] = {}
    for call in evidence.calls:
        if call["operation"] == "complete":
            told.setdefault(call["transaction"], set()).add(call["body"])
    return told


def _sold(evidence: Evidence, completes: dict[str, set[str]]) -> list[str]:
    return [
        each for each, status in evidence.transactions.items() if status == "succeeded" and each in completes
    ]


def _is_lost(evidence: Evidence, transaction: str) -> bool:
    return evidence.transactions[transaction] in OPEN and evidence.rows.get(transaction) is None


def _is_paid(use: Received) -> bool:
    return use.receipt and "succeeded" in use.statuses.values()


def _is_unfair(use: Received) -> bool:
    """Fresh instructions while a payment is open, or taken."""
    return any(status != "failed" for status in use.statuses.values())


def _is_untrue(evidence: Evidence, transaction: str) -> bool:
    state = evidence.rows.get(transaction)
    return state in _AGREED and evidence.transactions[transaction] not in _AGREED[str(state)]

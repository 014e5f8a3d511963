"""Bring a journal's row into each of its states."""

from collections.abc import Callable
from typing import Any

from faregate.core.claim_types import Claim, Claimant, Claimed, Lease, PendingPayment, Recoverable
from faregate.core.models import Response, WorkSucceeded
from faregate.journals.durations import JournalPolicy
from tests.core.flow_script import ACR, RECEIPT, TXN
from tests.journals.stores import AnyJournal, Clock
from tests.support.threads import run_in_threads

TERMS = JournalPolicy()


WORK_SECONDS = 54.0
LEASE = WORK_SECONDS + TERMS.completion_lease
GOOD = WorkSucceeded(Response(200, (("a", "1"), ("a", "2")), b"result"), (("tokens", "3"),), 7)


HERE = Claimant("GET /summary?q=1")


def fresh(claim: Claim) -> Lease:
    assert isinstance(claim, Claimed)
    return claim.lease


def owed(claim: Claim) -> PendingPayment:
    assert isinstance(claim, Recoverable)
    return claim.payment


def started(journal: AnyJournal, proof: str = "proof", transaction_id: str = TXN) -> Lease:
    lease = fresh(journal.claim(proof, HERE))
    assert journal.record_transaction(lease, transaction_id, ACR, WORK_SECONDS)
    return lease


def take_in_threads(
    journal: AnyJournal, clock: Clock, rows: int, at_end: Callable[[], None] = lambda: None
) -> None:
    """Let eight threads take what is due: each row is taken once."""
    names = [f"txn_{number:03}" for number in range(rows)]
    for name in names:
        started(journal, name, name)
    clock.now += LEASE
    taken: list[str] = []

    def sweep() -> None:
        while (entry := journal.lease_next()) is not None:
            taken.append(entry.transaction_id)
        at_end()

    run_in_threads(*[sweep] * 8)
    assert sorted(taken) == names


def decided(journal: AnyJournal, outcome: Any = GOOD) -> Lease:
    lease = started(journal)
    assert journal.record_outcome(lease, outcome)
    return lease


def released(journal: AnyJournal) -> Lease:
    lease = decided(journal)
    journal.record_settlement(lease, "cGFpZA==", RECEIPT, True)
    return lease

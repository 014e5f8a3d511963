"""What is the memory journal's own: its bounds."""

import gc

import pytest

from faregate.core.claim_types import Claimant, Claimed
from faregate.core.models import Response, WorkSucceeded
from faregate.errors import JournalFull
from faregate.journals.durations import JournalPolicy
from faregate.journals.memory import MemoryJournal
from tests.core.flow_script import ACR, RECEIPT
from tests.journals.rows import HERE, LEASE, fresh, owed, started
from tests.journals.stores import Clock
from tests.support.encodings import encode_payment


def test_only_an_ended_row_frees_its_bytes() -> None:
    clock = Clock()
    journal = MemoryJournal(max_bytes=10, clock=clock)
    stale = started(journal)
    journal.record_outcome(stale, WorkSucceeded(Response(200, (), b"x" * 10)))
    clock.now += LEASE
    taken = owed(journal.claim("proof", HERE))
    journal.record_final(stale, False)
    with pytest.raises(JournalFull):
        journal.claim("two", HERE)
    journal.record_final(taken.lease, False)
    assert isinstance(journal.claim("two", HERE), Claimed)


def test_an_abandoned_claim_is_forgotten() -> None:
    clock = Clock()
    journal = MemoryJournal(clock=clock)
    for number in range(100):
        journal.claim(f"abandoned {number}", HERE)
    clock.now += 2 * JournalPolicy().claim_lease
    journal.claim("next", HERE)
    assert len(journal) == 1


def test_the_proof_is_kept_until_the_row_is_final_and_never_shown() -> None:
    journal = MemoryJournal()

    def kept() -> list[str]:
        return [row.proof for row in journal._rows.read_all()]

    lease = started(journal, "a-canary-proof")
    assert kept() == ["a-canary-proof"]
    assert "a-canary-proof" not in repr(journal.__dict__)
    journal.record_outcome(lease, WorkSucceeded(Response(200)))
    journal.record_settlement(lease, "cGFpZA==", RECEIPT, True)
    assert kept() == [""]


def test_namespaces_do_not_answer_for_each_other() -> None:
    journal = MemoryJournal(namespace="test https://one.example")
    assert journal.record_transaction(fresh(journal.claim("proof", HERE)), "txn", ACR, 54.0)
    assert isinstance(MemoryJournal(namespace="live https://one.example").claim("proof", HERE), Claimed)


def test_an_abandoned_claim_takes_no_space() -> None:
    journal = MemoryJournal()
    kept = fresh(journal.claim(encode_payment(), HERE))
    journal.abandon_claim(fresh(journal.claim(encode_payment(indent=1), HERE)))
    assert (len(journal), [list(keys) for keys in journal._authorizations.values()]) == (1, [[kept.key]])
    journal.abandon_claim(kept)
    assert (len(journal), journal._authorizations) == (0, {})


def test_a_journal_that_is_cleared_is_as_new() -> None:
    journal = MemoryJournal(max_bytes=10, clock=Clock())
    journal.record_outcome(started(journal), WorkSucceeded(Response(200, (), b"x" * 10)))
    journal.clear()
    assert (len(journal), journal.list_holds(10)) == (0, [])
    assert isinstance(journal.claim("proof", Claimant("GET /other")), Claimed)
    started(journal, "another")


def test_rows_that_are_forgotten_for_new_ones_leave_nothing_behind() -> None:
    clock = Clock()
    policy = JournalPolicy(delivered_retention=1e9)
    journal = MemoryJournal(policy=policy, max_rows=10, clock=clock)
    for number in range(5_000):
        lease = started(journal, f"proof {number}", f"txn {number}")
        journal.record_outcome(lease, WorkSucceeded(Response(200)))
        journal.record_settlement(lease, "cGFpZA==", RECEIPT, True)
        clock.now += policy.redelivery_window
    sizes = {name: len(kept) for name, kept in vars(journal).items() if isinstance(kept, dict | list)}
    assert len(journal) == 10
    assert max(sizes.values()) < 2_000, sizes


def test_a_delivered_payment_costs_the_garbage_collector_nothing() -> None:
    journal = MemoryJournal()
    lease = started(journal, "proof")
    # Not a constant: the suite freezes those, and the collector leaves them as they are.
    headers = tuple([(name, "text/plain") for name in ("content-type",)])
    journal.record_outcome(lease, WorkSucceeded(Response(200, headers, b"paid")))
    journal.record_settlement(lease, "cGFpZA==", RECEIPT, True)
    for _ in range(4):
        gc.collect()
    assert not any(gc.is_tracked(row) for row in journal._rows.values())
    assert not any(gc.is_tracked(rows) for rows in journal._authorizations.values())

"""What every journal must do. A new journal joins with an entry in `stores.py`."""

import threading

import pytest

from faregate.core.claim_types import (
    AlreadyFailed,
    AlreadyUsed,
    Claim,
    Claimant,
    Claimed,
    InProgress,
    Replayable,
    RequestMismatch,
    SettlementWrite,
)
from faregate.core.models import WorkFailed
from tests.core.flow_script import ACR, OTHER_TXN, RECEIPT, TXN
from tests.journals.rows import (
    GOOD,
    HERE,
    LEASE,
    TERMS,
    WORK_SECONDS,
    decided,
    fresh,
    owed,
    released,
    started,
)
from tests.journals.stores import AnyJournal, disconnect
from tests.journals.stores import Clock as Clock
from tests.support.threads import run_in_threads


def test_a_claim_is_won_once(journal: AnyJournal) -> None:
    fresh(journal.claim("proof", HERE))
    assert journal.claim("proof", HERE) == InProgress()
    fresh(journal.claim("another proof", HERE))


def test_a_claim_is_bound_to_its_request(journal: AnyJournal) -> None:
    lease = fresh(journal.claim("proof", HERE))
    elsewhere = Claimant("GET /summary?q=2")
    assert journal.claim("proof", elsewhere) == RequestMismatch()
    journal.record_transaction(lease, TXN, ACR, WORK_SECONDS)
    journal.record_outcome(lease, GOOD)
    journal.record_settlement(lease, "cGFpZA==", RECEIPT, True)
    assert journal.claim("proof", elsewhere) == RequestMismatch()


def test_an_abandoned_claim_is_deleted(journal: AnyJournal) -> None:
    journal.abandon_claim(fresh(journal.claim("proof", HERE)))
    fresh(journal.claim("proof", Claimant("GET /other")))


def test_an_expired_claim_is_taken_over_and_its_first_holder_is_fenced(
    journal: AnyJournal, clock: Clock
) -> None:
    slow = fresh(journal.claim("proof", HERE))
    clock.now += TERMS.claim_lease
    quick = fresh(journal.claim("proof", HERE))
    assert quick.fence != slow.fence
    assert not journal.record_transaction(slow, TXN, ACR, WORK_SECONDS)
    journal.abandon_claim(slow)
    assert journal.record_transaction(quick, TXN, ACR, WORK_SECONDS)


def test_a_fenced_process_does_not_start_work_that_runs(journal: AnyJournal, clock: Clock) -> None:
    slow = fresh(journal.claim("proof", HERE))
    clock.now += TERMS.claim_lease
    quick = started(journal)
    assert not journal.record_transaction(slow, TXN, ACR, WORK_SECONDS)
    assert journal.record_outcome(quick, GOOD)


def test_a_row_whose_work_started_is_never_claimed_as_new(journal: AnyJournal, clock: Clock) -> None:
    slow = started(journal)
    clock.now += LEASE - 1
    assert journal.claim("proof", HERE) == InProgress()
    clock.now += 1
    entry = owed(journal.claim("proof", HERE))
    assert (entry.transaction_id, entry.revision_id, entry.outcome, entry.waiting) == (TXN, ACR, None, False)
    assert entry.proof == "proof"
    assert not journal.record_outcome(slow, GOOD)
    assert journal.record_outcome(entry.lease, WorkFailed("interrupted"))


def test_a_transaction_belongs_to_one_row(journal: AnyJournal) -> None:
    started(journal)
    twin = fresh(journal.claim("the same payment, encoded anew", HERE))
    assert not journal.record_transaction(twin, TXN, ACR, WORK_SECONDS)
    assert journal.record_transaction(twin, OTHER_TXN, ACR, WORK_SECONDS)


def test_an_outcome_is_decided_once(journal: AnyJournal) -> None:
    lease = decided(journal)
    assert not journal.record_outcome(lease, WorkFailed("second thoughts"))
    journal.schedule_retry(lease)
    assert owed(journal.claim("proof", HERE)).outcome == GOOD


def test_a_held_row_is_due_for_its_payer_at_once_and_for_the_sweep_later(
    journal: AnyJournal, clock: Clock
) -> None:
    lease = decided(journal)
    journal.schedule_retry(lease)
    assert journal.lease_next() is None
    clock.now += 1.25 * TERMS.initial_backoff
    entry = journal.lease_next()
    assert entry is not None
    assert entry.outcome == GOOD
    assert journal.lease_next() is None
    assert journal.claim("proof", HERE) == InProgress()


def test_the_backoff_of_the_sweep_doubles(journal: AnyJournal, clock: Clock) -> None:
    journal.schedule_retry(decided(journal))
    for pause in (5, 10, 20, 40, 80, 160, 300, 300, 300):
        earliest, latest = 0.75 * pause, 1.25 * pause
        clock.now += earliest - 1
        assert journal.lease_next() is None
        clock.now += latest - earliest + 1
        entry = journal.lease_next()
        assert entry is not None
        journal.schedule_retry(entry.lease)


def test_a_settled_result_is_replayed_three_times_within_the_window(
    journal: AnyJournal, clock: Clock
) -> None:
    released(journal)
    for _ in range(TERMS.redeliveries):
        assert journal.claim("proof", HERE) == Replayable(GOOD.result, "cGFpZA==", TXN)
    assert journal.claim("proof", HERE) == AlreadyUsed(TXN)
    clock.now += TERMS.redelivery_window
    assert journal.claim("proof", HERE) == AlreadyUsed(TXN)


def test_any_process_may_record_a_settlement(journal: AnyJournal, clock: Clock) -> None:
    slow = decided(journal)
    clock.now += LEASE
    owed(journal.claim("proof", HERE))
    journal.record_settlement(slow, "cGFpZA==", RECEIPT, True)
    assert journal.claim("proof", HERE) == Replayable(GOOD.result, "cGFpZA==", TXN)


def test_a_sale_whose_row_has_expired_is_not_counted_again(journal: AnyJournal, clock: Clock) -> None:
    """A worker that was suspended reports it after another one did: the row is new, or gone."""
    slow = decided(journal)
    clock.now += LEASE
    taken = owed(journal.claim("proof", HERE)).lease
    assert journal.record_settlement(taken, "cGFpZA==", RECEIPT, True) is SettlementWrite.FIRST
    clock.now += TERMS.delivered_retention
    again = fresh(journal.claim("proof", HERE))
    assert journal.record_settlement(slow, "cGFpZA==", RECEIPT, True) is SettlementWrite.REPEATED
    journal.abandon_claim(again)
    assert journal.record_settlement(slow, "cGFpZA==", RECEIPT, True) is SettlementWrite.REPEATED


@pytest.mark.parametrize("paid", [False, True])
def test_a_sale_of_a_row_that_ended_without_a_settlement_is_counted(journal: AnyJournal, paid: bool) -> None:
    """The service called it failed, or an operator discarded it. Nobody has counted it."""
    lease = decided(journal)
    assert journal.record_final(lease, paid)
    assert journal.record_settlement(lease, "cGFpZA==", RECEIPT, True) is SettlementWrite.FIRST


def test_the_replay_window_opens_with_the_first_delivery(journal: AnyJournal, clock: Clock) -> None:
    """A sweep got it paid while nobody waited: the payer who comes late still gets all deliveries."""
    journal.record_settlement(decided(journal), "cGFpZA==", RECEIPT, False)
    clock.now += TERMS.undelivered_retention - 1
    for _ in range(1 + TERMS.redeliveries):
        assert journal.claim("proof", HERE) == Replayable(GOOD.result, "cGFpZA==", TXN)
    clock.now += TERMS.redelivery_window
    assert journal.claim("proof", HERE) == AlreadyUsed(TXN)


def test_a_claim_that_was_taken_over_outlives_the_first_ones_time(journal: AnyJournal, clock: Clock) -> None:
    stale = fresh(journal.claim("proof", HERE))
    clock.now += 2 * TERMS.claim_lease - 1
    second = fresh(journal.claim("proof", HERE))
    clock.now += 2
    assert journal.claim("proof", HERE) == InProgress()
    journal.abandon_claim(stale)
    assert journal.record_transaction(second, TXN, ACR, WORK_SECONDS)


def test_an_abandoned_claim_that_was_taken_over_is_forgotten_as_well(
    journal: AnyJournal, clock: Clock
) -> None:
    fresh(journal.claim("proof", HERE))
    clock.now += TERMS.claim_lease
    fresh(journal.claim("proof", HERE))
    clock.now += 2 * TERMS.claim_lease - 1
    assert journal.claim("proof", Claimant("GET /other")) == RequestMismatch()
    clock.now += 1
    fresh(journal.claim("proof", Claimant("GET /other")))


def test_fencing_tokens_are_never_used_twice(journal: AnyJournal) -> None:
    stale = fresh(journal.claim("proof", HERE))
    journal.abandon_claim(stale)
    again = fresh(journal.claim("proof", HERE))
    journal.abandon_claim(stale)
    assert journal.record_transaction(again, TXN, ACR, WORK_SECONDS)


def test_a_settled_row_does_not_change(journal: AnyJournal, clock: Clock) -> None:
    lease = released(journal)
    clock.now += TERMS.redelivery_window - 1
    journal.record_settlement(lease, "YW5vdGhlcg==", RECEIPT, True)
    assert journal.claim("proof", HERE) == Replayable(GOOD.result, "cGFpZA==", TXN)
    clock.now += 1
    assert journal.claim("proof", HERE) == AlreadyUsed(TXN)


def test_an_undecided_or_failed_row_is_never_settled(journal: AnyJournal) -> None:
    lease = started(journal)
    journal.record_settlement(lease, "cGFpZA==", RECEIPT, True)
    assert journal.claim("proof", HERE) == InProgress()
    journal.record_outcome(lease, WorkFailed("handler_error"))
    journal.record_settlement(lease, "cGFpZA==", RECEIPT, True)
    assert journal.claim("proof", HERE) == InProgress()


def test_an_unpaid_row_keeps_no_result(journal: AnyJournal, clock: Clock) -> None:
    lease = decided(journal)
    journal.record_final(lease, False)
    assert journal.claim("proof", HERE) == AlreadyFailed()
    assert journal.lease_next() is None
    journal.record_settlement(lease, "cGFpZA==", RECEIPT, True)
    assert journal.claim("proof", HERE) == AlreadyFailed()
    clock.now += TERMS.failed_retention
    fresh(journal.claim("proof", HERE))


def test_an_open_payment_never_expires(journal: AnyJournal, clock: Clock) -> None:
    journal.schedule_retry(decided(journal))
    started(journal, "second", OTHER_TXN)
    clock.now += 10**9
    journal.claim("third", HERE)
    assert owed(journal.claim("proof", HERE)).outcome == GOOD
    assert owed(journal.claim("second", HERE)).transaction_id == OTHER_TXN


def test_a_waiting_payment_is_watched_by_the_sweep_and_by_its_payer(
    journal: AnyJournal, clock: Clock
) -> None:
    journal.record_pending(fresh(journal.claim("proof", HERE)), TXN, ACR)
    entry = owed(journal.claim("proof", HERE))
    assert (entry.transaction_id, entry.waiting) == (TXN, True)
    assert not journal.record_transaction(entry.lease, TXN, ACR, WORK_SECONDS)
    journal.schedule_retry(entry.lease)
    clock.now += LEASE
    due = journal.lease_next()
    assert due is not None
    journal.record_final(due.lease, True)
    assert journal.claim("proof", HERE) == AlreadyUsed(TXN)


def test_a_stale_lease_writes_nothing(journal: AnyJournal, clock: Clock) -> None:
    stale = started(journal)
    clock.now += LEASE
    entry = owed(journal.claim("proof", HERE))
    journal.schedule_retry(stale)
    journal.record_final(stale, False)
    journal.abandon_claim(stale)
    journal.record_pending(stale, TXN, ACR)
    assert journal.claim("proof", HERE) == InProgress()
    assert journal.record_outcome(entry.lease, GOOD)


def test_one_of_many_threads_wins(journal: AnyJournal) -> None:
    answers: list[Claim] = []
    barrier = threading.Barrier(16)

    def race() -> None:
        barrier.wait()
        answers.append(journal.claim("proof", HERE))
        disconnect(journal)

    run_in_threads(*[race] * 16)
    assert sum(isinstance(answer, Claimed) for answer in answers) == 1
    assert sum(isinstance(answer, InProgress) for answer in answers) == 15

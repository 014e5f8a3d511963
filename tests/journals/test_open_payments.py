"""Rows that know a transaction without work, that are stuck, that people look at: for every journal."""

from dataclasses import replace
from pathlib import Path

import pytest

from faregate.core.claim_types import (
    AlreadyFailed,
    AlreadyUsed,
    Claimed,
    InProgress,
    Lease,
    PendingPayment,
    Replayable,
)
from faregate.core.models import WorkFailed
from faregate.errors import JournalError
from faregate.journals.durations import JournalPolicy
from faregate.journals.persistent import PersistentJournal
from faregate.journals.store import ENCRYPTED
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
from tests.journals.stores import JOURNALS, AnyJournal, Clock, disconnect


def due(journal: AnyJournal) -> PendingPayment:
    entry = journal.lease_next()
    assert entry is not None
    return entry


# A transaction is known, and no work was started


def test_a_transaction_id_is_accepted_without_the_lease(journal: AnyJournal, clock: Clock) -> None:
    """Two requests asked access, one after the other's lease; the first is answered, the second dies."""
    slow = fresh(journal.claim("proof", HERE))
    clock.now += TERMS.claim_lease
    quick = fresh(journal.claim("proof", HERE))
    assert not journal.record_transaction(slow, TXN, ACR, WORK_SECONDS)
    assert journal.claim("proof", HERE) == InProgress()
    clock.now += TERMS.claim_lease
    entry = due(journal)
    assert (entry.transaction_id, entry.outcome, entry.waiting) == (TXN, None, False)
    assert not journal.record_transaction(quick, TXN, ACR, WORK_SECONDS)


def test_an_open_row_is_resumed_by_its_payer_and_failed_by_the_sweep(
    journal: AnyJournal, clock: Clock
) -> None:
    slow = fresh(journal.claim("proof", HERE))
    clock.now += TERMS.claim_lease
    fresh(journal.claim("proof", HERE))
    journal.record_transaction(slow, TXN, ACR, WORK_SECONDS)
    clock.now += TERMS.claim_lease
    back = fresh(journal.claim("proof", HERE))
    assert journal.record_transaction(back, TXN, ACR, WORK_SECONDS)
    clock.now += LEASE
    assert journal.record_outcome(due(journal).lease, WorkFailed("interrupted"))


def test_no_result_is_recorded_for_an_open_row(journal: AnyJournal, clock: Clock) -> None:
    journal.record_pending(fresh(journal.claim("proof", HERE)), TXN, ACR)
    journal.abandon_claim(owed(journal.claim("proof", HERE)).lease)
    clock.now += TERMS.claim_lease
    entry = due(journal)
    assert not journal.record_outcome(entry.lease, GOOD)
    assert journal.record_outcome(entry.lease, WorkFailed("interrupted"))


def test_a_waiting_payment_that_turns_out_open_may_be_claimed_again(journal: AnyJournal) -> None:
    journal.record_pending(fresh(journal.claim("proof", HERE)), TXN, ACR)
    journal.abandon_claim(owed(journal.claim("proof", HERE)).lease)
    assert journal.lease_next() is None
    assert journal.record_transaction(fresh(journal.claim("proof", HERE)), TXN, ACR, WORK_SECONDS)


def overtaken(journal: AnyJournal, clock: Clock) -> Lease:
    """The newer claim of two; the older one learns only now that its payment settles without us."""
    slow = fresh(journal.claim("proof", HERE))
    clock.now += TERMS.claim_lease
    quick = fresh(journal.claim("proof", HERE))
    journal.record_pending(slow, TXN, ACR)
    return quick


def test_a_payment_that_settles_without_us_is_recorded_without_the_lease(
    journal: AnyJournal, clock: Clock
) -> None:
    """It is not open: the sweep must not report work as failed that nobody here was asked to do."""
    overtaken(journal, clock)
    assert journal.claim("proof", HERE) == InProgress()
    clock.now += TERMS.claim_lease
    entry = due(journal)
    assert (entry.transaction_id, entry.waiting) == (TXN, True)
    journal.record_final(entry.lease, True)
    assert journal.claim("proof", HERE) == AlreadyUsed(TXN)


def test_no_work_starts_for_a_payment_that_settles_without_us(journal: AnyJournal, clock: Clock) -> None:
    quick = overtaken(journal, clock)
    assert not journal.record_transaction(quick, TXN, ACR, WORK_SECONDS)
    assert not journal.abandon_claim(quick)


def test_a_watched_payment_belongs_to_one_row(journal: AnyJournal) -> None:
    lease = started(journal)
    twin = fresh(journal.claim("the same payment, encoded anew", HERE))
    journal.record_pending(twin, TXN, ACR)
    fresh(journal.claim("the same payment, encoded anew", HERE))
    assert [hold.state for hold in journal.list_holds(10)] == ["running"]
    assert journal.record_outcome(lease, GOOD)


def test_a_transaction_id_learned_late_opens_nothing(journal: AnyJournal, clock: Clock) -> None:
    slow = fresh(journal.claim("proof", HERE))
    clock.now += TERMS.claim_lease
    released(journal)
    assert not journal.record_transaction(slow, TXN, ACR, WORK_SECONDS)
    journal.record_pending(slow, TXN, ACR)
    assert journal.list_holds(10) == []
    assert journal.claim("proof", HERE) == Replayable(GOOD.result, "cGFpZA==", TXN)


def test_recording_the_same_pending_transaction_again_ends_the_lease(
    journal: AnyJournal, clock: Clock
) -> None:
    quick = overtaken(journal, clock)
    journal.record_pending(quick, TXN, ACR)
    assert owed(journal.claim("proof", HERE)).waiting


def test_a_claim_that_somebody_else_had_is_not_forgotten(journal: AnyJournal, clock: Clock) -> None:
    slow = fresh(journal.claim("proof", HERE))
    clock.now += TERMS.claim_lease
    journal.abandon_claim(fresh(journal.claim("proof", HERE)))
    assert not journal.record_transaction(slow, TXN, ACR, WORK_SECONDS)
    clock.now += TERMS.claim_lease
    assert due(journal).transaction_id == TXN


def test_an_id_that_cannot_be_remembered_is_an_error(journal: AnyJournal) -> None:
    gone = fresh(journal.claim("proof", HERE))
    journal.abandon_claim(gone)
    with pytest.raises(JournalError, match="gone"):
        journal.record_transaction(gone, TXN, ACR, WORK_SECONDS)
    with pytest.raises(JournalError, match="gone"):
        journal.record_pending(gone, TXN, ACR)


def test_what_is_written_of_a_row_that_is_gone_is_no_error(journal: AnyJournal) -> None:
    """It owed nothing, or it would be here."""
    gone = fresh(journal.claim("proof", HERE))
    journal.abandon_claim(gone)
    assert journal.schedule_retry(gone)
    journal.mark_stuck(gone, "refused")
    journal.record_final(gone, True)
    journal.record_settlement(gone, "cGFpZA==", RECEIPT, True)
    assert not journal.record_outcome(gone, GOOD)
    assert journal.list_holds(10) == []


def test_a_deleted_row_frees_its_transaction(journal: AnyJournal, clock: Clock) -> None:
    released(journal)
    clock.now += TERMS.delivered_retention
    fresh(journal.claim("proof", HERE))
    twin = fresh(journal.claim("the same payment, encoded anew", HERE))
    assert journal.record_transaction(twin, TXN, ACR, WORK_SECONDS)


def test_a_second_transaction_of_one_proof_is_an_error(journal: AnyJournal, clock: Clock) -> None:
    slow = fresh(journal.claim("proof", HERE))
    clock.now += TERMS.claim_lease
    quick = fresh(journal.claim("proof", HERE))
    assert not journal.record_transaction(slow, TXN, ACR, WORK_SECONDS)
    with pytest.raises(JournalError, match="another transaction"):
        journal.record_transaction(quick, OTHER_TXN, ACR, WORK_SECONDS)


def test_a_payment_that_is_watched_is_not_forgotten_for_another(journal: AnyJournal, clock: Clock) -> None:
    quick = overtaken(journal, clock)
    with pytest.raises(JournalError, match="another transaction"):
        journal.record_pending(quick, OTHER_TXN, ACR)
    clock.now += TERMS.claim_lease
    assert due(journal).transaction_id == TXN


def test_abandoning_a_claim_tells_whether_it_was_held(journal: AnyJournal, clock: Clock) -> None:
    slow = fresh(journal.claim("proof", HERE))
    clock.now += TERMS.claim_lease
    quick = fresh(journal.claim("proof", HERE))
    assert not journal.abandon_claim(slow)
    assert journal.abandon_claim(quick)
    again = fresh(journal.claim("proof", HERE))
    assert not journal.record_transaction(quick, TXN, ACR, WORK_SECONDS)
    assert not journal.abandon_claim(
        again
    )  # a transaction is known by now, and its payer is not asked to pay again
    assert not journal.abandon_claim(fresh(journal.claim("proof", HERE)))  # and may come back at once
    alone = fresh(journal.claim("another", HERE))
    assert journal.abandon_claim(alone)
    assert not journal.abandon_claim(alone)


# Stuck


def stuck(journal: AnyJournal) -> None:
    journal.mark_stuck(decided(journal), "refused")


def test_a_sweep_ignores_stuck_rows(journal: AnyJournal, clock: Clock) -> None:
    stuck(journal)
    clock.now += 10**9
    assert journal.lease_next() is None
    [hold] = journal.list_holds(10)
    assert (hold.transaction_id, hold.state, hold.reason) == (TXN, "stuck", "refused")


def test_a_payer_can_resume_a_stuck_row(journal: AnyJournal) -> None:
    stuck(journal)
    entry = owed(journal.claim("proof", HERE))
    assert (entry.outcome, entry.waiting) == (GOOD, False)
    assert journal.claim("proof", HERE) == InProgress()
    assert not journal.schedule_retry(entry.lease)
    entry = owed(journal.claim("proof", HERE))
    journal.record_settlement(entry.lease, "cGFpZA==", RECEIPT, True)
    assert journal.claim("proof", HERE) == Replayable(GOOD.result, "cGFpZA==", TXN)
    assert journal.list_holds(10) == []


def test_a_stuck_row_can_end(journal: AnyJournal) -> None:
    stuck(journal)
    journal.record_final(owed(journal.claim("proof", HERE)).lease, False)
    assert journal.claim("proof", HERE) == AlreadyFailed()


def test_a_waiting_row_can_get_stuck(journal: AnyJournal) -> None:
    journal.record_pending(fresh(journal.claim("proof", HERE)), TXN, ACR)
    journal.mark_stuck(owed(journal.claim("proof", HERE)).lease, "unknown")
    entry = owed(journal.claim("proof", HERE))
    assert (entry.outcome, entry.waiting) == (None, True)
    journal.record_settlement(entry.lease, "cGFpZA==", RECEIPT, True)
    assert journal.claim("proof", HERE) == InProgress()


def test_a_stuck_row_without_an_outcome_can_be_claimed_again(journal: AnyJournal) -> None:
    journal.record_pending(fresh(journal.claim("proof", HERE)), TXN, ACR)
    journal.mark_stuck(owed(journal.claim("proof", HERE)).lease, "unknown")
    assert not journal.abandon_claim(owed(journal.claim("proof", HERE)).lease)
    assert journal.record_transaction(fresh(journal.claim("proof", HERE)), TXN, ACR, WORK_SECONDS)


def test_a_stuck_row_with_an_outcome_cannot_be_abandoned(journal: AnyJournal) -> None:
    stuck(journal)
    lease = owed(journal.claim("proof", HERE)).lease
    assert not journal.abandon_claim(lease)
    assert journal.schedule_retry(lease) is False
    assert owed(journal.claim("proof", HERE)).outcome == GOOD


def test_a_paid_row_without_a_result_is_kept_for_a_month(journal: AnyJournal, clock: Clock) -> None:
    journal.record_final(decided(journal), True)
    clock.now += 2_592_000 - 1
    assert journal.claim("proof", HERE) == AlreadyUsed(TXN)


def test_listing_decrypts_nothing(journal: AnyJournal) -> None:
    """Nor read: it may be large."""
    decided(journal)
    if isinstance(journal, PersistentJournal):
        [record] = journal._store.list_owed(10)
        assert {value for name, value in record.items() if name in ENCRYPTED} == {None}
        assert record["size"] > 0


def test_a_payment_open_beyond_max_age_gets_stuck(journal: AnyJournal, clock: Clock) -> None:
    assert journal.schedule_retry(decided(journal))
    clock.now += TERMS.max_age - 1
    assert journal.schedule_retry(due(journal).lease)
    clock.now += 1000
    assert not journal.schedule_retry(due(journal).lease)
    clock.now += 10**9
    assert journal.lease_next() is None
    assert owed(journal.claim("proof", HERE)).outcome == GOOD


@pytest.mark.parametrize(("age", "open_still"), [(TERMS.max_age - 1, True), (TERMS.max_age, False)])
def test_max_age_is_exact(journal: AnyJournal, clock: Clock, age: float, open_still: bool) -> None:
    lease = decided(journal)
    clock.now += age
    assert journal.schedule_retry(lease) is open_still


def test_the_reason_of_a_stuck_row_survives_max_age(journal: AnyJournal, clock: Clock) -> None:
    stuck(journal)
    clock.now += TERMS.max_age
    assert not journal.schedule_retry(owed(journal.claim("proof", HERE)).lease)
    [hold] = journal.list_holds(10)
    assert hold.reason == "refused"


def test_a_row_may_be_retried_any_number_of_times(journal: AnyJournal, clock: Clock) -> None:
    assert journal.schedule_retry(decided(journal))
    for _ in range(40):
        clock.now += 1.25 * TERMS.max_backoff
        assert journal.schedule_retry(due(journal).lease)


def test_retries_are_spread_by_jitter(journal: AnyJournal, clock: Clock) -> None:
    for number in range(8):
        lease = started(journal, f"proof {number}", f"{TXN[:-1]}{number}")
        assert journal.record_outcome(lease, GOOD)
        assert journal.schedule_retry(lease)
    pauses = {hold.due_at - clock.now for hold in journal.list_holds(10)}
    assert len(pauses) > 4
    assert all(0.75 * TERMS.initial_backoff <= pause <= 1.25 * TERMS.initial_backoff for pause in pauses)


def test_a_stale_lease_marks_nothing_stuck(journal: AnyJournal, clock: Clock) -> None:
    stale = decided(journal)
    clock.now += LEASE
    due(journal)
    journal.mark_stuck(stale, "refused")
    [hold] = journal.list_holds(10)
    assert hold.state == "ok"


# Redelivery


@pytest.mark.parametrize("delivered", [True, False])
def test_redelivery_can_be_off(tmp_path: Path, clock: Clock, delivered: bool) -> None:
    """A result that nobody got yet is handed out once all the same."""
    for name, make in JOURNALS.items():
        journal = make(tmp_path, clock, policy=replace(JournalPolicy(), redeliveries=0))
        lease = fresh(journal.claim(name, HERE))
        assert journal.record_transaction(lease, f"txn_{name}", ACR, WORK_SECONDS)
        assert journal.record_outcome(lease, GOOD)
        journal.record_settlement(lease, "cGFpZA==", RECEIPT, delivered)
        if not delivered:
            assert isinstance(journal.claim(name, HERE), Replayable)
        assert journal.claim(name, HERE) == AlreadyUsed(f"txn_{name}")
        disconnect(journal)


# People


def test_holds_are_listed_oldest_first(journal: AnyJournal, clock: Clock) -> None:
    began = clock.now
    journal.schedule_retry(decided(journal))
    clock.now += 1
    started(journal, "second", OTHER_TXN)
    journal.claim("third", HERE)
    first, second = journal.list_holds(10)
    assert (first.transaction_id, first.revision_id, first.state, first.attempts) == (TXN, ACR, "ok", 1)
    assert (first.since, first.size, first.reason) == (began, len(b"result") + 4, "")
    assert first.due_at > clock.now
    assert (second.transaction_id, second.state) == (OTHER_TXN, "running")
    assert journal.list_holds(1) == [first]
    assert journal.get_hold(OTHER_TXN) == second


def test_an_operator_can_lease_a_hold_that_is_free(journal: AnyJournal) -> None:
    lease = decided(journal)
    assert journal.lease_hold(TXN) is None
    journal.schedule_retry(lease)
    entry = journal.lease_hold(TXN)
    assert entry is not None
    assert (entry.outcome, entry.proof) == (GOOD, "proof")
    assert journal.lease_hold(TXN) is None
    journal.record_final(entry.lease, True)
    assert journal.claim("proof", HERE) == AlreadyUsed(TXN)


def test_settled_and_unknown_transactions_are_no_holds(journal: AnyJournal, clock: Clock) -> None:
    released(journal)
    clock.now += LEASE
    assert (journal.list_holds(10), journal.get_hold(TXN), journal.lease_hold(TXN)) == ([], None, None)
    assert (journal.get_hold(OTHER_TXN), journal.lease_hold(OTHER_TXN)) == (None, None)


def test_a_claim_can_be_begun_anew_after_a_crash_before_access(journal: AnyJournal, clock: Clock) -> None:
    journal.claim("proof", HERE)
    clock.now += TERMS.claim_lease
    assert isinstance(journal.claim("proof", HERE), Claimed)
    assert journal.list_holds(10) == []


# When somebody else may come


def test_recording_an_outcome_extends_the_lease_for_completion(journal: AnyJournal, clock: Clock) -> None:
    decided(journal)
    clock.now += TERMS.completion_lease - 1
    assert journal.lease_next() is None
    clock.now += 1
    assert due(journal).outcome == GOOD


def test_an_open_payment_is_due_for_its_payer_before_the_sweep(journal: AnyJournal, clock: Clock) -> None:
    journal.record_pending(fresh(journal.claim("proof", HERE)), TXN, ACR)
    journal.abandon_claim(owed(journal.claim("proof", HERE)).lease)
    clock.now += TERMS.claim_lease - 1
    assert journal.lease_next() is None
    clock.now += 1
    assert due(journal).transaction_id == TXN

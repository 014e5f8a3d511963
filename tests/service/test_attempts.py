"""Attempts: one at a time, written ahead, taken over when their lease has ended."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from faregate.rules.account import Resource
from faregate.rules.payments import Attempt, SettlementPending, SignedTransfer
from faregate.rules.records import Transaction
from faregate.service.chain.chain_reader import LOOK_SECONDS
from faregate.service.chain.facilitator import FacilitatorSettings
from faregate.service.chain.settlement_agreement import CONFIRM_SECONDS
from faregate.service.database.attempts import AttemptSchedule
from faregate.service.database.clock import Stamps
from faregate.service.database.engine import Database, DatabaseError
from faregate.service.database.sql_store import SqlStore
from tests.service.databases import START, MovedClock
from tests.service.sales import HASH, authorize, get_reserved, open_store, submit

pytestmark = pytest.mark.every_value

LEASE, SENDER = 30.0, "0xAbCd000000000000000000000000000000000001"
HASHES = ["0x" + f"{number:02x}" * 32 for number in range(9)]


def begin(store: SqlStore, made: Transaction) -> Attempt:
    attempt = store.begin_attempt(made)
    assert attempt is not None
    return attempt


def transfer(gas_nonce: int, found: str, replaces: str | None = None) -> SignedTransfer:
    return SignedTransfer(SENDER, 84532, gas_nonce, f"0x02{gas_nonce:02x}", found, replaces, 1_700_000_000)


def test_a_dead_worker_leaves_time_for_another_attempt() -> None:
    """Its payment would expire, and its payer get nothing, although nothing is wrong with it."""
    assert 2 * AttemptSchedule().lease <= Resource.model_fields["max_timeout_seconds"].default
    # Look, send, look again: whoever takes the payment must not find the first attempt still at it.
    longest = FacilitatorSettings("https://pay.example").settle_seconds + LOOK_SECONDS + CONFIRM_SECONDS
    assert longest < AttemptSchedule().lease


def test_nothing_is_attempted_before_the_seller_has_completed(store: SqlStore, clock: MovedClock) -> None:
    made = authorize(store)
    assert store.begin_attempt(made) is None
    clock.move(3600)
    assert store.take_jobs(10) == []


def test_one_attempt_at_a_time(store: SqlStore, clock: MovedClock) -> None:
    made = submit(store)
    attempt = begin(store, made)
    assert (attempt.number, attempt.sent_before, attempt.from_block) == (1, False, 100)
    assert attempt.submitted_at == made.submitted_at
    assert store.begin_attempt(made) is None
    clock.move(LEASE - 0.001)
    assert store.take_jobs(10) == []


def test_the_attempt_of_a_dead_worker_is_taken_over(store: SqlStore, clock: MovedClock) -> None:
    made = submit(store)
    begin(store, made)
    clock.move(LEASE)
    [(taken, attempt)] = store.take_jobs(10)
    assert taken.id == made.id
    # It may have sent something without having noted it.
    assert (attempt.number, attempt.sent_before) == (2, True)
    assert store.take_jobs(10) == []


def test_a_payment_whose_process_died_before_its_first_attempt_is_due(
    store: SqlStore, clock: MovedClock
) -> None:
    made = submit(store)
    assert store.take_jobs(10) == []
    clock.move(1)
    [(taken, attempt)] = store.take_jobs(10)
    assert (taken.id, attempt.number, attempt.sent_before) == (made.id, 1, False)


def test_a_postponed_payment_is_tried_later_and_later(store: SqlStore, clock: MovedClock) -> None:
    made = submit(store)
    attempt = begin(store, made)
    for seconds in (1, 2, 4, 8):
        store.postpone(made, attempt, SettlementPending("settling"), None)
        clock.move(seconds - 0.001)
        assert store.take_jobs(10) == []
        clock.move(0.001)
        [(_, attempt)] = store.take_jobs(10)
    assert attempt.number == 5


def test_what_was_sent_is_known_to_the_next_attempt(store: SqlStore, clock: MovedClock) -> None:
    made = submit(store)
    attempt = begin(store, made)
    store.record_answer(made, attempt, HASHES[1], "HTTP 500 settlement_pending")
    pending = store.postpone(made, attempt, SettlementPending("reconciling"), None)
    assert pending.status == "reconciling"
    clock.move(60)
    [(_, second)] = store.take_jobs(10)
    store.record_answer(made, second, None, "no answer")
    store.postpone(made, second, SettlementPending(), None)
    clock.move(60)
    [(known, third)] = store.take_jobs(10)
    assert (third.hashes, third.number, third.sent_before) == ((HASHES[1],), 3, True)
    assert known.status == "reconciling"


def test_a_late_attempt_changes_nothing_of_a_later_one(store: SqlStore, clock: MovedClock) -> None:
    made = submit(store)
    late = begin(store, made)
    clock.move(LEASE)
    [(_, present)] = store.take_jobs(10)
    store.postpone(made, late, SettlementPending("reconciling"), None)
    clock.move(LEASE - 1)
    assert store.take_jobs(10) == []
    with pytest.raises(DatabaseError, match="lost its lease"):
        store.record_signed(made, late, transfer(0, HASHES[1]))
    assert store.record_signed(made, present, transfer(0, HASHES[2]))


def test_a_late_attempt_may_still_tell_what_the_chain_proved(store: SqlStore, clock: MovedClock) -> None:
    made = submit(store)
    begin(store, made)
    clock.move(LEASE)
    store.take_jobs(10)
    assert store.record_settled(made, HASH, None).status == "succeeded"
    clock.move(3600)
    assert store.take_jobs(10) == []


def test_nothing_is_attempted_after_the_end(store: SqlStore, clock: MovedClock) -> None:
    first, second = submit(store), submit(store)
    ended = [store.record_settled(first, HASH, None), store.record_failed(second, None)]
    clock.move(LEASE)
    assert [store.begin_attempt(made) for made in (first, second, *ended)] == [None] * 4
    assert store.take_jobs(10) == []


def test_no_answer_takes_away_a_hash(store: SqlStore, clock: MovedClock) -> None:
    """Neither one that was told before, nor that of what was signed."""
    told, signed = submit(store), submit(store)
    store.record_answer(told, one := begin(store, told), HASHES[1], "sent")
    store.record_answer(told, one, None, "no answer")
    store.record_signed(signed, two := begin(store, signed), transfer(1, HASHES[2]))
    store.record_answer(signed, two, None, "no answer")
    clock.move(LEASE)
    assert {made.id: attempt.hashes for made, attempt in store.take_jobs(10)} == {
        told.id: (HASHES[1],),
        signed.id: (HASHES[2],),
    }


def test_a_gas_nonce_is_taken_once(store: SqlStore) -> None:
    first, second = submit(store), submit(store)
    one, two = begin(store, first), begin(store, second)
    assert store.get_gas_nonce(84532, SENDER) is None
    assert store.record_signed(first, one, transfer(7, HASHES[1]))
    assert store.get_gas_nonce(84532, SENDER.lower()) == 8
    assert store.get_gas_nonce(8453, SENDER) is None
    assert not store.record_signed(second, two, transfer(7, HASHES[2]))
    assert not store.record_signed(second, two, transfer(5, HASHES[2]))
    assert store.record_signed(second, two, transfer(8, HASHES[2]))


def test_a_signed_transfer_is_kept_until_the_end(store: SqlStore, clock: MovedClock) -> None:
    made = submit(store)
    attempt = begin(store, made)
    signed = transfer(7, HASHES[1])
    assert store.record_signed(made, attempt, signed)
    store.record_answer(made, attempt, HASHES[1], "sent")
    clock.move(LEASE)
    [(_, second)] = store.take_jobs(10)
    assert second.signed == replace(signed, sender=SENDER.lower())
    assert second.hashes == (HASHES[1],)
    faster = transfer(7, HASHES[3], replaces=HASHES[1])
    assert not store.record_signed(made, second, replace(faster, replaces=HASHES[2]))
    assert store.record_signed(made, second, faster)
    assert store.get_gas_nonce(84532, SENDER) == 8
    clock.move(LEASE)
    [(_, third)] = store.take_jobs(10)
    assert third.signed == replace(faster, sender=SENDER.lower())
    assert third.hashes == (HASHES[1], HASHES[3])


def test_the_oldest_payments_are_taken_first(store: SqlStore, clock: MovedClock) -> None:
    made = []
    for _ in range(3):
        made.append(submit(store).id)
        clock.move(1)
    clock.move(60)
    assert [taken.id for taken, _ in store.take_jobs(2)] == made[:2]
    assert [taken.id for taken, _ in store.take_jobs(2)] == made[2:]


def test_workers_do_not_wait_for_each_other(database: Database, clock: MovedClock) -> None:
    if database.is_sqlite:
        pytest.skip("SQLite has one writer at a time")
    from faregate.service.database.attempts import find_due

    store = open_store(database, clock)
    made = [submit(store).id for _ in range(2)]
    clock.move(60)
    now = store._stamps.now()
    with database.write() as one, database.write() as another:
        found = [*find_due(one, store.account.id, now, 1), *find_due(another, store.account.id, now, 2)]
    assert sorted(found) == sorted(made)


def test_leases_and_retries_outlive_a_clock_that_was_ahead(
    store: SqlStore, database: Database, clock: MovedClock
) -> None:
    # A list of a process whose clock is an hour ahead: all later stamps are later than that.
    Stamps(database, lambda: START + timedelta(hours=1)).fix_snapshot(store.account.id, None)
    made = submit(store)
    assert made.created_at > START + timedelta(hours=1)
    assert store.now() == clock.moment
    [(taken, attempt)] = take_when_due(store, clock, 1)
    store.postpone(taken, attempt, SettlementPending("reconciling"), None)
    assert len(take_when_due(store, clock, 1)) == 1
    # Its worker dies: the lease ends by the clock, too.
    assert len(take_when_due(store, clock, LEASE)) == 1


def take_when_due(
    store: SqlStore, clock: MovedClock, seconds: float
) -> Sequence[tuple[Transaction, Attempt]]:
    """Take what is due so many seconds later, and not before."""
    assert store.take_jobs(1) == []
    clock.move(seconds)
    return store.take_jobs(1)


def test_an_open_payment_is_not_called_expired_after_a_clock_was_ahead(
    store: SqlStore, database: Database, clock: MovedClock
) -> None:
    Stamps(database, lambda: START + timedelta(hours=1)).fix_snapshot(store.account.id, None)
    soon = int(clock.moment.timestamp()) + 60
    made = authorize(store, valid_before=soon)
    assert store.now().timestamp() < made.payment.valid_before
    assert get_reserved(store) == made.payment.value

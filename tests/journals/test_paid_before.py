"""What is remembered of a payment after its result, and a payment that is sent in another encoding."""

import base64
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from faregate.core.claim_types import (
    AlreadyFailed,
    AlreadyUsed,
    InProgress,
    Lease,
    Replayable,
    RequestMismatch,
    SettlementWrite,
)
from faregate.core.models import WorkFailed
from faregate.errors import JournalFull
from faregate.journals.payment_info import PaymentStatus, Reference, ReferenceKind
from faregate.journals.persistent import PersistentJournal
from faregate.journals.row_rules import find_use
from faregate.journals.states import FINAL, OWED, RowState
from faregate.journals.store import ENCRYPTED
from tests.core.flow_script import ACR, RECEIPT, TXN
from tests.journals.rows import GOOD, HERE, LEASE, TERMS, WORK_SECONDS, fresh, started
from tests.journals.stores import JOURNALS, KEY, OTHER_KEY, STORED, AnyJournal, Clock
from tests.support.encodings import NONCE, PAYER, encode_payment

DAY = 86_400.0
FIRST, OTHER = encode_payment(), encode_payment(indent=1)
ENCODINGS = {
    "other white space": OTHER,
    "other case": encode_payment(payer=PAYER.lower(), nonce=NONCE.lower()),
    "no padding": encode_payment(seconds=61).rstrip("="),
    "letters of URLs": base64.urlsafe_b64encode(base64.b64decode(FIRST) + b"\n").decode(),
}


def begin(journal: AnyJournal) -> Lease:
    return fresh(journal.claim(FIRST, HERE))


def run(journal: AnyJournal) -> Lease:
    lease = begin(journal)
    assert journal.record_transaction(lease, TXN, ACR, WORK_SECONDS)
    return lease


def finish(journal: AnyJournal, outcome: Any = GOOD) -> Lease:
    lease = run(journal)
    assert journal.record_outcome(lease, outcome)
    return lease


def release(journal: AnyJournal, delivered: bool = True) -> Lease:
    lease = finish(journal)
    journal.record_settlement(lease, "cGFpZA==", RECEIPT, delivered)
    return lease


def ask(journal: AnyJournal, other: str = OTHER) -> InProgress | AlreadyUsed | None:
    """Send the payment in another encoding, which the service refuses."""
    lease = fresh(journal.claim(other, HERE))
    use = journal.find_other_encoding(lease, other)
    assert journal.abandon_claim(lease)
    return use


# After the last delivery


@pytest.mark.parametrize("is_swept", [False, True], ids=["at once", "after a sweep"])
def test_a_delivered_payment_is_called_used_for_a_day(
    journal: AnyJournal, clock: Clock, is_swept: bool
) -> None:
    release(journal)
    clock.now += TERMS.redelivery_window
    if is_swept:
        assert journal.lease_next() is None
    assert journal.claim(FIRST, HERE) == AlreadyUsed(TXN)
    clock.now += DAY - TERMS.redelivery_window - 1
    assert journal.lease_next() is None
    assert journal.claim(FIRST, HERE) == AlreadyUsed(TXN)
    clock.now += 1
    fresh(journal.claim(FIRST, HERE))


@pytest.mark.parametrize(("valid_days", "kept_days"), [(3, 3), (90, 30)])
def test_a_payment_that_is_valid_for_longer_is_called_used_for_longer(
    journal: AnyJournal, clock: Clock, valid_days: int, kept_days: int
) -> None:
    longer = encode_payment(seconds=valid_days * int(DAY))
    lease = fresh(journal.claim(longer, HERE))
    journal.record_transaction(lease, TXN, ACR, WORK_SECONDS)
    journal.record_outcome(lease, GOOD)
    journal.record_settlement(lease, "cGFpZA==", RECEIPT, True)
    clock.now += kept_days * DAY - 1
    assert journal.lease_next() is None
    assert journal.claim(longer, HERE) == AlreadyUsed(TXN)
    clock.now += 1
    fresh(journal.claim(longer, HERE))


def test_a_payment_that_was_fetched_late_is_called_used_for_a_day_from_then(
    journal: AnyJournal, clock: Clock
) -> None:
    release(journal, delivered=False)
    clock.now += TERMS.undelivered_retention - 1
    assert isinstance(journal.claim(FIRST, HERE), Replayable)
    clock.now += DAY - 1
    assert journal.lease_next() is None
    assert journal.claim(FIRST, HERE) == AlreadyUsed(TXN)


def test_nothing_of_the_result_is_kept_after_the_last_delivery(journal: AnyJournal, clock: Clock) -> None:
    release(journal)
    clock.now += TERMS.redelivery_window
    assert journal.lease_next() is None
    [payment] = journal.find_payments(Reference(ReferenceKind.TRANSACTION, TXN)).payments
    assert (payment.status, payment.size, payment.redeliveries) == (PaymentStatus.DELIVERED, 0, 0)
    assert (payment.request_line, payment.payer, payment.transaction_hash) == ("", "", "")
    assert payment.kept_until == clock.now - TERMS.redelivery_window + DAY
    if isinstance(journal, PersistentJournal):
        [record] = journal._store.iterate()
        assert not any(record[name] for name in ENCRYPTED)  # type: ignore[literal-required]
        assert journal._store.find_result(record["key"]) is None
        assert (record["client"], record["body"], journal._store.measure()) == ("", "", (1, 0))
    else:
        assert journal._bytes == 0


def test_the_result_goes_with_new_claims_if_there_is_no_sweep(journal: AnyJournal, clock: Clock) -> None:
    release(journal)
    clock.now += TERMS.redelivery_window
    fresh(journal.claim("another", HERE))
    [payment] = journal.find_payments(Reference(ReferenceKind.TRANSACTION, TXN)).payments
    assert (payment.status, payment.size) == (PaymentStatus.DELIVERED, 0)


def test_another_request_with_a_payment_that_is_remembered_is_refused(
    journal: AnyJournal, clock: Clock
) -> None:
    release(journal)
    clock.now += TERMS.redelivery_window
    assert journal.lease_next() is None
    assert journal.claim(FIRST, replace(HERE, request="GET /other")) == RequestMismatch()


def test_a_worker_that_wakes_up_after_the_last_delivery_releases_nothing(
    journal: AnyJournal, clock: Clock
) -> None:
    slow = finish(journal)
    clock.now += LEASE
    taken = journal.lease_next()
    assert taken is not None
    assert journal.record_settlement(taken.lease, "cGFpZA==", RECEIPT, True) is SettlementWrite.FIRST
    clock.now += TERMS.redelivery_window
    assert journal.lease_next() is None
    late = journal.record_settlement(slow, "cGFpZA==", RECEIPT, True)
    assert late is SettlementWrite.DELIVERED_ELSEWHERE


def test_a_paid_result_that_nobody_fetched_is_not_sold_again(journal: AnyJournal, clock: Clock) -> None:
    """Its payer comes when it is gone. They were charged: an operator serves or refunds them."""
    slow = finish(journal)
    receipt = json.dumps({"payment": {"payer": PAYER, "transaction_hash": "0xabc"}})
    journal.record_settlement(slow, "cGFpZA==", receipt, False)
    clock.now += TERMS.undelivered_retention
    assert journal.remove_unfetched(10) == (TXN,)
    assert journal.remove_unfetched(10) == ()
    assert journal.claim(FIRST, HERE) == AlreadyUsed(TXN)
    # The sale was counted when it was settled.
    assert journal.record_settlement(slow, "cGFpZA==", RECEIPT, True) is SettlementWrite.REPEATED
    [payment] = journal.find_payments(Reference(ReferenceKind.TRANSACTION, TXN)).payments
    assert (payment.status, payment.reason) == (PaymentStatus.PAID_WITHOUT_RESULT, "not_fetched")
    assert payment.transaction_hash == "0xabc"
    clock.now += TERMS.paid_retention - 1
    assert journal.lease_next() is None
    assert journal.claim(FIRST, HERE) == AlreadyUsed(TXN)
    clock.now += 1
    fresh(journal.claim(FIRST, HERE))


def test_a_payment_that_failed_is_forgotten_after_an_hour(journal: AnyJournal, clock: Clock) -> None:
    """Nothing was charged, so new instructions are right."""
    journal.record_final(finish(journal, WorkFailed("handler_error")), False)
    assert journal.claim(FIRST, HERE) == AlreadyFailed()
    clock.now += TERMS.failed_retention
    fresh(journal.claim(FIRST, HERE))


@pytest.mark.parametrize("kind", JOURNALS)
def test_a_full_journal_forgets_delivered_payments_before_it_refuses_new_ones(
    kind: str, clock: Clock, tmp_path: Path
) -> None:
    journal = JOURNALS[kind](tmp_path, clock, max_rows=2)
    release(journal)
    clock.now += TERMS.redelivery_window
    open_one = started(journal, "open", "txn_open")
    assert journal.claim(FIRST, HERE) == AlreadyUsed(TXN)
    fresh(journal.claim("new", HERE))
    with pytest.raises(JournalFull):
        journal.claim("newer", HERE)
    assert journal.record_outcome(open_one, GOOD)


@pytest.mark.parametrize("kind", STORED)
def test_a_write_that_saw_the_result_does_not_bring_it_back(kind: str, clock: Clock, tmp_path: Path) -> None:
    """A payer fetches the result at the moment at which it is dropped."""
    store = STORED[kind](tmp_path, clock)._store
    journal = STORED[kind](tmp_path, clock)
    release(journal)
    [before] = store.iterate()
    assert store.drop_results(clock.now + TERMS.redelivery_window, 10) == 1
    assert not store.replace(before["key"], before["stamp"], {"redelivered": 1, "stamp": 7}, False)
    assert store.drop_results(clock.now + TERMS.redelivery_window, 10) == 0
    [after] = store.iterate()
    assert (after["state"], after["stamp"] < 0, after["redelivered"]) == ("paid", True, 0)


# Another encoding


def test_a_payment_is_open_in_any_encoding_from_its_claim_to_its_settlement(journal: AnyJournal) -> None:
    lease = begin(journal)
    assert ask(journal) == InProgress()
    journal.record_transaction(lease, TXN, ACR, WORK_SECONDS)
    assert ask(journal) == InProgress()
    journal.record_outcome(lease, GOOD)
    assert ask(journal) == InProgress()
    journal.schedule_retry(lease)
    assert ask(journal) == InProgress()
    journal.record_settlement(lease, "cGFpZA==", RECEIPT, True)
    assert ask(journal) == AlreadyUsed(TXN)


@pytest.mark.parametrize("other", ENCODINGS.values(), ids=ENCODINGS)
def test_a_payment_is_the_same_in_any_encoding(journal: AnyJournal, other: str) -> None:
    assert other != FIRST
    run(journal)
    assert ask(journal, other) == InProgress()


def test_a_delivered_payment_is_used_in_any_encoding_as_long_as_it_is_remembered(
    journal: AnyJournal, clock: Clock
) -> None:
    release(journal)
    clock.now += TERMS.redelivery_window
    assert ask(journal) == AlreadyUsed(TXN)
    assert journal.lease_next() is None
    assert ask(journal) == AlreadyUsed(TXN)
    clock.now += DAY
    assert ask(journal) is None


def test_a_payment_that_failed_is_not_in_use(journal: AnyJournal) -> None:
    journal.record_final(finish(journal, WorkFailed("handler_error")), False)
    assert ask(journal) is None


def test_a_claim_that_has_expired_is_not_in_use(journal: AnyJournal, clock: Clock) -> None:
    begin(journal)
    clock.now += 2 * TERMS.claim_lease - 1
    assert ask(journal) == InProgress()
    clock.now += 1
    assert ask(journal) is None


def test_what_became_of_a_payment_counts_more_than_who_else_sends_it(journal: AnyJournal) -> None:
    fresh(journal.claim(encode_payment(indent=2), HERE))
    release(journal)
    fresh(journal.claim(encode_payment(indent=3), HERE))
    assert ask(journal) == AlreadyUsed(TXN)


def test_another_payment_is_none_of_its_business(journal: AnyJournal) -> None:
    release(journal)
    assert ask(journal, encode_payment(nonce="0x" + "ef" * 32)) is None
    assert ask(journal, encode_payment(payer="0x" + "12" * 20)) is None
    assert ask(journal, "no payment at all") is None
    lease = fresh(journal.claim("none either", HERE))
    assert journal.find_other_encoding(lease, "no payment at all") is None


def test_an_encoding_of_another_namespace_is_not_found(clock: Clock, tmp_path: Path) -> None:
    for kind in STORED:
        ours, theirs = (STORED[kind](tmp_path, clock, namespace=name) for name in ("a", "b"))
        release(theirs)
        assert ask(ours) is None, kind


@pytest.mark.parametrize("kind", ["sqlite", "redis", "postgres"])
def test_an_encoding_is_found_under_an_older_journal_key(kind: str, clock: Clock, tmp_path: Path) -> None:
    run(STORED[kind](tmp_path, clock, keys=[OTHER_KEY]))
    assert ask(STORED[kind](tmp_path, clock, keys=[KEY, OTHER_KEY])) == InProgress()
    assert ask(STORED[kind](tmp_path, clock, keys=[KEY])) is None


@pytest.mark.parametrize("state", RowState)
def test_every_state_says_whether_its_payment_is_in_use(state: RowState) -> None:
    expected: dict[RowState, Any] = {
        RowState.CLAIMED: InProgress(),
        **dict.fromkeys(OWED, InProgress()),
        **dict.fromkeys(FINAL, AlreadyUsed(TXN)),
        RowState.UNPAID: None,
    }
    assert find_use(state, TXN) == expected[state]

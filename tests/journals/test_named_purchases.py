"""A purchase that its payer has named is made once, for as long as its row lasts."""

from dataclasses import replace

import pytest

from faregate.core.claim_types import (
    AlreadyUsed,
    Claimant,
    ClientMismatch,
    EarlierPayment,
    Replayable,
    RequestMismatch,
)
from faregate.core.models import WorkFailed
from faregate.journals.memory import MemoryJournal
from tests.core.flow_script import ACR
from tests.journals.rows import GOOD, HERE, LEASE, TERMS, WORK_SECONDS, fresh, owed
from tests.journals.stores import AnyJournal, Clock
from tests.journals.test_purchases import (
    ALICE,
    BOB,
    NAMED,
    RESPONSE,
    begin,
    led_to_first,
    settle,
    signed,
    started,
)

OTHER_NAME = replace(HERE, identifier="https://seller.example pay_fedcba9876543210")
OTHER_SELLER = replace(HERE, identifier="https://other.example pay_0123456789abcdef")
WEEK = 7 * 86_400.0


@pytest.mark.parametrize("delivered", [True, False])
def test_it_is_not_made_again_after_its_delivery(journal: AnyJournal, delivered: bool) -> None:
    settle(journal, started(journal, 1, NAMED), delivered)
    led_to_first(journal, 2, NAMED)
    assert journal.claim_transaction("txn_1", NAMED) == Replayable(GOOD.result, RESPONSE, "txn_1")
    led_to_first(journal, 3, NAMED)
    assert isinstance(journal.claim_transaction("txn_1", NAMED), Replayable)


@pytest.mark.parametrize("sweep", [True, False])
def test_it_is_not_made_again_while_its_row_lasts(journal: AnyJournal, clock: Clock, sweep: bool) -> None:
    settle(journal, started(journal, 1, NAMED))
    clock.now += TERMS.redelivery_window
    if sweep:
        assert journal.lease_next() is None
        fresh(journal.claim(signed(9), HERE))  # stores drop results with a new row
    lease, earlier = begin(journal, 2, NAMED)
    assert earlier == EarlierPayment("txn_1")
    assert journal.record_resumption(lease, "txn_2", ACR, "txn_1")
    assert journal.claim_transaction("txn_1", NAMED) == AlreadyUsed("txn_1")


def test_it_is_made_again_when_its_row_is_forgotten(journal: AnyJournal, clock: Clock) -> None:
    settle(journal, started(journal, 1, NAMED))
    clock.now += WEEK
    assert begin(journal, 2, NAMED)[1] is True
    assert begin(journal, 3, NAMED)[1] == EarlierPayment("txn_2")


@pytest.mark.parametrize(
    ("claimant", "payer"),
    [(NAMED, BOB), (OTHER_NAME, ALICE), (OTHER_SELLER, ALICE), (HERE, ALICE)],
    ids=["payer", "name", "seller", "no name"],
)
def test_another_purchase_starts_at_once(journal: AnyJournal, claimant: Claimant, payer: str) -> None:
    started(journal, 1, NAMED)
    assert begin(journal, 2, claimant, payer)[1] is True


@pytest.mark.parametrize(
    "claimant",
    [
        replace(NAMED, request="GET /summary?q=2"),
        replace(NAMED, request="POST /summary?q=1"),
        replace(NAMED, request="GET /summary?q=1 as another offer"),
        replace(NAMED, body_digest="cd" * 32),
    ],
    ids=["query", "method", "offer", "body"],
)
@pytest.mark.parametrize("ends", [True, False])
def test_the_name_of_another_request_is_refused(journal: AnyJournal, claimant: Claimant, ends: bool) -> None:
    lease = started(journal, 1, replace(NAMED, body_digest="ab" * 32))
    if ends:
        settle(journal, lease)
    led_to_first(journal, 2, claimant)
    assert journal.claim_transaction("txn_1", claimant) == RequestMismatch()


def test_another_client_starts_no_second_payment_for_it(journal: AnyJournal) -> None:
    settle(journal, started(journal, 1, replace(NAMED, credentials=("authorization Bearer mine",))))
    other = replace(NAMED, credentials=("authorization Bearer other",))
    led_to_first(journal, 2, other)
    assert journal.claim_transaction("txn_1", other) == ClientMismatch()


@pytest.mark.parametrize("at_end", [False, True])
def test_after_a_failed_one_it_is_made_again(journal: AnyJournal, at_end: bool) -> None:
    lease = started(journal, 1, NAMED)
    assert journal.record_outcome(lease, WorkFailed("handler_error"))
    if at_end:
        assert journal.record_final(lease, False, "handler_error")
    assert begin(journal, 2, NAMED)[1] is True


@pytest.mark.parametrize("paid", [False, True])
def test_only_a_payment_that_was_not_charged_frees_it(journal: AnyJournal, paid: bool) -> None:
    lease = started(journal, 1, NAMED)
    assert journal.record_outcome(lease, GOOD)
    assert journal.record_final(lease, paid, "ended")
    assert begin(journal, 2, NAMED)[1] == (EarlierPayment("txn_1") if paid else True)


def test_a_result_that_was_not_fetched_frees_it_not(journal: AnyJournal, clock: Clock) -> None:
    settle(journal, started(journal, 1, NAMED), delivered=False)
    clock.now += TERMS.undelivered_retention
    assert journal.remove_unfetched(10) == ("txn_1",)
    led_to_first(journal, 2, NAMED)
    assert journal.claim_transaction("txn_1", NAMED) == AlreadyUsed("txn_1")


def test_interrupted_work_frees_it_when_it_ends(journal: AnyJournal, clock: Clock) -> None:
    started(journal, 1, NAMED)
    clock.now += LEASE
    lease, earlier = begin(journal, 2, NAMED)
    assert earlier == EarlierPayment("txn_1", is_interrupted=True)
    entry = owed(journal.claim_transaction("txn_1", NAMED))
    assert journal.record_outcome(entry.lease, WorkFailed("interrupted"))
    assert journal.record_transaction(lease, "txn_2", ACR, WORK_SECONDS, NAMED) is True


def test_a_full_memory_journal_forgets_names_with_their_rows(clock: Clock) -> None:
    journal = MemoryJournal(max_rows=3, clock=clock)
    settle(journal, started(journal, 1, NAMED))
    clock.now += TERMS.redelivery_window
    for number in (2, 3):
        started(journal, number, replace(HERE, request=f"GET /{number}"))
    assert begin(journal, 4, replace(NAMED, request="GET /other"))[1] is True


def test_a_start_that_comes_late_is_recorded(journal: AnyJournal, clock: Clock) -> None:
    """The claim may have expired meanwhile. Its transaction must not be lost."""
    lease = fresh(journal.claim(signed(1), NAMED))
    clock.now += WEEK
    assert journal.record_transaction(lease, "txn_1", ACR, WORK_SECONDS, NAMED) is True
    assert [hold.transaction_id for hold in journal.list_holds(10)] == ["txn_1"]

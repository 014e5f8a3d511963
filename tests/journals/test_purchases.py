"""Of a payer's payments for one request, one runs at a time; the others are led to its result."""

import json
from base64 import b64encode
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from faregate.core.claim_types import (
    AlreadyFailed,
    AlreadyUsed,
    Claimant,
    ClientMismatch,
    EarlierPayment,
    InProgress,
    Lease,
    Replayable,
    ReplayPolicy,
    RequestMismatch,
    SettlementWrite,
    name_resumption,
)
from faregate.core.models import WorkFailed
from faregate.journals.persistent import PersistentJournal
from tests.core.flow_script import ACR, RECEIPT
from tests.journals.rows import GOOD, HERE, LEASE, TERMS, WORK_SECONDS, fresh, owed
from tests.journals.stores import KEY, OTHER_KEY, STORED, AnyJournal, Clock, disconnect
from tests.support.threads import run_in_threads

ALICE, BOB = "0x" + "a" * 40, "0x" + "b" * 40
RESPONSE = "cGFpZA=="
BODY = replace(HERE, request="POST /", body_digest="ab" * 32)
NAMED = replace(HERE, identifier="https://seller.example pay_0123456789abcdef")


def signed(number: int, payer: str = ALICE) -> str:
    """A proof that names its payer, as those of x402 do."""
    authorization = {"from": payer, "nonce": f"0x{number:064x}"}
    return b64encode(json.dumps({"payload": {"authorization": authorization}}).encode()).decode()


def begin(
    journal: AnyJournal, number: int, claimant: Claimant = HERE, payer: str = ALICE
) -> tuple[Lease, bool | EarlierPayment]:
    lease = fresh(journal.claim(signed(number, payer), claimant))
    return lease, journal.record_transaction(lease, f"txn_{number}", ACR, WORK_SECONDS, claimant)


def started(journal: AnyJournal, number: int, claimant: Claimant = HERE) -> Lease:
    lease, has_started = begin(journal, number, claimant)
    assert has_started is True
    return lease


def settle(journal: AnyJournal, lease: Lease, delivered: bool = True) -> None:
    assert journal.record_outcome(lease, GOOD)
    journal.record_settlement(lease, RESPONSE, RECEIPT, delivered)


def led_to_first(journal: AnyJournal, number: int, claimant: Claimant = HERE) -> Lease:
    """The second payment, whose row names the first one."""
    lease, first = begin(journal, number, claimant)
    assert isinstance(first, EarlierPayment)
    assert journal.record_resumption(lease, f"txn_{number}", ACR, first.transaction_id)
    return lease


def test_a_second_payment_does_not_start_while_the_first_runs(journal: AnyJournal) -> None:
    started(journal, 1)
    lease, first = begin(journal, 2)
    assert first == EarlierPayment("txn_1")
    # Nothing was written: the payment may still be used, or given up.
    assert journal.record_transaction(lease, "txn_2", ACR, WORK_SECONDS) is True


@pytest.mark.parametrize(
    ("claimant", "payer"),
    [
        (HERE, BOB),
        (Claimant("GET /summary?q=2"), ALICE),
        (Claimant("HEAD /summary?q=1"), ALICE),
        (replace(HERE, sold="another https://seller.example/summary"), ALICE),
        (replace(HERE, body_digest="cd" * 32), ALICE),
        (replace(HERE, credentials=("authorization Bearer other",)), ALICE),
        (replace(HERE, credentials=("?idempotency-key 2",)), ALICE),
    ],
    ids=["payer", "query", "method", "what is sold", "body", "authorization", "idempotency key"],
)
def test_another_purchase_starts_at_once(journal: AnyJournal, claimant: Claimant, payer: str) -> None:
    started(journal, 1)
    assert begin(journal, 2, claimant, payer)[1] is True


def test_a_proof_that_names_no_payer_is_a_purchase_of_its_own(journal: AnyJournal) -> None:
    for number in (1, 2):
        lease = fresh(journal.claim(f"unreadable {number}", HERE))
        assert journal.record_transaction(lease, f"txn_{number}", ACR, WORK_SECONDS, HERE) is True


def test_a_payment_that_was_not_to_be_compared_is_not_resumed(journal: AnyJournal) -> None:
    lease = fresh(journal.claim(signed(1), HERE))
    assert journal.record_transaction(lease, "txn_1", ACR, WORK_SECONDS) is True
    assert begin(journal, 2)[1] is True


def test_a_request_without_the_first_ones_cookies_is_a_purchase_of_its_own(journal: AnyJournal) -> None:
    session = replace(HERE, credentials=("cookie sid=0123456789abcdef",))
    started(journal, 1, session)
    assert begin(journal, 2)[1] is True
    more = replace(session, credentials=(*session.credentials, "?cookie theme=dark"))
    assert begin(journal, 3, more)[1] == EarlierPayment("txn_1")


def test_the_same_payment_in_another_encoding_is_not_an_earlier_one(journal: AnyJournal) -> None:
    started(journal, 1)
    twin = fresh(journal.claim(signed(1) + "=", HERE))
    assert journal.record_transaction(twin, "txn_1", ACR, WORK_SECONDS, HERE) is False


@pytest.mark.parametrize("delivered", [True, False])
def test_after_its_delivery_a_payment_is_a_new_purchase(journal: AnyJournal, delivered: bool) -> None:
    settle(journal, started(journal, 1), delivered)
    if not delivered:
        assert begin(journal, 2)[1] == EarlierPayment("txn_1")
        assert isinstance(journal.claim(signed(1), HERE), Replayable)
    assert begin(journal, 3)[1] is True


def test_a_result_that_was_not_sent_is_delivered_to_its_payer_later(journal: AnyJournal) -> None:
    lease = started(journal, 1)
    settle(journal, lease)
    assert journal.record_settlement(lease, RESPONSE, RECEIPT, False) is SettlementWrite.REPEATED
    assert begin(journal, 2)[1] == EarlierPayment("txn_1")
    # The first delivery is not counted: three more may follow this one.
    replays = [journal.claim(signed(1), HERE) for _ in range(5)]
    assert [type(each) for each in replays] == [*[Replayable] * 4, AlreadyUsed]


def test_a_delivery_is_taken_back_beside_a_payment_that_has_its_purchase(journal: AnyJournal) -> None:
    lease = started(journal, 1)
    settle(journal, lease)
    started(journal, 2)
    assert journal.record_settlement(lease, RESPONSE, RECEIPT, False) is SettlementWrite.REPEATED
    assert isinstance(journal.claim(signed(1), HERE), Replayable)
    assert begin(journal, 3)[1] == EarlierPayment("txn_2")


def test_only_its_own_lease_takes_a_delivery_back_before_a_later_one(
    journal: AnyJournal, clock: Clock
) -> None:
    lease = started(journal, 1)
    settle(journal, lease)
    journal.record_settlement(Lease(lease.key, lease.fence + 1), RESPONSE, RECEIPT, False)
    assert isinstance(journal.claim(signed(1), HERE), Replayable)
    journal.record_settlement(lease, RESPONSE, RECEIPT, False)
    assert begin(journal, 2)[1] is True
    clock.now += 3600.0
    assert not isinstance(journal.claim(signed(1), HERE), Replayable)


@pytest.mark.parametrize("at_end", [False, True])
def test_after_a_failed_one_a_payment_is_a_new_purchase(journal: AnyJournal, at_end: bool) -> None:
    lease = started(journal, 1)
    assert journal.record_outcome(lease, WorkFailed("handler_error"))
    if at_end:
        assert journal.record_final(lease, False, "handler_error")
    assert begin(journal, 2)[1] is True


def test_a_payment_that_failed_after_good_work_frees_the_purchase(journal: AnyJournal) -> None:
    lease = started(journal, 1)
    assert journal.record_outcome(lease, GOOD)
    assert begin(journal, 2)[1] == EarlierPayment("txn_1")
    assert journal.record_final(lease, False, "payment_failed")
    assert begin(journal, 3)[1] is True


def test_a_stuck_payment_is_an_open_one(journal: AnyJournal) -> None:
    lease = started(journal, 1)
    assert journal.record_outcome(lease, GOOD)
    journal.mark_stuck(lease, "refused")
    assert begin(journal, 2)[1] == EarlierPayment("txn_1")


def test_a_result_that_was_removed_frees_the_purchase(journal: AnyJournal, clock: Clock) -> None:
    settle(journal, started(journal, 1), delivered=False)
    clock.now += TERMS.undelivered_retention
    assert journal.remove_unfetched(10) == ("txn_1",)
    assert begin(journal, 2)[1] is True


def test_interrupted_work_is_named_and_its_end_frees_the_purchase(journal: AnyJournal, clock: Clock) -> None:
    slow = started(journal, 1)
    clock.now += LEASE
    lease, first = begin(journal, 2)
    assert first == EarlierPayment("txn_1", is_interrupted=True)
    entry = owed(journal.claim_transaction("txn_1", HERE))
    assert journal.record_outcome(entry.lease, WorkFailed("interrupted"))
    assert not journal.record_outcome(slow, GOOD)
    assert journal.record_transaction(lease, "txn_2", ACR, WORK_SECONDS, HERE) is True


def test_a_payment_that_is_given_up_is_owed_and_leads_to_the_first(journal: AnyJournal, clock: Clock) -> None:
    first = started(journal, 1)
    second = led_to_first(journal, 2)
    assert journal.claim(signed(2), HERE) == InProgress()
    clock.now += TERMS.completion_lease
    entry = owed(journal.claim(signed(2), HERE))
    assert (entry.transaction_id, entry.revision_id) == ("txn_2", ACR)
    assert entry.outcome == WorkFailed(name_resumption("txn_1"))
    assert not journal.record_final(second, False, name_resumption("txn_1"))
    assert journal.record_final(entry.lease, False, name_resumption("txn_1"))
    assert journal.claim(signed(2), HERE) == AlreadyFailed("txn_1")
    assert journal.claim(signed(2), Claimant("GET /other")) == RequestMismatch()
    settle(journal, first)
    assert journal.claim(signed(2), HERE) == AlreadyFailed("txn_1")


def test_a_transaction_is_claimed_like_its_proof(journal: AnyJournal, clock: Clock) -> None:
    lease = started(journal, 1)
    assert journal.claim_transaction("txn_1", HERE) == InProgress()
    assert journal.record_outcome(lease, GOOD)
    journal.schedule_retry(lease)
    entry = owed(journal.claim_transaction("txn_1", HERE))
    assert (entry.transaction_id, entry.proof, entry.outcome) == ("txn_1", signed(1), GOOD)
    journal.record_settlement(entry.lease, RESPONSE, RECEIPT, True)
    assert journal.claim_transaction("txn_1", HERE) == Replayable(GOOD.result, RESPONSE, "txn_1")
    never = replace(HERE, replay=ReplayPolicy.NEVER)
    assert journal.claim_transaction("txn_1", never) == AlreadyUsed("txn_1")
    assert journal.claim_transaction("txn_1", Claimant("GET /other")) == RequestMismatch()
    assert journal.claim_transaction("txn_none", HERE) == AlreadyFailed()


def test_a_transaction_is_given_to_its_client_only(journal: AnyJournal) -> None:
    alice = replace(HERE, credentials=("authorization Bearer alice",))
    settle(journal, started(journal, 1, alice))
    assert journal.claim_transaction("txn_1", HERE) == ClientMismatch()
    assert isinstance(journal.claim_transaction("txn_1", alice), Replayable)


def test_an_expired_transaction_is_forgotten(journal: AnyJournal, clock: Clock) -> None:
    lease = started(journal, 1)
    assert journal.record_outcome(lease, WorkFailed("handler_error"))
    assert journal.record_final(lease, False, "handler_error")
    assert journal.claim_transaction("txn_1", HERE) == AlreadyFailed()
    clock.now += TERMS.failed_retention
    assert journal.claim_transaction("txn_1", HERE) == AlreadyFailed()
    fresh(journal.claim(signed(1), HERE))


@pytest.mark.parametrize("claimant", [BODY, NAMED], ids=["by request", "by name"])
def test_of_twenty_at_once_one_starts(journal: AnyJournal, claimant: Claimant) -> None:
    leases = [fresh(journal.claim(signed(number), claimant)) for number in range(20)]
    answers: list[bool | EarlierPayment] = []

    def start(number: int) -> Callable[[], None]:
        def run() -> None:
            lease, transaction_id = leases[number], f"txn_{number}"
            answers.append(journal.record_transaction(lease, transaction_id, ACR, WORK_SECONDS, claimant))
            disconnect(journal)

        return run

    run_in_threads(*(start(number) for number in range(20)))
    assert answers.count(True) == 1
    [earlier] = {answer for answer in answers if answer is not True}
    assert isinstance(earlier, EarlierPayment)
    assert not earlier.is_interrupted


@pytest.mark.parametrize("kind", STORED)
def test_a_row_that_moves_is_resumed_no_more(kind: str, clock: Clock, tmp_path: Path) -> None:
    here, there = (STORED[kind](tmp_path, clock, namespace=name) for name in ("here", "there"))
    started(here, 1)
    started(there, 2)
    assert here.move(there._store.namespace) == 1
    assert begin(here, 3)[1] == EarlierPayment("txn_1")
    assert len(here.list_holds(10)) == 2
    for each in (here, there):
        disconnect(each)


def test_a_payment_under_an_older_key_is_still_given_to_its_payer(clock: Clock, tmp_path: Path) -> None:
    older = STORED["sqlite"](tmp_path, clock, keys=[OTHER_KEY])
    settle(older, started(older, 1))
    newer = STORED["sqlite"](tmp_path, clock, keys=[KEY, OTHER_KEY])
    assert isinstance(newer.claim_transaction("txn_1", HERE), Replayable)
    for each in (older, newer):
        assert isinstance(each, PersistentJournal)
        disconnect(each)

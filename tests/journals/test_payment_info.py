"""What an operator learns of a payment by its transaction, chain hash or payer: from every journal."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from faregate.core.claim_types import Claimant, Claimed, Lease, Replayable
from faregate.core.models import WorkFailed
from faregate.journals.payment_info import PaymentInfo, PaymentStatus, Reference, parse_reference
from faregate.journals.persistent import PersistentJournal
from faregate.journals.store import PAGE
from tests.core.flow_script import ACR, OTHER_TXN, TXN
from tests.journals.rows import GOOD, LEASE, TERMS, WORK_SECONDS, fresh
from tests.journals.stores import KEY, OTHER_KEY, STORED, AnyJournal, Clock, disconnect
from tests.support.headers import encode_header

PAYER, OTHER_PAYER, HASH = f"0x{'ab' * 20}", f"0x{'cd' * 20}", f"0x{'1e' * 32}"
LINE = "GET /summary?text=secret"
RECEIPT = json.dumps({"payment": {"payer": PAYER.upper().replace("X", "x"), "transaction_hash": HASH}})
BY_TRANSACTION, BY_HASH, BY_PAYER = map(parse_reference, (TXN, HASH.upper().replace("X", "x"), PAYER))


def make_proof(payer: str = PAYER, nonce: str = "0x1") -> str:
    payload = {"x402Version": 2, "payload": {"authorization": {"from": payer, "nonce": nonce}}}
    return encode_header(payload)


def claim(journal: AnyJournal, proof: str | None = None) -> Lease:
    return fresh(journal.claim(proof or make_proof(), Claimant(LINE)))


def start(journal: AnyJournal, transaction_id: str = TXN, proof: str | None = None) -> Lease:
    lease = claim(journal, proof)
    assert journal.record_transaction(lease, transaction_id, ACR, WORK_SECONDS)
    return lease


def decide(journal: AnyJournal, outcome: Any = GOOD) -> Lease:
    lease = start(journal)
    assert journal.record_outcome(lease, outcome)
    return lease


def settle(journal: AnyJournal, delivered: bool) -> None:
    journal.record_settlement(decide(journal), "cGFpZA==", RECEIPT, delivered)


def find(journal: AnyJournal, reference: Reference = BY_TRANSACTION) -> PaymentInfo:
    [found] = journal.find_payments(reference).payments
    return found


def is_claimed(journal: AnyJournal, clock: Clock) -> None:
    claim(journal)


def is_refused(journal: AnyJournal, clock: Clock) -> None:
    """A second request took the claim over, so that it cannot be forgotten."""
    claim(journal)
    clock.now += TERMS.claim_lease
    journal.abandon_claim(claim(journal))


def is_open(journal: AnyJournal, clock: Clock) -> None:
    slow = claim(journal)
    clock.now += TERMS.claim_lease
    claim(journal)
    assert not journal.record_transaction(slow, TXN, ACR, WORK_SECONDS)


def is_waiting(journal: AnyJournal, clock: Clock) -> None:
    journal.record_pending(claim(journal), TXN, ACR)


def is_interrupted(journal: AnyJournal, clock: Clock) -> None:
    start(journal)
    clock.now += LEASE


def is_stuck(journal: AnyJournal, clock: Clock) -> None:
    journal.mark_stuck(decide(journal), "unknown to the service")


def is_expired(journal: AnyJournal, clock: Clock) -> None:
    settle(journal, delivered=False)
    clock.now += TERMS.undelivered_retention


STATES: dict[PaymentStatus, Callable[[AnyJournal, Clock], Any]] = {
    PaymentStatus.BEING_CHECKED: is_claimed,
    PaymentStatus.NOT_ACCEPTED: is_refused,
    PaymentStatus.AUTHORIZED: is_open,
    PaymentStatus.SETTLING: is_waiting,
    PaymentStatus.WORKING: lambda journal, _: start(journal),
    PaymentStatus.INTERRUPTED: is_interrupted,
    PaymentStatus.UNPROVEN: lambda journal, _: decide(journal),
    PaymentStatus.WORK_FAILED: lambda journal, _: decide(journal, WorkFailed("handler_error")),
    PaymentStatus.STUCK: is_stuck,
    PaymentStatus.DELIVERED: lambda journal, _: settle(journal, delivered=True),
    PaymentStatus.NOT_FETCHED: lambda journal, _: settle(journal, delivered=False),
    PaymentStatus.EXPIRED: is_expired,
    PaymentStatus.NOT_CHARGED: lambda journal, _: journal.record_final(decide(journal), paid=False),
    PaymentStatus.PAID_WITHOUT_RESULT: lambda journal, _: journal.record_final(decide(journal), paid=True),
}
FINAL = (*list(STATES)[-5:],)


def test_every_status_has_its_test() -> None:
    assert set(STATES) == set(PaymentStatus)


@pytest.mark.parametrize("status", STATES, ids=lambda status: status.value)
def test_each_payment_is_found_by_its_payer_and_its_transaction(
    journal: AnyJournal, clock: Clock, status: PaymentStatus
) -> None:
    """Whatever state it is in, its payer and what was bought are known."""
    STATES[status](journal, clock)
    found = find(journal, BY_PAYER)
    assert (found.status, found.payer, found.request_line) == (status, PAYER, LINE)
    assert (found.ended_at is not None) == (status in FINAL)
    if found.transaction_id:
        assert find(journal) == found
    else:
        assert status in (PaymentStatus.BEING_CHECKED, PaymentStatus.NOT_ACCEPTED)
    assert not journal.find_payments(Reference(BY_PAYER.kind, OTHER_PAYER)).payments


def test_a_settled_payment_is_found_by_its_hash(journal: AnyJournal) -> None:
    settle(journal, delivered=True)
    journal.claim(make_proof(OTHER_PAYER), Claimant(LINE))
    assert find(journal, BY_HASH) == find(journal)
    assert find(journal).transaction_hash == HASH


def test_one_that_was_taken_without_a_result_is_found_by_its_hash(journal: AnyJournal) -> None:
    assert journal.record_final(decide(journal), True, "handler_error", RECEIPT)
    found = find(journal, BY_HASH)
    assert (found.status, found.reason) == (PaymentStatus.PAID_WITHOUT_RESULT, "handler_error")
    assert (found.payer, found.transaction_hash) == (PAYER, HASH)


def test_one_that_was_not_charged_says_why(journal: AnyJournal) -> None:
    lease = decide(journal)
    assert journal.record_final(lease, False, "payment_failed")
    assert not journal.record_final(lease, False, "interrupted")
    assert (find(journal).status, find(journal).reason) == (PaymentStatus.NOT_CHARGED, "payment_failed")


def test_the_payments_of_a_payer_are_listed_newest_first(journal: AnyJournal, clock: Clock) -> None:
    settle(journal, delivered=True)
    clock.now += 1
    start(journal, OTHER_TXN, make_proof(nonce="0x2"))
    found = journal.find_payments(BY_PAYER).payments
    assert [one.transaction_id for one in found] == [OTHER_TXN, TXN]


def test_a_delivery_is_shown_with_its_time_and_what_is_left(journal: AnyJournal, clock: Clock) -> None:
    settle(journal, delivered=False)
    paid_at, clock.now = clock.now, clock.now + 60
    assert (find(journal).ended_at, find(journal).kept_until) == (
        paid_at,
        paid_at + TERMS.undelivered_retention,
    )
    assert isinstance(journal.claim(make_proof(), Claimant(LINE)), Replayable)
    fetched_at, clock.now = clock.now, clock.now + 60
    assert isinstance(journal.claim(make_proof(), Claimant(LINE)), Replayable)
    found = find(journal)
    assert (found.status, found.ended_at, found.redeliveries) == (
        PaymentStatus.DELIVERED,
        fetched_at,
        TERMS.redeliveries - 1,
    )


# Paid and not fetched


def test_what_nobody_fetched_is_listed_until_somebody_does(journal: AnyJournal) -> None:
    settle(journal, delivered=False)
    [listed] = journal.list_unfetched(10)
    assert (listed.transaction_id, listed.state, listed.kept_until) == (
        TXN,
        "settled",
        find(journal).kept_until,
    )
    assert journal.list_holds(10) == []
    journal.claim(make_proof(), Claimant(LINE))
    assert journal.list_unfetched(10) == []


def test_what_nobody_fetched_is_removed_and_named_at_the_end_of_its_time(
    journal: AnyJournal, clock: Clock
) -> None:
    settle(journal, delivered=False)
    clock.now += TERMS.undelivered_retention - 1
    assert journal.remove_unfetched(10) == ()
    clock.now += 1
    assert journal.remove_unfetched(0) == ()
    assert journal.remove_unfetched(10) == (TXN,)
    assert journal.remove_unfetched(10) == ()
    assert find(journal).status is PaymentStatus.PAID_WITHOUT_RESULT


def test_a_paid_result_is_never_removed_unsaid(journal: AnyJournal, clock: Clock) -> None:
    """Neither a new claim nor the end of a sweep removes it, and its payer still gets it."""
    settle(journal, delivered=False)
    clock.now += TERMS.undelivered_retention + 1
    claim(journal, make_proof(OTHER_PAYER))
    assert journal.lease_next() is None
    assert isinstance(journal.claim(make_proof(), Claimant(LINE)), Replayable)
    assert journal.remove_unfetched(10) == ()


def test_one_that_is_fetched_meanwhile_is_not_removed(
    journal: AnyJournal, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not isinstance(journal, PersistentJournal):
        pytest.skip("the memory journal does both under one lock")
    settle(journal, delivered=False)
    clock.now += TERMS.undelivered_retention
    expired = journal._store.list_unfetched(clock.now, 10)
    assert isinstance(journal.claim(make_proof(), Claimant(LINE)), Replayable)
    monkeypatch.setattr(journal._store, "list_unfetched", lambda *_: expired)
    assert journal.remove_unfetched(10) == ()
    assert find(journal).status is PaymentStatus.DELIVERED


# Of stored journals


@pytest.fixture(params=STORED)
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., PersistentJournal]:
    return lambda clock, **options: STORED[request.param](tmp_path, clock, **options)


def test_other_namespaces_can_be_read(make: Callable[..., PersistentJournal], clock: Clock) -> None:
    here, there = make(clock, namespace="here"), make(clock, namespace="there")
    settle(there, delivered=False)
    assert here.find_payments(BY_TRANSACTION).payments == []
    [name] = [name for name in here.list_namespaces() if name == there._store.namespace]
    with here.read_namespace(name) as reader:
        [found] = reader.find(BY_HASH).payments
        assert (found.namespace, found.request_line) == (name, LINE)
        assert [one.transaction_id for one in reader.list_unfetched(10)] == [TXN]
        assert reader.list_holds(10) == []
    for journal in (here, there):
        disconnect(journal)


def test_without_its_key_a_row_is_read_from_its_plain_columns(
    make: Callable[..., PersistentJournal], clock: Clock
) -> None:
    writer, stranger = make(clock, keys=[KEY]), make(clock, keys=[OTHER_KEY])
    settle(writer, delivered=True)
    found = find(stranger)
    assert (found.status, found.readable) == (PaymentStatus.DELIVERED, False)
    assert (found.request_line, found.payer, found.transaction_hash) == ("", "", "")
    assert stranger.find_payments(BY_PAYER).unreadable == 1
    for journal in (writer, stranger):
        disconnect(journal)


def test_more_than_a_page_is_searched(make: Callable[..., PersistentJournal], clock: Clock) -> None:
    journal = make(clock)
    for number in range(PAGE + 1):
        assert isinstance(journal.claim(f"{number}", Claimant(LINE)), Claimed)
    start(journal)
    assert find(journal, BY_PAYER).transaction_id == TXN
    disconnect(journal)


# What is quoted


@pytest.mark.parametrize("wrong", ["", "0x12", "txn_", f"0x{'g' * 40}", HASH[2:], "acr_1", "txn_a b"])
def test_what_is_no_reference_is_an_error(wrong: str) -> None:
    with pytest.raises(ValueError, match="is neither a transaction"):
        parse_reference(wrong)

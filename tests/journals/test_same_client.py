"""To whom a journal hands a result again. For every journal."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from faregate.core.claim_types import (
    AlreadyFailed,
    AlreadyUsed,
    Claimant,
    Claimed,
    ClientMismatch,
    ClientUnverified,
    InProgress,
    Recoverable,
    Replayable,
    ReplayPolicy,
    RequestMismatch,
    SettlementWrite,
)
from faregate.journals.persistent import PersistentJournal
from tests.core.flow_script import ACR, RECEIPT, TXN
from tests.journals.rows import GOOD, LEASE, WORK_SECONDS, fresh
from tests.journals.stores import JOURNALS, AnyJournal, Clock

URL = "GET /summary?q=1"
PLAIN = Claimant(URL)
UNSURE = Claimant(URL, replay=ReplayPolicy.SAME_CLIENT)
ALICE = Claimant(URL, ("authorization Bearer alice", "cookie sid=1"), replay=ReplayPolicy.SAME_CLIENT)
BOB = Claimant(URL, ("authorization Bearer bob", "cookie sid=2"))
REPLAYED = Replayable(GOOD.result, "cGFpZA==", TXN)


def worked(journal: AnyJournal, claimant: Claimant) -> Any:
    lease = fresh(journal.claim("proof", claimant))
    assert journal.record_transaction(lease, TXN, ACR, WORK_SECONDS)
    assert journal.record_outcome(lease, GOOD)
    return lease


def sold(journal: AnyJournal, claimant: Claimant, *, delivered: bool = True) -> None:
    assert (
        journal.record_settlement(worked(journal, claimant), "cGFpZA==", RECEIPT, delivered)
        is SettlementWrite.FIRST
    )


def test_a_result_is_replayed_to_the_same_credentials(journal: AnyJournal) -> None:
    sold(journal, ALICE)
    more = Claimant(URL, (*ALICE.credentials, "cookie theme=dark"), replay=ReplayPolicy.SAME_CLIENT)
    assert journal.claim("proof", ALICE) == REPLAYED
    assert journal.claim("proof", more) == REPLAYED


@pytest.mark.parametrize("delivered", [True, False])
@pytest.mark.parametrize(
    "stranger",
    [PLAIN, BOB, Claimant(URL, ALICE.credentials[:1]), Claimant(URL, ("authorization Bearer alice ",))],
)
def test_another_client_gets_nothing_and_uses_up_no_delivery(
    journal: AnyJournal, stranger: Claimant, delivered: bool
) -> None:
    sold(journal, ALICE, delivered=delivered)
    for _ in range(10):
        assert journal.claim("proof", stranger) == ClientMismatch()
    deliveries = 3 if delivered else 4
    assert [journal.claim("proof", ALICE) for _ in range(deliveries)] == [REPLAYED] * deliveries
    assert journal.claim("proof", ALICE) == AlreadyUsed(TXN)


def test_a_held_result_is_bound_as_well(journal: AnyJournal) -> None:
    lease = worked(journal, ALICE)
    assert journal.claim("proof", BOB) == ClientMismatch()
    assert journal.claim("proof", ALICE) == InProgress()
    assert journal.schedule_retry(lease)
    for _ in range(2):
        assert journal.claim("proof", BOB) == ClientMismatch()
    assert isinstance(journal.claim("proof", ALICE), Recoverable)


def test_without_credentials_the_bytes_of_the_proof_must_be_secret(journal: AnyJournal) -> None:
    sold(journal, PLAIN)
    for _ in range(10):
        assert journal.claim("proof", UNSURE) == ClientUnverified(TXN)
    assert [journal.claim("proof", PLAIN) for _ in range(3)] == [REPLAYED] * 3
    assert journal.claim("proof", UNSURE) == AlreadyUsed(TXN)


def test_a_credential_that_can_be_guessed_makes_no_proof_secret(journal: AnyJournal) -> None:
    """`lang=en` was enough to be given what somebody else had paid for."""
    guessed = replace(UNSURE, credentials=("?cookie lang=en",))
    sold(journal, guessed)
    assert journal.claim("proof", guessed) == ClientUnverified(TXN)
    assert journal.claim("proof", UNSURE) == ClientMismatch()
    assert journal.claim("proof", replace(guessed, replay=ReplayPolicy.PROVEN_PAYER)) == REPLAYED


def test_an_undelivered_result_waits_for_its_payer(journal: AnyJournal) -> None:
    sold(journal, PLAIN, delivered=False)
    assert journal.claim("proof", UNSURE) == REPLAYED
    assert journal.claim("proof", UNSURE) == ClientUnverified(TXN)


def test_an_offer_without_replay_delivers_once(journal: AnyJournal) -> None:
    never = Claimant(URL, ALICE.credentials, replay=ReplayPolicy.NEVER)
    sold(journal, never, delivered=False)
    assert journal.claim("proof", never) == REPLAYED
    assert journal.claim("proof", never) == AlreadyUsed(TXN)


ROLLING = replace(UNSURE, credentials=("=cookie s=user.t1.x", "~cookie s"))
ROLLED = replace(UNSURE, credentials=("=cookie s=user.t2.y", "~cookie s"))
ROLLED_WITH_SECRET = replace(ROLLED, replay=ReplayPolicy.PROVEN_PAYER)
OTHERS = replace(ROLLED_WITH_SECRET, credentials=("=cookie t=user.t1.x", "~cookie t"))


@pytest.mark.parametrize("delivered", [True, False])
def test_a_signed_cookie_with_another_time_is_known_where_the_proof_is_secret(
    journal: AnyJournal, delivered: bool
) -> None:
    sold(journal, ROLLING, delivered=delivered)
    for _ in range(10):
        assert journal.claim("proof", ROLLED) == ClientUnverified(TXN)
        assert journal.claim("proof", OTHERS) == ClientMismatch()
    assert journal.claim("proof", ROLLING) == REPLAYED
    assert journal.claim("proof", ROLLED_WITH_SECRET) == REPLAYED


def test_a_held_result_is_for_a_cookie_with_another_time_too(journal: AnyJournal) -> None:
    assert journal.schedule_retry(worked(journal, ROLLING))
    assert journal.claim("proof", ROLLED) == ClientUnverified(TXN)
    assert journal.claim("proof", OTHERS) == ClientMismatch()
    assert isinstance(journal.claim("proof", ROLLED_WITH_SECRET), Recoverable)


def test_credentials_keep_nobody_from_paying_anew(journal: AnyJournal) -> None:
    lease = fresh(journal.claim("proof", ALICE))
    assert journal.record_transaction(lease, TXN, ACR, WORK_SECONDS)
    assert journal.record_outcome(lease, GOOD)
    journal.record_final(lease, False)
    assert journal.claim("proof", BOB) == AlreadyFailed()


def test_a_row_without_work_is_bound_to_the_client_that_comes_now(journal: AnyJournal, clock: Clock) -> None:
    """Nothing was paid for yet, and a payer whose cookie changed is not locked out."""
    first = fresh(journal.claim("proof", ALICE))
    clock.now += LEASE
    second = fresh(journal.claim("proof", BOB))
    assert not journal.record_transaction(first, TXN, ACR, WORK_SECONDS)
    again = journal.claim("proof", BOB)
    assert again == InProgress()
    clock.now += LEASE
    third = journal.claim("proof", BOB)
    assert isinstance(third, Claimed)
    assert third.transaction_id == TXN  # learned from the first, who had no say any more
    assert not journal.record_transaction(second, TXN, ACR, WORK_SECONDS)
    assert journal.record_transaction(third.lease, TXN, ACR, WORK_SECONDS)
    assert journal.record_outcome(third.lease, GOOD)
    assert journal.record_settlement(third.lease, "cGFpZA==", RECEIPT, True) is SettlementWrite.FIRST
    assert journal.claim("proof", ALICE) == ClientMismatch()


# The body


def body(digest: str) -> Claimant:
    return Claimant(URL, body_digest=digest)


def test_another_body_is_another_request(journal: AnyJournal) -> None:
    lease = worked(journal, body("one"))
    assert journal.claim("proof", body("two")) == RequestMismatch()
    assert journal.record_settlement(lease, "cGFpZA==", RECEIPT, True) is SettlementWrite.FIRST
    assert journal.claim("proof", body("two")) == RequestMismatch()
    assert journal.claim("proof", body("one")) == REPLAYED


def test_a_body_that_is_not_known_is_not_compared(journal: AnyJournal) -> None:
    sold(journal, PLAIN)
    assert journal.claim("proof", body("two")) == REPLAYED


def test_a_body_that_was_known_is_compared_where_it_is_known(journal: AnyJournal) -> None:
    sold(journal, body("one"))
    assert journal.claim("proof", PLAIN) == REPLAYED


# What is kept


def test_no_credential_and_no_digest_is_kept(tmp_path: Path, clock: Clock) -> None:
    for kind in ("sqlite", "redis", "postgres", "django"):
        journal = JOURNALS[kind](tmp_path, clock)
        assert isinstance(journal, PersistentJournal)
        journal.claim("proof", Claimant(URL, ("authorization canary",), "canary" * 10))
        [name] = journal._keyring.lookup_keys("proof", PLAIN)
        record = journal._store.find([name])
        assert record is not None
        assert "canary" not in repr(record)
        assert len(record["client"]) == 16
        assert len(record["body"]) == 32
        journal.disconnect()

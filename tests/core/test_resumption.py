"""A payer signs a new payment while an earlier one for the same request is open."""

import math
from dataclasses import replace
from itertools import zip_longest
from typing import Any

import pytest

from faregate.core.claim_types import (
    AlreadyFailed,
    AlreadyUsed,
    Claimant,
    Claimed,
    EarlierPayment,
    InProgress,
    Lease,
    PendingPayment,
    Recoverable,
    Replayable,
    ReplayPolicy,
    SettlementWrite,
    find_resumed,
    name_resumption,
)
from faregate.core.interfaces import RunHandler
from faregate.core.models import WorkFailed
from faregate.core.results import AccessGranted, CompletionUnpaid, TransactionSettled, TransactionState
from faregate.errors import JournalError, NoAnswer
from tests.core.flow_script import (
    ACR,
    GOOD,
    HELD,
    LEASE_HELD,
    OFFER,
    OTHER_TXN,
    PAID,
    PROOF,
    RECEIPT,
    RESULT,
    RULES,
    SOLD,
    TXN,
    UNPAID,
    WARNED,
    WORK,
    Pair,
    Raise,
    abandoned,
    claimed,
    found,
    play,
    sale,
)
from tests.core.steps import (
    AbandonClaim,
    CallAccess,
    CallComplete,
    ClaimTransaction,
    FindPayer,
    GetTransaction,
    HasUnknownKeys,
    RecordFinal,
    RecordOutcome,
    RecordResumption,
    RecordSettlement,
    RecordTransaction,
    WriteFallback,
    serve,
)

REQUEST = sale(resumes_open_payments=True)
CLAIMANT = Claimant("GET /summary?q=1", replay=ReplayPolicy.SAME_CLIENT, sold=SOLD)
PAYER_COMES = Claimant("GET /summary?q=1", replay=ReplayPolicy.PROVEN_PAYER, sold=SOLD)
CODE = name_resumption(OTHER_TXN)
OURS = PendingPayment(LEASE_HELD, PROOF, TXN, ACR)
FIRST = replace(HELD, lease=Lease(b"first", 7), proof="Zmlyc3Q=", transaction_id=OTHER_TXN)
EARLIER = EarlierPayment(OTHER_TXN)
ALICE = "0x" + "a" * 40
REPLAYED = Replayable(RESULT, PAID.payment_response, OTHER_TXN)

ACCESSED: tuple[Pair, ...] = (
    claimed(),
    found(),
    (CallAccess(REQUEST, RULES, PROOF), AccessGranted(TXN)),
)
COMPARED: tuple[Pair, ...] = ((FindPayer(TXN), ALICE), (FindPayer(OTHER_TXN), ALICE))
LINKED: Pair = (RecordResumption(LEASE_HELD, TXN, ACR, OTHER_TXN), True)
GIVEN_UP: tuple[Pair, ...] = (
    (CallComplete(OURS, WorkFailed(CODE)), CompletionUnpaid()),
    (RecordFinal(LEASE_HELD, False, CODE), True),
)
RUNS: tuple[Pair, ...] = (
    (RunHandler(REQUEST, TXN), WORK),
    (RecordOutcome(LEASE_HELD, GOOD), True),
    (CallComplete(OURS, GOOD), PAID),
    (RecordSettlement(LEASE_HELD, PAID.payment_response, RECEIPT, True), None),
)


def start(answer: Any, claimant: Claimant | None = CLAIMANT) -> Pair:
    return RecordTransaction(LEASE_HELD, TXN, ACR, 54.0, claimant), answer


def first(claim: Any, claimant: Claimant = PAYER_COMES) -> Pair:
    return ClaimTransaction(OTHER_TXN, claimant), claim


_CUT_OFF, _INTERRUPTED = replace(FIRST, outcome=None), WorkFailed("interrupted")
CUT_OFF_ENDED: tuple[Pair, ...] = (
    *ACCESSED,
    start(EarlierPayment(OTHER_TXN, is_interrupted=True)),
    *COMPARED,
    first(Recoverable(_CUT_OFF), CLAIMANT),
    (RecordOutcome(FIRST.lease, _INTERRUPTED), True),
    (GetTransaction(OTHER_TXN), TransactionState.AUTHORIZED),
    (CallComplete(_CUT_OFF, _INTERRUPTED), CompletionUnpaid()),
    (RecordFinal(FIRST.lease, False, "interrupted"), True),
)


@pytest.mark.parametrize(
    ("leaves", "written"),
    [([False, False], [True]), ([True], [False]), ([False, True], [True, False])],
    ids=["stays", "left before", "left meanwhile"],
)
def test_a_result_is_not_delivered_to_a_payer_who_has_left(leaves: list[bool], written: list[bool]) -> None:
    asked: Any = "whether the payer has left"
    looks = [(asked, has_left) for has_left in leaves]
    writes = [
        (RecordSettlement(LEASE_HELD, PAID.payment_response, RECEIPT, delivered), SettlementWrite.FIRST)
        for delivered in written
    ]
    in_turns = [pair for pairs in zip_longest(looks, writes) for pair in pairs if pair is not None]
    request = replace(REQUEST, has_payer_left=lambda: asked)
    response = play(serve(request), *ACCESSED, start(True), *RUNS[:-1], *in_turns)
    assert (response.status, response.body) == (200, RESULT.body)


def test_after_a_quick_sale_the_server_is_asked_once_and_last() -> None:
    """A busy server may have let the request wait before the sale began."""
    asked: Any = "whether the payer has left"
    request = replace(REQUEST, has_payer_left=lambda: asked, first_look_at=math.inf)
    taken_back = (RecordSettlement(LEASE_HELD, PAID.payment_response, RECEIPT, False), SettlementWrite.FIRST)
    response = play(serve(request), *ACCESSED, start(True), *RUNS, (asked, True), taken_back)
    assert (response.status, response.body) == (200, RESULT.body)


def test_a_code_names_the_payment_that_was_resumed() -> None:
    assert find_resumed(name_resumption(TXN)) == TXN
    assert find_resumed("handler_error") == ""


def test_the_result_of_the_first_payment_waits_if_the_payer_of_the_new_one_has_left() -> None:
    asked: Any = "whether the payer has left"
    request = replace(REQUEST, has_payer_left=lambda: asked)
    script = (*ACCESSED, start(EARLIER), *COMPARED, LINKED, *GIVEN_UP, (asked, True))
    assert play(serve(request), *script).status == 409


def test_the_new_payment_is_given_up_before_the_first_one_is_looked_at() -> None:
    settled = (GetTransaction(OTHER_TXN), TransactionSettled(RECEIPT))
    completed = (CallComplete(FIRST, GOOD), PAID)
    recorded = (RecordSettlement(FIRST.lease, PAID.payment_response, RECEIPT, True), None)
    script = (*ACCESSED, start(EARLIER), *COMPARED, LINKED, *GIVEN_UP, first(Recoverable(FIRST)))
    response = play(serve(REQUEST), *script, settled, completed, recorded)
    assert (response.status, response.body) == (200, RESULT.body)
    assert ("Faregate-Transaction", OTHER_TXN) in response.headers


@pytest.mark.parametrize(
    ("claim", "status", "code"),
    [
        (InProgress(), 409, b"payment_in_progress"),
        (AlreadyUsed(OTHER_TXN), 409, b"proof_already_used"),
        (REPLAYED, 200, RESULT.body),
    ],
)
def test_the_payer_is_told_how_the_first_one_stands(claim: Any, status: int, code: bytes) -> None:
    response = play(serve(REQUEST), *ACCESSED, start(EARLIER), *COMPARED, LINKED, *GIVEN_UP, first(claim))
    assert response.status == status
    assert code in response.body


def test_a_first_one_whose_work_never_began_is_given_back_at_once() -> None:
    """Only a request with its own proof begins it; the lease would make that request wait."""
    script = (*ACCESSED, start(EARLIER), *COMPARED, LINKED, *GIVEN_UP, first(Claimed(FIRST.lease, OTHER_TXN)))
    response = play(serve(REQUEST), *script, (AbandonClaim(FIRST.lease), True))
    assert (response.status, response.code) == (409, "payment_in_progress")


def test_of_a_first_one_that_failed_fresh_instructions_are_given() -> None:
    script = (*ACCESSED, start(EARLIER), *COMPARED, LINKED, *GIVEN_UP, first(AlreadyFailed()))
    response = play(serve(REQUEST), *script, found(), (CallAccess(REQUEST, RULES, None), UNPAID))
    assert response.status == 402


def test_another_payers_payment_runs() -> None:
    other = ((FindPayer(TXN), ALICE), (FindPayer(OTHER_TXN), "0x" + "b" * 40))
    response = play(serve(REQUEST), *ACCESSED, start(EARLIER), *other, start(True, None), *RUNS)
    assert (response.status, response.body) == (200, RESULT.body)


@pytest.mark.parametrize("read", [0, 1])
def test_payers_that_cannot_be_read_leave_the_payment_unused(read: int) -> None:
    lost = (FindPayer((TXN, OTHER_TXN)[read]), Raise(NoAnswer("no")))
    script = (*ACCESSED, start(EARLIER), *COMPARED[:read], lost, WARNED, abandoned())
    response = play(serve(REQUEST), *script)
    assert (response.status, response.code) == (503, "payment_unconfirmed")
    assert TXN.encode() in response.body


def test_work_that_was_cut_off_is_ended_and_the_new_payment_runs() -> None:
    assert play(serve(REQUEST), *CUT_OFF_ENDED, start(True), *RUNS).status == 200


def test_a_handler_that_raises_after_work_that_was_cut_off_raises_on() -> None:
    """It was taken for an error of the journal: the payer got 503, and a fallback was written."""
    failed = WorkFailed("handler_error")
    script: tuple[Pair, ...] = (
        (RunHandler(REQUEST, TXN), Raise(ZeroDivisionError())),
        (RecordOutcome(LEASE_HELD, failed), True),
        (CallComplete(OURS, failed), CompletionUnpaid()),
        (RecordFinal(LEASE_HELD, False, "handler_error"), True),
    )
    with pytest.raises(ZeroDivisionError):
        play(serve(REQUEST), *CUT_OFF_ENDED, start(True), *script)


def test_the_end_of_work_that_was_cut_off_may_be_another_requests() -> None:
    seen = start(EarlierPayment(OTHER_TXN, is_interrupted=True))
    script = (*ACCESSED, seen, *COMPARED, first(InProgress(), CLAIMANT), start(EARLIER))
    response = play(serve(REQUEST), *script, *COMPARED, LINKED, *GIVEN_UP, first(InProgress()))
    assert response.status == 409


def test_without_its_row_the_new_payment_is_not_given_up() -> None:
    """It is unknown whether the journal wrote that: nothing is reported, and its id survives in the log."""
    refused = (LINKED[0], Raise(JournalError("down")))
    fallback = (WriteFallback(TXN, ACR), None)
    response = play(serve(REQUEST), *ACCESSED, start(EARLIER), *COMPARED, refused, WARNED, fallback)
    assert (response.status, response.code) == (503, "payment_unconfirmed")


def test_a_payment_whose_claim_was_lost_is_not_given_up() -> None:
    """Another worker has this proof: it decides."""
    lost = (LINKED[0], False)
    keys = (HasUnknownKeys(), False)
    response = play(serve(REQUEST), *ACCESSED, start(EARLIER), *COMPARED, lost, keys, abandoned(False))
    assert (response.status, response.code) == (409, "payment_in_progress")


def test_the_same_proof_again_is_led_to_the_first_payment() -> None:
    response = play(serve(REQUEST), claimed(AlreadyFailed(OTHER_TXN)), first(REPLAYED))
    assert (response.status, response.body) == (200, RESULT.body)


def test_a_payment_that_is_given_up_is_reported_again_until_it_is_acknowledged() -> None:
    entry = replace(OURS, outcome=WorkFailed(CODE))
    looked = (GetTransaction(TXN), TransactionState.AUTHORIZED)
    reported = ((CallComplete(entry, WorkFailed(CODE)), CompletionUnpaid()), GIVEN_UP[1])
    response = play(serve(REQUEST), claimed(Recoverable(entry)), looked, *reported, first(REPLAYED))
    assert response.status == 200


def test_a_first_payment_that_the_journal_cannot_claim_is_unconfirmed() -> None:
    lost = first(Raise(JournalError("down")))
    response = play(serve(REQUEST), claimed(AlreadyFailed(OTHER_TXN)), lost, WARNED)
    assert (response.status, response.code) == (503, "payment_unconfirmed")
    assert OTHER_TXN.encode() in response.body


def test_an_offer_without_replay_delivers_a_first_result_once_only() -> None:
    request = replace(REQUEST, offer=replace(OFFER, replay=False))
    never = Claimant("GET /summary?q=1", replay=ReplayPolicy.NEVER, sold=SOLD)
    again = (claimed()[0].__class__(PROOF, never), AlreadyFailed(OTHER_TXN))
    response = play(serve(request), again, first(AlreadyUsed(OTHER_TXN), never))
    assert response.status == 409


@pytest.mark.parametrize(
    ("method", "digest", "resumes_open_payments", "is_resumable"),
    [
        ("GET", "", True, True),
        ("HEAD", "", True, True),
        ("POST", "ab", True, True),
        ("POST", "", True, False),
        ("GET", "", False, False),
    ],
)
def test_only_a_request_whose_body_is_known_is_resumed(
    method: str, digest: str, resumes_open_payments: bool, is_resumable: bool
) -> None:
    http = replace(REQUEST.http, method=method, body_digest=digest)
    assert (
        replace(REQUEST, http=http, resumes_open_payments=resumes_open_payments).is_resumable is is_resumable
    )

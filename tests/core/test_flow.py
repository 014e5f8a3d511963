"""The situations of docs/flow.md, driven through the flow alone. Situation 13 is in `test_recovery.py`."""

from dataclasses import replace
from typing import Any

import pytest

from faregate.core.claims import (
    AlreadyFailed,
    AlreadyUsed,
    Claimant,
    InProgress,
    Replayable,
    ReplayPolicy,
    RequestMismatch,
    SettlementWrite,
)
from faregate.core.flow import serve
from faregate.core.models import (
    HandlerResult,
    Offer,
    PaidRequest,
    Request,
    Response,
    WorkFailed,
    WorkSucceeded,
)
from faregate.core.results import (
    AccessFailed,
    AccessFree,
    AccessGranted,
    AccessPending,
    AccessUnpaid,
    CompletionPaid,
    CompletionPending,
    CompletionRejected,
    CompletionUnknown,
    CompletionUnpaid,
    TransactionState,
)
from faregate.core.steps import (
    AbandonClaim,
    CallAccess,
    CallComplete,
    ClaimProof,
    CloseExecution,
    GetKnownRevision,
    HasUnknownKeys,
    MarkStuck,
    RecordFinal,
    RecordOutcome,
    RecordPending,
    RecordSettlement,
    RecordTransaction,
    ResolveOffer,
    RunHandler,
    ScheduleRetry,
)
from faregate.errors import (
    BadAnswer,
    ConfigurationError,
    JournalError,
    JournalFull,
    NoAnswer,
    ResultTooLarge,
    ServiceError,
    WorkTimedOut,
)
from tests.core.flow_parts import (
    BACK,
    COMPLETE_HELD,
    FRESH_402,
    NEEDED,
    PAUSES,
    PENDING,
    SALVAGED,
    STANDING,
    assert_402,
    assert_402_anew,
    assert_nothing_left,
    assert_unconfirmed,
    body,
    names,
)
from tests.core.flow_script import (
    ACR,
    ALL_KEYS,
    BEGINNING,
    COMPLETE,
    ENTRY,
    GOOD,
    LEASE_HELD,
    NOTE,
    OFFER,
    PAID,
    PROOF,
    RECEIPT,
    RESULT,
    RULES,
    TXN,
    WORK,
    WORKED,
    Raise,
    Some,
    accessed,
    claimed,
    found,
    play,
    sale,
)

# Situation 1


def test_no_proof_relays_the_402_and_nothing_else() -> None:
    response = play(serve(sale(None)), found(), accessed(AccessUnpaid(NEEDED), None))
    assert_402(response)
    assert response.first("retry-after") == "7"
    assert response.first("cache-control") == "private, no-store"
    assert "x-secret" not in names(response)


# Situation 2


@pytest.mark.parametrize("proof", [None, PROOF])
def test_free_access_gives_the_result_without_payment_response(proof: str | None) -> None:
    claim = () if proof is None else (claimed(),)
    dropped = () if proof is None else ((AbandonClaim(LEASE_HELD), True),)
    handler = HandlerResult(RESULT.plus(("PAYMENT-RESPONSE", "forged")), {}, 1)
    response = play(
        serve(sale(proof)),
        *claim,
        found(),
        accessed(AccessFree(), proof),
        *dropped,
        (RunHandler(sale(proof), None), handler),
    )
    assert (response.status, response.body) == (200, RESULT.body)
    assert "payment-response" not in names(response)


def test_a_known_execution_is_closed_and_its_failure_costs_nothing() -> None:
    closing = CloseExecution("rex_x", RULES, WORK)
    opening = (found(), accessed(AccessFree("rex_x"), None), (RunHandler(sale(None), None), WORK))
    assert play(serve(sale(None)), *opening, (closing, None)).body == RESULT.body
    assert play(serve(sale(None)), *opening, (closing, Raise(NoAnswer("down"))), NOTE).body == RESULT.body


def test_free_work_that_is_too_large_is_an_error_not_a_crash() -> None:
    too_large = Raise(ResultTooLarge("big"))
    response = play(
        serve(sale(None)),
        found(),
        accessed(AccessFree(), None),
        (RunHandler(sale(None), None), too_large),
        NOTE,
    )
    assert (response.status, body(response)["code"]) == (500, "result_too_large")


# Situation 3


def test_access_pending_is_relayed_and_its_transaction_kept() -> None:
    response = play(
        serve(sale()),
        claimed(),
        found(),
        accessed(AccessPending(PENDING, TXN)),
        (RecordPending(LEASE_HELD, TXN, ACR), None),
    )
    assert (response.status, response.body) == (202, PENDING.body)
    assert response.first("retry-after") == "2"


def test_pending_access_without_an_id_drops_the_claim() -> None:
    nameless = AccessPending(Response(202, (), b""), None)
    response = play(serve(sale()), claimed(), found(), accessed(nameless), (AbandonClaim(LEASE_HELD), True))
    assert (response.status, body(response)["code"]) == (202, "payment_settling")


# Situation 4


def test_a_refused_proof_gets_the_402_and_its_claim_is_dropped() -> None:
    dropped = (AbandonClaim(LEASE_HELD), True)
    assert_402(play(serve(sale()), claimed(), found(), accessed(AccessUnpaid(NEEDED)), ALL_KEYS, dropped))


def test_a_proof_that_a_row_of_another_key_may_know_is_nobodys_402() -> None:
    """While a new journal key is brought to one worker after the other, this one may miss the row."""
    refused = (claimed(), found(), accessed(AccessUnpaid(NEEDED)))
    for answer in (True, Raise(JournalError("down"))):
        missed = ((HasUnknownKeys(), answer), NOTE, (AbandonClaim(LEASE_HELD), True))
        response = play(serve(sale()), *refused, *missed)
        assert (response.status, body(response)["code"]) == (503, "payment_unconfirmed")


def test_a_transaction_that_a_row_of_another_key_may_have_is_not_called_used() -> None:
    missed = ((HasUnknownKeys(), True), NOTE, (AbandonClaim(LEASE_HELD), True))
    taken = ((RecordTransaction(LEASE_HELD, TXN, ACR, 54.0), False), *missed)
    response = play(serve(sale()), claimed(), found(), accessed(), *taken)
    assert (response.status, body(response)["code"]) == (503, "payment_unconfirmed")


def test_a_refusal_for_a_claim_that_was_taken_over_is_nobodys_402() -> None:
    """The proof may be refused because it is being sold, or was sold, by whoever has the claim by now."""
    refused = (claimed(), found(), accessed(AccessUnpaid(NEEDED)), ALL_KEYS)
    assert play(serve(sale()), *refused, (AbandonClaim(LEASE_HELD), False)).status == 409
    unknown = (AbandonClaim(LEASE_HELD), Raise(JournalError("disk")))
    assert play(serve(sale()), *refused, unknown, NOTE).status == 503


# Situation 5


@pytest.mark.parametrize("proof", [None, PROOF])
@pytest.mark.parametrize(
    ("answers", "status"),
    [
        ([AccessFailed(502, "401 unauthenticated")], 502),
        ([AccessFailed(503, "500 internal_error", "9")], 503),
        ([Raise(BadAnswer("nonsense"))], 502),
        ([Raise(ConfigurationError("bad mime type"))], 502),
        ([Raise(NoAnswer("timeout")), Raise(NoAnswer("timeout"))], 503),
        ([Raise(NoAnswer("timeout")), AccessFailed(502, "422")], 502),
    ],
)
def test_a_service_in_trouble_is_a_generic_answer(answers: list[Any], status: int, proof: str | None) -> None:
    claim = () if proof is None else (claimed(),)
    dropped = () if proof is None else ((AbandonClaim(LEASE_HELD), True),)
    asked = [accessed(answer, proof) for answer in answers]
    response = play(serve(sale(proof)), *claim, found(), *asked, *dropped, NOTE)
    assert response.status == status
    assert body(response) == {
        "code": "payment_service_unavailable",
        "message": "Payment cannot be checked at the moment.",
    }
    assert (response.first("retry-after") is not None) == (status == 503)


def test_access_is_asked_once_more_when_nothing_was_heard() -> None:
    deaf = accessed(Raise(NoAnswer("reset")), None)
    assert_402(play(serve(sale(None)), found(), deaf, accessed(AccessUnpaid(NEEDED), None)))


@pytest.mark.parametrize(
    ("error", "status"), [(ConfigurationError("unknown key"), 502), (NoAnswer("down"), 503)]
)
def test_without_rules_nothing_is_sold(error: Exception, status: int) -> None:
    failed: tuple[Any, ...] = ((ResolveOffer(OFFER), Raise(error)),)
    if isinstance(error, ServiceError):
        failed = (*failed, (GetKnownRevision(OFFER), None))
    response = play(serve(sale()), claimed(), *failed, (AbandonClaim(LEASE_HELD), True), NOTE)
    assert play(serve(sale(None)), *failed, NOTE) == response
    assert response.status == status
    assert b"unknown key" not in response.body


# Situation 6


def test_a_transaction_without_a_proof_never_runs_the_work() -> None:
    response = play(serve(sale(None)), found(), accessed(AccessGranted(TXN), None), NOTE)
    assert response.status == 502


# Situation 7


def test_a_handler_that_raises_is_reported_failed_and_raises_on() -> None:
    failed = WorkFailed("handler_error")
    with pytest.raises(ZeroDivisionError):
        play(
            serve(sale()),
            *BEGINNING,
            (RunHandler(sale(), TXN), Raise(ZeroDivisionError())),
            (RecordOutcome(LEASE_HELD, failed), True),
            (CallComplete(ENTRY, failed), CompletionUnpaid()),
            (RecordFinal(LEASE_HELD, reason="handler_error"), True),
        )


@pytest.mark.parametrize("status", [304, 400, 404, 500, 503])
def test_a_status_that_is_not_billable_is_passed_on_uncharged(status: int) -> None:
    answer = Response(status, (("Payment-Response", "forged"), ("x-own", "1")), b"sorry")
    failed = WorkFailed(f"status_{status}")
    response = play(
        serve(sale()),
        *BEGINNING,
        (RunHandler(sale(), TXN), HandlerResult(answer, {})),
        (RecordOutcome(LEASE_HELD, failed), True),
        (CallComplete(ENTRY, failed), CompletionUnpaid()),
        (RecordFinal(LEASE_HELD, reason=failed.code), True),
    )
    assert (response.status, response.body, response.first("x-own")) == (status, b"sorry", "1")
    assert "payment-response" not in names(response)


def test_an_offer_may_say_what_is_billable() -> None:
    offer = Offer("text_summary", billable=frozenset({404}))
    asked = sale(offer=offer)
    work = HandlerResult(Response(404, (), b"no such thing"), {})
    outcome = WorkSucceeded(work.response, (), 0)
    response = play(
        serve(asked),
        claimed(),
        (ResolveOffer(offer), RULES),
        (CallAccess(asked, RULES, PROOF), AccessGranted(TXN)),
        (RecordTransaction(LEASE_HELD, TXN, ACR, 54.0), True),
        (RunHandler(asked, TXN), work),
        (RecordOutcome(LEASE_HELD, outcome), True),
        (CallComplete(ENTRY, outcome), PAID),
        (RecordSettlement(LEASE_HELD, PAID.payment_response, RECEIPT, True), SettlementWrite.FIRST),
    )
    assert (response.status, response.first("payment-response")) == (404, PAID.payment_response)


def test_work_that_outlived_its_payment_is_not_sold_though_nobody_could_cut_it_off() -> None:
    late = HandlerResult(WORK.response, WORK.values, 54_001)
    response = play(
        serve(sale()),
        *BEGINNING,
        (RunHandler(sale(), TXN), late),
        NOTE,
        (RecordOutcome(LEASE_HELD, WorkFailed("work_timed_out")), True),
        (CallComplete(ENTRY, WorkFailed("work_timed_out")), CompletionUnpaid()),
        (RecordFinal(LEASE_HELD, reason="work_timed_out"), True),
    )
    assert (response.status, body(response)["code"]) == (500, "work_timed_out")


def test_whatever_speaks_of_payment_may_be_read_by_a_browsers_script() -> None:
    exposed = "PAYMENT-REQUIRED, PAYMENT-RESPONSE, Faregate-Transaction, Retry-After"
    unpaid = play(serve(sale(None)), found(), accessed(AccessUnpaid(NEEDED), None))
    paid = play(
        serve(sale()),
        *WORKED,
        (COMPLETE, PAID),
        (RecordSettlement(LEASE_HELD, PAID.payment_response, RECEIPT, True), SettlementWrite.FIRST),
    )
    busy = play(serve(sale()), claimed(InProgress()))
    for response in (unpaid, paid, busy):
        assert response.first("access-control-expose-headers") == exposed


@pytest.mark.parametrize(
    ("error", "code"), [(ResultTooLarge("big"), "result_too_large"), (WorkTimedOut("slow"), "work_timed_out")]
)
def test_work_without_a_result_to_sell(error: Exception, code: str) -> None:
    response = play(
        serve(sale()),
        *BEGINNING,
        (RunHandler(sale(), TXN), Raise(error)),
        NOTE,
        (RecordOutcome(LEASE_HELD, WorkFailed(code)), True),
        (CallComplete(ENTRY, WorkFailed(code)), CompletionUnpaid()),
        (RecordFinal(LEASE_HELD, reason=code), True),
    )
    assert (response.status, body(response)["code"]) == (500, code)


@pytest.mark.parametrize("values", [{"unknown_name": "1"}, {"input_tokens": "1e5"}])
def test_wrong_values_are_a_failed_outcome_the_seller_sees(values: dict[str, str]) -> None:
    failed = WorkFailed("invalid_usage")
    response = play(
        serve(sale()),
        *BEGINNING,
        (RunHandler(sale(), TXN), HandlerResult(RESULT, values)),
        NOTE,
        (RecordOutcome(LEASE_HELD, failed), True),
        (CallComplete(ENTRY, failed), CompletionUnpaid()),
        (RecordFinal(LEASE_HELD, reason="invalid_usage"), True),
    )
    assert response.status == 500
    assert_nothing_left(response)


def test_a_missing_required_value_is_a_failed_outcome() -> None:
    strict = replace(RULES, required=frozenset({"input_tokens"}))
    failed = WorkFailed("invalid_usage")
    response = play(
        serve(sale()),
        claimed(),
        (ResolveOffer(OFFER), strict),
        (CallAccess(sale(), strict, PROOF), AccessGranted(TXN)),
        (RecordTransaction(LEASE_HELD, TXN, ACR, 54.0), True),
        (RunHandler(sale(), TXN), HandlerResult(RESULT, {})),
        NOTE,
        (RecordOutcome(LEASE_HELD, failed), True),
        (CallComplete(ENTRY, failed), CompletionUnpaid()),
        (RecordFinal(LEASE_HELD, reason="invalid_usage"), True),
    )
    assert response.status == 500


def test_an_unacknowledged_failure_stays_owed() -> None:
    failed = WorkFailed("handler_error")
    telling = (CallComplete(ENTRY, failed), Raise(NoAnswer("down")))
    with pytest.raises(ZeroDivisionError):
        play(
            serve(sale()),
            *BEGINNING,
            (RunHandler(sale(), TXN), Raise(ZeroDivisionError())),
            (RecordOutcome(LEASE_HELD, failed), True),
            telling,
            PAUSES[0],
            telling,
            PAUSES[1],
            telling,
            NOTE,
            (ScheduleRetry(LEASE_HELD), True),
        )


# Situation 8


def test_a_proven_payment_is_the_only_way_out() -> None:
    response = play(
        serve(sale()),
        *WORKED,
        (COMPLETE, PAID),
        (RecordSettlement(LEASE_HELD, PAID.payment_response, RECEIPT, True), SettlementWrite.FIRST),
    )
    assert (response.status, response.body) == (200, RESULT.body)
    assert response.first("payment-response") == PAID.payment_response
    assert response.first("cache-control") == "private, no-store"


def test_a_proven_payment_is_released_even_if_the_journal_cannot_write_it() -> None:
    response = play(
        serve(sale()),
        *WORKED,
        (COMPLETE, PAID),
        (RecordSettlement(LEASE_HELD, PAID.payment_response, RECEIPT, True), Raise(JournalError("disk"))),
        NOTE,
    )
    assert response.first("payment-response") == PAID.payment_response


# Situation 9


def test_settling_is_202_and_held() -> None:
    response = play(
        serve(sale()), *WORKED, (COMPLETE, CompletionPending(PENDING)), (ScheduleRetry(LEASE_HELD), True)
    )
    assert (response.status, response.body) == (202, PENDING.body)
    assert response.first("retry-after")
    assert_nothing_left(response)


def test_a_200_that_is_not_final_is_told_as_202() -> None:
    settling = CompletionPending(Response(200, (("payment-response", "early"),), PENDING.body))
    response = play(serve(sale()), *WORKED, (COMPLETE, settling), (ScheduleRetry(LEASE_HELD), True))
    assert (response.status, body(response)["transaction_id"]) == (202, TXN)
    assert_nothing_left(response)


# Situation 10


@pytest.mark.parametrize(
    "answer", [CompletionUnknown("wrong id"), Raise(NoAnswer("timeout")), Raise(BadAnswer("garbage"))]
)
def test_an_unknown_outcome_is_503_after_bounded_retries(answer: Any) -> None:
    response = play(
        serve(sale()),
        *WORKED,
        (COMPLETE, answer),
        PAUSES[0],
        (COMPLETE, answer),
        PAUSES[1],
        (COMPLETE, answer),
        NOTE,
        (ScheduleRetry(LEASE_HELD), True),
    )
    assert_unconfirmed(response)


def test_a_retry_that_proves_releases() -> None:
    response = play(
        serve(sale()),
        *WORKED,
        (COMPLETE, Raise(NoAnswer("timeout"))),
        PAUSES[0],
        (COMPLETE, PAID),
        (RecordSettlement(LEASE_HELD, PAID.payment_response, RECEIPT, True), SettlementWrite.FIRST),
    )
    assert response.body == RESULT.body


@pytest.mark.parametrize("answer", [False, Raise(JournalError("disk"))])
def test_an_outcome_that_could_not_be_written_is_not_sent(answer: Any) -> None:
    worked = (*BEGINNING, (RunHandler(sale(), TXN), WORK))
    note = (NOTE,) if isinstance(answer, Raise) else ()
    assert_unconfirmed(play(serve(sale()), *worked, (RecordOutcome(LEASE_HELD, GOOD), answer), *note))


# Situation 11


def test_not_paid_for_certain_gets_fresh_instructions() -> None:
    response = play(
        serve(sale()),
        *WORKED,
        (COMPLETE, CompletionUnpaid()),
        (RecordFinal(LEASE_HELD, reason="payment_failed"), True),
        *FRESH_402,
    )
    assert_402_anew(response)


@pytest.mark.parametrize("now", [AccessFree(), AccessGranted(TXN)])
def test_no_result_leaves_even_if_the_resource_is_free_by_then(now: Any) -> None:
    response = play(
        serve(sale()),
        *WORKED,
        (COMPLETE, CompletionUnpaid()),
        (RecordFinal(LEASE_HELD, reason="payment_failed"), True),
        found(),
        (CallAccess(sale(), RULES, None), now),
        NOTE,
    )
    assert response.status == 503
    assert_nothing_left(response)


# Situation 12


@pytest.mark.parametrize("status", [400, 401, 403, 404, 408, 409, 422, 423, 425, 429])
def test_a_refusal_is_relayed_and_held(status: int) -> None:
    """It does not say that nothing was charged: a service may have acted, and answer for something else."""
    refusal = CompletionRejected(status, "code", "3")
    response = play(serve(sale()), *WORKED, (COMPLETE, refusal), NOTE, (ScheduleRetry(LEASE_HELD), True))
    assert (response.status, response.first("retry-after")) == (status, "3")
    assert_nothing_left(response)


@pytest.mark.parametrize("status", [401, 404, 409, 422, 500, 503])
def test_whoever_is_held_is_told_to_come_back_with_the_same_payment(status: int) -> None:
    """Also when the service does not say when, and when it is refused again: the row is kept either way."""
    refused = (COMPLETE_HELD, CompletionRejected(status, "code"))
    again = (PAUSES[0], refused, PAUSES[1], refused) if status >= 500 else ()
    left = Some(MarkStuck) if status in (404, 409, 422) else ScheduleRetry(LEASE_HELD)
    stuck = (NOTE,) if status in (404, 409, 422) else ()
    asked = ((STANDING, TransactionState.AUTHORIZED), refused, *again, NOTE, (left, True), *stuck)
    response = play(serve(sale()), *BACK, *asked)
    assert (response.status, response.first("retry-after")) == (status, "2")
    assert body(response)["code"] == "completion_refused"
    assert "same payment" in body(response)["message"]
    assert body(response)["transaction_id"] == TXN


def test_a_failing_service_is_asked_again_within_the_bound() -> None:
    refusal = (COMPLETE, CompletionRejected(500, "internal_error"))
    response = play(
        serve(sale()),
        *WORKED,
        refusal,
        PAUSES[0],
        refusal,
        PAUSES[1],
        refusal,
        NOTE,
        (ScheduleRetry(LEASE_HELD), True),
    )
    assert (response.status, body(response)["transaction_id"]) == (500, TXN)


@pytest.mark.parametrize("status", [404, 409, 422])
def test_a_refusal_to_repeat_an_unanswered_complete_keeps_the_result(status: int) -> None:
    response = play(
        serve(sale()),
        *WORKED,
        (COMPLETE, Raise(NoAnswer("timeout"))),
        PAUSES[0],
        (COMPLETE, CompletionRejected(status, "invalid_request")),
        NOTE,
        (ScheduleRetry(LEASE_HELD), True),
    )
    assert response.status == status


# Rows 14, 15, 16


def test_the_same_proof_while_the_first_runs_is_409() -> None:
    response = play(serve(sale()), claimed(InProgress()))
    assert (response.status, body(response)["code"]) == (409, "payment_in_progress")
    assert response.first("retry-after")


def test_a_released_result_is_given_again_without_call_or_work() -> None:
    first = play(
        serve(sale()),
        *WORKED,
        (COMPLETE, PAID),
        (RecordSettlement(LEASE_HELD, PAID.payment_response, RECEIPT, True), SettlementWrite.FIRST),
    )
    again = play(serve(sale()), claimed(Replayable(RESULT, PAID.payment_response, TXN)))
    assert again == first


def test_a_proof_after_the_last_redelivery_is_409() -> None:
    response = play(serve(sale()), claimed(AlreadyUsed(TXN)))
    assert (response.status, body(response)["transaction_id"]) == (409, TXN)


def test_a_dead_proof_gets_fresh_instructions() -> None:
    assert_402_anew(play(serve(sale()), claimed(AlreadyFailed()), *FRESH_402), None)


def test_the_same_proof_for_another_request_is_409() -> None:
    response = play(serve(sale()), claimed(RequestMismatch()))
    assert (response.status, body(response)["code"]) == (409, "proof_already_used")


def test_the_same_transaction_by_another_encoding_runs_nothing() -> None:
    response = play(
        serve(sale()),
        claimed(),
        found(),
        accessed(),
        (RecordTransaction(LEASE_HELD, TXN, ACR, 54.0), False),
        ALL_KEYS,
        (AbandonClaim(LEASE_HELD), True),
    )
    assert (response.status, body(response)["code"]) == (409, "proof_already_used")


def test_whoever_was_overtaken_before_its_work_says_in_progress() -> None:
    """Its payer's own request serves it: "already used" would have them pay anew."""
    overtaken = (
        (RecordTransaction(LEASE_HELD, TXN, ACR, 54.0), False),
        ALL_KEYS,
        (AbandonClaim(LEASE_HELD), False),
    )
    response = play(serve(sale()), claimed(), found(), accessed(), *overtaken)
    assert (response.status, body(response)["code"]) == (409, "payment_in_progress")
    assert response.first("retry-after")


# Before and beside the rows


def test_a_journal_that_cannot_claim_closes_the_shop() -> None:
    response = play(serve(sale()), claimed(Raise(JournalFull("full"))), NOTE)
    assert response.status == 503
    assert response.first("retry-after")


def test_a_journal_that_cannot_start_never_runs_the_work() -> None:
    start = (RecordTransaction(LEASE_HELD, TXN, ACR, 54.0), Raise(JournalError("disk")))
    assert_unconfirmed(play(serve(sale()), claimed(), found(), accessed(), start, NOTE, SALVAGED))


def test_a_payment_that_settles_without_us_is_written_somewhere() -> None:
    waits = (RecordPending(LEASE_HELD, TXN, ACR), Raise(JournalError("disk")))
    access = accessed(AccessPending(PENDING, TXN))
    assert play(serve(sale()), claimed(), found(), access, waits, NOTE, SALVAGED).status == 202


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ((("payment-signature", "x" * 16385),), 431),
        ((("payment-signature", "a"), ("Payment-Signature", "a")), 400),
        ((("payment-signature", "a"), ("x-payment", "b")), 400),
        ((("payment_signature", "a"),), 400),
        ((("payment-signature", "a,b"),), 400),
        ((("payment-signature", "a b"),), 400),
        ((("payment-signature", ""),), 400),
        ((("payment-signature", "caf\xe9"),), 400),
    ],
)
def test_an_unmistakable_proof_or_none(headers: tuple[tuple[str, str], ...], status: int) -> None:
    asked = PaidRequest(OFFER, Request("GET", "/", headers), "https://seller.example/", 54.0, 1000)
    response = play(serve(asked))
    assert response.status == status
    assert b"caf" not in response.body


def test_a_proof_of_16_kib_is_read() -> None:
    proof = "x" * 16384
    play(
        serve(sale(proof)),
        (ClaimProof(proof, Claimant("GET /summary?q=1", replay=ReplayPolicy.SAME_CLIENT)), InProgress()),
    )


def test_a_resource_url_that_the_service_could_not_take_is_414() -> None:
    asked = PaidRequest(OFFER, Request("GET", "/"), "https://seller.example/" + "a" * 2025, 54.0, 1000)
    assert len(asked.resource_url) == 2048
    play(serve(asked), found(), (CallAccess(asked, RULES, None), AccessUnpaid(NEEDED)))
    longer = replace(asked, resource_url=asked.resource_url + "a")
    assert play(serve(longer)).status == 414


def test_every_question_of_this_file_is_known_by_kind() -> None:
    """The matcher used for notes really tells kinds apart."""
    assert Some(ScheduleRetry) == ScheduleRetry(LEASE_HELD)
    assert Some(ScheduleRetry) != AbandonClaim(LEASE_HELD)
    assert CompletionPaid("a", "r") != CompletionPaid("b", "r")

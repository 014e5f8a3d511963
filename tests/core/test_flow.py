"""The situations of docs/flow.md, driven through the flow alone. Situation 13 is in `test_recovery.py`."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from faregate.core.claim_types import (
    AlreadyFailed,
    AlreadyUsed,
    Claimant,
    InProgress,
    Replayable,
    ReplayPolicy,
    RequestMismatch,
)
from faregate.core.interfaces import RunHandler
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
    CompletionPaid,
    CompletionPending,
    CompletionRejected,
    CompletionUnknown,
    CompletionUnpaid,
    TransactionState,
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
from tests.core.flow_script import (
    ALL_KEYS,
    BEGINNING,
    ENTRY,
    FALLBACK_WRITTEN,
    FRESH_402,
    GOOD,
    HELD,
    LEASE_HELD,
    OFFER,
    PAID,
    PAUSES,
    PENDING,
    PROOF,
    RELEASED,
    RESULT,
    RULES,
    SOLD,
    TXN,
    UNPAID,
    WARNED,
    WORK,
    WORKED,
    AnyOf,
    Raise,
    abandoned,
    accessed,
    asked_without_proof,
    assert_402,
    assert_402_anew,
    assert_nothing_left,
    assert_unconfirmed,
    body,
    claimed,
    code,
    completed,
    ended,
    failed,
    found,
    handled,
    left_pending,
    looked_up,
    names,
    other_encoding,
    play,
    play_sale,
    recorded,
    rescheduled,
    resumed,
    sale,
    settled,
    started,
    thrice,
)
from tests.core.steps import (
    AbandonClaim,
    CallAccess,
    ClaimProof,
    CloseExecution,
    EmitEvent,
    GetKnownRevision,
    HasUnknownKeys,
    MarkStuck,
    ResolveOffer,
    ScheduleRetry,
    serve,
)

# Situation 1


def test_no_proof_relays_the_402_and_nothing_else() -> None:
    response = play(serve(sale(None)), found(), accessed(UNPAID, None))
    assert_402(response)
    assert response.first("retry-after") == "7"
    assert response.first("cache-control") == "private, no-store"
    assert "x-secret" not in names(response)


# Situation 2


@pytest.mark.parametrize("proof", [None, PROOF])
def test_free_access_gives_the_result_without_payment_response(proof: str | None) -> None:
    claim = () if proof is None else (claimed(),)
    dropped = () if proof is None else (abandoned(),)
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
    assert play(serve(sale(None)), *opening, (closing, Raise(NoAnswer("down"))), WARNED).body == RESULT.body


def test_free_work_that_is_too_large_is_an_error_not_a_crash() -> None:
    too_large = Raise(ResultTooLarge("big"))
    response = play(
        serve(sale(None)),
        found(),
        accessed(AccessFree(), None),
        (RunHandler(sale(None), None), too_large),
        WARNED,
    )
    assert (response.status, code(response)) == (500, "result_too_large")


# Situation 3


def test_access_pending_is_relayed_and_its_transaction_kept() -> None:
    response = play_sale(claimed(), found(), accessed(AccessPending(PENDING, TXN)), left_pending())
    assert (response.status, response.body) == (202, PENDING.body)
    assert response.first("retry-after") == "2"


def test_pending_access_without_an_id_drops_the_claim() -> None:
    nameless = AccessPending(Response(202, (), b""), None)
    response = play_sale(claimed(), found(), accessed(nameless), abandoned())
    assert (response.status, code(response)) == (202, "payment_settling")


# Situation 4


def test_a_refused_proof_gets_the_402_and_its_claim_is_dropped() -> None:
    assert_402(play_sale(claimed(), found(), accessed(UNPAID), ALL_KEYS, other_encoding(), abandoned()))


def test_a_proof_that_a_row_of_another_key_may_know_is_nobodys_402() -> None:
    """While a new journal key is brought to one worker after the other, this one may miss the row."""
    refused = (claimed(), found(), accessed(UNPAID))
    for answer in (True, Raise(JournalError("down"))):
        response = play_sale(*refused, (HasUnknownKeys(), answer), WARNED, other_encoding(), abandoned())
        assert (response.status, code(response)) == (503, "payment_unconfirmed")


def test_a_transaction_that_a_row_of_another_key_may_have_is_not_called_used() -> None:
    missed = ((HasUnknownKeys(), True), WARNED, abandoned())
    response = play_sale(claimed(), found(), accessed(), started(False), *missed)
    assert (response.status, code(response)) == (503, "payment_unconfirmed")


def test_a_refusal_for_a_claim_that_was_taken_over_is_nobodys_402() -> None:
    """The proof may be refused because it is being sold, or was sold, by whoever has the claim by now."""
    refused = (claimed(), found(), accessed(UNPAID), ALL_KEYS, other_encoding())
    assert play_sale(*refused, abandoned(False)).status == 409
    unknown = abandoned(Raise(JournalError("disk")))
    assert play_sale(*refused, unknown, WARNED).status == 503


@pytest.mark.parametrize(
    ("use", "expected"),
    [(InProgress(), "payment_in_progress"), (AlreadyUsed(TXN), "proof_already_used")],
    ids=["open", "delivered"],
)
def test_a_refusal_of_a_payment_that_is_in_use_in_another_encoding_is_nobodys_402(
    use: Any, expected: str
) -> None:
    refused = (claimed(), found(), accessed(UNPAID), ALL_KEYS, other_encoding(use), abandoned())
    response = play_sale(*refused)
    assert (response.status, code(response)) == (409, expected)
    # A stranger can read an authorization on the chain.
    assert "transaction_id" not in body(response)


def test_a_refusal_is_nobodys_402_while_the_journal_cannot_be_asked_for_other_encodings() -> None:
    unknown = other_encoding(Raise(JournalError("disk")))
    response = play_sale(claimed(), found(), accessed(UNPAID), ALL_KEYS, unknown, WARNED)
    assert response.status == 503


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
    dropped = () if proof is None else (abandoned(),)
    asked = [accessed(answer, proof) for answer in answers]
    response = play(serve(sale(proof)), *claim, found(), *asked, *dropped, WARNED)
    assert response.status == status
    assert body(response) == {
        "code": "payment_service_unavailable",
        "message": "Payment cannot be checked at the moment.",
    }
    assert (response.first("retry-after") is not None) == (status == 503)


def test_access_is_asked_once_more_when_nothing_was_heard() -> None:
    deaf = accessed(Raise(NoAnswer("reset")), None)
    assert_402(play(serve(sale(None)), found(), deaf, accessed(UNPAID, None)))


@pytest.mark.parametrize(
    ("error", "status"), [(ConfigurationError("unknown key"), 502), (NoAnswer("down"), 503)]
)
def test_without_rules_nothing_is_sold(error: Exception, status: int) -> None:
    failed: tuple[Any, ...] = (found(Raise(error)),)
    if isinstance(error, ServiceError):
        failed = (*failed, (GetKnownRevision(OFFER), None))
    response = play_sale(claimed(), *failed, abandoned(), WARNED)
    assert play(serve(sale(None)), *failed, WARNED) == response
    assert response.status == status
    assert b"unknown key" not in response.body


# Situation 6


def test_a_transaction_without_a_proof_never_runs_the_work() -> None:
    response = play(serve(sale(None)), found(), accessed(AccessGranted(TXN), None), WARNED)
    assert response.status == 502


# Situation 7


def test_a_handler_that_raises_is_reported_failed_and_raises_on() -> None:
    with pytest.raises(ZeroDivisionError):
        play_sale(*BEGINNING, handled(Raise(ZeroDivisionError())), *failed("handler_error"))


@pytest.mark.parametrize("status", [400, 404, 500, 503])
def test_an_error_is_passed_on_uncharged(status: int) -> None:
    answer = Response(status, (("Payment-Response", "forged"), ("x-own", "1")), b"sorry")
    response = play_sale(*BEGINNING, handled(HandlerResult(answer, {})), *failed(f"status_{status}"))
    assert (response.status, response.body, response.first("x-own")) == (status, b"sorry", "1")
    assert "payment-response" not in names(response)


@pytest.mark.parametrize("status", [206, 302, 304, 399])
def test_what_is_neither_billable_nor_an_error_is_withheld(status: int) -> None:
    offer = Offer("text_summary", billable=frozenset({200}))
    asked = sale(offer=offer)
    answer = Response(status, (("Location", "https://cdn.example/signed"),), b"part of the result")
    response = play(
        serve(asked),
        claimed(),
        (ResolveOffer(offer), RULES),
        (CallAccess(asked, RULES, PROOF), AccessGranted(TXN)),
        started(),
        (RunHandler(asked, TXN), HandlerResult(answer, {})),
        WARNED,
        *failed("not_billable"),
    )
    assert (response.status, code(response)) == (500, "not_billable")
    assert "location" not in names(response)
    assert b"result" not in response.body


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
        started(),
        (RunHandler(asked, TXN), work),
        recorded(outcome),
        completed(PAID, ENTRY, outcome),
        settled(),
    )
    assert (response.status, response.first("payment-response")) == (404, PAID.payment_response)


def test_work_that_outlived_its_payment_is_not_sold_though_nobody_could_cut_it_off() -> None:
    late = HandlerResult(WORK.response, WORK.values, 54_001)
    response = play_sale(*BEGINNING, handled(late), WARNED, *failed("work_timed_out"))
    assert (response.status, code(response)) == (500, "work_timed_out")


def test_whatever_speaks_of_payment_may_be_read_by_a_browsers_script() -> None:
    exposed = "PAYMENT-REQUIRED, PAYMENT-RESPONSE, Faregate-Transaction, Retry-After"
    unpaid = play(serve(sale(None)), found(), accessed(UNPAID, None))
    paid = play_sale(*RELEASED)
    busy = play_sale(claimed(InProgress()))
    for response in (unpaid, paid, busy):
        assert response.first("access-control-expose-headers") == exposed


@pytest.mark.parametrize(
    ("error", "reason"),
    [(ResultTooLarge("big"), "result_too_large"), (WorkTimedOut("slow"), "work_timed_out")],
)
def test_work_without_a_result_to_sell(error: Exception, reason: str) -> None:
    response = play_sale(*BEGINNING, handled(Raise(error)), WARNED, *failed(reason))
    assert (response.status, code(response)) == (500, reason)


def test_a_result_that_is_shorter_than_its_length_is_a_failed_outcome_the_seller_sees() -> None:
    cut = replace(RESULT, headers=(("Content-Length", str(len(RESULT.body) + 1)),))
    script = (*BEGINNING, handled(HandlerResult(cut, {})), WARNED, *failed("result_cut_short"))
    response = play_sale(*script)
    assert (response.status, code(response)) == (500, "result_cut_short")
    assert_nothing_left(response)


@pytest.mark.parametrize("values", [{"unknown_name": "1"}, {"input_tokens": "1e5"}])
def test_wrong_values_are_a_failed_outcome_the_seller_sees(values: dict[str, str]) -> None:
    response = play_sale(*BEGINNING, handled(HandlerResult(RESULT, values)), WARNED, *failed("invalid_usage"))
    assert response.status == 500
    assert_nothing_left(response)


def test_a_missing_required_value_is_a_failed_outcome() -> None:
    strict = replace(RULES, required=frozenset({"input_tokens"}))
    response = play_sale(
        claimed(),
        found(strict),
        (CallAccess(sale(), strict, PROOF), AccessGranted(TXN)),
        started(),
        handled(HandlerResult(RESULT, {})),
        WARNED,
        *failed("invalid_usage"),
    )
    assert response.status == 500


def test_an_unacknowledged_failure_stays_owed() -> None:
    failed = WorkFailed("handler_error")
    raised = (*BEGINNING, handled(Raise(ZeroDivisionError())), recorded(failed))
    unanswered = completed(Raise(NoAnswer("down")), ENTRY, failed)
    with pytest.raises(ZeroDivisionError):
        play_sale(*raised, *thrice(unanswered), WARNED, rescheduled())


# Situation 8


def test_a_proven_payment_is_the_only_way_out() -> None:
    response = play_sale(*RELEASED)
    assert (response.status, response.body) == (200, RESULT.body)
    assert response.first("payment-response") == PAID.payment_response
    assert response.first("cache-control") == "private, no-store"


def test_a_proven_payment_is_released_even_if_the_journal_cannot_write_it() -> None:
    response = play_sale(*WORKED, completed(PAID), settled(Raise(JournalError("disk"))), WARNED)
    assert response.first("payment-response") == PAID.payment_response


# Situation 9


def test_settling_is_202_and_held() -> None:
    response = play_sale(*WORKED, completed(CompletionPending(PENDING)), rescheduled())
    assert (response.status, response.body) == (202, PENDING.body)
    assert response.first("retry-after")
    assert_nothing_left(response)


def test_a_200_that_is_not_final_is_relayed_as_202() -> None:
    settling = CompletionPending(Response(200, (("payment-response", "early"),), PENDING.body))
    response = play_sale(*WORKED, completed(settling), rescheduled())
    assert (response.status, body(response)["transaction_id"]) == (202, TXN)
    assert_nothing_left(response)


# Situation 10


@pytest.mark.parametrize(
    "answer", [CompletionUnknown("wrong id"), Raise(NoAnswer("timeout")), Raise(BadAnswer("garbage"))]
)
def test_an_unknown_outcome_is_503_after_bounded_retries(answer: Any) -> None:
    response = play_sale(*WORKED, *thrice(completed(answer)), WARNED, rescheduled())
    assert_unconfirmed(response)


def test_a_retry_that_proves_releases() -> None:
    response = play_sale(
        *WORKED, completed(Raise(NoAnswer("timeout"))), PAUSES[0], completed(PAID), settled()
    )
    assert response.body == RESULT.body


@pytest.mark.parametrize("answer", [False, Raise(JournalError("disk"))])
def test_an_outcome_that_could_not_be_written_is_not_sent(answer: Any) -> None:
    worked = (*BEGINNING, handled(WORK))
    warned = (WARNED,) if isinstance(answer, Raise) else ()
    assert_unconfirmed(play_sale(*worked, recorded(GOOD, answer), *warned))


# Situation 11


def test_not_paid_for_certain_gets_fresh_instructions() -> None:
    response = play_sale(*WORKED, completed(CompletionUnpaid()), ended("payment_failed"), *FRESH_402)
    assert_402_anew(response)


@pytest.mark.parametrize("now", [AccessFree(), AccessGranted(TXN)])
def test_no_result_leaves_even_if_the_resource_is_free_by_then(now: Any) -> None:
    failed = (*WORKED, completed(CompletionUnpaid()), ended("payment_failed"))
    response = play_sale(*failed, found(), asked_without_proof(now), WARNED)
    assert response.status == 503
    assert_nothing_left(response)


# Situation 12


@pytest.mark.parametrize("status", [400, 401, 403, 404, 408, 409, 422, 423, 425, 429])
def test_a_refusal_is_relayed_and_held(status: int) -> None:
    """It does not say that nothing was charged: a service may have acted, and answer for something else."""
    refusal = CompletionRejected(status, "code", "3")
    response = play_sale(*WORKED, completed(refusal), WARNED, rescheduled())
    assert (response.status, response.first("retry-after")) == (status, "3")
    assert_nothing_left(response)


@pytest.mark.parametrize("status", [401, 404, 409, 422, 500, 503])
def test_a_held_payer_is_asked_to_come_back_with_the_same_payment(status: int) -> None:
    """Also when the service does not say when, and when it is refused again: the row is kept either way."""
    refused = completed(CompletionRejected(status, "code"), HELD)
    again = (PAUSES[0], refused, PAUSES[1], refused) if status >= 500 else ()
    left = AnyOf(MarkStuck) if status in (404, 409, 422) else ScheduleRetry(LEASE_HELD)
    stuck = (WARNED,) if status in (404, 409, 422) else ()
    asked = (looked_up(TransactionState.AUTHORIZED), refused, *again, WARNED, (left, True), *stuck)
    response = play_sale(resumed(), *asked)
    assert (response.status, response.first("retry-after")) == (status, "2")
    assert code(response) == "completion_refused"
    assert "same payment" in body(response)["message"]
    assert body(response)["transaction_id"] == TXN


def test_a_failing_service_is_asked_again_within_the_bound() -> None:
    refusal = completed(CompletionRejected(500, "internal_error"))
    response = play_sale(*WORKED, *thrice(refusal), WARNED, rescheduled())
    assert (response.status, body(response)["transaction_id"]) == (500, TXN)


@pytest.mark.parametrize("status", [404, 409, 422])
def test_a_refusal_to_repeat_an_unanswered_complete_keeps_the_result(status: int) -> None:
    response = play_sale(
        *WORKED,
        completed(Raise(NoAnswer("timeout"))),
        PAUSES[0],
        completed(CompletionRejected(status, "invalid_request")),
        WARNED,
        rescheduled(),
    )
    assert response.status == status


# Rows 14, 15, 16


def test_the_same_proof_while_the_first_runs_is_409() -> None:
    response = play_sale(claimed(InProgress()))
    assert (response.status, code(response)) == (409, "payment_in_progress")
    assert response.first("retry-after")


def test_a_released_result_is_given_again_without_call_or_work() -> None:
    first = play_sale(*RELEASED)
    again = play_sale(claimed(Replayable(RESULT, PAID.payment_response, TXN)))
    assert again == first


def test_a_proof_after_the_last_redelivery_is_409() -> None:
    response = play_sale(claimed(AlreadyUsed(TXN)))
    assert (response.status, body(response)["transaction_id"]) == (409, TXN)


def test_a_dead_proof_gets_fresh_instructions() -> None:
    assert_402_anew(play_sale(claimed(AlreadyFailed()), *FRESH_402), None)


def test_the_same_proof_for_another_request_is_409() -> None:
    response = play_sale(claimed(RequestMismatch()))
    assert (response.status, code(response)) == (409, "proof_already_used")
    assert "transaction_id" not in body(response)


def test_the_same_transaction_by_another_encoding_runs_nothing() -> None:
    response = play_sale(claimed(), found(), accessed(), started(False), ALL_KEYS, abandoned())
    assert (response.status, code(response)) == (409, "proof_already_used")
    assert body(response)["transaction_id"] == TXN


def test_whoever_was_overtaken_before_its_work_says_in_progress() -> None:
    """Its payer's own request serves it: "already used" would have them pay anew."""
    overtaken = (started(False), ALL_KEYS, abandoned(False))
    response = play_sale(claimed(), found(), accessed(), *overtaken)
    assert (response.status, code(response)) == (409, "payment_in_progress")
    assert response.first("retry-after")


def test_a_lost_start_whose_claim_cannot_be_given_up_is_unconfirmed() -> None:
    """A journal has the transaction, so the fallback is not written. Nothing runs, and nothing leaves."""
    unknown = (started(False), ALL_KEYS, abandoned(Raise(JournalError("disk"))), WARNED)
    assert_unconfirmed(play_sale(claimed(), found(), accessed(), *unknown))


# Before and beside the rows


def test_a_journal_that_cannot_claim_closes_the_shop() -> None:
    response = play_sale(claimed(Raise(JournalFull("full"))), WARNED)
    assert response.status == 503
    assert response.first("retry-after")


def test_a_journal_that_cannot_start_never_runs_the_work() -> None:
    start = started(Raise(JournalError("disk")))
    assert_unconfirmed(play_sale(claimed(), found(), accessed(), start, WARNED, FALLBACK_WRITTEN))


def test_a_payment_that_settles_without_us_is_written_somewhere() -> None:
    waits = left_pending(Raise(JournalError("disk")))
    access = accessed(AccessPending(PENDING, TXN))
    assert play_sale(claimed(), found(), access, waits, WARNED, FALLBACK_WRITTEN).status == 202


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
        (
            ClaimProof(proof, Claimant("GET /summary?q=1", replay=ReplayPolicy.SAME_CLIENT, sold=SOLD)),
            InProgress(),
        ),
    )


def test_a_resource_url_that_the_service_could_not_take_is_414() -> None:
    asked = PaidRequest(OFFER, Request("GET", "/"), "https://seller.example/" + "a" * 2025, 54.0, 1000)
    assert len(asked.resource_url) == 2048
    play(serve(asked), found(), (CallAccess(asked, RULES, None), UNPAID))
    longer = replace(asked, resource_url=asked.resource_url + "a")
    assert play(serve(longer)).status == 414


def test_a_step_of_any_content_is_known_by_its_kind() -> None:
    """The matcher of `WARNED` tells kinds apart."""
    assert AnyOf(ScheduleRetry) == ScheduleRetry(LEASE_HELD)
    assert AnyOf(ScheduleRetry) != AbandonClaim(LEASE_HELD)
    assert CompletionPaid("a", "r") != CompletionPaid("b", "r")


@pytest.mark.parametrize("result", [WORK, ValueError("failed")])
def test_what_follows_the_handler_is_called_on_the_backend_that_goes_on(result: Any) -> None:
    """A framework may await the view and block after it: each with a backend of its own."""
    flow = serve(sale())
    step = next(flow)
    for _, answer in BEGINNING:
        step = flow.send(answer)
        while isinstance(step, EmitEvent):
            step = flow.send(None)
    assert step == RunHandler(sale(), TXN)
    journal = SimpleNamespace(record_outcome=lambda *_: "of the other")
    other: Any = SimpleNamespace(journal=journal, get_time=lambda: 0.0)
    step.backend = other
    is_error = isinstance(result, Exception)
    assert (flow.throw(result) if is_error else flow.send(result)) == "of the other"
    flow.close()

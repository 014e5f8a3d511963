"""A flow's test is a script: the steps it must take, with the answer to each. No fakes, no I/O."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count, repeat
from typing import Any

from faregate.core.claim_types import (
    Claimant,
    Claimed,
    Lease,
    PendingPayment,
    Recoverable,
    ReplayPolicy,
    SettlementWrite,
)
from faregate.core.interfaces import Flow, RunHandler
from faregate.core.models import (
    HandlerResult,
    Offer,
    OfferRevision,
    Outcome,
    PaidRequest,
    Request,
    Response,
    WorkFailed,
    WorkSucceeded,
)
from faregate.core.results import AccessGranted, AccessUnpaid, CompletionPaid, CompletionUnpaid
from faregate.events import UNKNOWN_SALE, Event, Expired, Refused, Swept
from tests.core.steps import (
    STEP_BACKEND,
    AbandonClaim,
    CallAccess,
    CallComplete,
    ClaimProof,
    EmitEvent,
    FindOtherEncoding,
    GetTransaction,
    HasUnknownKeys,
    LeaseNext,
    LogWarning,
    MarkStuck,
    RecordFinal,
    RecordOutcome,
    RecordPending,
    RecordSettlement,
    RecordTransaction,
    RemoveUnfetched,
    ResolveOffer,
    ScheduleRetry,
    Sleep,
    WriteFallback,
    serve,
)

TXN = "txn_0190aaaaaaaa7aaa8aaaaaaaaaaaaaaa"
OTHER_TXN = "txn_0190bbbbbbbb7bbb8bbbbbbbbbbbbbbb"
ACR = "acr_0190aaaaaaaa7aaa8aaaaaaaaaaaaaaa"
PROOF = "cHJvb2Y="
LEASE_HELD = Lease(b"key", 1)
OFFER = Offer("text_summary")
RULES = OfferRevision(ACR, "USDC", frozenset({"input_tokens"}))
ENTRY = PendingPayment(LEASE_HELD, PROOF, TXN, ACR)
RESULT = Response(200, (("content-type", "text/plain"),), b"the paid result")
WORK = HandlerResult(RESULT, {"input_tokens": "12"}, 5)
GOOD = WorkSucceeded(RESULT, (("input_tokens", "12"),), 5)
HELD = replace(ENTRY, outcome=GOOD)
WAITING = replace(ENTRY, waiting=True)
RECEIPT = '{"receipt":1}'
PAID = CompletionPaid("cmVjZWlwdA==", RECEIPT)
NEEDED = Response(
    402,
    (
        ("content-type", "application/json"),
        ("payment-required", "aW5zdHI="),
        ("retry-after", "7"),
        ("x-secret", "no"),
    ),
    b'{"code":"payment_required","message":"pay"}',
)
UNPAID = AccessUnpaid(NEEDED)
PENDING = Response(
    202,
    (("content-type", "application/json"),),
    json.dumps({"transaction_id": TXN, "status": "settling"}).encode(),
)

Pair = tuple[Any, Any]
"""A step of a flow, and the answer to it."""


@dataclass(frozen=True)
class Raise:
    """An answer that is an exception."""

    error: Exception


class AnyOf:
    """A step of this kind, whatever it carries."""

    def __init__(self, kind: type) -> None:
        self.kind = kind
        self.seen: list[Any] = []

    def __eq__(self, other: object) -> bool:
        self.seen.append(other)
        return isinstance(other, self.kind)

    def __repr__(self) -> str:
        return f"any {self.kind.__name__}"

    __hash__ = None  # type: ignore[assignment]  # never a key


SOLD = "text_summary "
"""What the claims of these sales name as sold."""
STOPPED = repeat(0.0)
"""A clock that stands still."""


def sale(
    proof: str | None = PROOF,
    offer: Offer = OFFER,
    url: str = "/summary?q=1",
    resumes_open_payments: bool = False,
) -> PaidRequest:
    headers = () if proof is None else (("payment-signature", proof),)
    request = Request("GET", url, headers)
    return PaidRequest(
        offer,
        request,
        "https://seller.example/summary",
        54.0,
        1000,
        resumes_open_payments=resumes_open_payments,
    )


def play(flow: Flow[Any], *script: Pair, clock: Iterator[float] = STOPPED) -> Any:
    """Play a whole script and return the result of the flow, which must end, or raise, exactly at its end.

    Events are left out of scripts: `events_of` returns them.
    """
    events: list[Event] = []
    end = _play(flow, script, events, clock)
    _assert_refusal_is_the_response(events, end)
    return end


def play_sale(*script: Pair) -> Any:
    """Play the flow of a sale with a payment."""
    return play(serve(sale()), *script)


def events_of(flow: Flow[Any], *script: Pair) -> list[Event]:
    """Return the events of a flow, without what they say of the sale."""
    return [
        replace(event, sale=UNKNOWN_SALE) if not isinstance(event, Expired | Swept) else event
        for event in full_events_of(flow, *script)
    ]


def full_events_of(flow: Flow[Any], *script: Pair, seconds: float = 0.0) -> list[Event]:
    """Return the events of a flow; each look at the clock is `seconds` after the last one.

    The clock does not begin at zero: a duration is a difference of two times.
    """
    events: list[Event] = []
    _play(flow, script, events, count(1000.0, seconds))
    return events


def warnings_of(flow: Flow[Any], *script: Pair) -> list[LogWarning]:
    """Return what a flow writes into the seller's log."""
    warning = AnyOf(LogWarning)
    _play(flow, tuple((warning, None) if pair is WARNED else pair for pair in script), [])
    return warning.seen


def _assert_refusal_is_the_response(events: list[Event], end: Any) -> None:
    refusals = [event for event in events if isinstance(event, Refused)]
    if refusals and isinstance(end, Response):
        expected = body(end).get("code", refusals[-1].code)
        assert (refusals[-1].status, refusals[-1].code) == (end.status, expected)


def _play(
    flow: Flow[Any], script: tuple[Pair, ...], events: list[Event], clock: Iterator[float] = STOPPED
) -> Any:
    STEP_BACKEND.clock = clock
    try:
        return _play_script(flow, script, events)
    finally:
        STEP_BACKEND.clock = STOPPED


def _play_script(flow: Flow[Any], script: tuple[Pair, ...], events: list[Event]) -> Any:
    answer: Any = None
    for number, (expected, next_answer) in enumerate(script):
        try:
            step = _advance(flow, answer, events)
        except StopIteration as end:
            raise AssertionError(f"after {number} steps the flow ended with {end.value}") from None
        except Exception as error:
            raise AssertionError(f"after {number} steps the flow raised {error!r}") from error
        assert expected == step, f"expected {expected}, the flow yielded {step}"
        answer = next_answer
    try:
        last = _advance(flow, answer, events)
    except StopIteration as end:
        return end.value
    raise AssertionError(f"the script is over, and the flow yields {last}")


_ANSWERS: dict[type, Any] = {EmitEvent: None, RemoveUnfetched: ()}
"""The answers to steps that no script has."""


def _advance(flow: Flow[Any], answer: Any, events: list[Event]) -> Any:
    step = flow.throw(answer.error) if isinstance(answer, Raise) else flow.send(answer)
    while type(step) in _ANSWERS:
        if isinstance(step, EmitEvent):
            events.append(step.event)
        step = flow.send(_ANSWERS[type(step)])
    return step


# Steps, with their answers


def claimed(answer: Any = None, url: str = "/summary?q=1") -> Pair:
    claimant = Claimant(f"GET {url}", replay=ReplayPolicy.SAME_CLIENT, sold=SOLD)
    return ClaimProof(PROOF, claimant), answer or Claimed(LEASE_HELD)


def resumed(entry: PendingPayment = HELD) -> Pair:
    """The payer of an open payment comes back."""
    return claimed(Recoverable(entry))


def leased(entry: PendingPayment | None) -> Pair:
    """A sweep gets its next row, or learns that there is none."""
    return LeaseNext(), entry


def found(rules: Any = RULES) -> Pair:
    return ResolveOffer(OFFER), rules


def accessed(answer: Any = None, proof: str | None = PROOF) -> Pair:
    return CallAccess(sale(proof), RULES, proof), answer or AccessGranted(TXN)


def asked_without_proof(answer: Any) -> Pair:
    """Access for a request that carries a payment, asked as if it carried none."""
    return CallAccess(sale(), RULES, None), answer


def abandoned(answer: Any = True) -> Pair:
    return AbandonClaim(LEASE_HELD), answer


def other_encoding(answer: Any = None) -> Pair:
    """What the journal has of this payment under other bytes."""
    return FindOtherEncoding(LEASE_HELD, PROOF), answer


def left_pending(answer: Any = None) -> Pair:
    return RecordPending(LEASE_HELD, TXN, ACR), answer


def started(answer: Any = True) -> Pair:
    return RecordTransaction(LEASE_HELD, TXN, ACR, 54.0), answer


def handled(result: Any) -> Pair:
    return RunHandler(sale(), TXN), result


def recorded(outcome: Outcome, answer: Any = True) -> Pair:
    return RecordOutcome(LEASE_HELD, outcome), answer


def looked_up(state: Any) -> Pair:
    return GetTransaction(TXN), state


def completed(answer: Any, entry: PendingPayment = ENTRY, outcome: Outcome = GOOD) -> Pair:
    return CallComplete(entry, outcome), answer


def settled(answer: Any = SettlementWrite.FIRST, *, delivered: bool = True) -> Pair:
    return RecordSettlement(LEASE_HELD, PAID.payment_response, RECEIPT, delivered), answer


def ended(reason: str, answer: Any = True) -> Pair:
    return RecordFinal(LEASE_HELD, reason=reason), answer


def ended_paid(reason: str, answer: Any = True) -> Pair:
    return RecordFinal(LEASE_HELD, paid=True, reason=reason, receipt=RECEIPT), answer


def rescheduled(answer: Any = True) -> Pair:
    return ScheduleRetry(LEASE_HELD), answer


def stuck(reason: str, answer: Any = None) -> Pair:
    return MarkStuck(LEASE_HELD, reason), answer


def failed(code: str) -> tuple[Pair, ...]:
    """A failed outcome is recorded and reported."""
    return recorded(WorkFailed(code)), *reported_failed(code)


def reported_failed(code: str, entry: PendingPayment = ENTRY) -> tuple[Pair, ...]:
    """The service acknowledges a failed outcome, and the row ends."""
    return completed(CompletionUnpaid(), entry, WorkFailed(code)), ended(code)


def thrice(pair: Pair) -> tuple[Pair, ...]:
    """As often as a completion is sent."""
    return pair, PAUSES[0], pair, PAUSES[1], pair


PAUSES = (Sleep(0.2), None), (Sleep(0.8), None)
WARNED: Pair = (AnyOf(LogWarning), None)
FALLBACK_WRITTEN: Pair = (WriteFallback(TXN, ACR), None)
ALL_KEYS: Pair = (HasUnknownKeys(), False)
"""The journal was given every key that its rows are named under."""
BEGINNING = (claimed(), found(), accessed(), started())
"""Up to the work, all well."""
WORKED = (*BEGINNING, handled(WORK), recorded(GOOD))
"""Work done and outcome written."""
RELEASED = (*WORKED, completed(PAID), settled())
"""A sale that goes well."""
FRESH_402 = (found(), asked_without_proof(UNPAID))


# Responses


def names(response: Response) -> set[str]:
    return {name.lower() for name, _ in response.headers}


def body(response: Response) -> Any:
    return json.loads(response.body)


def code(response: Response) -> Any:
    return body(response)["code"]


def assert_nothing_left(response: Response) -> None:
    """Not a byte of the result, and no proof of payment."""
    assert RESULT.body not in response.body
    assert "payment-response" not in names(response)


def assert_unconfirmed(response: Response) -> None:
    """Row 10: never a fresh 402 while the outcome is unknown."""
    assert response.status == 503
    assert body(response)["code"] == "payment_unconfirmed"
    assert body(response)["transaction_id"] == TXN
    assert response.first("retry-after")
    assert "payment-required" not in names(response)
    assert_nothing_left(response)


def assert_402(response: Response) -> None:
    assert response.status == 402
    assert response.body == NEEDED.body
    assert response.first("payment-required") == "aW5zdHI="
    assert_nothing_left(response)


def assert_402_anew(response: Response, transaction_id: str | None = TXN) -> None:
    """Row 11: the service's instructions as they are; the body tells that the payment was not taken."""
    assert response.status == 402
    assert response.first("payment-required") == "aW5zdHI="
    assert response.first("retry-after") == "7"
    assert body(response)["code"] == "payment_required"
    assert "nothing was charged" in body(response)["message"]
    assert body(response).get("transaction_id") == transaction_id
    assert_nothing_left(response)

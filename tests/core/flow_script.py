"""A flow's test is a list of questions and answers: no fakes, no I/O."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count, repeat
from typing import Any

from faregate.core.claims import Claimant, Claimed, Lease, PendingPayment, ReplayPolicy
from faregate.core.models import (
    HandlerResult,
    Offer,
    OfferRevision,
    PaidRequest,
    Request,
    Response,
    WorkSucceeded,
)
from faregate.core.results import AccessGranted, CompletionPaid
from faregate.core.steps import (
    CallAccess,
    CallComplete,
    ClaimProof,
    EmitEvent,
    Flow,
    GetTime,
    HasUnknownKeys,
    LogWarning,
    RecordOutcome,
    RecordTransaction,
    RemoveUnfetched,
    ResolveOffer,
    RunHandler,
)
from faregate.events import UNKNOWN_SALE, Event, Expired, Refused, Swept

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


@dataclass(frozen=True)
class Raise:
    """An answer that is an exception."""

    error: Exception


class Some:
    """A question of this kind, whatever it carries."""

    def __init__(self, kind: type) -> None:
        self.kind = kind
        self.met: list[Any] = []

    def __eq__(self, other: object) -> bool:
        self.met.append(other)
        return isinstance(other, self.kind)

    def __repr__(self) -> str:
        return f"any {self.kind.__name__}"

    __hash__ = None  # type: ignore[assignment]  # never a key


NOTE = (Some(LogWarning), None)


STOPPED = repeat(0.0)
"""A clock that stands still."""


def sale(proof: str | None = PROOF, offer: Offer = OFFER, url: str = "/summary?q=1") -> PaidRequest:
    headers = () if proof is None else (("payment-signature", proof),)
    return PaidRequest(offer, Request("GET", url, headers), "https://seller.example/summary", 54.0, 1000)


def play(flow: Flow[Any], *script: tuple[Any, Any]) -> Any:
    """Ask-and-answer through the whole script; the flow must end, or raise, exactly at its end.

    What the flow tells is left out; `told` gives that.
    """
    events: list[Event] = []
    end = _play(flow, script, events)
    _assert_told_as_it_is(events, end)
    return end


def told(flow: Flow[Any], *script: tuple[Any, Any]) -> list[Event]:
    """What a flow tells while it is played, without what it knows of the sale."""
    return [
        replace(event, sale=UNKNOWN_SALE) if not isinstance(event, Expired | Swept) else event
        for event in told_whole(flow, *script)
    ]


def told_whole(flow: Flow[Any], *script: tuple[Any, Any], seconds: float = 0.0) -> list[Event]:
    """What a flow tells while it is played; each look at the clock is `seconds` after the last one."""
    events: list[Event] = []
    _play(flow, script, events, count(0.0, seconds))
    return events


def noted(flow: Flow[Any], *script: tuple[Any, Any]) -> list[LogWarning]:
    """What a flow writes into the seller's log while it is played."""
    heard = Some(LogWarning)
    _play(flow, tuple((heard, None) if pair is NOTE else pair for pair in script), [])
    return heard.met


def _assert_told_as_it_is(events: list[Event], end: Any) -> None:
    """A listener hears of the very refusal that the payer gets."""
    refusals = [event for event in events if isinstance(event, Refused)]
    if refusals and isinstance(end, Response):
        code = json.loads(end.body).get("code", refusals[-1].code)
        assert (refusals[-1].status, refusals[-1].code) == (end.status, code)


def _play(
    flow: Flow[Any],
    script: tuple[tuple[Any, Any], ...],
    events: list[Event],
    clock: Iterator[float] = STOPPED,
) -> Any:
    answer: Any = None
    for number, (question, reply) in enumerate(script):
        try:
            asked = _advance(flow, answer, events, clock)
        except StopIteration as end:
            raise AssertionError(f"after {number} questions the flow ended with {end.value}") from None
        except Exception as error:
            raise AssertionError(f"after {number} questions the flow raised {error!r}") from error
        assert question == asked, f"expected {question}, the flow asked {asked}"
        answer = reply
    try:
        last = _advance(flow, answer, events, clock)
    except StopIteration as end:
        return end.value
    raise AssertionError(f"the script is over, and the flow asks {last}")


_ANSWERED: dict[type, Any] = {EmitEvent: None, GetTime: 0.0, RemoveUnfetched: ()}
"""The answer to steps that no script has."""


def _advance(flow: Flow[Any], answer: Any, events: list[Event], clock: Iterator[float]) -> Any:
    step = flow.throw(answer.error) if isinstance(answer, Raise) else flow.send(answer)
    while type(step) in _ANSWERED:
        if isinstance(step, EmitEvent):
            events.append(step.event)
        step = flow.send(next(clock) if isinstance(step, GetTime) else _ANSWERED[type(step)])
    return step


def found(proof: str | None = PROOF, offer: Offer = OFFER) -> tuple[Any, Any]:
    return ResolveOffer(offer), RULES


def claimed(answer: Any = None, url: str = "/summary?q=1") -> tuple[Any, Any]:
    return ClaimProof(PROOF, Claimant(f"GET {url}", replay=ReplayPolicy.SAME_CLIENT)), answer or Claimed(
        LEASE_HELD
    )


ALL_KEYS = (HasUnknownKeys(), False)
"""The journal was given every key that its rows are named under."""


def accessed(answer: Any = None, proof: str | None = PROOF) -> tuple[Any, Any]:
    return CallAccess(sale(proof), RULES, proof), answer or AccessGranted(TXN)


BEGINNING = (claimed(), found(), accessed(), (RecordTransaction(LEASE_HELD, TXN, ACR, 54.0), True))
"""Up to the work, all well."""
WORKED = (*BEGINNING, (RunHandler(sale(), TXN), WORK), (RecordOutcome(LEASE_HELD, GOOD), True))
"""Work done and outcome written."""
COMPLETE = CallComplete(ENTRY, GOOD)
RECEIPT = '{"receipt":1}'
PAID = CompletionPaid("cmVjZWlwdA==", RECEIPT)

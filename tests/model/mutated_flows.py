"""Flows that are told something else than was answered, or ask in another order. Their code stays."""

from collections.abc import Callable
from typing import Any

from faregate.core.interfaces import Flow
from faregate.core.models import Response, WorkSucceeded
from faregate.core.results import CompletionPaid, CompletionPending
from tests.core.steps import (
    AbandonClaim,
    CallComplete,
    FindOtherEncoding,
    Question,
    RecordOutcome,
    RecordTransaction,
)
from tests.model.replies import INSTRUCTIONS, PAYMENT_RESPONSE

PAID = CompletionPaid(PAYMENT_RESPONSE, "{}")
Wrap = Callable[[Flow[Any]], Flow[Any]]
Meddle = Callable[[Question], Flow[Any]]


def _between(flow: Flow[Any], meddle: Meddle) -> Flow[Any]:
    """Every question of the flow goes through `meddle`, and its answer comes back through it."""
    advance: Callable[[Any], Question] = flow.send
    answer: Any = None
    while True:
        try:
            question = advance(answer)
        except StopIteration as end:
            return end.value
        try:
            advance, answer = flow.send, (yield from meddle(question))
        except Exception as error:
            advance, answer = flow.throw, error


def released_on_202(flow: Flow[Any]) -> Flow[Any]:
    return _between(
        flow, _replacing(lambda _, answer: PAID if isinstance(answer, CompletionPending) else answer)
    )


def released_without_an_answer(flow: Flow[Any]) -> Flow[Any]:
    def meddle(question: Question) -> Flow[Any]:
        try:
            return (yield question)
        except Exception:
            if isinstance(question, CallComplete) and isinstance(question.outcome, WorkSucceeded):
                return PAID
            raise

    return _between(flow, meddle)


def fresh_402(flow: Flow[Any]) -> Flow[Any]:
    response = yield from flow
    if isinstance(response, Response) and b"payment_unconfirmed" in response.body:
        return Response(402, (("PAYMENT-REQUIRED", INSTRUCTIONS),))
    return response


def any_402(flow: Flow[Any]) -> Flow[Any]:
    return _between(flow, _replacing(lambda question, answer: isinstance(question, AbandonClaim) or answer))


def deaf_to_other_encodings(flow: Flow[Any]) -> Flow[Any]:
    return _between(
        flow, _replacing(lambda question, answer: None if isinstance(question, FindOtherEncoding) else answer)
    )


def deaf_to_a_lost_decision(flow: Flow[Any]) -> Flow[Any]:
    return _between(flow, _replacing(lambda question, answer: isinstance(question, RecordOutcome) or answer))


def deaf_to_a_refused_start(flow: Flow[Any]) -> Flow[Any]:
    return _between(
        flow, _replacing(lambda question, answer: isinstance(question, RecordTransaction) or answer)
    )


def _replacing(change: Callable[[Question, Any], Any]) -> Meddle:
    def meddle(question: Question) -> Flow[Any]:
        answer = yield question
        return change(question, answer)

    return meddle

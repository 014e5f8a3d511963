"""Whether results left a seller only after the service had allowed it. Pure."""

from collections.abc import Iterable, Iterator

from faregate.core.models import header_values
from faregate.emulator.diary import REMEMBERED, Diary, RecordedCall
from faregate.emulator.invariants import Finding, Received, paid_by
from faregate.merchant.answers import AccessDecision
from faregate.service.app import Service


def released_unpaid(service: Service, diary: Diary, answers: Iterable[Received]) -> Iterator[Finding]:
    """Results that left for a proof before its complete was answered `succeeded`, with its proof of payment.

    A result is a 2xx with a body, but a 202 that names a transaction and has no `PAYMENT-RESPONSE` is a
    request to wait. What was asked for without a proof, or had no price, is not judged.
    """
    calls = list(diary)
    for answer in answers:
        if answer.proof is None or not answer.priced or not _is_result(answer):
            continue
        told = [call for call in calls if call.number <= answer.calls and _carries(call, answer.proof)]
        if any(_allows(call) for call in told):
            continue
        record = paid_by(service, answer.proof)
        if diary.count > REMEMBERED and record is not None and record.status == "succeeded":
            continue  # what allowed it may be forgotten
        about = "no transaction" if record is None else f"{record.id}, now {record.status}"
        yield Finding(
            f"a result ({answer.status}) left before the service proved its payment: {about}",
            () if record is None else (record.id,),
        )


def _is_result(answer: Received) -> bool:
    if not (200 <= answer.status < 300 and answer.body):
        return False
    proven = bool(header_values(answer.headers, "payment-response"))
    return proven or answer.status != 202 or b'"transaction_id"' not in answer.body


def _carries(call: RecordedCall, proof: str) -> bool:
    return header_values(call.request.headers, "payment-signature") == [proof]


def _allows(call: RecordedCall) -> bool:
    """Whether the seller was told, in a whole answer, that it may release."""
    delivery = call.delivery
    if delivery is None or delivery.ending != "whole" or delivery.response.status != 200:
        return False
    if call.operation == "access":
        return _is_free(delivery.response.body)
    return call.operation == "complete" and delivery.response.first("payment-response") is not None


def _is_free(body: bytes) -> bool:
    try:
        return AccessDecision.model_validate_json(body).transaction_id is None
    except ValueError:
        return False

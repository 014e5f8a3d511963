"""Answer one call under a fault: whether the service acts, what it answers, how the answer travels."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final
from urllib.parse import quote

from pydantic import JsonValue

from faregate.core.models import Headers, Response, WireRequest
from faregate.emulator.calls import CallInfo, describe_call
from faregate.emulator.delivery import NO_RESPONSE, Delivery, Ending
from faregate.emulator.faults.active_faults import Faults
from faregate.emulator.faults.models import Fault, Kind
from faregate.merchant.problems import (
    EXECUTION_NOT_FOUND,
    FORBIDDEN,
    INTERNAL_ERROR,
    INVALID,
    PAYMENT_REQUIRED,
    TRANSACTION_NOT_FOUND,
    UNAUTHENTICATED,
)
from faregate.merchant.requests import INSTRUCTIONS
from faregate.rules.app import Service
from faregate.rules.http import HttpError, json_value_response
from faregate.rules.operations.access import PROOF_HEADER
from faregate.rules.receipts import build_transaction_detail
from faregate.rules.records import TransactionRecord
from faregate.x402.headers import build_payment_required, remove_challenge

GARBAGE: Final = b"<html>\x00\xff\xfe{This is not JSON."
MESSAGE: Final = "a fault of the emulator answers like this"
_NOT_FOUND: Final = {
    "complete": TRANSACTION_NOT_FOUND,
    "transaction": TRANSACTION_NOT_FOUND,
    "execution": EXECUTION_NOT_FOUND,
}
_LISTS: Final = ("transactions", "payers", "resources")
_TICK: Final = timedelta(microseconds=1)
_BY_STATUS: Final = {problem.status: problem for problem in (UNAUTHENTICATED, PAYMENT_REQUIRED, FORBIDDEN)}


def remove_header(headers: Headers, name: str) -> Headers:
    return tuple(pair for pair in headers if pair[0].lower() != name.lower())


def duplicate_header(response: Response, header: str, value: str | None) -> Response:
    for name, text in response.headers:
        if name.lower() == header.lower():
            return response.plus((name, text if value is None else value))
    return response


def replace_fields(response: Response, fields: dict[str, JsonValue]) -> Response:
    body = json.loads(response.body)
    if not isinstance(body, dict):
        return response
    changed = json.dumps({**body, **fields}, ensure_ascii=False, separators=(",", ":"))
    return replace(response, body=changed.encode())


def remove_challenges(response: Response) -> Response:
    """Return the response with instructions that are the same for everybody."""
    headers = (
        (name, remove_challenge(value) if name.lower() == INSTRUCTIONS else value)
        for name, value in response.headers
    )
    return replace(response, headers=tuple(headers))


def build_error(fault: Fault, info: CallInfo) -> Response:
    """Build the error with the fault's status, and with the code that the operation has for it."""
    status = fault.status or 500
    documented = _NOT_FOUND.get(info.operation or "") if status == 404 else _BY_STATUS.get(status)
    other = INTERNAL_ERROR if status >= 500 else INVALID
    problem = documented or replace(other, status=status)
    headers = () if fault.retry_after is None else (("Retry-After", str(fault.retry_after)),)
    return HttpError(problem, MESSAGE, headers).response()


_ENDINGS: Final[dict[Kind, Ending]] = {"silence": "silence", "reset": "reset", "cut": "cut"}


def deliver_with_faults(
    faults: Faults, service: Service, request: WireRequest
) -> tuple[Delivery, str | None]:
    """Answer this call, and return the id of the fault that it met. Never raises.

    A fault without effect, such as leaving out a header that is not there, does not count.
    """
    call = _FaultedCall(service, request, describe_call(service, request))
    rule = faults.first(call.info, call.fits)
    if rule is None:
        return Delivery(service.respond(request)), None
    response = service.respond(request) if _reaches_service(rule.fault) else NO_RESPONSE
    delivery = call.deliver(rule.fault, response)
    # A fault that changed nothing stays active for a later call.
    if delivery == Delivery(response):
        return delivery, None
    faults.count_application(rule)
    return delivery, rule.id


def _reaches_service(fault: Fault) -> bool:
    """Whether the call reaches the service at all."""
    return fault.when != "before" and fault.kind != "refused-repeat"


@dataclass(frozen=True, slots=True)
class _FaultedCall:
    service: Service
    request: WireRequest
    info: CallInfo

    def fits(self, fault: Fault) -> bool:
        """Whether this kind of fault can affect the call."""
        match fault.kind:
            case "stale-read":
                return _is_read(self.info)
            case "predictable-instructions":
                return self.info.operation == "access"
            case "second-402":
                return self._is_paid()
            case "refused-repeat":
                return self._is_repeated()
            case _:
                return True

    def deliver(self, fault: Fault, response: Response) -> Delivery:
        delay = fault.seconds or 0.0 if fault.kind == "latency" else 0.0
        return Delivery(self._instead(fault, response), delay, _ENDINGS.get(fault.kind, "whole"))

    def _instead(self, fault: Fault, response: Response) -> Response:
        match fault.kind:
            case "status" | "refused-repeat":
                return build_error(fault, self.info)
            case "second-402":
                return self._asking_again()
            case "garbage":
                return replace(response, body=GARBAGE)  # its headers stay
            case "missing-header":
                return replace(response, headers=remove_header(response.headers, fault.header or ""))
            case "doubled-header":
                return duplicate_header(response, fault.header or "", fault.value)
            case "changed-body":
                return replace_fields(response, fault.fields or {})
            case "stale-read":
                return _build_stale_response(self.service, self.info, self.request, response, fault.seconds)
            case "predictable-instructions":
                return remove_challenges(response)
            case _:
                return response

    def _is_paid(self) -> bool:
        """Whether it carries a payment for something that is not free."""
        if self.info.operation == "complete":
            return self._record() is not None
        if self.info.operation != "access" or self.info.environment is None or self.info.payer is None:
            return False
        listing = self.service.environments[self.info.environment].catalog.listings.get(
            self.info.resource or ""
        )
        return listing is not None and listing.require_payment

    def _is_repeated(self) -> bool:
        record = self._record()
        return self.info.operation == "complete" and record is not None and record.accepted is not None

    def _asking_again(self) -> Response:
        record = self._record()
        if record is None or self.info.operation == "access":
            # The service itself asks for payment again, as it would without the proof.
            unpaid = remove_header(self.request.headers, PROOF_HEADER)
            return self.service.respond(replace(self.request, headers=unpaid))
        challenge = self.service.environments[self.info.environment or "test"].challenge()
        instructions = build_payment_required(
            record.context.terms, record.context.request.resource, MESSAGE, challenge
        )
        return HttpError(PAYMENT_REQUIRED, MESSAGE, (("PAYMENT-REQUIRED", instructions),)).response()

    def _record(self) -> TransactionRecord | None:
        if self.info.environment is None or self.info.transaction is None:
            return None
        return self.service.environments[self.info.environment].transactions.get(self.info.transaction)


def _is_read(info: CallInfo) -> bool:
    """Whether the operation can be answered by a replica."""
    return info.environment is not None and info.operation in ("transaction", *_LISTS)


def _build_stale_response(
    service: Service, info: CallInfo, request: WireRequest, now: Response, seconds: float | None
) -> Response:
    """Build the answer of a replica that lags behind by `seconds`, or by the last change.

    A transaction that the replica does not know yet is 404, and a list is as of the earlier moment. A
    response other than 200 stays as it is, and so does a list with an `as_of` of its own.
    """
    if now.status != 200 or info.environment is None:
        return now
    store = service.environments[info.environment]
    then = None if seconds is None else store.clock.now() - timedelta(seconds=seconds)
    if info.operation == "transaction":
        return _build_earlier_transaction(store.transactions[info.transaction or ""], then)
    moment = then or _find_last_change(store.transactions.values())
    earlier = now if moment is None else service.respond(_add_as_of(request, moment))
    return earlier if earlier.status == 200 else now


def _build_earlier_transaction(record: TransactionRecord, moment: datetime | None) -> Response:
    """Build the transaction as it was then, or before its last change."""
    statuses = [status for began, status in record.history if moment is None or began <= moment]
    if moment is None:
        statuses.pop()
    if not statuses:
        return HttpError(TRANSACTION_NOT_FOUND, "there is no such transaction in this environment").response()
    shown = build_transaction_detail(record)
    if statuses[-1] != "succeeded":
        undone = dict.fromkeys(("settled_at", "settled_atomic", "transaction_hash", "receipt"))
        shown = shown.model_copy(update={**undone, "status": statuses[-1]})
    return json_value_response(shown.model_dump(mode="json", exclude_none=True))


def _find_last_change(records: Iterable[TransactionRecord]) -> datetime | None:
    """Return the moment just before the last change of these records."""
    last = max((record.history[-1][0] for record in records), default=None)
    return None if last is None else last - _TICK


def _add_as_of(request: WireRequest, moment: datetime) -> WireRequest:
    mark = "&" if "?" in request.path else "?"
    path = f"{request.path}{mark}as_of={quote(moment.isoformat())}"
    return WireRequest(request.method, path, request.headers, request.body)

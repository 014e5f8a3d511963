"""The recorded calls to the service. A call is recorded when it is received, before it is answered."""

import base64
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, cast

from eth_utils.address import to_checksum_address
from pydantic import TypeAdapter

from faregate.core.models import Headers, Response, WireRequest, header_values
from faregate.emulator.delivery import Delivery
from faregate.errors import BadAnswer
from faregate.merchant.interpret import parse_object
from faregate.merchant.models import AccessRequest
from faregate.rules.app import Service
from faregate.rules.http import HttpError, ParsedRequest, read_bearer
from faregate.rules.memory_store import MemoryStore
from faregate.rules.operations.access import PROOF_HEADER
from faregate.rules.routes import Operation, find_route
from faregate.x402.headers import InvalidPayload, parse_payment
from faregate.x402.instructions import parse_json
from faregate.x402.models import SignedPayment
from faregate.x402.tokens import Environment

_ACCESS_REQUEST: Final[TypeAdapter[AccessRequest]] = TypeAdapter(AccessRequest)


@dataclass(frozen=True, slots=True)
class CallInfo:
    """The records that a call concerns; None is unknown.

    `key` is a valid API key and `environment` its environment. `resource` is an integration key. `payer` is
    the checksum address of the transaction's payer, or the one in the proof, even if another key signed it.
    `transaction` is the one in the path, known or not, or the one that the proof of an access already pays
    for.
    """

    operation: Operation | None = None
    key: str | None = None
    environment: Environment | None = None
    resource: str | None = None
    payer: str | None = None
    transaction: str | None = None


def describe_call(service: Service, request: WireRequest) -> CallInfo:
    """Find out what a request is about. Never raises. It parses the proof and the body, which takes time."""
    path, _, query = request.path.partition("?")
    # Parsed a second time here, because a fault is chosen before the service sees the call, if it ever does.
    try:
        route, identifier = find_route(request.method, path)
    except HttpError:
        return CallInfo()
    call = ParsedRequest(identifier, query, request.headers, request.body or b"")
    payment = _parse_proof(call)
    info = CallInfo(route.operation, payer=None if payment is None else to_checksum_address(payment.payer))
    try:
        key = service.find_key(read_bearer(request.headers))
    except HttpError:
        return info
    info = replace(info, key=key.key, environment=key.environment)
    return _add_records(info, service.environments[key.environment], call, payment)


def _add_records(
    info: CallInfo, store: MemoryStore, call: ParsedRequest, payment: SignedPayment | None
) -> CallInfo:
    match info.operation:
        case "access":
            return _describe_access(info, store, call, payment)
        case "complete" | "transaction":
            return _describe_transaction(info, store, call.identifier)
        case "execution":
            return _describe_execution(info, store, call.identifier)
        case _:
            return info


def _describe_access(
    info: CallInfo, store: MemoryStore, call: ParsedRequest, payment: SignedPayment | None
) -> CallInfo:
    try:
        revision_id = call.body_as(_ACCESS_REQUEST).revision_id
    except HttpError:
        return info
    published = store.catalog.find_revision(revision_id)
    if published is None:
        return info
    listing, revision = published
    used = None if payment is None else store.find_by_authorization(revision.token, payment)
    return replace(info, resource=listing.resource.key, transaction=None if used is None else used.id)


def _describe_transaction(info: CallInfo, store: MemoryStore, identifier: str) -> CallInfo:
    record = store.transactions.get(identifier)
    if record is None:
        return replace(info, transaction=identifier)
    resource = record.context.listing.resource.key
    return replace(info, resource=resource, payer=record.payer.identifier, transaction=identifier)


def _describe_execution(info: CallInfo, store: MemoryStore, identifier: str) -> CallInfo:
    execution = store.executions.get(identifier)
    published = None if execution is None else store.catalog.find_revision(execution.revision_id)
    return info if published is None else replace(info, resource=published[0].resource.key)


def _parse_proof(call: ParsedRequest) -> SignedPayment | None:
    try:
        proof = call.only_header(PROOF_HEADER)
        return None if proof is None else parse_payment(proof)
    except (InvalidPayload, HttpError):
        return None


MAX_CALLS: Final = 10_000


@dataclass(eq=False, repr=False, slots=True)
class RecordedCall:
    """One call. `number` counts from 1; `delivery` is None until the call is answered; `fault` is the fault's
    id.

    `undone` is true if the state was restored to a moment before the call: its ids may have been given out
    again. `info` is computed when it is first read: the transaction of an access exists only after the call.
    """

    number: int
    at: datetime
    request: WireRequest
    service: Service
    delivery: Delivery | None = None
    fault: str | None = None
    undone: bool = False
    _info: CallInfo | None = field(default=None, init=False)

    def __repr__(self) -> str:
        """Show the call in a failing test, without key and proof."""
        answer = str(self.status or "no answer")
        about = [f"{name} {value}" for name, value in self._list_fields() if value is not None]
        return f"<{' · '.join([f'{self.number}: {self.method} {self.path} -> {answer}', *about])}>"

    def _list_fields(self) -> tuple[tuple[str, str | None], ...]:
        transaction = None if self.transaction is None or self.transaction in self.path else self.transaction
        ending = self.delivery.ending if self.delivery and self.delivery.ending != "whole" else None
        return (
            ("resource", self.resource),
            ("transaction", transaction),
            ("fault", self.fault),
            ("delivered", ending),
            ("undone", "by a restore" if self.undone else None),
        )

    @property
    def info(self) -> CallInfo:
        if self._info is None:
            self._info = describe_call(self.service, self.request)
        return self._info

    @property
    def operation(self) -> str | None:
        return self.info.operation

    @property
    def environment(self) -> Environment | None:
        return self.info.environment

    @property
    def resource(self) -> str | None:
        """The integration key."""
        return self.info.resource

    @property
    def payer(self) -> str | None:
        """The checksum address of the payer."""
        return self.info.payer

    @property
    def transaction(self) -> str | None:
        return self.info.transaction

    @property
    def proof(self) -> dict[str, Any] | None:
        """The decoded `PAYMENT-SIGNATURE`."""
        return decode_header(self.request.headers, "payment-signature")

    @property
    def instructions(self) -> dict[str, Any] | None:
        """The decoded `PAYMENT-REQUIRED` of the answer."""
        return decode_header(self.response.headers, "payment-required") if self.response else None

    @property
    def payment_response(self) -> dict[str, Any] | None:
        """The decoded `PAYMENT-RESPONSE` of the answer."""
        return decode_header(self.response.headers, "payment-response") if self.response else None

    @property
    def method(self) -> str:
        return self.request.method

    @property
    def path(self) -> str:
        """The path without its query."""
        return self.request.path.partition("?")[0]

    @property
    def response(self) -> Response | None:
        return self.delivery.response if self.delivery else None

    @property
    def status(self) -> int | None:
        return self.delivery.response.status if self.delivery else None


LogPosition = tuple[int, tuple[range, ...]]
"""A position in the log: how many calls there were, and the numbers of those already undone."""


class CallLog:
    """The last 10,000 calls, oldest first. `count` counts all calls ever made."""

    def __init__(self) -> None:
        self.count = 0
        self._undone: tuple[range, ...] = ()
        self._calls: deque[RecordedCall] = deque(maxlen=MAX_CALLS)

    def __iter__(self) -> Iterator[RecordedCall]:
        return iter(self._calls)

    def add_call(self, request: WireRequest, at: datetime, service: Service) -> RecordedCall:
        self.count += 1
        call = RecordedCall(self.count, at, request, service)
        self._calls.append(call)
        return call

    def mark(self) -> LogPosition:
        return self.count, self._undone

    def rewind(self, mark: LogPosition) -> None:
        """Mark the calls since this position as undone; calls undone since then count again."""
        count, undone = mark
        self._undone = (*undone, range(count + 1, self.count + 1))
        for call in self._calls:
            call.undone = any(call.number in numbers for numbers in self._undone)


def decode_header(headers: Headers, name: str) -> dict[str, Any] | None:
    """Decode a payment header, base64 of a JSON object; None if it is not that, or was sent twice."""
    values = header_values(headers, name)
    try:
        parsed = parse_json(base64.b64decode(values[0], validate=True)) if len(values) == 1 else None
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", parsed) if isinstance(parsed, dict) else None


def parse_fields(response: Response) -> dict[str, Any]:
    """Parse the body as a JSON object; empty for any other body."""
    try:
        return parse_object(response)
    except BadAnswer:
        return {}

"""Perform the steps of a flow on the Merchant API, a journal and the log, blocking or awaiting.

Both share every method: `send` of the client returns the answer, or an awaitable of it.
"""

import logging
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeVar, cast

import anyio
from pydantic import ValidationError
from pydantic_core import to_json

from faregate.core.claims import PendingPayment
from faregate.core.interfaces import Journal, MaybeAwaitable
from faregate.core.models import (
    Failed,
    HandlerResult,
    Offer,
    OfferRevision,
    Outcome,
    PaidRequest,
    Response,
    WireRequest,
)
from faregate.core.results import Access, Completion, TransactionState
from faregate.errors import ConfigurationError
from faregate.logs import log
from faregate.merchant import wire
from faregate.merchant.client import AsyncMerchantClient, MerchantClient
from faregate.merchant.interpret import parse_access, parse_completion, parse_transaction_state
from faregate.merchant.models import (
    AccessRequest,
    AccessResource,
    FailedCompleteRequest,
    ResourceExecutionCompleteRequest,
    ResourceExecutionMetadata,
)
from faregate.merchant.revisions import RevisionCache
from faregate.merchant.wire import Call
from faregate.observers import EventDispatcher
from faregate.x402.tokens import SettlementAsset

T = TypeVar("T")
C = TypeVar("C", MerchantClient, AsyncMerchantClient)
Clock = Callable[[], float]
"""Seconds that never jump."""


class Send(Protocol):
    def __call__(self, call: Call[T], /) -> MaybeAwaitable[T]: ...


class _MerchantBackend(Generic[C]):
    """Perform the steps of a flow with the Merchant API, a journal and the revisions that were read."""

    def __init__(
        self, client: C, journal: Journal, revisions: RevisionCache, clock: Clock, events: EventDispatcher
    ) -> None:
        self.journal = journal
        self._send: Send = client.send
        self._revisions = revisions
        self.get_known_revision = revisions.find
        self.recall_guessability = revisions.recall_guessability
        self.record_guessability = revisions.record_guessability
        self.get_time = clock
        self.emit_event = events.emit
        self.write_fallback = events.write_fallback

    def resolve_offer(self, offer: Offer) -> MaybeAwaitable[OfferRevision]:
        return self._revisions.resolve(offer) or self._send(self._revisions.build_call(offer))

    def refresh_revision(self, offer: Offer, rejected: OfferRevision) -> MaybeAwaitable[OfferRevision | None]:
        newer = self._revisions.find_newer(offer, rejected)
        if newer is not None or not self._revisions.begin_refresh():
            return newer
        return self._send(self._revisions.build_call(offer))

    def call_access(
        self, request: PaidRequest, revision: OfferRevision, proof: str | None
    ) -> MaybeAwaitable[Access]:
        call = _build_access(request.offer, request.resource_url, revision)
        return self._send(Call(wire.with_proof(call, proof), parse_access))

    def call_complete(self, payment: PendingPayment, outcome: Outcome) -> MaybeAwaitable[Completion]:
        transaction_id = payment.transaction_id
        body = _write_completion(payment.revision_id, outcome)
        request = wire.build_completion(transaction_id, body, payment.proof)
        return self._send(Call(request, lambda reply: parse_completion(reply, transaction_id)))

    def get_transaction_state(self, transaction_id: str) -> MaybeAwaitable[TransactionState]:
        request = wire.get_transaction(transaction_id).request
        return self._send(Call(request, lambda reply: parse_transaction_state(reply, transaction_id)))

    def close_execution(
        self, execution_id: str, revision: OfferRevision, result: HandlerResult | None
    ) -> MaybeAwaitable[None]:
        facts = ResourceExecutionMetadata(
            **(_build_metadata(result.response, result.duration_ms) if result else {})
        )
        body = ResourceExecutionCompleteRequest(revision_id=revision.revision_id, resource_execution=facts)
        call = wire.complete_resource_execution(execution_id, body)
        return self._send(Call(call.request, lambda reply: _discard(call.read(reply))))

    def log_warning(self, message: str, transaction_id: str | None) -> None:
        log(logging.WARNING, "%s%s", message, f" [{transaction_id}]" if transaction_id else "")


class MerchantBackend(_MerchantBackend[MerchantClient]):
    """For `drive`: threads and WSGI."""

    is_async: ClassVar[Literal[False]] = False

    def sleep(self, seconds: float, /) -> None:
        time.sleep(seconds)


class AsyncMerchantBackend(_MerchantBackend[AsyncMerchantClient]):
    """For `adrive`: asyncio and trio."""

    is_async: ClassVar[Literal[True]] = True

    async def sleep(self, seconds: float, /) -> None:
        await anyio.sleep(seconds)


@lru_cache(maxsize=1024)
def _build_access(offer: Offer, resource_url: str, revision: OfferRevision) -> WireRequest:
    """The call without a proof: the same for everybody who asks for this URL."""
    resource = build_resource(offer, resource_url)
    body = AccessRequest(
        revision_id=revision.revision_id,
        resource=resource,
        settlement_asset=cast(SettlementAsset, revision.asset),
    )
    return wire.access(body).request


def build_resource(offer: Offer, url: str) -> AccessResource:
    """Build the resource for the service. Raises `ConfigurationError`."""
    try:
        return AccessResource(url=url, mime_type=offer.mime_type, description=offer.description)
    except ValidationError as error:
        raise ConfigurationError(_describe_fault(error)) from None


def _describe_fault(error: ValidationError) -> str:
    fault = error.errors(include_url=False, include_input=False)[0]
    return f"The offer's {'.'.join(map(str, fault['loc']))} cannot be sent to the service: {fault['msg']}"


def _write_completion(revision_id: str, outcome: Outcome) -> bytes:
    """Write the body of complete: `SucceededCompleteRequest`, of parts that were checked when they were made.

    The revision's id and the values were checked by `parse_revisions` and `check_values`.
    """
    if isinstance(outcome, Failed):
        failed = FailedCompleteRequest(revision_id=revision_id, failure_code=outcome.code)
        return failed.model_dump_json(exclude_none=True).encode()
    return to_json(
        {
            "revision_id": revision_id,
            "outcome": "succeeded",
            "values": dict(outcome.values),
            "resource_execution": _build_metadata(outcome.result, outcome.duration_ms),
        }
    )


def _build_metadata(response: Response, duration_ms: int) -> dict[str, Any]:
    """The `ResourceExecutionMetadata`: size, type, status and duration; nothing of the response itself."""
    facts: dict[str, Any] = {"duration_ms": duration_ms, "response_size_bytes": len(response.body)}
    content_type = response.first("content-type")
    if content_type is not None:
        facts["response_content_type"] = content_type[:255]
    if 100 <= response.status <= 599:
        facts["response_status"] = response.status
    return facts


def _discard(_answer: object) -> None:
    return None

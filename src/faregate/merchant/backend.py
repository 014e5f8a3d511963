"""Perform the steps of a flow: the service through a client, the journal, the log. Sync and async.

Each method passes a call to `send`, which returns the answer, or an awaitable of it.
"""

import logging
from collections.abc import Callable
from functools import lru_cache
from typing import Protocol, TypeVar, cast

from pydantic import ValidationError

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
from faregate.core.results import Access, Completion, Guessability, TransactionState
from faregate.errors import ConfigurationError
from faregate.logs import log
from faregate.merchant import wire
from faregate.merchant.interpret import read_access, read_completion, read_standing
from faregate.merchant.requests import (
    AccessRequest,
    AccessResource,
    FailedCompleteRequest,
    ResourceExecutionCompleteRequest,
    ResourceExecutionMetadata,
    SucceededCompleteRequest,
)
from faregate.merchant.revisions import RevisionCache
from faregate.merchant.types import SettlementAsset
from faregate.merchant.wire import Call
from faregate.observers import EventDispatcher

T = TypeVar("T")


class Send(Protocol):
    def __call__(self, call: Call[T], /) -> MaybeAwaitable[T]: ...


class MerchantBackend:
    """What the seller's side can do, asked for one thing at a time (`faregate.core.interfaces.World`)."""

    def __init__(
        self,
        send: Send,
        journal: Journal,
        catalog: RevisionCache,
        now: Callable[[], float],
        pause: Callable[[float], MaybeAwaitable[None]],
        voice: EventDispatcher,
    ) -> None:
        self._send = send
        self._catalog = catalog
        self.journal = journal
        self.now = now
        self.pause = pause
        self.tell = voice.tell
        self.last_resort = voice.last_resort

    def rules(self, offer: Offer) -> MaybeAwaitable[OfferRevision]:
        return self._catalog.known(offer) or self._send(self._catalog.asking(offer))

    def known_rules(self, offer: Offer) -> OfferRevision | None:
        return self._catalog.last_read(offer)

    def refresh_rules(self, offer: Offer, rejected: OfferRevision) -> MaybeAwaitable[OfferRevision | None]:
        refreshed = self._catalog.refreshed(offer, rejected)
        if refreshed is not None or not self._catalog.may_ask():
            return refreshed
        return self._send(self._catalog.asking(offer))

    def recall_guessability(self) -> Guessability:
        return self._catalog.recall_guessability()

    def record_guessability(self, unguessable: bool) -> None:
        self._catalog.record_guessability(unguessable)

    def access(self, sale: PaidRequest, rules: OfferRevision, proof: str | None) -> MaybeAwaitable[Access]:
        request = _access_call(sale.offer, sale.resource_url, rules)
        return self._send(Call(wire.with_proof(request, proof), read_access))

    def complete(self, entry: PendingPayment, outcome: Outcome) -> MaybeAwaitable[Completion]:
        transaction_id = entry.transaction_id
        body = _complete_request(entry.revision_id, outcome)
        request = wire.complete_transaction(transaction_id, body, entry.proof).request
        return self._send(Call(request, lambda reply: read_completion(reply, transaction_id)))

    def standing(self, transaction_id: str) -> MaybeAwaitable[TransactionState]:
        request = wire.get_transaction(transaction_id).request
        return self._send(Call(request, lambda reply: read_standing(reply, transaction_id)))

    def close_execution(
        self, execution_id: str, rules: OfferRevision, work: HandlerResult | None
    ) -> MaybeAwaitable[None]:
        facts = ResourceExecutionMetadata() if work is None else _facts(work.response, work.duration_ms)
        body = ResourceExecutionCompleteRequest(revision_id=rules.revision_id, resource_execution=facts)
        call = wire.complete_resource_execution(execution_id, body)
        return self._send(Call(call.request, lambda reply: _nothing(call.read(reply))))

    def note(self, message: str, transaction_id: str | None) -> None:
        log(logging.WARNING, "%s%s", message, f" [{transaction_id}]" if transaction_id else "")


@lru_cache(maxsize=1024)
def _access_call(offer: Offer, resource_url: str, rules: OfferRevision) -> WireRequest:
    """The call without a proof: the same for everybody who asks for this URL."""
    resource = access_resource(offer, resource_url)
    body = AccessRequest(
        revision_id=rules.revision_id,
        resource=resource,
        settlement_asset=cast(SettlementAsset, rules.asset),
    )
    return wire.access(body).request


def access_resource(offer: Offer, url: str) -> AccessResource:
    """The resource as the service is told of it. Raises `ConfigurationError`."""
    try:
        return AccessResource(url=url, mime_type=offer.mime_type, description=offer.description)
    except ValidationError as error:
        raise ConfigurationError(_first_fault(error)) from None


def _first_fault(error: ValidationError) -> str:
    fault = error.errors(include_url=False, include_input=False)[0]
    return f"The offer's {'.'.join(map(str, fault['loc']))} cannot be sent to the service: {fault['msg']}"


def _complete_request(revision_id: str, outcome: Outcome) -> FailedCompleteRequest | SucceededCompleteRequest:
    if isinstance(outcome, Failed):
        return FailedCompleteRequest(revision_id=revision_id, failure_code=outcome.code)
    return SucceededCompleteRequest(
        revision_id=revision_id,
        values=dict(outcome.values),
        resource_execution=_facts(outcome.result, outcome.duration_ms),
    )


def _facts(response: Response, duration_ms: int) -> ResourceExecutionMetadata:
    """Size, type, status and duration; nothing of the response itself."""
    content_type = response.first("content-type")
    return ResourceExecutionMetadata(
        duration_ms=duration_ms,
        response_content_type=content_type and content_type[:255],
        response_size_bytes=len(response.body),
        response_status=response.status if 100 <= response.status <= 599 else None,
    )


def _nothing(_answer: object) -> None:
    return None

"""What a flow calls: the Merchant API, a journal and the log, blocking or awaiting.

Both share every method but those that sleep: `send` of the client returns the answer, or an awaitable of it.
"""

import logging
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, Generic, Protocol, TypeVar, cast

from faregate.core.claim_types import PendingPayment
from faregate.core.interfaces import Journal, MaybeAwaitable
from faregate.core.models import (
    DEFAULT_MIME_TYPE,
    HandlerResult,
    Offer,
    OfferRevision,
    Outcome,
    PaidRequest,
    Response,
    WireRequest,
    WorkFailed,
)
from faregate.core.results import Access, AccessUnpaid, Completion, TransactionReply
from faregate.errors import ConfigurationError
from faregate.logs import log
from faregate.merchant import json_text
from faregate.merchant.formats import (
    MAX_DESCRIPTION,
    MAX_MIME_TYPE,
    MAX_URL,
    MIME_TYPE_PATTERN,
    find_url_fault,
)
from faregate.merchant.interpret import (
    parse_access,
    parse_closed_execution,
    parse_completion,
    parse_payer,
    parse_transaction_state,
)
from faregate.merchant.requests import (
    Call,
    build_closing,
    build_completion,
    build_lookup,
    build_post,
    with_proof,
)
from faregate.merchant.revisions import RevisionCache
from faregate.merchant.sender import AsyncSender, Sender
from faregate.observers import EventDispatcher, GuardedInstrumentation, GuardedSpan
from faregate.x402.discovery import Described, amend
from faregate.x402.payment_identifier import IdentifierUse, declare_identifier

T = TypeVar("T")
C = TypeVar("C", Sender, AsyncSender)
Clock = Callable[[], float]
"""Seconds that never jump."""

_MAX_WAITING_THREADS = 8
"""Requests that wait in this process for payments to settle. Each keeps a thread from serving others."""
_MAX_WAITING_TASKS = 256
REQUIRED = "payment-required"
_MIME_TYPE = re.compile(MIME_TYPE_PATTERN, re.ASCII)


class Send(Protocol):
    def __call__(self, call: Call[T], /) -> MaybeAwaitable[T]: ...


class _MerchantBackend(Generic[C]):
    """The Merchant API, a journal and the revisions that were read, for a flow."""

    def __init__(
        self,
        client: C,
        journal: Journal,
        revisions: RevisionCache,
        clock: Clock,
        events: EventDispatcher,
        instrumentation: GuardedInstrumentation | None,
        name_setting: Callable[[str], str],
    ) -> None:
        self.journal = journal
        self._settling = 0
        self._name_setting = name_setting
        self._instrumentation = instrumentation
        self._send: Send = client.send
        self._revisions = revisions
        self.get_known_revision = revisions.find
        self.recall_predictability = revisions.recall_predictability
        self.record_predictability = revisions.record_predictability
        self.get_time = clock
        self.emit_event = events.emit
        self.write_fallback = events.write_fallback

    def resolve_offer(self, offer: Offer) -> MaybeAwaitable[OfferRevision]:
        return self._revisions.resolve(offer) or self._send(self._revisions.build_call(offer))

    def refresh_revision(self, offer: Offer, rejected: OfferRevision) -> MaybeAwaitable[OfferRevision | None]:
        newer = self._revisions.find_newer(offer, rejected)
        if newer is not None or not self._revisions.begin_refresh(rejected):
            return newer
        return self._send(self._revisions.build_call(offer))

    def call_access(
        self, request: PaidRequest, revision: OfferRevision, proof: str | None
    ) -> MaybeAwaitable[Access]:
        offer = request.offer
        unpaid = _build_access(
            request.resource_url, offer.mime_type, offer.description, revision.revision_id, revision.asset
        )
        is_amended = request.find_operation is not None or request.identifier_use is not IdentifierUse.IGNORED
        parse = partial(_parse_and_amend, request) if is_amended else parse_access
        call = Call(with_proof(unpaid, proof), parse)
        if self._instrumentation is None:
            return self._send(call)
        return self._send_within(self._instrumentation.begin_access(request, revision), call)

    def call_complete(self, payment: PendingPayment, outcome: Outcome) -> MaybeAwaitable[Completion]:
        transaction_id = payment.transaction_id
        body = _write_completion(payment.revision_id, outcome)
        request = build_completion(transaction_id, body, payment.proof)
        call = Call(request, partial(parse_completion, transaction_id=transaction_id))
        if self._instrumentation is None:
            return self._send(call)
        return self._send_within(self._instrumentation.begin_complete(payment, outcome), call)

    def _send_within(self, span: GuardedSpan, call: Call[T]) -> MaybeAwaitable[T]:
        """Make the call, or an awaitable of it, and end the span with what it gave or raised."""
        try:
            answer: Any = self._send(call)
        # End the span on a cancellation too, or it would stay the current one.
        except BaseException as error:
            span.end(error)
            raise
        if hasattr(answer, "__await__"):
            return _await_within(span, answer)
        span.end(answer)
        return cast(T, answer)

    def get_transaction_state(self, transaction_id: str) -> MaybeAwaitable[TransactionReply]:
        request = build_lookup(transaction_id)
        return self._send(Call(request, lambda reply: parse_transaction_state(reply, transaction_id)))

    def find_payer(self, transaction_id: str) -> MaybeAwaitable[str]:
        request = build_lookup(transaction_id)
        return self._send(Call(request, lambda reply: parse_payer(reply, transaction_id)))

    def close_execution(
        self, execution_id: str, revision: OfferRevision, result: HandlerResult | None
    ) -> MaybeAwaitable[None]:
        facts = _build_metadata(result.response, result.duration_ms) if result else {}
        body = json_text.to_json({"revision_id": revision.revision_id, "resource_execution": facts})
        return self._send(Call(build_closing(execution_id, body), parse_closed_execution))

    def log_warning(self, message: str, transaction_id: str | None = None, setting: str = "") -> None:
        advice = f": check {self._name_setting(setting)}" if setting else ""
        about = f" [{transaction_id}]" if transaction_id else ""
        log(
            "sale",
            logging.WARNING,
            "%s%s%s",
            message,
            advice,
            about,
            fields={"transaction_id": transaction_id},
        )


class MerchantBackend(_MerchantBackend[Sender]):
    """For `drive`: threads and WSGI."""

    def sleep(self, seconds: float, /) -> None:
        time.sleep(seconds)

    def wait_for_settlement(self, seconds: float, /) -> bool:
        if self._settling >= _MAX_WAITING_THREADS:
            return False
        self._settling += 1
        try:
            self.sleep(seconds)
        finally:
            self._settling -= 1
        return True


class AsyncMerchantBackend(_MerchantBackend[AsyncSender]):
    """For `adrive`: asyncio and trio."""

    async def sleep(self, seconds: float, /) -> None:
        from anyio import sleep

        await sleep(seconds)

    async def wait_for_settlement(self, seconds: float, /) -> bool:
        if self._settling >= _MAX_WAITING_TASKS:
            return False
        self._settling += 1
        try:
            await self.sleep(seconds)
        finally:
            self._settling -= 1
        return True


async def _await_within(span: GuardedSpan, answer: Awaitable[T]) -> T:
    try:
        result = await answer
    except BaseException as error:
        span.end(error)
        raise
    span.end(result)
    return result


def _parse_and_amend(request: PaidRequest, reply: Response) -> Access:
    """Parse the reply of access.

    Add to the instructions of a 402 what catalogues read, and whether payers may name their purchases.
    """
    access = parse_access(reply)
    if not isinstance(access, AccessUnpaid):
        return access
    declared = declare_identifier(request.identifier_use)
    try:
        return _amend(access, _describe(request), declared)
    except Exception as error:  # a description stops no sale
        log("sale", logging.WARNING, "the 402 cannot be described to catalogues", error=error)
        return _amend(access, None, declared)


def _describe(request: PaidRequest) -> Described | None:
    operation = None if request.find_operation is None else request.find_operation()
    if operation is None:
        return None
    return Described(request.http.method, request.http.url, request.resource_url, *operation)


def _amend(access: AccessUnpaid, described: Described | None, declared: Mapping[str, Any]) -> AccessUnpaid:
    if described is None and not declared:
        return access
    headers = tuple(
        (name, amend(value, described, declared) if name.lower() == REQUIRED else value)
        for name, value in access.response.headers
    )
    if declared and headers == access.response.headers:
        log("sale", logging.WARNING, "the 402 cannot ask for a payment-identifier: it has other extensions")
    return AccessUnpaid(replace(access.response, headers=headers))


@lru_cache(maxsize=1024)
def _build_access(
    url: str, mime_type: str | None, description: str | None, revision_id: str, asset: str
) -> WireRequest:
    """The call without a proof: the same for everybody who asks for this URL."""
    body = {
        "revision_id": revision_id,
        "resource": build_resource(url, mime_type, description),
        "settlement_asset": asset,
    }
    return build_post("/access", json_text.to_json(body))


def build_resource(url: str, mime_type: str | None, description: str | None) -> dict[str, str]:
    """Build the resource for the service, an `AccessResource`. Raises `ConfigurationError`."""
    description = "" if description is None else description
    mime_type = DEFAULT_MIME_TYPE if mime_type is None else mime_type
    rules = {
        "url": find_url_fault(url) if len(url) <= MAX_URL else f"has at most {MAX_URL} characters",
        "mime_type": find_mime_type_fault(mime_type),
        "description": find_description_fault(description),
    }
    for name, rule in rules.items():
        if rule is not None:
            raise ConfigurationError(f"The offer's {name} cannot be sent: the service takes one that {rule}.")
    return {"url": url, "mime_type": mime_type, "description": description}


def find_mime_type_fault(mime_type: object) -> str | None:
    """Describe what the service takes instead of this media type; None if it takes it."""
    if isinstance(mime_type, str) and len(mime_type) <= MAX_MIME_TYPE and _MIME_TYPE.fullmatch(mime_type):
        return None
    return (
        f"is a media type in lower case without parameters, such as application/json, not {mime_type!r:.80}"
    )


def find_description_fault(description: object) -> str | None:
    """Describe what the service takes instead of this description; None if it takes it."""
    if not isinstance(description, str) or len(description) > MAX_DESCRIPTION:
        return f"is a text of at most {MAX_DESCRIPTION} characters"
    try:
        description.encode()
    except UnicodeEncodeError:
        return "is a text without half characters (lone surrogates)"
    return None


def _write_completion(revision_id: str, outcome: Outcome) -> bytes:
    """Write the body of complete: a `SucceededCompleteRequest` or a `FailedCompleteRequest`.

    Its parts were checked when they were made: the revision's id by `parse_revisions`, the values by
    `format_values`.
    """
    completion: dict[str, Any] = {"revision_id": revision_id}
    if isinstance(outcome, WorkFailed):
        completion |= {"outcome": "failed", "failure_code": outcome.code}
    else:
        facts = _build_metadata(outcome.result, outcome.duration_ms)
        completion |= {"outcome": "succeeded", "values": dict(outcome.values), "resource_execution": facts}
    written: bytes = json_text.load().to_json(completion)
    return written


def _build_metadata(response: Response, duration_ms: int) -> dict[str, Any]:
    """The `ResourceExecutionMetadata`: size, type, status and duration; nothing of the response itself."""
    facts: dict[str, Any] = {"duration_ms": duration_ms, "response_size_bytes": len(response.body)}
    # The service would refuse a longer type or an odd status, and the completion with it.
    content_type = response.first("content-type")
    if content_type is not None:
        facts["response_content_type"] = content_type[:255]
    if 100 <= response.status <= 599:
        facts["response_status"] = response.status
    return facts

"""`POST /merchant/v1/access`: may the payer receive the resource? (spec: Endpoints; DESIGN section 5)

Rules, in this order. The revision is known and has the named asset, else 422. The proof of an open
transaction, for the same resource and URL, is the same transaction, whatever became of revision and
resource meanwhile. The revision is the active one of an unarchived resource, else 422. A resource that
asks for no payment is free. Then the proof: none or an unreadable one is 402; one with a used authorization
is 402; a fresh one is verified.

A proof is known by its bytes. Its authorization is public once it is settled, so whoever writes it in other
bytes learns nothing about the transaction.
"""

from datetime import datetime
from typing import Final

from pydantic import TypeAdapter

from faregate.core.models import Response
from faregate.merchant.models import AccessDecision, AccessRequest
from faregate.merchant.problems import PAYMENT_REQUIRED
from faregate.service.catalog import Listing, PublishedRevision
from faregate.service.http import RETRY_SOON, HttpError, ParsedRequest, invalid_request, json_value_response
from faregate.service.payments import PaymentRefused
from faregate.service.records import PENDING, AccessContext, TransactionRecord
from faregate.service.state import EnvironmentState
from faregate.x402.headers import InvalidPayload, build_payment_required, parse_payment
from faregate.x402.models import Payment

PROOF_HEADER: Final = "payment-signature"
_USED: Final = "the authorization was already used"
_request: TypeAdapter[AccessRequest] = TypeAdapter(AccessRequest)


def access(store: EnvironmentState, call: ParsedRequest) -> Response:
    proof = call.only_header(PROOF_HEADER)
    request = call.body_as(_request)
    listing, revision = _find_named(store, request)
    known = None if proof is None else store.find_by_proof(proof)
    if known is not None and _is_same_purchase(known, listing, request):
        if known.status in PENDING:
            return _build_response(AccessDecision(transaction_id=known.id), status=202)
        if known.status == "authorized" and not _has_expired(known, store.clock.now()):
            return _build_response(AccessDecision(transaction_id=known.id))
    context = _resolve_purchase(store, request, listing, revision)
    if not listing.require_payment:
        return _allow_free(store, context)
    if known is not None:
        raise _payment_required(store, context, _explain_refusal(known, store.clock.now()))
    return _authorize(store, context, _read_unused(store, context, proof))


def _find_named(store: EnvironmentState, request: AccessRequest) -> tuple[Listing, PublishedRevision]:
    """The resource and its revision, active or not, that the seller names; 422 if there is no such thing."""
    listing = store.catalog.find_by_revision(request.revision_id)
    if listing is None:
        raise invalid_request("revision_id is not known in this environment")
    revision = next(one for one in listing.revisions if one.id == request.revision_id)
    if revision.token.symbol != request.settlement_asset:
        raise invalid_request(f"the revision is settled in {revision.token.symbol}")
    return listing, revision


def _is_same_purchase(known: TransactionRecord, listing: Listing, request: AccessRequest) -> bool:
    """Whether the seller asks for what this transaction was authorized for."""
    return (
        known.context.listing.id == listing.id and known.context.request.resource.url == request.resource.url
    )


def _has_expired(known: TransactionRecord, now: datetime) -> bool:
    return known.payment.valid_before <= now.timestamp()


def _explain_refusal(known: TransactionRecord, now: datetime) -> str:
    """Why this very proof buys nothing here any more."""
    if known.status == "failed":
        return f"{_USED}: its payment failed, and nothing was charged"
    if known.status == "authorized" and _has_expired(known, now):
        return f"{_USED}, and has expired: nothing was charged"
    return _USED


def _resolve_purchase(
    store: EnvironmentState, request: AccessRequest, listing: Listing, revision: PublishedRevision
) -> AccessContext:
    """What is sold now, or 422."""
    if listing.archived_at and listing.archived(store.clock.now()):
        raise invalid_request("the resource is archived")
    if revision is not listing.active:
        raise invalid_request("the revision is not the active one of its resource")
    return AccessContext(request, listing, revision, store.terms(listing, revision))


def _allow_free(store: EnvironmentState, context: AccessContext) -> Response:
    execution = store.begin_execution(context)
    shown = execution.id if store.expose_execution_id else None
    return _build_response(AccessDecision(transaction_id=None, resource_execution_id=shown))


def _read_unused(store: EnvironmentState, context: AccessContext, proof: str | None) -> Payment:
    """The payment in this proof, if nobody has used its authorization; 402 otherwise."""
    if proof is None:
        raise _payment_required(store, context, "PAYMENT-SIGNATURE header is required")
    try:
        payment = parse_payment(proof)
    except InvalidPayload as error:
        raise _payment_required(store, context, str(error)) from None
    if store.find_by_authorization(context, payment) is not None:
        raise _payment_required(store, context, _USED)
    return payment


def _authorize(store: EnvironmentState, context: AccessContext, payment: Payment) -> Response:
    now = store.clock.now()
    committed = store.reservations.get_total(context.terms.token.address, payment.payer)
    verdict = store.payments.verify(payment, context.terms, now=now, committed=committed)
    if isinstance(verdict, PaymentRefused):
        raise _payment_required(store, context, verdict.reason)
    record = store.authorize(context, payment, verdict.payer)
    return _build_response(AccessDecision(transaction_id=record.id))


def _build_response(decision: AccessDecision, status: int = 200) -> Response:
    hidden = {"resource_execution_id"} if decision.resource_execution_id is None else None
    headers = (RETRY_SOON,) if status == 202 else ()
    return json_value_response(
        decision.model_dump(mode="json", exclude=hidden), status=status, headers=headers
    )


def _payment_required(store: EnvironmentState, context: AccessContext, reason: str) -> HttpError:
    instructions = build_payment_required(context.terms, context.request.resource, reason, store.challenge())
    return HttpError(PAYMENT_REQUIRED, reason, (("PAYMENT-REQUIRED", instructions),))

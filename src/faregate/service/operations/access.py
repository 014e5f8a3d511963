"""`POST /merchant/v1/access`: may the payer receive the resource? (spec: Endpoints)

The rules in their order. An unknown revision or another asset than the revision's: 422. The proof of an open
transaction for the same resource and URL: that transaction again, even if the revision was superseded or the
resource archived since. Another revision than the active one, or an archived resource: 422. A resource
without required payment: free. No proof, an unreadable one or a used authorization: 402. Any other proof is
verified.

A proof is known by its bytes. Its authorization becomes public when it settles, so whoever sends it in other
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
from faregate.x402.models import SignedPayment

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
    """Find the named resource and revision, active or not; 422 if there is none."""
    found = store.catalog.find_revision(request.revision_id)
    if found is None:
        raise invalid_request("revision_id is not known in this environment")
    listing, revision = found
    if revision.token.symbol != request.settlement_asset:
        raise invalid_request(f"the revision is settled in {revision.token.symbol}")
    return listing, revision


def _is_same_purchase(known: TransactionRecord, listing: Listing, request: AccessRequest) -> bool:
    """Whether the request is for what this transaction was authorized for."""
    return (
        known.context.listing.id == listing.id and known.context.request.resource.url == request.resource.url
    )


def _has_expired(known: TransactionRecord, now: datetime) -> bool:
    return known.payment.valid_before <= now.timestamp()


def _explain_refusal(known: TransactionRecord, now: datetime) -> str:
    """Explain why this proof cannot be used any more."""
    if known.status == "failed":
        return f"{_USED}: its payment failed, and nothing was charged"
    if known.status == "authorized" and _has_expired(known, now):
        return f"{_USED}, and has expired: nothing was charged"
    return _USED


def _resolve_purchase(
    store: EnvironmentState, request: AccessRequest, listing: Listing, revision: PublishedRevision
) -> AccessContext:
    """Resolve what is sold now; 422 if it cannot be bought."""
    if listing.archived_at and listing.archived(store.clock.now()):
        raise invalid_request("the resource is archived")
    if revision is not listing.active:
        raise invalid_request("the revision is not the active one of its resource")
    return store.resolve(request, listing, revision)


def _allow_free(store: EnvironmentState, context: AccessContext) -> Response:
    execution = store.begin_execution(context)
    shown = execution.id if store.expose_execution_id else None
    return _build_response(AccessDecision(transaction_id=None, resource_execution_id=shown))


def _read_unused(store: EnvironmentState, context: AccessContext, proof: str | None) -> SignedPayment:
    """Parse the proof; 402 if it is missing, unreadable or used."""
    if proof is None:
        raise _payment_required(store, context, "PAYMENT-SIGNATURE header is required")
    try:
        payment = parse_payment(proof)
    except InvalidPayload as error:
        raise _payment_required(store, context, str(error)) from None
    if store.find_by_authorization(context.terms.token, payment) is not None:
        raise _payment_required(store, context, _USED)
    return payment


def _authorize(store: EnvironmentState, context: AccessContext, payment: SignedPayment) -> Response:
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

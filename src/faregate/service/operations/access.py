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


def access(books: EnvironmentState, call: ParsedRequest) -> Response:
    proof = call.only_header(PROOF_HEADER)
    request = call.body_as(_request)
    listing, revision = _find_named(books, request)
    known = None if proof is None else books.find_by_proof(proof)
    if known is not None and _is_same_purchase(known, listing, request):
        if known.status in PENDING:
            return _build_response(AccessDecision(transaction_id=known.id), status=202)
        if known.status == "authorized" and not _has_expired(known, books.timeline.now()):
            return _build_response(AccessDecision(transaction_id=known.id))
    sale = _resolve_purchase(books, request, listing, revision)
    if not listing.require_payment:
        return _allow_free(books, sale)
    if known is not None:
        raise _payment_required(books, sale, _explain_refusal(known, books.timeline.now()))
    return _authorize(books, sale, _read_unused(books, sale, proof))


def _find_named(books: EnvironmentState, request: AccessRequest) -> tuple[Listing, PublishedRevision]:
    """The resource and its revision, active or not, that the seller names; 422 if there is no such thing."""
    listing = books.catalog.find_by_revision(request.revision_id)
    if listing is None:
        raise invalid_request("revision_id is not known in this environment")
    revision = next(one for one in listing.revisions if one.id == request.revision_id)
    if revision.token.symbol != request.settlement_asset:
        raise invalid_request(f"the revision is settled in {revision.token.symbol}")
    return listing, revision


def _is_same_purchase(known: TransactionRecord, listing: Listing, request: AccessRequest) -> bool:
    """Whether the seller asks for what this transaction was authorized for."""
    return known.sale.listing.id == listing.id and known.sale.request.resource.url == request.resource.url


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
    books: EnvironmentState, request: AccessRequest, listing: Listing, revision: PublishedRevision
) -> AccessContext:
    """What is sold now, or 422."""
    if listing.archived_at and listing.archived(books.timeline.now()):
        raise invalid_request("the resource is archived")
    if revision is not listing.active:
        raise invalid_request("the revision is not the active one of its resource")
    return AccessContext(request, listing, revision, books.terms(listing, revision))


def _allow_free(books: EnvironmentState, sale: AccessContext) -> Response:
    execution = books.begin_execution(sale)
    shown = execution.id if books.expose_execution_id else None
    return _build_response(AccessDecision(transaction_id=None, resource_execution_id=shown))


def _read_unused(books: EnvironmentState, sale: AccessContext, proof: str | None) -> Payment:
    """The payment in this proof, if nobody has used its authorization; 402 otherwise."""
    if proof is None:
        raise _payment_required(books, sale, "PAYMENT-SIGNATURE header is required")
    try:
        payment = parse_payment(proof)
    except InvalidPayload as error:
        raise _payment_required(books, sale, str(error)) from None
    if books.find_by_authorization(sale, payment) is not None:
        raise _payment_required(books, sale, _USED)
    return payment


def _authorize(books: EnvironmentState, sale: AccessContext, payment: Payment) -> Response:
    now = books.timeline.now()
    committed = books.holds.of(sale.terms.token.address, payment.payer)
    verdict = books.payments.verify(payment, sale.terms, now=now, committed=committed)
    if isinstance(verdict, PaymentRefused):
        raise _payment_required(books, sale, verdict.reason)
    record = books.authorize(sale, payment, verdict.payer)
    return _build_response(AccessDecision(transaction_id=record.id))


def _build_response(decision: AccessDecision, status: int = 200) -> Response:
    hidden = {"resource_execution_id"} if decision.resource_execution_id is None else None
    headers = (RETRY_SOON,) if status == 202 else ()
    return json_value_response(
        decision.model_dump(mode="json", exclude=hidden), status=status, headers=headers
    )


def _payment_required(books: EnvironmentState, sale: AccessContext, reason: str) -> HttpError:
    instructions = build_payment_required(sale.terms, sale.request.resource, reason, books.challenge())
    return HttpError(PAYMENT_REQUIRED, reason, (("PAYMENT-REQUIRED", instructions),))

"""`POST /merchant/v1/access`: may the payer receive the resource? (spec: Endpoints)

The rules in their order. An unknown revision or another asset than the revision's: 422. Where `sells_earlier`
is set, the revision is the one whose price is paid, if a 402 that asked it may still be open. The proof of an
open transaction for the same resource and URL: that transaction again, even if the revision was superseded or
the resource archived since; where `sells_earlier` is set, only if the named revision has the values that its
own requires, else it fails and 402. Another revision than the active one, or an archived resource: 422. A
resource without required payment: free. No proof, an unreadable one or a used authorization: 402. Any other
proof is verified.

A proof is known by its bytes. Its authorization becomes public when it settles, so a stranger who sends it in
other bytes learns nothing about the transaction.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from pydantic import TypeAdapter

from faregate.core.models import Response
from faregate.merchant.models import AccessDecision, AccessRequest, FailedCompleteRequest
from faregate.merchant.problems import PAYMENT_REQUIRED, UNAVAILABLE
from faregate.rules.catalog import Listing, PublishedRevision
from faregate.rules.dependencies import Dependencies
from faregate.rules.http import RETRY_SOON, HttpError, ParsedRequest, invalid_request, json_value_response
from faregate.rules.payments import PaymentRefused, PaymentsUnavailable, PaymentVerified
from faregate.rules.records import PENDING, AccessContext, Transaction
from faregate.rules.store import Store, Uses
from faregate.rules.verification import PAYMENT_FAILED, USED, WORK_EXPIRED, WORK_FAILED, refuse_short_balance
from faregate.x402.headers import InvalidPayload, build_payment_required, parse_payment
from faregate.x402.models import SignedPayment, Terms
from faregate.x402.tokens import Token, format_price

PROOF_HEADER: Final = "payment-signature"
PRICE_CHANGED: Final = "price_changed"
"""Why a transaction failed whose values the code that came instead does not report."""
_NO_PROOF: Final = "PAYMENT-SIGNATURE header is required"
_TRIES: Final = 3
"""How often funds are read, where another payment of the payer took some of them meanwhile."""
_request: TypeAdapter[AccessRequest] = TypeAdapter(AccessRequest)


@dataclass(frozen=True, slots=True)
class _ReceivedPayment:
    """The payment that a call brings, and what is known of it; `fault` says why it cannot be taken."""

    payment: SignedPayment | None
    uses: Uses
    fault: str


def access(call: ParsedRequest, deps: Dependencies) -> Response:
    store = deps.store
    proof = call.only_header(PROOF_HEADER)
    request = call.body_as(_request)
    listing, named = _find_named(request, store)
    now, revision = store.now(), named
    if deps.sells_earlier and proof is not None:
        revision = _find_paid(proof, listing, named, now)
    received = _read_payment(proof, revision.token, store)
    earlier = received.uses.by_proof
    if deps.sells_earlier and earlier is not None and _is_same_purchase(earlier, listing, request):
        earlier = _end_incompletable(earlier, named, store)
    repeated = None if earlier is None else _repeat(earlier, listing, request, now)
    if repeated is not None:
        return repeated
    context = _resolve_purchase(request, listing, revision, now, deps)
    if not listing.require_payment:
        return _build_response(AccessDecision(transaction_id=None), store.begin_execution(context))
    if earlier is not None:
        raise _payment_required(context, _explain_refusal(earlier, now), store)
    if received.payment is None or received.uses.by_authorization is not None:
        fault = received.fault if proof is not None else _describe_missing_proof(context.terms)
        raise _payment_required(context, fault, store)
    payment = replace(received.payment, resource_url=request.resource.url)
    return _authorize(context, payment, received.uses, now, deps)


def _find_named(request: AccessRequest, store: Store) -> tuple[Listing, PublishedRevision]:
    """Find the named resource and revision, active or not; 422 if there is none."""
    published = store.find_revision(request.revision_id)
    if published is None:
        raise invalid_request("revision_id is not known in this environment")
    listing, revision = published
    if revision.token.symbol != request.settlement_asset:
        raise invalid_request(f"the revision is settled in {revision.token.symbol}")
    return listing, revision


def _find_paid(proof: str, listing: Listing, named: PublishedRevision, now: datetime) -> PublishedRevision:
    """Find the revision whose price the proof pays, or return the named one.

    Code with a new price was started beside code with the old one, or in its place. What either has asked
    stays payable for as long as an authorization is valid, by whichever of them answers. Not so what the code
    of the named revision does not report the values of: its payment could never be completed.
    """
    open_until = listing.updated_at + timedelta(seconds=listing.resource.max_timeout_seconds)
    if now >= open_until or len(listing.revisions) == 1:
        return named
    try:
        payment = parse_payment(proof)
    except InvalidPayload:
        return named
    asset = str(payment.accepted.get("asset")).lower()
    paid = payment.scheme == "upto", payment.value, asset
    for revision in (named, *listing.revisions[-2:]):
        price = revision.rules.usage is not None, revision.rules.amount, revision.token.address.lower()
        if paid == price and revision.rules.required_values <= named.rules.required_values:
            return revision
    return named


def _read_payment(proof: str | None, token: Token, store: Store) -> _ReceivedPayment:
    """Read the proof, and look up what is known of it."""
    if proof is None:
        return _ReceivedPayment(None, Uses(), _NO_PROOF)
    try:
        payment = parse_payment(proof)
    except InvalidPayload as error:
        fault = str(error)
    else:
        return _ReceivedPayment(payment, store.find_uses(token, payment), USED.reason)
    # An earlier version may have read it, so its payer is not asked to pay again.
    return _ReceivedPayment(None, Uses(by_proof=store.find_by_proof(proof)), fault)


def _repeat(
    transaction: Transaction, listing: Listing, request: AccessRequest, now: datetime
) -> Response | None:
    """Answer with the transaction that this proof has already, while it is open and for the same thing."""
    if not _is_same_purchase(transaction, listing, request):
        return None
    if transaction.status in PENDING:
        return _build_response(AccessDecision(transaction_id=transaction.id), status=202)
    if transaction.status == "authorized" and not _has_expired(transaction, now):
        return _build_response(AccessDecision(transaction_id=transaction.id))
    return None


def _is_same_purchase(transaction: Transaction, listing: Listing, request: AccessRequest) -> bool:
    context = transaction.context
    return context.listing.id == listing.id and context.request.resource.url == request.resource.url


def _end_incompletable(transaction: Transaction, named: PublishedRevision, store: Store) -> Transaction:
    """End an open transaction that the code of the named revision cannot complete; others stay as they are.

    Its worker was killed before the work, and code that reports other values came instead. Nothing is
    charged, and the payer is asked for the new price at once, not when the authorization has expired.
    """
    authorized_for = transaction.context.revision
    if (
        transaction.status != "authorized"
        or authorized_for.rules.required_values <= named.rules.required_values
    ):
        return transaction
    outcome = FailedCompleteRequest(revision_id=authorized_for.id, failure_code=PRICE_CHANGED)
    ended = store.record_outcome(transaction, outcome)
    return ended or store.find_transaction(transaction.id) or transaction


def _has_expired(transaction: Transaction, now: datetime) -> bool:
    return transaction.payment.valid_before <= now.timestamp()


def _describe_missing_proof(terms: Terms) -> str:
    """Say that no proof was sent; of a price that follows the use, that it asks for a maximum."""
    if terms.scheme == "exact":
        return _NO_PROOF
    return f"{_NO_PROOF}, for up to {format_price(terms.amount, terms.token.symbol)}"


def _explain_refusal(transaction: Transaction, now: datetime) -> str:
    """Explain why this proof cannot be used any more. Only a payment that was sent ends by proof."""
    if transaction.status == "failed" and transaction.submitted_at is not None:
        return PAYMENT_FAILED
    if transaction.status == "failed":
        return WORK_FAILED
    if transaction.status == "authorized" and _has_expired(transaction, now):
        return WORK_EXPIRED
    return USED.reason


def _resolve_purchase(
    request: AccessRequest, listing: Listing, revision: PublishedRevision, now: datetime, deps: Dependencies
) -> AccessContext:
    """Resolve what is sold now; 422 if it cannot be bought."""
    if listing.is_archived(now):
        raise invalid_request("the resource is archived")
    if revision.id != listing.active.id and not deps.sells_earlier:
        raise invalid_request("the revision is not the active one of its resource")
    context = deps.store.resolve(request, listing, revision)
    if revision.rules.usage is None or context.terms.scheme == "upto":
        return context
    try:
        facilitators = deps.payments.list_facilitators(revision.token, now)
    except PaymentsUnavailable:
        raise HttpError(UNAVAILABLE, "payments cannot be offered at present", (RETRY_SOON,)) from None
    if not facilitators:
        # Never `exact`: it would take the maximum, whatever was used.
        raise invalid_request("the price follows the use, and payments here settle fixed prices only")
    return replace(context, terms=replace(context.terms, facilitators=facilitators))


def _authorize(
    context: AccessContext, payment: SignedPayment, before: Uses, now: datetime, deps: Dependencies
) -> Response:
    store = deps.store
    for _ in range(_TRIES):
        verdict = _verify(context, payment, before, now, deps)
        if isinstance(verdict, PaymentVerified):
            transaction = store.authorize(context, payment, verdict, before)
            if transaction is not None:
                return _build_response(AccessDecision(transaction_id=transaction.id))
        # While this payment was verified, another call may have been faster: with the same proof, whose
        # transfer then looks like another's use of it, or with the same funds. A 402 would let the payer pay
        # once more.
        uses = store.find_uses(context.terms.token, payment, before.settled_since)
        repeated = (
            None if uses.by_proof is None else _repeat(uses.by_proof, context.listing, context.request, now)
        )
        if repeated is not None:
            return repeated
        if isinstance(verdict, PaymentRefused):
            raise _payment_required(context, verdict.reason, store)
        if not _are_funds_spent(payment, verdict, before, uses):
            # Used already, perhaps by another seller who is paid at the same address.
            raise _payment_required(context, USED.reason, store)
        # What ended meanwhile may have left the balance before it was read, and be counted twice: read again.
        before = uses
    raise _payment_required(context, refuse_short_balance(context.terms).reason, store)


def _are_funds_spent(payment: SignedPayment, verified: PaymentVerified, before: Uses, uses: Uses) -> bool:
    """Return whether the payer's other payments, and not this one, kept it from being authorized."""
    if uses.by_proof is not None or uses.by_authorization is not None or verified.funds is None:
        return False
    spent = uses.reserved + uses.settled - before.settled
    return spent + payment.value > verified.funds


def _verify(
    context: AccessContext, payment: SignedPayment, before: Uses, now: datetime, deps: Dependencies
) -> PaymentVerified | PaymentRefused:
    """Verify the payment; 503 if no node or facilitator can be asked."""
    try:
        return deps.payments.verify(
            payment,
            context.terms,
            now=now,
            committed=before.reserved,
            reservations=before.reservations,
        )
    except PaymentsUnavailable:
        # Never a 402: the payer would sign a second payment while the first is good.
        raise HttpError(UNAVAILABLE, "payments cannot be verified at present", (RETRY_SOON,)) from None


def _build_response(decision: AccessDecision, execution: str | None = None, status: int = 200) -> Response:
    shown = decision.model_dump(mode="json", exclude={"resource_execution_id"})
    # Absent, and not null, where there is none or ids are not shown.
    if execution is not None:
        shown["resource_execution_id"] = execution
    return json_value_response(shown, status=status, headers=(RETRY_SOON,) if status == 202 else ())


def _payment_required(context: AccessContext, reason: str, store: Store) -> HttpError:
    instructions = build_payment_required(context.terms, context.request.resource, reason, store.challenge())
    return HttpError(PAYMENT_REQUIRED, reason, (("PAYMENT-REQUIRED", instructions),))

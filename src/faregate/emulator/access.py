"""`POST /merchant/v1/access`: may the payer receive the resource? (spec: Endpoints; DESIGN section 6)

Rules, in this order. The revision is the active one of an unarchived resource and has the named asset,
else 422. A resource that asks for no payment is free. Then the proof: none or an unreadable one is
402; one already used for the same thing is the same transaction; used for anything else is 402; a
fresh one is verified.
"""

from typing import Final

from pydantic import TypeAdapter

from faregate.emulator.books import Books
from faregate.emulator.calls import Call
from faregate.emulator.instructions import payment_required
from faregate.emulator.payments import Payment, Refused
from faregate.emulator.proofs import BadProof, read_payment
from faregate.emulator.replies import SOON, Refusal, answer_value, invalid
from faregate.emulator.state import PENDING, Sale, TransactionRecord
from faregate.merchant.answers import AccessDecision
from faregate.merchant.requests import AccessRequest
from faregate.model import Response

PROOF_HEADER: Final = "payment-signature"
_request: TypeAdapter[AccessRequest] = TypeAdapter(AccessRequest)


def access(books: Books, call: Call) -> Response:
    proof = call.only_header(PROOF_HEADER)
    sale = _sale(books, call.body_as(_request))
    if not sale.listing.require_payment:
        return _free(books, sale)
    if proof is None:
        raise _unpaid(sale, "PAYMENT-SIGNATURE header is required")
    try:
        payment = read_payment(proof)
    except BadProof as error:
        raise _unpaid(sale, str(error)) from None
    used = books.user_of(sale, payment)
    return _fresh(books, sale, payment) if used is None else _again(used, sale, payment)


def _sale(books: Books, request: AccessRequest) -> Sale:
    listing = books.catalog.selling(request.revision_id)
    if listing is None:
        raise invalid("revision_id is not known in this environment")
    if listing.archived_at and listing.archived(books.timeline.now()):
        raise invalid("the resource is archived")
    revision = listing.active
    if revision.id != request.revision_id:
        raise invalid("the revision is not the active one of its resource")
    if revision.token.symbol != request.settlement_asset:
        raise invalid(f"the revision is settled in {revision.token.symbol}")
    return Sale(request, listing, revision, books.terms(listing, revision))


def _free(books: Books, sale: Sale) -> Response:
    execution = books.begin_execution(sale)
    shown = execution.id if books.expose_execution_id else None
    return _decision(AccessDecision(transaction_id=None, resource_execution_id=shown))


def _fresh(books: Books, sale: Sale, payment: Payment) -> Response:
    now = books.timeline.now()
    committed = books.holds.of(sale.terms.token.address, payment.payer)
    verdict = books.payments.verify(payment, sale.terms, now=now, committed=committed)
    if isinstance(verdict, Refused):
        raise _unpaid(sale, verdict.reason)
    record = books.authorize(sale, payment, verdict.payer)
    return _decision(AccessDecision(transaction_id=record.id))


def _again(record: TransactionRecord, sale: Sale, payment: Payment) -> Response:
    """The authorization is used. Only the very same purchase may come back, while it is not final."""
    if record.payment == payment and record.sale.request == sale.request:
        decision = AccessDecision(transaction_id=record.id)
        if record.status == "authorized":
            return _decision(decision)
        if record.status in PENDING:
            return _decision(decision, status=202)
    raise _unpaid(sale, "the authorization was already used")


def _decision(decision: AccessDecision, status: int = 200) -> Response:
    hidden = {"resource_execution_id"} if decision.resource_execution_id is None else None
    headers = (SOON,) if status == 202 else ()
    return answer_value(decision.model_dump(mode="json", exclude=hidden), status=status, headers=headers)


def _unpaid(sale: Sale, reason: str) -> Refusal:
    instructions = payment_required(sale.terms, sale.request.resource, reason)
    return Refusal(402, "payment_required", reason, (("PAYMENT-REQUIRED", instructions),))

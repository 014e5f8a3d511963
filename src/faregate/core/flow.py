"""The flow of one paid request: a generator that yields each call of its backend and gets its answer. Pure.

Rules
1. Paid work runs only after access returned a transaction for this proof and the journal has its id: at most
   once per proof, and at most once per transaction. Where access is free, the handler runs without one.
2. The outcome is decided once and written before it is reported to the service. Reporting may be repeated.
3. A result leaves only when a completion *proved* the payment. A GET informs; it never releases.
4. While it is open whether a proof was paid, its payer never gets a fresh 402: x402 clients sign a new
   payment on every 402, and would pay twice.
5. A worker whose lease is lost before the outcome is written reports nothing to the service and releases
   nothing. If a lease is lost later, several workers may complete the payment with the same outcome. The
   first to record the settlement counts the sale. A worker that finds it delivered releases nothing.
6. A reply that cannot be understood counts neither as paid nor as failed.
7. While a payment is open, its payer's next one for the same request runs no work and is not charged: the
   payer gets the result of the first. Payers are compared as the service verified them. A payer who names
   the purchase (`faregate.core.payment_identifier`) gets the first result also after its delivery. If the
   work of the first was cut off, that payment is ended, and the next one's work runs.

Writing a flow: each call of the backend is yielded, and its answer gets the type that the backend declares
(`answer: Access = yield backend.call_access(...)`; a test compares the two, because type checkers do not).
Never `yield` in `finally`: a closed generator may not. Catch `Exception`, never `BaseException`: on a
`GeneratorExit` or a cancellation the process is going away, and the sweep takes over.
"""

from faregate.core import responses
from faregate.core.billing import decide_outcome
from faregate.core.claim_types import (
    AlreadyFailed,
    AlreadyUsed,
    Claim,
    Claimant,
    Claimed,
    ClientMismatch,
    ClientUnverified,
    EarlierPayment,
    InProgress,
    Lease,
    PendingPayment,
    Recoverable,
    Replayable,
    ReplayPolicy,
    RequestMismatch,
    find_resumed,
    name_resumption,
)
from faregate.core.completion import (
    RETRY_BUDGET_SECONDS,
    abandon_claim,
    complete_failure,
    is_awaited,
    report_failure,
    report_success,
)
from faregate.core.interfaces import Backend, Flow, RunHandler
from faregate.core.models import (
    HandlerResult,
    OfferRevision,
    PaidRequest,
    Response,
    WorkFailed,
    header_values,
)
from faregate.core.payment_identifier import read_identifier
from faregate.core.recovery import compare_payers, recover
from faregate.core.request_headers import BadProof, find_credentials, find_proof
from faregate.core.results import (
    Access,
    AccessFailed,
    AccessFree,
    AccessGranted,
    AccessPending,
    AccessUnpaid,
    PaymentFailed,
    Predictability,
    RevisionRejected,
    Settlement,
)
from faregate.core.sales import describe, describe_access, describe_resumed, measure
from faregate.core.withholding import is_harmless_error
from faregate.errors import (
    FaregateError,
    HandlerError,
    InvalidUsage,
    NoAnswer,
    ServiceError,
    TooManyCalls,
    is_unavailable,
)
from faregate.events import UNKNOWN_SALE, Authorized, Redelivered, Refused
from faregate.x402.instructions import are_unpredictable
from faregate.x402.payment_identifier import IdentifierUse

MAX_RESOURCE_URL = 2048
CROWD_PAUSES = (0.1, 0.2, 0.4, 0.8)
"""Seconds between looks at what another request is asking the service."""


def serve(backend: Backend, request: PaidRequest) -> Flow[Response]:
    """Serve one request on a paid handler; return what the payer gets."""
    try:
        proof = find_proof(request.http)
    except BadProof as bad:
        return _refuse(backend, request, responses.build_refused(bad.status, bad.code, bad.message))
    # The service takes no longer URL. This is the request's fault, not the offer's.
    if len(request.resource_url) > MAX_RESOURCE_URL:
        too_long = responses.build_refused(
            414, "uri_too_long", "A paid resource's URL may have 2048 characters."
        )
        return _refuse(backend, request, too_long)
    return (
        _serve_without_proof(backend, request)
        if proof is None
        else _serve_with_proof(backend, request, proof)
    )


def _serve_without_proof(backend: Backend, request: PaidRequest) -> Flow[Response]:
    revision = yield from _find_revision(backend, request)
    if isinstance(revision, AccessFailed):
        return (yield from _refuse_access(backend, request, revision))
    revision, access = yield from _call_access(backend, request, revision, None)
    match access:
        case AccessFree():
            return (yield from _serve_free(backend, request, revision, access))
        # No payment was signed, so the transaction could never be completed. The work must not run.
        case AccessGranted(transaction_id):
            yield backend.log_warning("access granted a transaction without a proof", transaction_id)
            return (yield from _refuse(backend, request, responses.build_unavailable(502)))
        case _:
            return (yield from _refuse_access(backend, request, access))


def _serve_with_proof(backend: Backend, request: PaidRequest, proof: str) -> Flow[Response]:
    is_ignored = request.identifier_use is IdentifierUse.IGNORED
    identifier_or_refusal = "" if is_ignored else read_identifier(request, proof)
    identifier = "" if isinstance(identifier_or_refusal, Response) else identifier_or_refusal
    try:
        claimant = _build_claimant(request, ReplayPolicy.SAME_CLIENT, identifier)
        claim: Claim = yield backend.journal.claim(proof, claimant)
    except Exception as error:
        # Catch everything: a seller's own journal may raise any error. Without a claim, two workers could do
        # the work for one payment.
        yield backend.log_warning(f"the journal could not claim the proof: {error}")
        return (yield from _refuse(backend, request, responses.build_unavailable(503)))
    if isinstance(claim, ClientUnverified):
        second_claim = yield from _claim_by_proof(backend, request, proof, claim.transaction_id)
        if isinstance(second_claim, Response):
            return second_claim
        claim = second_claim
    if isinstance(claim, Claimed):
        # Not refused earlier: a proof that is known is answered even if its identifier is wrong.
        if isinstance(identifier_or_refusal, Response):
            yield from abandon_claim(backend, claim.lease)
            return (yield from _refuse(backend, request, identifier_or_refusal))
        return (yield from _serve_first_use(backend, request, proof, claim, claimant))
    match claim:
        case AlreadyFailed(resumed) if resumed:
            return (yield from _serve_earlier(backend, request, resumed))
        case Recoverable(payment) if resumed := _find_earlier_transaction(payment):
            yield from recover(backend, payment, request)
            return (yield from _serve_earlier(backend, request, resumed))
        case _:
            return (yield from _answer_claim(backend, request, claim))


def _find_earlier_transaction(payment: PendingPayment) -> str:
    """Return the transaction that was resumed in place of this one, or ""."""
    return find_resumed(payment.outcome.code) if isinstance(payment.outcome, WorkFailed) else ""


def _answer_claim(backend: Backend, request: PaidRequest, claim: Claim) -> Flow[Response]:
    """Answer a request whose payment is known."""
    match claim:
        case Recoverable(payment):
            payment = describe_resumed(payment, request)
            settlement = yield from recover(backend, payment, request)
            return (yield from _answer_settlement(backend, request, payment, settlement))
        case Replayable(result, payment_response, transaction_id):
            yield backend.emit_event(Redelivered(transaction_id, request.sale))
            return responses.build_paid(result, payment_response, transaction_id)
        case Claimed(lease):
            # An earlier payment whose work never began: only a request with its own proof begins it.
            yield from abandon_claim(backend, lease)
            return (yield from _refuse(backend, request, responses.build_in_progress()))
        case InProgress():
            return (yield from _refuse(backend, request, responses.build_in_progress()))
        case RequestMismatch():
            return (yield from _refuse(backend, request, responses.build_already_used()))
        case ClientMismatch():
            return (yield from _refuse(backend, request, responses.build_other_client()))
        case AlreadyUsed(transaction_id) | ClientUnverified(transaction_id):
            return (yield from _refuse(backend, request, responses.build_already_used(transaction_id)))
        case AlreadyFailed():
            return (yield from _ask_for_new_payment(backend, request, None))


def _serve_earlier(backend: Backend, request: PaidRequest, transaction_id: str) -> Flow[Response]:
    """Serve the earlier payment that the proof of this request resumed."""
    if not (yield from is_awaited(backend, request)):
        # The payer has left. To claim now would count the waiting result as delivered, and the payer's next
        # payment would be a new purchase.
        return (yield from _refuse(backend, request, responses.build_in_progress()))
    # This proof was never settled, so its signature is not on the chain: only its payer can send it.
    claimant = _build_claimant(request, ReplayPolicy.PROVEN_PAYER)
    try:
        claim: Claim = yield backend.journal.claim_transaction(transaction_id, claimant)
    except Exception as error:
        yield backend.log_warning(f"the journal could not claim the earlier payment: {error}", transaction_id)
        return (yield from _refuse(backend, request, responses.build_unconfirmed(transaction_id)))
    if isinstance(claim, RequestMismatch):
        return (yield from _refuse(backend, request, responses.build_identifier_reused()))
    return (yield from _answer_claim(backend, request, claim))


def _answer_settlement(
    backend: Backend, request: PaidRequest, payment: PendingPayment, settlement: Settlement
) -> Flow[Response]:
    if isinstance(settlement, PaymentFailed):
        return (yield from _ask_for_new_payment(backend, request, payment.transaction_id))
    return responses.build_settlement(settlement, payment.transaction_id)


def _build_claimant(request: PaidRequest, replay: ReplayPolicy, identifier: str = "") -> Claimant:
    """Describe who claims a proof: the request and its credentials."""
    http = request.http
    allowed = replay if request.offer.replay else ReplayPolicy.NEVER
    named = f"{http.method} {http.url}"
    if request.is_chosen:
        # The seller's choice may depend on headers or a body that the claim does not cover, so the chosen
        # offer is part of the claim. A payment for a small result must not start the work of a large one.
        named = f"{named} as {request.offer.sells}"
    sold = f"{request.offer.sells} {request.public_url}"
    return Claimant(named, find_credentials(http.headers), http.body_digest, allowed, sold, identifier)


def _claim_by_proof(
    backend: Backend, request: PaidRequest, proof: str, transaction_id: str
) -> Flow[Claim | Response]:
    """Claim again as one who knows the proof, but only where the payer alone can know it."""
    predictability = yield from _find_predictability(backend, request)
    if predictability is Predictability.PREDICTABLE:
        return (yield from _refuse(backend, request, responses.build_not_recognized(transaction_id)))
    if predictability is not Predictability.UNPREDICTABLE:
        return (yield from _refuse(backend, request, responses.build_unconfirmed(transaction_id)))
    try:
        claimant = _build_claimant(request, ReplayPolicy.PROVEN_PAYER)
        claim: Claim = yield backend.journal.claim(proof, claimant)
    except Exception as error:
        yield backend.log_warning(f"the journal could not claim the proof: {error}", transaction_id)
        return (yield from _refuse(backend, request, responses.build_unconfirmed(transaction_id)))
    return claim


def _recall_predictability(
    backend: Backend,
) -> Flow[Predictability]:
    """Return what is known of the instructions. One request finds out, others wait for its result."""
    predictability: Predictability = yield backend.recall_predictability()
    for pause in CROWD_PAUSES:
        if predictability is not Predictability.BEING_CHECKED:
            break
        yield backend.sleep(pause)
        predictability = yield backend.recall_predictability()
    return predictability


def _find_predictability(backend: Backend, request: PaidRequest) -> Flow[Predictability]:
    """Return whether instructions can be guessed; `UNKNOWN` or `BEING_CHECKED` if that is not known now."""
    recalled = yield from _recall_predictability(backend)
    if recalled is not Predictability.UNKNOWN:
        return recalled
    revision = yield from _find_revision(backend, request)
    if isinstance(revision, AccessFailed):
        return Predictability.UNKNOWN
    # Compare two answers: a stranger can predict a 402 that has no fresh value.
    instructions: list[str] = []
    for _ in range(2):
        revision, access = yield from _call_access(backend, request, revision, None)
        # An offer that is free now, or a service that fails, says nothing about the instructions.
        if not isinstance(access, AccessUnpaid):
            return Predictability.UNKNOWN
        instructions += header_values(access.response.headers, "payment-required")
    predictability = Predictability.UNPREDICTABLE
    if not (len(instructions) == 2 and are_unpredictable(*instructions)):
        predictability = Predictability.PREDICTABLE
        yield backend.log_warning(
            "payment instructions can be guessed: delivered results are not replayed without credentials"
        )
    yield backend.record_predictability(predictability)
    return predictability


def _serve_first_use(
    backend: Backend, request: PaidRequest, proof: str, claim: Claimed, claimant: Claimant
) -> Flow[Response]:
    lease = claim.lease
    revision = yield from _find_revision(backend, request)
    if isinstance(revision, AccessFailed):
        yield from abandon_claim(backend, lease)
        return (yield from _refuse_access(backend, request, revision))
    began = backend.get_time() if request.is_observed else 0.0
    revision, access = yield from _call_access(backend, request, revision, proof)
    sale = UNKNOWN_SALE
    if request.is_observed:
        sale = describe_access(backend, request, revision, began)
    match access:
        case AccessGranted(transaction_id):
            # If an earlier request got this transaction, use the revision of that time.
            is_known = claim.transaction_id == transaction_id
            revision_id = claim.revision_id if is_known else revision.revision_id
            payment = PendingPayment(lease, proof, transaction_id, revision_id, sale=sale)
            # None: an earlier payment for the same request is not looked for.
            resuming_claimant = claimant if request.is_resumable or claimant.identifier else None
            return (yield from _run_and_settle(backend, request, revision, payment, resuming_claimant))
        case AccessPending(_, transaction_id) if transaction_id is not None:
            # Keep the payment, because it may still settle. Without a row its payer would be asked to pay
            # again.
            payment = PendingPayment(lease, proof, transaction_id, revision.revision_id, sale=sale)
            yield from _record_pending(backend, payment)
            return (yield from _refuse_access(backend, request, access))
        case AccessFree():
            # Give the claim up, so that the proof can still pay for something.
            yield from abandon_claim(backend, lease)
            return (yield from _serve_free(backend, request, revision, access))
        case AccessUnpaid() if claim.transaction_id:
            # An earlier attempt was authorized and never ended; its authorization is over by now.
            payment = PendingPayment(lease, proof, claim.transaction_id, claim.revision_id, sale=sale)
            settlement = yield from recover(backend, payment, request)
            return (yield from _answer_settlement(backend, request, payment, settlement))
        case AccessUnpaid():
            return (yield from _handle_refused_proof(backend, request, lease, proof, access))
        case _:
            # Here, too, the claim is given up, so that the proof can still pay.
            yield from abandon_claim(backend, lease)
            return (yield from _refuse_access(backend, request, access))


def _handle_refused_proof(
    backend: Backend, request: PaidRequest, lease: Lease, proof: str, access: AccessUnpaid
) -> Flow[Response]:
    """Decide what the payer gets after access answered its proof with a 402. The payment may be in use.

    Another worker may have taken this claim over, or the service may know the payment by another encoding of
    the proof, which has a row of its own.
    """
    may_have_hidden_row = yield from _may_have_hidden_row(backend)
    try:
        use: InProgress | AlreadyUsed | None = yield backend.journal.find_other_encoding(lease, proof)
        was_unused: bool = yield backend.journal.abandon_claim(lease)
    except Exception as error:
        # It is unknown whether the payment is in use. A 402 would make the payer sign a second payment.
        yield backend.log_warning(
            f"the journal could not find out whether a refused payment is in use: {error}"
        )
        return (yield from _refuse(backend, request, responses.build_unavailable(503)))
    if not was_unused or isinstance(use, InProgress):
        return (yield from _refuse(backend, request, responses.build_in_progress()))
    if use is not None:
        # Do not tell the transaction: a stranger can read an authorization on the chain and send it.
        return (yield from _refuse(backend, request, responses.build_already_used()))
    if may_have_hidden_row:
        return (yield from _refuse(backend, request, responses.build_unconfirmed(None)))
    return (yield from _refuse_access(backend, request, access))


def _may_have_hidden_row(
    backend: Backend,
) -> Flow[bool]:
    """Whether this payment may have a row encrypted with a key that this process lacks.

    Then the payer must not be asked to pay. It happens while workers are restarted, one after the other, with
    a new journal key.
    """
    try:
        is_hidden: bool = yield backend.journal.has_unknown_keys()
        if not is_hidden:
            return False
        yield backend.log_warning(
            "the journal has rows under a key that this process does not have", setting="journal_key"
        )
    except Exception as error:
        # Treat this as a hidden row: a payer who comes back is better off than one who pays twice.
        yield backend.log_warning(f"the journal could not list the keys that its rows need: {error}")
    return True


# Access


def _find_revision(backend: Backend, request: PaidRequest) -> Flow[OfferRevision | AccessFailed]:
    try:
        revision: OfferRevision = yield backend.resolve_offer(request.offer)
        return revision
    except ServiceError as error:
        unread = error
    except FaregateError as error:
        return AccessFailed(502, f"nothing can be sold: {error}")
    last_read = yield from _get_known_revision(backend, request)
    if last_read is None:
        return AccessFailed(503 if is_unavailable(unread) else 502, f"nothing can be sold: {unread}")
    yield backend.log_warning(f"the contracts could not be read again, so the known ones are used: {unread}")
    return last_read


def _get_known_revision(backend: Backend, request: PaidRequest) -> Flow[OfferRevision | None]:
    try:
        revision: OfferRevision | None = yield backend.get_known_revision(request.offer)
    except FaregateError:
        return None
    return revision


def _call_access(
    backend: Backend, request: PaidRequest, revision: OfferRevision, proof: str | None
) -> Flow[tuple[OfferRevision, Access]]:
    """Call access. If it refuses the revision, read the contracts again and call once more."""
    access = yield from _call_access_with_retry(backend, request, revision, proof)
    if not isinstance(access, RevisionRejected):
        return revision, access
    newer = yield from _refresh_revision(backend, request, revision)
    # No newer revision is known, so a second call would be refused as well.
    if newer is None or newer.revision_id == revision.revision_id:
        return revision, access.failure
    access = yield from _call_access_with_retry(backend, request, newer, proof)
    return newer, access.failure if isinstance(access, RevisionRejected) else access


def _refresh_revision(
    backend: Backend, request: PaidRequest, rejected: OfferRevision
) -> Flow[OfferRevision | None]:
    """The revision that is active now. One request reads the contracts; others wait for what it finds."""
    try:
        # The final 0.0 adds one last look after the longest pause.
        for pause in (*CROWD_PAUSES, 0.0):
            newer: OfferRevision | None = yield backend.refresh_revision(request.offer, rejected)
            if newer is not None:
                return newer
            yield backend.sleep(pause)
    except FaregateError as error:
        yield backend.log_warning(
            f"the revision was refused, and the contracts could not be read again: {error}"
        )
    return None


def _call_access_with_retry(
    backend: Backend, request: PaidRequest, revision: OfferRevision, proof: str | None
) -> Flow[Access]:
    """Call access, and retry an unanswered call once. It is idempotent: a proof keeps its transaction."""
    began = backend.get_time()
    try:
        try:
            access: Access = yield backend.call_access(request, revision, proof)
        except TooManyCalls:
            raise  # a retry would only add to the load
        except NoAnswer:
            if backend.get_time() - began > RETRY_BUDGET_SECONDS:
                raise
            access = yield backend.call_access(request, revision, proof)
    except NoAnswer as error:
        return AccessFailed(503, f"access was not answered: {error}")
    # This includes an offer that cannot be sent (`ConfigurationError`).
    except FaregateError as error:
        return AccessFailed(502, f"access could not be asked, or was answered with nonsense: {error}")
    return access


def _refuse_access(backend: Backend, request: PaidRequest, access: Access) -> Flow[Response]:
    match access:
        case AccessUnpaid(reply):
            return (yield from _refuse(backend, request, responses.build_payment_required(reply)))
        case AccessPending(reply, transaction_id):
            return (yield from _refuse(backend, request, responses.relay_settling(reply, transaction_id)))
        case AccessFailed(status, reason, retry_after):
            yield backend.log_warning(reason)
            return (yield from _refuse(backend, request, responses.build_unavailable(status, retry_after)))
        case _:
            yield backend.log_warning(f"access gave {type(access).__name__}, which cannot be used here")
            return (yield from _refuse(backend, request, responses.build_unavailable(503)))


def _refuse(backend: Backend, request: PaidRequest, response: Response) -> Flow[Response]:
    yield backend.emit_event(Refused(response.status, response.code, request.sale))
    return response


def _record_pending(backend: Backend, payment: PendingPayment) -> Flow[None]:
    """Keep a payment that settles without work of ours."""
    try:
        yield backend.journal.record_pending(payment.lease, payment.transaction_id, payment.revision_id)
    except Exception as error:
        yield backend.log_warning(
            f"the journal could not store the pending payment: {error}", payment.transaction_id
        )
        yield backend.write_fallback(payment.transaction_id, payment.revision_id)


def _ask_for_new_payment(
    backend: Backend, request: PaidRequest, transaction_id: str | None
) -> Flow[Response]:
    """Answer a payment that failed for certain with fresh instructions, got without the dead proof."""
    revision = yield from _find_revision(backend, request)
    if isinstance(revision, AccessFailed):
        return (yield from _refuse_access(backend, request, revision))
    _, access = yield from _call_access(backend, request, revision, None)
    if isinstance(access, AccessUnpaid):
        fresh = responses.build_new_payment_required(access.response, transaction_id)
        return (yield from _refuse(backend, request, fresh))
    return (yield from _refuse_access(backend, request, access))


# Free


def _serve_free(
    backend: Backend, request: PaidRequest, revision: OfferRevision, access: AccessFree
) -> Flow[Response]:
    step = RunHandler(request, None)
    try:
        try:
            result: HandlerResult = yield step
        finally:
            # A Django view may await while its middleware blocks: see `RunHandler`.
            backend = step.backend or backend
    except HandlerError as error:
        yield backend.log_warning(f"{_describe_handler(request)} failed on a free request: {error}")
        yield from _close_execution(backend, access.execution_id, revision, None)
        return responses.build_work_failed(error.code)
    except Exception:
        yield from _close_execution(backend, access.execution_id, revision, None)
        raise
    yield from _close_execution(backend, access.execution_id, revision, result)
    return responses.build_free(result.response)


def _close_execution(
    backend: Backend, execution_id: str | None, revision: OfferRevision, result: HandlerResult | None
) -> Flow[None]:
    """Close a free execution, whatever the handler did."""
    if execution_id is None:
        return
    try:
        yield backend.close_execution(execution_id, revision, result)
    except ServiceError as error:
        yield backend.log_warning(f"a free execution could not be closed: {error}")


# Paid


def _run_and_settle(
    backend: Backend,
    request: PaidRequest,
    revision: OfferRevision,
    payment: PendingPayment,
    claimant: Claimant | None,
) -> Flow[Response]:
    """Run the work of a payment. If `claimant` is None, other open payments of its payer are ignored."""
    try:
        # Write this before the work starts. After a crash, the row says that a payment is open and that its
        # work may have begun.
        started: bool | EarlierPayment = yield backend.journal.record_transaction(
            payment.lease, payment.transaction_id, payment.revision_id, request.work_seconds, claimant
        )
    except Exception as error:
        # The service has this transaction, but the row may not. Its id must survive somewhere else.
        yield backend.log_warning(
            f"the journal could not record the start of the work: {error}", payment.transaction_id
        )
        yield backend.write_fallback(payment.transaction_id, payment.revision_id)
        return (yield from _refuse(backend, request, responses.build_unconfirmed(payment.transaction_id)))
    if isinstance(started, EarlierPayment) and claimant is not None:
        return (yield from _resume(backend, request, revision, payment, claimant, started))
    # Not `not started`: an `EarlierPayment` is truthy, and only True may start the work.
    if started is not True:
        return (yield from _handle_lost_start(backend, request, payment))
    if request.is_observed:
        yield backend.emit_event(Authorized(payment.transaction_id, payment.sale))
    began = backend.get_time() if request.is_observed else 0.0
    step = RunHandler(request, payment.transaction_id)
    try:
        try:
            result: HandlerResult = yield step
        finally:
            # A Django view may await while its middleware blocks: see `RunHandler`.
            backend = step.backend or backend
        if request.is_observed:
            payment = describe(payment, status=result.response.status, work_ms=result.duration_ms)
        outcome = decide_outcome(result, request, revision)
    except (HandlerError, InvalidUsage) as error:
        yield backend.log_warning(
            f"{_describe_handler(request)} returned nothing that can be sold: {error}", payment.transaction_id
        )
        code = error.code if isinstance(error, HandlerError) else "invalid_usage"
        payment = _describe_failed_work(backend, request, payment, began)
        settlement = yield from report_failure(backend, payment, code)
        if isinstance(settlement, PaymentFailed):
            return responses.build_work_failed(code)
        # `build_work_failed` says that nothing was taken, which is not certain here.
        return responses.build_unconfirmed(payment.transaction_id)
    except Exception:
        # Report the failure first, so that nothing is charged. The framework then answers the handler's
        # error.
        payment = _describe_failed_work(backend, request, payment, began)
        yield from report_failure(backend, payment, "handler_error")
        raise
    if isinstance(outcome, Response):
        if result.was_result and is_harmless_error(outcome.status):
            yield backend.log_warning(
                f"{_describe_handler(request)}: the error {outcome.status} may carry a result, so only the "
                "status leaves",
                payment.transaction_id,
            )
        yield from report_failure(backend, payment, f"status_{outcome.status}")
        return outcome
    settlement = yield from report_success(backend, payment, outcome, request)
    return (yield from _answer_settlement(backend, request, payment, settlement))


def _describe_failed_work(
    backend: Backend, request: PaidRequest, payment: PendingPayment, began: float
) -> PendingPayment:
    return describe(payment, work_ms=measure(backend, began)) if request.is_observed else payment


def _handle_lost_start(backend: Backend, request: PaidRequest, payment: PendingPayment) -> Flow[Response]:
    """Answer where the start of the work could not be recorded.

    Another proof has this transaction, or another worker took the claim over.
    """
    may_have_hidden_row = yield from _may_have_hidden_row(backend)
    try:
        was_unused: bool = yield backend.journal.abandon_claim(payment.lease)
    except Exception as error:
        # A journal has the transaction already, so no fallback is written. Whether the claim is still ours is
        # unknown.
        yield backend.log_warning(f"the journal could not give up the claim: {error}", payment.transaction_id)
        return (yield from _refuse(backend, request, responses.build_unconfirmed(payment.transaction_id)))
    if not was_unused:
        return (yield from _refuse(backend, request, responses.build_in_progress()))
    if may_have_hidden_row:
        return (yield from _refuse(backend, request, responses.build_unconfirmed(payment.transaction_id)))
    return (yield from _refuse(backend, request, responses.build_already_used(payment.transaction_id)))


def _resume(
    backend: Backend,
    request: PaidRequest,
    revision: OfferRevision,
    payment: PendingPayment,
    claimant: Claimant,
    earlier: EarlierPayment,
) -> Flow[Response]:
    """Serve the earlier payment in place of this one, which is not charged, if one payer made both."""
    has_same_payer = yield from compare_payers(backend, payment.transaction_id, earlier.transaction_id)
    if has_same_payer is None:
        # The payer may come back with this payment: nothing was done for it, and nothing is charged.
        yield from abandon_claim(backend, payment.lease, payment.transaction_id)
        return (yield from _refuse(backend, request, responses.build_unconfirmed(payment.transaction_id)))
    if not has_same_payer:
        return (yield from _run_and_settle(backend, request, revision, payment, None))
    try:
        # No result can come of work that was cut off. End it first, then this payment can be used.
        may_run = earlier.is_interrupted and (yield from _end_interrupted(backend, earlier, claimant))
        was_resumed = not may_run and (yield from _record_resumption(backend, payment, earlier))
    except Exception as error:
        yield backend.log_warning(
            f"the journal could not resume an earlier payment: {error}", payment.transaction_id
        )
        yield backend.write_fallback(payment.transaction_id, payment.revision_id)
        return (yield from _refuse(backend, request, responses.build_unconfirmed(payment.transaction_id)))
    if may_run:
        return (yield from _run_and_settle(backend, request, revision, payment, claimant))
    if not was_resumed:
        return (yield from _handle_lost_start(backend, request, payment))
    code = name_resumption(earlier.transaction_id)
    yield from complete_failure(backend, payment, WorkFailed(code), sticks_if_refused=False)
    return (yield from _serve_earlier(backend, request, earlier.transaction_id))


def _end_interrupted(backend: Backend, earlier: EarlierPayment, claimant: Claimant) -> Flow[bool]:
    """End an earlier payment whose work was cut off; False if it is for another request.

    True does not say that it ended: another worker may be ending it.
    """
    claim: Claim = yield backend.journal.claim_transaction(earlier.transaction_id, claimant)
    if isinstance(claim, Recoverable):
        yield from recover(backend, claim.payment, None)
    return not isinstance(claim, RequestMismatch)


def _record_resumption(backend: Backend, payment: PendingPayment, earlier: EarlierPayment) -> Flow[bool]:
    """Record in one step that this payment fails, and which one it resumed.

    After a crash, its proof leads to that one.
    """
    is_recorded: bool = yield backend.journal.record_resumption(
        payment.lease, payment.transaction_id, payment.revision_id, earlier.transaction_id
    )
    return is_recorded


def _describe_handler(request: PaidRequest) -> str:
    """Name the handler for the seller's log, without the query, which may be private."""
    return f"{request.http.method} {request.http.url.partition('?')[0]}"

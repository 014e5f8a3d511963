"""The flow of one paid request, as a generator of steps (`faregate.core.steps`). Pure.

Rules
1. The work runs only after access gave a transaction for this proof and the journal wrote its id;
   at most once per proof, and at most once per transaction.
2. The outcome is decided once and written before the service is told. Telling may be repeated.
3. A result leaves only when a completion *proved* the payment. A GET informs; it never releases.
4. While the fate of a proof is open, its payer is never given a fresh 402: payers sign a new
   payment on every 402, and would pay twice.
5. Whoever is told that it lost its lease sends nothing and releases nothing.
6. What is not understood stays closed.
"""

from urllib.parse import unquote, urlsplit

from faregate.core import responses
from faregate.core.claims import (
    AlreadyFailed,
    AlreadyUsed,
    Claim,
    Claimant,
    Claimed,
    ClientMismatch,
    ClientUnverified,
    InProgress,
    Lease,
    PendingPayment,
    Replayable,
    ReplayPolicy,
    RequestMismatch,
    Resumable,
)
from faregate.core.credentials import find_credentials
from faregate.core.instructions import are_unguessable
from faregate.core.models import (
    Failed,
    HandlerResult,
    OfferRevision,
    Outcome,
    PaidRequest,
    Response,
    Succeeded,
    header_values,
)
from faregate.core.proof import BadProof, find_proof
from faregate.core.recovery import recover
from faregate.core.results import (
    Access,
    AccessFailed,
    AccessFree,
    AccessGranted,
    AccessPending,
    AccessUnpaid,
    Guessability,
    PaymentFailed,
    RevisionRejected,
    Settlement,
)
from faregate.core.settlement import RETRY_SECONDS, record_failure, record_success, write
from faregate.core.steps import (
    AbandonClaim,
    CallAccess,
    ClaimProof,
    CloseExecution,
    EmitEvent,
    Flow,
    GetKnownRevision,
    GetTime,
    HasUnknownKeys,
    LogWarning,
    RecallGuessability,
    RecordGuessability,
    RecordPending,
    RecordTransaction,
    RefreshRevision,
    ResolveOffer,
    RunHandler,
    Sleep,
    WriteFallback,
)
from faregate.core.usage import check
from faregate.errors import (
    FaregateError,
    HandlerError,
    InvalidUsage,
    NoAnswer,
    ServiceError,
    TooManyCalls,
    WorkTimedOut,
)
from faregate.events import Authorized, Redelivered, Refused

MAX_RESOURCE_URL = 2048
_REDIRECTS = (301, 302, 303, 307, 308)
TROUBLE = "payment_service_unavailable"
CROWD_PAUSES = (0.1, 0.2, 0.4, 0.8)
"""Seconds between looks at what another request is asking the service."""


def serve(sale: PaidRequest) -> Flow[Response]:
    """One request on a paid handler, from the first look at its headers to what the payer gets."""
    try:
        proof = find_proof(sale.request)
    except BadProof as bad:
        return (yield from _refuse(responses.refused(bad.status, bad.code, bad.message), bad.code))
    if len(sale.resource_url) > MAX_RESOURCE_URL:
        too_long = responses.refused(414, "uri_too_long", "A paid resource's URL may have 2048 characters.")
        return (yield from _refuse(too_long, "uri_too_long"))
    if proof is None:
        return (yield from _without_proof(sale))
    return (yield from _with_proof(sale, proof))


def _without_proof(sale: PaidRequest) -> Flow[Response]:
    rules = yield from _find_rules(sale)
    if isinstance(rules, AccessFailed):
        return (yield from _not_granted(rules))
    rules, access = yield from _authorize(sale, rules, None)
    match access:
        case AccessFree():
            return (yield from _give_free(sale, rules, access))
        case AccessGranted(transaction_id):
            yield from LogWarning("access granted a transaction without a proof", transaction_id)
            return (yield from _refuse(responses.trouble(502), TROUBLE))
        case _:
            return (yield from _not_granted(access))


def _with_proof(sale: PaidRequest, proof: str) -> Flow[Response]:
    try:
        claim = yield from _claim(sale, proof, ReplayPolicy.SAME_CLIENT)
    except Exception as error:
        yield from LogWarning(f"the journal could not claim the proof: {error}")
        return (yield from _refuse(responses.trouble(503), TROUBLE))
    if isinstance(claim, ClientUnverified):
        return (yield from _claim_as_secret(sale, proof, claim.transaction_id))
    return (yield from _proceed(sale, proof, claim))


def _proceed(sale: PaidRequest, proof: str, claim: Claim) -> Flow[Response]:
    match claim:
        case Claimed():
            return (yield from _first_use(sale, proof, claim))
        case Resumable(entry):
            return (yield from _settled(sale, entry, (yield from recover(entry, awaited=True))))
        case Replayable(result, payment_response, transaction_id):
            yield from EmitEvent(Redelivered(transaction_id))
            return responses.release(result, payment_response)
        case InProgress():
            return (yield from _refuse(responses.in_progress(), "payment_in_progress"))
        case RequestMismatch():
            return (yield from _refuse(responses.already_used(), "proof_already_used"))
        case ClientMismatch():
            return (yield from _refuse(responses.other_client(), "proof_already_used"))
        case AlreadyUsed(transaction_id) | ClientUnverified(transaction_id):
            return (yield from _refuse(responses.already_used(transaction_id), "proof_already_used"))
        case AlreadyFailed():
            return (yield from _fresh_instructions(sale, None))


def _settled(sale: PaidRequest, payment: PendingPayment, settlement: Settlement) -> Flow[Response]:
    if isinstance(settlement, PaymentFailed):
        return (yield from _fresh_instructions(sale, payment.transaction_id))
    return responses.build_settled(settlement, payment.transaction_id)


def _claim(sale: PaidRequest, proof: str, replay: ReplayPolicy) -> ClaimProof:
    """Claim the proof for this request, and for the client that its credentials show."""
    request = sale.request
    credentials = find_credentials(request.headers)
    called = f"{request.method} {request.url}"
    allowed = replay if sale.offer.replay else ReplayPolicy.NEVER
    return ClaimProof(proof, Claimant(called, credentials, request.body_digest, allowed))


def _claim_as_secret(sale: PaidRequest, proof: str, transaction_id: str) -> Flow[Response]:
    """Who asks is not known by credentials: go on only where nobody but the payer can know the proof."""
    unguessable = yield from _find_guessability(sale)
    if unguessable is None:
        return (yield from _refuse(responses.unconfirmed(transaction_id), "payment_unconfirmed"))
    if not unguessable:
        return (yield from _refuse(responses.not_recognized(transaction_id), "proof_already_used"))
    try:
        claim = yield from _claim(sale, proof, ReplayPolicy.SAME_PROOF)
    except Exception as error:
        yield from LogWarning(f"the journal could not claim the proof: {error}", transaction_id)
        return (yield from _refuse(responses.unconfirmed(transaction_id), "payment_unconfirmed"))
    return (yield from _proceed(sale, proof, claim))


def _recall_guessability() -> Flow[Guessability]:
    """What is known. One request finds it out; a crowd waits for what it finds."""
    known = yield from RecallGuessability()
    for pause in CROWD_PAUSES:
        if known is not Guessability.BEING_CHECKED:
            break
        yield from Sleep(pause)
        known = yield from RecallGuessability()
    return known


def _find_guessability(sale: PaidRequest) -> Flow[bool | None]:
    """Whether two instructions differ by what nobody can guess; None if that cannot be found out now."""
    known = yield from _recall_guessability()
    if known is Guessability.BEING_CHECKED:
        return None
    if known is not Guessability.UNKNOWN:
        return known is Guessability.UNGUESSABLE
    rules = yield from _find_rules(sale)
    if isinstance(rules, AccessFailed):
        return None
    found: list[str] = []
    for _ in range(2):
        rules, access = yield from _authorize(sale, rules, None)
        if not isinstance(access, AccessUnpaid):
            return None
        found += header_values(access.response.headers, "payment-required")
    unguessable = len(found) == 2 and are_unguessable(*found)
    if not unguessable:
        yield from LogWarning(
            "payment instructions can be guessed: delivered results are not replayed without credentials"
        )
    yield from RecordGuessability(unguessable)
    return unguessable


def _first_use(sale: PaidRequest, proof: str, claim: Claimed) -> Flow[Response]:
    lease = claim.lease
    rules = yield from _find_rules(sale)
    if isinstance(rules, AccessFailed):
        yield from write(AbandonClaim(lease))
        return (yield from _not_granted(rules))
    rules, access = yield from _authorize(sale, rules, proof)
    match access:
        case AccessGranted(transaction_id):
            return (
                yield from _sell(sale, rules, PendingPayment(lease, proof, transaction_id, rules.revision_id))
            )
        case AccessPending(_, transaction_id) if transaction_id is not None:
            yield from _wait(PendingPayment(lease, proof, transaction_id, rules.revision_id))
            return (yield from _not_granted(access))
        case AccessFree():
            yield from write(AbandonClaim(lease))
            return (yield from _give_free(sale, rules, access))
        case AccessUnpaid() if claim.transaction_id:
            # What was authorized before is not any more: whoever began it has not ended it.
            entry = PendingPayment(lease, proof, claim.transaction_id, claim.revision_id)
            return (yield from _settled(sale, entry, (yield from recover(entry, awaited=True))))
        case AccessUnpaid():
            return (yield from _not_accepted(lease, access))
        case _:
            yield from write(AbandonClaim(lease))
            return (yield from _not_granted(access))


def _not_accepted(lease: Lease, access: AccessUnpaid) -> Flow[Response]:
    """The service may refuse a proof because it was used, by whoever took this claim over meanwhile."""
    may_be_missed = yield from _may_miss_rows()
    try:
        ours = yield from AbandonClaim(lease)
    except Exception as error:
        yield from LogWarning(f"the journal could not record AbandonClaim: {error}")
        return (yield from _refuse(responses.trouble(503), TROUBLE))
    if not ours:
        return (yield from _refuse(responses.in_progress(), "payment_in_progress"))
    if may_be_missed:
        return (yield from _refuse(responses.unconfirmed(None), "payment_unconfirmed"))
    return (yield from _not_granted(access))


def _may_miss_rows() -> Flow[bool]:
    """Whether the payment may stand in a row that only others can find: then nobody is told to pay anew.

    So it is while a new journal key is brought to one worker after the other in a single step.
    """
    try:
        if not (yield from HasUnknownKeys()):
            return False
        yield from LogWarning(
            "the journal has rows under a key that this process does not have: check FAREGATE_JOURNAL_KEY"
        )
    except Exception as error:
        yield from LogWarning(f"the journal could not list the keys that its rows need: {error}")
    return True


# Access


def _find_rules(sale: PaidRequest) -> Flow[OfferRevision | AccessFailed]:
    try:
        return (yield from ResolveOffer(sale.offer))
    except ServiceError as error:
        failure = error
    except FaregateError as error:
        return AccessFailed(502, f"nothing can be sold: {error}")
    known = yield from _known_rules(sale)
    if known is None:
        return AccessFailed(503 if isinstance(failure, NoAnswer) else 502, f"nothing can be sold: {failure}")
    yield from LogWarning(f"the contracts could not be read again, so the known ones are used: {failure}")
    return known


def _known_rules(sale: PaidRequest) -> Flow[OfferRevision | None]:
    try:
        return (yield from GetKnownRevision(sale.offer))
    except FaregateError:
        return None


def _authorize(
    sale: PaidRequest, rules: OfferRevision, proof: str | None
) -> Flow[tuple[OfferRevision, Access]]:
    """Ask access. If the revision was refused, read the rules anew and ask once more, with what sells now."""
    access = yield from _ask_access(sale, rules, proof)
    if not isinstance(access, RevisionRejected):
        return rules, access
    newer = yield from _refresh_rules(sale, rules)
    if newer is None or newer.revision_id == rules.revision_id:
        return rules, access.trouble
    access = yield from _ask_access(sale, newer, proof)
    return newer, access.trouble if isinstance(access, RevisionRejected) else access


def _refresh_rules(sale: PaidRequest, rejected: OfferRevision) -> Flow[OfferRevision | None]:
    """The rules that sell now. One request reads them; a crowd waits for what it finds."""
    try:
        for pause in (*CROWD_PAUSES, 0.0):
            newer = yield from RefreshRevision(sale.offer, rejected)
            if newer is not None:
                return newer
            yield from Sleep(pause)
    except FaregateError as error:
        yield from LogWarning(f"the revision was refused, and the contracts could not be read again: {error}")
    return None


def _ask_access(sale: PaidRequest, rules: OfferRevision, proof: str | None) -> Flow[Access]:
    """Access may be asked again: the same proof gets the same transaction."""
    began = yield from GetTime()
    try:
        try:
            return (yield from CallAccess(sale, rules, proof))
        except TooManyCalls:
            raise  # the same call again would only make the crowd larger
        except NoAnswer:
            if (yield from GetTime()) - began > RETRY_SECONDS:
                raise
            return (yield from CallAccess(sale, rules, proof))
    except NoAnswer as error:
        return AccessFailed(503, f"access was not answered: {error}")
    except FaregateError as error:
        return AccessFailed(502, f"access could not be asked, or was answered with nonsense: {error}")


def _not_granted(access: Access) -> Flow[Response]:
    match access:
        case AccessUnpaid(reply):
            return (yield from _refuse(responses.unpaid(reply), "payment_required"))
        case AccessPending(reply, transaction_id):
            return (yield from _refuse(responses.pending(reply, transaction_id), "payment_settling"))
        case AccessFailed(status, reason, retry_after):
            yield from LogWarning(reason)
            return (yield from _refuse(responses.trouble(status, retry_after), TROUBLE))
        case _:
            yield from LogWarning(f"access gave {type(access).__name__}, which cannot be used here")
            return (yield from _refuse(responses.trouble(503), TROUBLE))


def _refuse(response: Response, code: str) -> Flow[Response]:
    yield from EmitEvent(Refused(response.status, code))
    return response


def _wait(entry: PendingPayment) -> Flow[None]:
    """Remember a payment that settles without us."""
    try:
        yield from RecordPending(entry.lease, entry.transaction_id, entry.revision_id)
    except Exception as error:
        yield from LogWarning(f"the journal could not record RecordPending: {error}", entry.transaction_id)
        yield from WriteFallback(entry.transaction_id, entry.revision_id)


def _fresh_instructions(sale: PaidRequest, transaction_id: str | None) -> Flow[Response]:
    """For a payment that failed for certain: what to pay, asked for without the dead proof."""
    rules = yield from _find_rules(sale)
    if isinstance(rules, AccessFailed):
        return (yield from _not_granted(rules))
    _, access = yield from _authorize(sale, rules, None)
    if isinstance(access, AccessUnpaid):
        anew = responses.unpaid_anew(access.response, transaction_id)
        return (yield from _refuse(anew, "payment_required"))
    return (yield from _not_granted(access))


# Free


def _give_free(sale: PaidRequest, rules: OfferRevision, access: AccessFree) -> Flow[Response]:
    try:
        work = yield from RunHandler(sale, None)
    except HandlerError as error:
        yield from LogWarning(f"{_place(sale)} failed on a free request: {error}")
        yield from _close_execution(access.execution_id, rules, None)
        return responses.work_failed(500, error.code)
    except Exception:
        yield from _close_execution(access.execution_id, rules, None)
        raise
    yield from _close_execution(access.execution_id, rules, work)
    return responses.free(work.response)


def _close_execution(
    execution_id: str | None, rules: OfferRevision, work: HandlerResult | None
) -> Flow[None]:
    """Whatever the handler did: an execution that is known is not left open."""
    if execution_id is None:
        return
    try:
        yield from CloseExecution(execution_id, rules, work)
    except ServiceError as error:
        yield from LogWarning(f"a free execution could not be closed: {error}")


# Paid: start, work, decide


def _sell(sale: PaidRequest, rules: OfferRevision, entry: PendingPayment) -> Flow[Response]:
    try:
        if not (yield from _start(entry, sale)):
            return (yield from _not_started(entry))
    except Exception as error:
        yield from LogWarning(
            f"the journal could not record the start of the work: {error}", entry.transaction_id
        )
        yield from WriteFallback(entry.transaction_id, entry.revision_id)
        return (yield from _refuse(responses.unconfirmed(entry.transaction_id), "payment_unconfirmed"))
    yield from EmitEvent(Authorized(entry.transaction_id))
    try:
        work = yield from RunHandler(sale, entry.transaction_id)
        outcome = _judge(work, sale, rules)
    except (HandlerError, InvalidUsage) as error:
        yield from LogWarning(
            f"{_place(sale)} returned nothing that can be sold: {error}", entry.transaction_id
        )
        code = error.code if isinstance(error, HandlerError) else "invalid_usage"
        settlement = yield from record_failure(entry, code)
        if isinstance(settlement, PaymentFailed):
            return responses.work_failed(500, code)
        return responses.unconfirmed(entry.transaction_id)
    except Exception:
        yield from record_failure(entry, "handler_error")
        raise
    if isinstance(outcome, Failed):
        yield from record_failure(entry, outcome.code)
        return responses.unsold(work.response)
    return (yield from _settled(sale, entry, (yield from record_success(entry, outcome))))


def _not_started(entry: PendingPayment) -> Flow[Response]:
    """Another proof has this transaction; or whoever took this claim over meanwhile serves it."""
    may_be_missed = yield from _may_miss_rows()
    if not (yield from AbandonClaim(entry.lease)):
        return (yield from _refuse(responses.in_progress(), "payment_in_progress"))
    if may_be_missed:
        return (yield from _refuse(responses.unconfirmed(entry.transaction_id), "payment_unconfirmed"))
    return (yield from _refuse(responses.already_used(entry.transaction_id), "proof_already_used"))


def _place(sale: PaidRequest) -> str:
    """For the seller's log: which handler it was, without what the payer asked of it."""
    return f"{sale.request.method} {sale.request.url.partition('?')[0]}"


def _start(entry: PendingPayment, sale: PaidRequest) -> RecordTransaction:
    return RecordTransaction(entry.lease, entry.transaction_id, entry.revision_id, sale.work_seconds)


def _leads_to_the_slash(response: Response, sale: PaidRequest) -> bool:
    """A router's redirect to the path with, or without, a slash at its end: what is sold is there."""
    if response.status not in _REDIRECTS:
        return False
    here = _read_path(sale.request.url)
    targets = (_read_path(location) for location in header_values(response.headers, "location"))
    return any(target != here and target.rstrip("/") == here.rstrip("/") for target in targets)


def _read_path(url: str) -> str:
    try:
        return unquote(urlsplit(url).path)
    except ValueError:
        return url


def _judge(work: HandlerResult, sale: PaidRequest, rules: OfferRevision) -> Outcome:
    if work.duration_ms > sale.work_seconds * 1000:
        raise WorkTimedOut("the work took longer than its payment is valid")
    status = work.response.status
    if status not in sale.offer.billable or _leads_to_the_slash(work.response, sale):
        return Failed(f"status_{status}")
    return Succeeded(work.response, check(work.values, rules), work.duration_ms)

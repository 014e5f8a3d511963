"""The story of one paid request, told once. It touches nothing: it asks (`faregate.steps`).

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

from faregate import relay
from faregate.answers import Access, AccessPending, Free, Granted, Trouble, Unpaid
from faregate.errors import FaregateError, NoAnswer, ServiceError, UsageError, WorkError, WorkTimedOut
from faregate.events import Authorized, Redelivered, Refused
from faregate.model import Failed, Outcome, Response, Rules, Sale, Succeeded, Work
from faregate.proof import BadProof, find_proof
from faregate.records import Again, Entry, Fresh, InProgress, Owed, Spent, Ticket, UsedElsewhere, Void
from faregate.redeem import redeem
from faregate.settle import decide_and_settle, fail, written
from faregate.steps import (
    Await,
    CallAccess,
    ClaimProof,
    CloseExecution,
    Drop,
    FindRules,
    Flow,
    LastResort,
    Note,
    RunWork,
    Start,
    Tell,
)
from faregate.usage import check

MAX_RESOURCE_URL = 2048
TROUBLE = "payment_service_unavailable"


def serve(sale: Sale) -> Flow[Response]:
    """One request on a paid handler, from the first look at its headers to what the payer gets."""
    try:
        proof = find_proof(sale.request)
    except BadProof as bad:
        return (yield from _refuse(relay.refused(bad.status, bad.code, bad.message), bad.code))
    if len(sale.resource_url) > MAX_RESOURCE_URL:
        too_long = relay.refused(414, "uri_too_long", "A paid resource's URL may have 2048 characters.")
        return (yield from _refuse(too_long, "uri_too_long"))
    if proof is None:
        return (yield from _without_proof(sale))
    return (yield from _with_proof(sale, proof))


def _without_proof(sale: Sale) -> Flow[Response]:
    rules = yield from _find_rules(sale)
    if isinstance(rules, Trouble):
        return (yield from _not_granted(rules))
    access = yield from _ask_access(sale, rules, None)
    match access:
        case Free():
            return (yield from _give_free(sale, rules, access))
        case Granted(transaction_id):
            yield from Note("access granted a transaction without a proof", transaction_id)
            return (yield from _refuse(relay.trouble(502), TROUBLE))
        case _:
            return (yield from _not_granted(access))


def _with_proof(sale: Sale, proof: str) -> Flow[Response]:
    try:
        claim = yield from ClaimProof(proof, f"{sale.request.method} {sale.request.url}")
    except Exception as error:
        yield from Note(f"the journal could not take a claim: {error}")
        return (yield from _refuse(relay.trouble(503), TROUBLE))
    match claim:
        case Fresh(ticket):
            return (yield from _first_use(sale, proof, ticket))
        case Owed(entry):
            again = yield from redeem(entry, awaited=True)
            return again or (yield from _fresh_instructions(sale, entry.transaction_id))
        case Again(result, payment_response, transaction_id):
            yield from Tell(Redelivered(transaction_id))
            return relay.release(result, payment_response)
        case InProgress():
            return (yield from _refuse(relay.in_progress(), "payment_in_progress"))
        case UsedElsewhere():
            return (yield from _refuse(relay.already_used(), "proof_already_used"))
        case Spent(transaction_id):
            return (yield from _refuse(relay.already_used(transaction_id), "proof_already_used"))
        case Void():
            return (yield from _fresh_instructions(sale, None))


def _first_use(sale: Sale, proof: str, ticket: Ticket) -> Flow[Response]:
    rules = yield from _find_rules(sale)
    if isinstance(rules, Trouble):
        yield from written(Drop(ticket))
        return (yield from _not_granted(rules))
    access = yield from _ask_access(sale, rules, proof)
    match access:
        case Granted(transaction_id):
            return (yield from _sell(sale, rules, Entry(ticket, proof, transaction_id, rules.revision_id)))
        case AccessPending(_, transaction_id) if transaction_id is not None:
            yield from _wait(Entry(ticket, proof, transaction_id, rules.revision_id))
            return (yield from _not_granted(access))
        case Free():
            yield from written(Drop(ticket))
            return (yield from _give_free(sale, rules, access))
        case Unpaid():
            return (yield from _not_accepted(ticket, access))
        case _:
            yield from written(Drop(ticket))
            return (yield from _not_granted(access))


def _not_accepted(ticket: Ticket, access: Unpaid) -> Flow[Response]:
    """The service may refuse a proof because it was used, by whoever took this claim over meanwhile."""
    try:
        ours = yield from Drop(ticket)
    except Exception as error:
        yield from Note(f"the journal missed Drop: {error}")
        return (yield from _refuse(relay.trouble(503), TROUBLE))
    if ours:
        return (yield from _not_granted(access))
    return (yield from _refuse(relay.in_progress(), "payment_in_progress"))


# Access


def _find_rules(sale: Sale) -> Flow[Rules | Trouble]:
    try:
        return (yield from FindRules(sale.offer))
    except FaregateError as error:
        return Trouble(503 if isinstance(error, NoAnswer) else 502, f"nothing can be sold: {error}")


def _ask_access(sale: Sale, rules: Rules, proof: str | None) -> Flow[Access]:
    """Access may be asked again: the same proof gets the same transaction."""
    try:
        try:
            return (yield from CallAccess(sale, rules, proof))
        except NoAnswer:
            return (yield from CallAccess(sale, rules, proof))
    except NoAnswer as error:
        return Trouble(503, f"access was not answered: {error}")
    except FaregateError as error:
        return Trouble(502, f"access could not be asked, or was answered with nonsense: {error}")


def _not_granted(access: Access) -> Flow[Response]:
    match access:
        case Unpaid(reply):
            return (yield from _refuse(relay.unpaid(reply), "payment_required"))
        case AccessPending(reply, transaction_id):
            return (yield from _refuse(relay.pending(reply, transaction_id), "payment_settling"))
        case Trouble(status, reason, retry_after):
            yield from Note(reason)
            return (yield from _refuse(relay.trouble(status, retry_after), TROUBLE))
        case _:
            yield from Note(f"access gave {type(access).__name__} where it cannot be used")
            return (yield from _refuse(relay.trouble(503), TROUBLE))


def _refuse(response: Response, code: str) -> Flow[Response]:
    yield from Tell(Refused(response.status, code))
    return response


def _wait(entry: Entry) -> Flow[None]:
    """Remember a payment that settles without us."""
    try:
        yield from Await(entry.ticket, entry.transaction_id, entry.revision_id)
    except Exception as error:
        yield from Note(f"the journal missed Await: {error}", entry.transaction_id)
        yield from LastResort(entry.transaction_id, entry.revision_id)


def _fresh_instructions(sale: Sale, transaction_id: str | None) -> Flow[Response]:
    """For a payment that failed for certain: what to pay, asked for without the dead proof."""
    rules = yield from _find_rules(sale)
    if isinstance(rules, Trouble):
        return (yield from _not_granted(rules))
    access = yield from _ask_access(sale, rules, None)
    if isinstance(access, Unpaid):
        anew = relay.unpaid_anew(access.response, transaction_id)
        return (yield from _refuse(anew, "payment_required"))
    return (yield from _not_granted(access))


# Free


def _give_free(sale: Sale, rules: Rules, access: Free) -> Flow[Response]:
    try:
        work = yield from RunWork(sale, None)
    except WorkError as error:
        yield from Note(f"{_place(sale)} gave nothing, for free: {error}")
        return relay.work_failed(500, error.code)
    if access.execution_id is not None:
        try:
            yield from CloseExecution(access.execution_id, rules, work)
        except ServiceError as error:
            yield from Note(f"a free execution could not be closed: {error}")
    return relay.free(work.response)


# Paid: start, work, decide


def _sell(sale: Sale, rules: Rules, entry: Entry) -> Flow[Response]:
    try:
        if not (yield from _start(entry, sale)):
            return (yield from _not_started(entry))
    except Exception as error:
        yield from Note(f"the journal could not start the work: {error}", entry.transaction_id)
        yield from LastResort(entry.transaction_id, entry.revision_id)
        return (yield from _refuse(relay.unconfirmed(entry.transaction_id), "payment_unconfirmed"))
    yield from Tell(Authorized(entry.transaction_id))
    try:
        work = yield from RunWork(sale, entry.transaction_id)
        outcome = _judge(work, sale, rules)
    except (WorkError, UsageError) as error:
        yield from Note(f"{_place(sale)} gave nothing to sell: {error}", entry.transaction_id)
        code = error.code if isinstance(error, WorkError) else "invalid_usage"
        unsure = yield from fail(entry, code)
        return unsure or relay.work_failed(500, code)
    except Exception:
        yield from fail(entry, "handler_error")
        raise
    if isinstance(outcome, Failed):
        yield from fail(entry, outcome.code)
        return relay.unsold(work.response)
    paid = yield from decide_and_settle(entry, outcome)
    return paid or (yield from _fresh_instructions(sale, entry.transaction_id))


def _not_started(entry: Entry) -> Flow[Response]:
    """Another proof has this transaction; or whoever took this claim over meanwhile serves it."""
    if (yield from Drop(entry.ticket)):
        return (yield from _refuse(relay.already_used(entry.transaction_id), "proof_already_used"))
    return (yield from _refuse(relay.in_progress(), "payment_in_progress"))


def _place(sale: Sale) -> str:
    """For the seller's log: which handler it was, without what the payer asked of it."""
    return f"{sale.request.method} {sale.request.url.partition('?')[0]}"


def _start(entry: Entry, sale: Sale) -> Start:
    return Start(entry.ticket, entry.transaction_id, entry.revision_id, sale.work_seconds)


def _judge(work: Work, sale: Sale, rules: Rules) -> Outcome:
    if work.duration_ms > sale.work_seconds * 1000:
        raise WorkTimedOut("the work took longer than its payment is valid")
    status = work.response.status
    if status not in sale.offer.billable:
        return Failed(f"status_{status}")
    return Succeeded(work.response, check(work.values, rules), work.duration_ms)

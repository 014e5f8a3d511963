"""One transaction from a state document back into the books, if it fits there. Pure."""

import heapq
from collections.abc import Mapping
from datetime import datetime

from faregate.emulator.document import broken
from faregate.emulator.documentparts import TransactionState
from faregate.service.catalog import Listing, Published
from faregate.service.records import PENDING, PayerRecord, Sale, Settled, TransactionRecord
from faregate.service.state import Books
from faregate.x402.models import Payment
from faregate.x402.proofs import BadProof, read_payment


def adopt(books: Books, state: TransactionState, payers: Mapping[str, PayerRecord], place: str) -> None:
    """The next transaction, which comes after all that are there. `ConfigurationError` names its place."""
    record = TransactionRecord(
        id=state.id,
        number=len(books.transactions) + 1,
        payment_request_id=state.payment_request_id,
        payer=_payer(state, payers, place),
        sale=_sale(books, state, place),
        payment=_payment(state, place),
        created_at=state.history[0].at,
        history=[(step.at, step.status) for step in state.history],
        accepted=state.accepted,
        submitted_at=state.submitted_at,
        plan=state.plan,
        reads=state.reads,
        settled=_settled(state),
    )
    _check_new(books, record, place)
    books.adopt(record)
    due = _due(state, place)
    if due is not None:
        heapq.heappush(books.due, (due, record.number, record))


def _check_new(books: Books, record: TransactionRecord, place: str) -> None:
    newest = next(reversed(books.transactions.values()), None)
    if newest is not None and record.created_at < newest.created_at:
        raise broken(f"{place}.history[0].at", "transactions are in the order they were made")
    if record.id in books.transactions:
        raise broken(f"{place}.id", "another transaction has this id")
    if books.user_of(record.sale, record.payment) is not None:
        raise broken(f"{place}.proof", "another transaction has used this authorization")


def _payer(state: TransactionState, payers: Mapping[str, PayerRecord], place: str) -> PayerRecord:
    if state.payer not in payers:
        raise broken(f"{place}.payer", f"{state.payer} is not among the payers")
    return payers[state.payer]


def _sale(books: Books, state: TransactionState, place: str) -> Sale:
    listing, revision = known(books, state.request.revision_id, f"{place}.request.revision_id")
    sold = books.catalog.version(listing.plan.key, state.history[0].at) or listing
    return Sale(state.request, sold, revision, books.terms(listing, revision))


def known(books: Books, revision_id: str, place: str) -> tuple[Listing, Published]:
    """The revision of this id and its resource."""
    listing = books.catalog.selling(revision_id)
    if listing is None:
        raise broken(place, f"this world has no revision {revision_id} in {books.environment}")
    return listing, next(one for one in listing.revisions if one.id == revision_id)


def _payment(state: TransactionState, place: str) -> Payment:
    try:
        return read_payment(state.proof)
    except BadProof as error:
        raise broken(f"{place}.proof", f"this is not base64 of an x402 payload: {error}") from None


def _settled(state: TransactionState) -> Settled | None:
    done = state.settled
    if done is None:
        return None
    return Settled(done.at, done.transaction_hash, done.payment_response, done.receipt)


def _due(state: TransactionState, place: str) -> datetime | None:
    """When the clock ends its payment. A pending one whose plan is by the clock must say it, no other may."""
    plan, status = state.plan, state.history[-1].status
    timed = plan is not None and (plan.after_seconds is not None or plan.until_expiry)
    if (timed and status in PENDING) != (state.due is not None):
        raise broken(f"{place}.due", "is there for a pending payment that ends by the clock, and only then")
    return state.due

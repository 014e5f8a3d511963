"""Load a state document into fresh environments.

Records are added by `MemoryStore.adopt`, as at first, so that lists and indexes are built in only one
way. A part that does not fit the account raises a `ConfigurationError` that names its place.
"""

import heapq
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from faregate.emulator.clock import EmulatorClock
from faregate.emulator.faults.active_faults import Faults
from faregate.emulator.ledger import Balance, SimulatedLedger
from faregate.emulator.persistence.schema import (
    EnvironmentSection,
    LedgerState,
    ResourceVersion,
    SavedResource,
    SavedTransaction,
    StateDocument,
    document_error,
)
from faregate.merchant.models import SucceededCompleteRequest
from faregate.rules.account import Appearance
from faregate.rules.catalog import Listing, PublishedRevision
from faregate.rules.ids import Ids, RewindableIds
from faregate.rules.memory_store import MemoryStore
from faregate.rules.payments import Ledger
from faregate.rules.records import (
    PENDING,
    AccessContext,
    ExecutionRecord,
    PayerRecord,
    SettlementRecord,
    TransactionRecord,
)
from faregate.x402.headers import InvalidPayload, parse_payment
from faregate.x402.models import SignedPayment, build_authorization_key
from faregate.x402.tokens import TOKENS, Environment
from faregate.x402.usage_prices import compute_amount


def load_transaction(
    store: MemoryStore, state: SavedTransaction, payers: Mapping[str, PayerRecord], place: str
) -> None:
    """Add the next transaction; `ConfigurationError` names the place of a fault."""
    payer = _get_payer(state, payers, place)
    context = _resolve_purchase(store, state, place)
    record = TransactionRecord(
        id=state.id,
        number=len(store.transactions) + 1,
        payment_request_id=state.payment_request_id,
        payer=payer,
        context=context,
        proof=_parse_payment(state, place).header,
        history=tuple((step.at, step.status) for step in state.history),
        accepted=state.accepted,
        submitted_at=state.submitted_at,
        plan=state.plan,
        reads=state.reads,
        used_atomic=_find_used(context.revision, state),
    )
    record.settled = _load_settled(state)
    _check_new(store, record, place)
    store.adopt(record)
    due = _get_due_time(state, place)
    if due is not None:
        # The number decides between equal times, so that records are never compared.
        heapq.heappush(store.due, (due, record.number, record))


def _find_used(revision: PublishedRevision, state: SavedTransaction) -> int | None:
    """Find what the use cost. It is not in the document: the receipt says it, or the saved values do."""
    price = revision.rules.usage_price
    if price is None or not isinstance(state.accepted, SucceededCompleteRequest):
        return None
    if state.settled is not None:
        return state.settled.receipt.payment.settled_atomic
    return compute_amount(price, state.accepted.values).settled_atomic


def _check_new(store: MemoryStore, record: TransactionRecord, place: str) -> None:
    newest = next(reversed(store.transactions.values()), None)
    if newest is not None and record.created_at < newest.created_at:
        raise document_error(f"{place}.history[0].at", "transactions are in the order they were made")
    if record.id in store.transactions:
        raise document_error(f"{place}.id", "another transaction has this id")
    if store.find_by_authorization(record.context.terms.token, record.payment) is not None:
        raise document_error(f"{place}.proof", "another transaction has used this authorization")


def _get_payer(state: SavedTransaction, payers: Mapping[str, PayerRecord], place: str) -> PayerRecord:
    if state.payer not in payers:
        raise document_error(f"{place}.payer", f"{state.payer} is not among the payers")
    return payers[state.payer]


def _resolve_purchase(store: MemoryStore, state: SavedTransaction, place: str) -> AccessContext:
    listing, revision = find_revision(store, state.request.revision_id, f"{place}.request.revision_id")
    sold = store.catalog.version(listing.resource.key, state.history[0].at) or listing
    return store.resolve(state.request, sold, revision)


def find_revision(store: MemoryStore, revision_id: str, place: str) -> tuple[Listing, PublishedRevision]:
    """Find the revision of this id, and its resource."""
    revision = store.catalog.find_revision(revision_id)
    if revision is None:
        raise document_error(place, f"this tenant has no revision {revision_id} in {store.environment}")
    return revision


def _parse_payment(state: SavedTransaction, place: str) -> SignedPayment:
    try:
        return parse_payment(state.proof)
    except InvalidPayload as error:
        raise document_error(f"{place}.proof", f"this is not base64 of an x402 payload: {error}") from None


def _load_settled(state: SavedTransaction) -> SettlementRecord | None:
    done = state.settled
    if done is None:
        return None
    return SettlementRecord(
        done.at, done.transaction_hash, done.payment_response, done.receipt.model_dump_json()
    )


def _get_due_time(state: SavedTransaction, place: str) -> datetime | None:
    """Return when the payment settles by time. Given exactly for pending payments with such a rule."""
    plan, status = state.plan, state.history[-1].status
    timed = plan is not None and (plan.after_seconds is not None or plan.until_expiry)
    if (timed and status in PENDING) != (state.due is not None):
        raise document_error(
            f"{place}.due", "is there for a pending payment that ends by the clock, and only then"
        )
    return state.due


def load_environments(store: Mapping[Environment, MemoryStore], document: StateDocument) -> None:
    """Load both environments of the document into fresh ones."""
    seller = store["test"].seller
    if document.seller not in (None, seller):
        raise document_error("seller", f"this tenant is that of {seller.name}, paid at {seller.pay_to}")
    _load_environment(store["test"], document.test, "test")
    _load_environment(store["live"], document.live, "live")
    if document.timeline is not None:
        store["test"].clock.restore(document.timeline.latest, document.timeline.fence)


def load_surroundings(
    document: StateDocument,
    beginning: StateDocument,
    clock: EmulatorClock,
    ids: Ids,
    ledger: Ledger,
    faults: Faults,
) -> None:
    """Load clock, ids, ledger and faults. Parts that the document omits return to their initial state."""
    if document.clock is not None:
        clock.restore(document.clock)
    if document.ids is not None and isinstance(ids, RewindableIds):
        ids.restore(document.ids)
    if isinstance(ledger, SimulatedLedger):
        load_ledger(ledger, beginning.ledger, document.ledger)
    wrong = document.faults or beginning.faults
    if wrong is not None:
        faults.restore(wrong)


def load_ledger(ledger: SimulatedLedger, *states: LedgerState) -> None:
    """Replace the ledger by these states, later ones over earlier ones."""
    balances = dict[Balance, int]()
    settled = dict[str, str]()
    for state in states:
        for balance in state.balances:
            balances[TOKENS[balance.environment, balance.asset], balance.address.lower()] = balance.balance
        for use in state.settled:
            key = build_authorization_key(TOKENS[use.environment, use.asset], use.payer.lower(), use.nonce)
            settled[key] = use.transaction_hash
    ledger.restore(balances, settled)


def _load_environment(store: MemoryStore, state: EnvironmentSection, place: str) -> None:
    for number, resource in enumerate(state.resources):
        _load_resource(store, resource, f"{place}.resources[{number}]")
    if "settlement" in state.model_fields_set:
        store.settlement = state.settlement
    if state.payer_settlements is not None:
        store.payer_settlements = {payer.lower(): plan for payer, plan in state.payer_settlements.items()}
    payers = _load_payers(state, f"{place}.payers")
    for number, transaction in enumerate(state.transactions):
        load_transaction(store, transaction, payers, f"{place}.transactions[{number}]")
    if [payer.id for payer in store.observed] != list(payers):
        raise document_error(
            f"{place}.payers", "they are in the order of their first transactions, of which each has one"
        )
    for number, execution in enumerate(state.executions):
        find_revision(store, execution.revision_id, f"{place}.executions[{number}].revision_id")
        store.executions[execution.id] = ExecutionRecord(
            execution.id, execution.revision_id, execution.metadata
        )


def _load_payers(state: EnvironmentSection, place: str) -> dict[str, PayerRecord]:
    payers: dict[str, PayerRecord] = {}
    addresses = set[str]()
    for number, payer in enumerate(state.payers):
        if payer.id in payers or payer.identifier.lower() in addresses:
            raise document_error(f"{place}[{number}]", "this payer is there twice")
        addresses.add(payer.identifier.lower())
        payers[payer.id] = PayerRecord(payer.id, payer.identifier, payer.created_at)
    return payers


def _load_resource(store: MemoryStore, state: SavedResource, place: str) -> None:
    """Apply the seller's edits: published revisions, then settings."""
    listing = store.catalog.listings.get(state.key)
    if listing is None:
        raise document_error(
            f"{place}.key", f"this tenant has no resource {state.key!r} in {store.environment}"
        )
    there = len(listing.revisions)
    for number, (published, saved) in enumerate(zip(listing.revisions, state.revisions, strict=False)):
        if published.rules != saved:
            raise document_error(
                f"{place}.revisions[{number}]", f"revision {number + 1} is another one in this tenant"
            )
    for rules in state.revisions[there:]:
        store.catalog.publish(state.key, rules, state.updated_at)
    present = replace(
        store.catalog.listings[state.key],
        require_payment=state.require_payment,
        updated_at=state.updated_at,
        archived_at=state.archived_at,
        settlement=state.settlement,
    )
    if not state.versions:
        unedited = state.updated_at <= listing.updated_at
        store.catalog.restore_versions([present] if unedited else [listing, present])
        return
    if state.versions[0].updated_at != listing.created_at:
        raise document_error(
            f"{place}.versions[0].updated_at", "the first version is that of the tenant's set-up"
        )
    store.catalog.restore_versions([_with_version(present, version) for version in state.versions])


def _with_version(listing: Listing, version: ResourceVersion) -> Listing:
    appearance = version.model_dump(include=set(Appearance.model_fields))
    return replace(
        listing,
        resource=listing.resource.with_appearance(**appearance),
        updated_at=version.updated_at,
        archived_at=version.archived_at,
    )

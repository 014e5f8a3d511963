"""From a world at work to its state document. Pure; `restoring.py` is the way back."""

import base64
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from faregate.emulator.books import Books
from faregate.emulator.catalog import Listing
from faregate.emulator.clock import ClockState, WorldClock
from faregate.emulator.document import VERSION, BooksState, LedgerState, StateDocument, TimelineState
from faregate.emulator.documentparts import (
    Balance,
    ExecutionState,
    PayerState,
    ResourceState,
    SettledState,
    Step,
    TransactionState,
    Use,
)
from faregate.emulator.faults.rules import Faults, FaultsState
from faregate.emulator.identifiers import Ids, RewindableIds
from faregate.emulator.ledger import SimulatedLedger
from faregate.emulator.payments import Payments
from faregate.emulator.state import Settled, TransactionRecord
from faregate.emulator.tokens import TOKENS, Token
from faregate.merchant.types import Environment, SettlementAsset

_NAMES: Final[Mapping[Token, tuple[Environment, SettlementAsset]]] = {
    token: name for name, token in TOKENS.items()
}


def surroundings(clock: WorldClock, ids: Ids, payments: Payments, faults: Faults) -> StateDocument:
    """The state of all around the service. Ids by chance and other payments have none."""
    return StateDocument(
        version=VERSION,
        clock=_clock(clock),
        faults=FaultsState.model_validate(faults.state()),
        ids=ids.state() if isinstance(ids, RewindableIds) else None,
        ledger=_ledger(payments) if isinstance(payments, SimulatedLedger) else LedgerState(),
    )


def exported(books: Mapping[Environment, Books], around: StateDocument) -> dict[str, Any]:
    """The whole document: `around` and both environments."""
    latest, fence = books["test"].timeline.state()
    whole = around.model_copy(
        update={
            "seller": books["test"].seller,
            "timeline": TimelineState(latest=latest, fence=fence),
            "test": _books(books["test"]),
            "live": _books(books["live"]),
        }
    )
    return whole.model_dump(mode="json")


def _clock(clock: WorldClock) -> ClockState:
    """For one that stands still, what the clock behind it shows says nothing."""
    state = ClockState.model_validate(clock.state())
    return state if state.rate else state.model_copy(update={"real": state.world})


def _ledger(ledger: SimulatedLedger) -> LedgerState:
    balances, settled = ledger.state()
    return LedgerState(
        balances=tuple(_balance(token, address, balance) for (token, address), balance in balances.items()),
        settled=tuple(_use(*use, transaction_hash) for use, transaction_hash in settled.items()),
    )


def _balance(token: Token, address: str, balance: int) -> Balance:
    environment, asset = _NAMES[token]
    return Balance(environment=environment, asset=asset, address=address, balance=balance)


def _use(token: Token, payer: str, nonce: str, transaction_hash: str) -> Use:
    environment, asset = _NAMES[token]
    return Use(
        environment=environment, asset=asset, payer=payer, nonce=nonce, transaction_hash=transaction_hash
    )


def _books(books: Books) -> BooksState:
    due = {record.id: at for at, _, record in books.due if record.plan is not None}
    return BooksState(
        resources=tuple(map(_resource, books.catalog.listings.values())),
        settlement=books.settlement,
        payer_settlements=dict(books.payer_settlements),
        payers=tuple(
            PayerState(id=payer.id, identifier=payer.identifier, created_at=payer.created_at)
            for payer in books.observed
        ),
        transactions=tuple(
            _transaction(record, due.get(record.id)) for record in books.transactions.values()
        ),
        executions=tuple(
            ExecutionState(id=one.id, revision_id=one.revision_id, metadata=one.metadata)
            for one in books.executions.values()
        ),
    )


def _resource(listing: Listing) -> ResourceState:
    return ResourceState(
        key=listing.plan.key,
        revisions=tuple(revision.rules for revision in listing.revisions),
        require_payment=listing.require_payment,
        updated_at=listing.updated_at,
        archived_at=listing.archived_at,
        settlement=listing.settlement,
    )


def _transaction(record: TransactionRecord, due: datetime | None) -> TransactionState:
    # What is in the books needs no second check, and there may be many.
    return TransactionState.model_construct(
        id=record.id,
        payment_request_id=record.payment_request_id,
        payer=record.payer.id,
        request=record.sale.request,
        proof=base64.b64encode(json.dumps(record.payment.proof).encode()).decode("ascii"),
        history=tuple(Step.model_construct(at=at, status=status) for at, status in record.history),
        accepted=record.accepted,
        submitted_at=record.submitted_at,
        plan=record.plan,
        due=due,
        reads=record.reads,
        settled=None if record.settled is None else _settled(record.settled),
    )


def _settled(done: Settled) -> SettledState:
    return SettledState.model_construct(
        at=done.at,
        transaction_hash=done.transaction_hash,
        payment_response=done.payment_response,
        receipt=done.receipt,
    )

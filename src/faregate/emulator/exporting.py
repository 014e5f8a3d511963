"""From the copy of a world to its state document, as text. Pure; `restoring.py` is the way back."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final

from faregate.emulator.copying import BooksCopy, TransactionCopy, WorldCopy
from faregate.emulator.document import VERSION, BooksState, LedgerState, StateDocument, TimelineState
from faregate.emulator.documentparts import (
    Balance,
    ExecutionState,
    PayerState,
    ResourceState,
    ResourceVersion,
    SettledState,
    Step,
    TransactionState,
    Use,
)
from faregate.emulator.ledger import Balance as LedgerBalance
from faregate.emulator.ledger import Use as LedgerUse
from faregate.merchant.types import Environment, SettlementAsset
from faregate.service.catalog import Listing
from faregate.service.goods import Part
from faregate.service.records import Settled
from faregate.x402.tokens import TOKENS, Token

_NAMES: Final[Mapping[Token, tuple[Environment, SettlementAsset]]] = {
    token: name for name, token in TOKENS.items()
}


def surroundings(copy: WorldCopy) -> StateDocument:
    """The state of all around the service. Ids by chance and other payments have none."""
    return StateDocument(
        version=VERSION,
        clock=copy.clock,
        faults=copy.faults,
        ids=copy.ids,
        challenges=copy.challenges,
        ledger=LedgerState() if copy.ledger is None else _ledger(*copy.ledger),
    )


def exported(copy: WorldCopy) -> Iterator[str]:
    """The text of the whole document, in pieces: a world may be large, and other threads want their turn."""
    latest, fence = copy.timeline
    around = surroundings(copy).model_copy(
        update={"seller": copy.seller, "timeline": TimelineState(latest=latest, fence=fence)}
    )
    yield _open(around, exclude={"test", "live"})
    yield ',"test":'
    yield from _books(copy.test)
    yield ',"live":'
    yield from _books(copy.live)
    yield "}"


def _open(part: Part, exclude: set[str]) -> str:
    """A JSON object that something more comes into."""
    return part.model_dump_json(exclude=exclude).removesuffix("}")


def _ledger(balances: Mapping[LedgerBalance, int], settled: Mapping[LedgerUse, str]) -> LedgerState:
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


def _books(copy: BooksCopy) -> Iterator[str]:
    few = BooksState(
        resources=tuple(map(_resource, copy.listings)),
        settlement=copy.settlement,
        payer_settlements=copy.payer_settlements,
        payers=tuple(
            PayerState(id=payer.id, identifier=payer.identifier, created_at=payer.created_at)
            for payer in copy.payers
        ),
        executions=tuple(
            ExecutionState(id=one, revision_id=revision_id, metadata=metadata)
            for one, revision_id, metadata in copy.executions
        ),
    )
    yield _open(few, exclude={"transactions"})
    yield ',"transactions":['
    for number, one in enumerate(copy.transactions):
        yield "," if number else ""
        yield _transaction(one, copy.due).model_dump_json()
    yield "]}"


def _resource(versions: tuple[Listing, ...]) -> ResourceState:
    listing = versions[-1]
    return ResourceState(
        key=listing.plan.key,
        revisions=tuple(revision.rules for revision in listing.revisions),
        require_payment=listing.require_payment,
        updated_at=listing.updated_at,
        archived_at=listing.archived_at,
        settlement=listing.settlement,
        versions=tuple(map(_version, versions)) if len(versions) > 1 else (),
    )


def _version(listing: Listing) -> ResourceVersion:
    return ResourceVersion(
        **dict(listing.plan.appearance), updated_at=listing.updated_at, archived_at=listing.archived_at
    )


def _transaction(copy: TransactionCopy, due: Mapping[str, datetime]) -> TransactionState:
    # What is in the books needs no second check, and there may be many.
    record = copy.record
    return TransactionState.model_construct(
        id=record.id,
        payment_request_id=record.payment_request_id,
        payer=record.payer.id,
        request=record.sale.request,
        proof=record.payment.header,
        history=tuple(Step.model_construct(at=at, status=status) for at, status in copy.history),
        accepted=copy.accepted,
        submitted_at=copy.submitted_at,
        plan=copy.plan,
        due=due.get(record.id),
        reads=copy.reads,
        settled=None if copy.settled is None else _settled(copy.settled),
    )


def _settled(done: Settled) -> SettledState:
    return SettledState.model_construct(
        at=done.at,
        transaction_hash=done.transaction_hash,
        payment_response=done.payment_response,
        receipt=done.receipt,
    )

"""Write the state as a JSON document. Loading is in `load.py`.

The state is copied under the emulator's lock, which is quick; the document is made from the copy while calls
go on.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from faregate.emulator.clock import ClockState, EmulatorClock
from faregate.emulator.faults.active_faults import Faults, FaultsState
from faregate.emulator.ledger import Balance, SimulatedLedger
from faregate.emulator.persistence.schema import (
    VERSION,
    EnvironmentSection,
    LedgerState,
    MonotonicClockState,
    ResourceVersion,
    SavedBalance,
    SavedExecution,
    SavedPayer,
    SavedResource,
    SavedSettlement,
    SavedTransaction,
    SavedUse,
    StateDocument,
    StatusChange,
)
from faregate.merchant.models import (
    FailedCompleteRequest,
    ResourceExecutionMetadata,
    SucceededCompleteRequest,
)
from faregate.rules.account import FrozenModel, Seller, SettlementRule
from faregate.rules.catalog import Listing
from faregate.rules.ids import Challenges, Ids, RewindableIds, SeededChallenges
from faregate.rules.memory_store import MemoryStore
from faregate.rules.payments import Ledger
from faregate.rules.records import PayerRecord, SettlementRecord, Status, TransactionRecord
from faregate.x402.models import split_authorization_key
from faregate.x402.tokens import TOKENS, Environment, SettlementAsset, Token


class TransactionCopy(NamedTuple):
    """The fields of a transaction that may still change; all others are read from `record`."""

    record: TransactionRecord
    history: tuple[tuple[datetime, Status], ...]
    accepted: FailedCompleteRequest | SucceededCompleteRequest | None
    submitted_at: datetime | None
    plan: SettlementRule | None
    reads: int
    settled: SettlementRecord | None


@dataclass(frozen=True, slots=True)
class EnvironmentCopy:
    """`listings` are the versions of each resource, `due` is by transaction id.

    `executions` are id, revision id and metadata of each.
    """

    listings: tuple[tuple[Listing, ...], ...]
    settlement: SettlementRule | None
    payer_settlements: dict[str, SettlementRule]
    payers: tuple[PayerRecord, ...]
    transactions: tuple[TransactionCopy, ...]
    executions: tuple[tuple[str, str, ResourceExecutionMetadata | None], ...]
    due: dict[str, datetime]


@dataclass(frozen=True, slots=True)
class EmulatorCopy:
    """`ids`, `challenges` and `ledger` are None where the source has no state."""

    seller: Seller
    clock: ClockState
    timeline: tuple[datetime, datetime]
    ids: int | None
    challenges: int | None
    faults: FaultsState
    ledger: tuple[dict[Balance, int], dict[str, str]] | None
    test: EnvironmentCopy
    live: EnvironmentCopy


def copy_emulator(
    store: Mapping[Environment, MemoryStore],
    clock: EmulatorClock,
    ids: Ids,
    challenges: Challenges,
    ledger: Ledger,
    faults: Faults,
) -> EmulatorCopy:
    """Copy everything that can change."""
    return EmulatorCopy(
        seller=store["test"].seller,
        clock=_copy_clock(clock),
        timeline=store["test"].clock.state(),
        ids=ids.state() if isinstance(ids, RewindableIds) else None,
        challenges=challenges.state() if isinstance(challenges, SeededChallenges) else None,
        faults=faults.state(),
        ledger=ledger.state() if isinstance(ledger, SimulatedLedger) else None,
        test=_copy_state(store["test"]),
        live=_copy_state(store["live"]),
    )


def _copy_clock(clock: EmulatorClock) -> ClockState:
    """Copy the clock. A frozen one is kept without the real time, so equal states give equal text."""
    state = clock.state()
    return state if state.rate else state.model_copy(update={"real": state.simulated})


def _copy_state(store: MemoryStore) -> EnvironmentCopy:
    return EnvironmentCopy(
        listings=tuple(store.catalog.versions(key) for key in store.catalog.listings),
        settlement=store.settlement,
        payer_settlements=dict(store.payer_settlements),
        payers=tuple(store.observed),
        transactions=tuple(map(_copy_transaction, store.transactions.values())),
        executions=tuple(
            (execution.id, execution.revision_id, execution.metadata)
            for execution in store.executions.values()
        ),
        due={record.id: at for at, _, record in store.due if record.plan is not None},
    )


def _copy_transaction(record: TransactionRecord) -> TransactionCopy:
    return TransactionCopy(
        record,
        record.history,
        record.accepted,
        record.submitted_at,
        record.plan,
        record.reads,
        record.settled,
    )


_NAMES: Final[Mapping[str, tuple[Environment, SettlementAsset]]] = {
    token.address: name for name, token in TOKENS.items()
}


def dump_surroundings(copy: EmulatorCopy) -> StateDocument:
    """Build the rest of the document. Random ids and other backends have no state."""
    return StateDocument(
        version=VERSION,
        clock=copy.clock,
        faults=copy.faults,
        ids=copy.ids,
        challenges=copy.challenges,
        ledger=LedgerState() if copy.ledger is None else _build_ledger(*copy.ledger),
    )


def dump_document(copy: EmulatorCopy) -> Iterator[str]:
    """Yield the document as text, in pieces."""
    latest, fence = copy.timeline
    around = dump_surroundings(copy).model_copy(
        update={"seller": copy.seller, "timeline": MonotonicClockState(latest=latest, fence=fence)}
    )
    yield _dump_open_object(around, exclude={"test", "live"})
    yield ',"test":'
    yield from _dump_state(copy.test)
    yield ',"live":'
    yield from _dump_state(copy.live)
    yield "}"


def _dump_open_object(part: FrozenModel, exclude: set[str]) -> str:
    """Dump a JSON object without its closing brace."""
    return part.model_dump_json(exclude=exclude).removesuffix("}")


def _build_ledger(balances: Mapping[Balance, int], settled: Mapping[str, str]) -> LedgerState:
    return LedgerState(
        balances=tuple(
            _build_balance(token, address, balance) for (token, address), balance in balances.items()
        ),
        settled=tuple(_build_use(key, transaction_hash) for key, transaction_hash in settled.items()),
    )


def _build_balance(token: Token, address: str, balance: int) -> SavedBalance:
    environment, asset = _NAMES[token.address]
    return SavedBalance(environment=environment, asset=asset, address=address, balance=balance)


def _build_use(key: str, transaction_hash: str) -> SavedUse:
    token_address, payer, nonce = split_authorization_key(key)
    environment, asset = _NAMES[token_address]
    return SavedUse(
        environment=environment, asset=asset, payer=payer, nonce=nonce, transaction_hash=transaction_hash
    )


def _dump_state(copy: EnvironmentCopy) -> Iterator[str]:
    few = EnvironmentSection(
        resources=tuple(map(_build_resource, copy.listings)),
        settlement=copy.settlement,
        payer_settlements=copy.payer_settlements,
        payers=tuple(
            SavedPayer(id=payer.id, identifier=payer.identifier, created_at=payer.created_at)
            for payer in copy.payers
        ),
        executions=tuple(
            SavedExecution(id=execution_id, revision_id=revision_id, metadata=metadata)
            for execution_id, revision_id, metadata in copy.executions
        ),
    )
    yield _dump_open_object(few, exclude={"transactions"})
    yield ',"transactions":['
    for number, transaction in enumerate(copy.transactions):
        yield "," if number else ""
        yield _dump_transaction(transaction, copy.due).model_dump_json()
    yield "]}"


def _build_resource(versions: tuple[Listing, ...]) -> SavedResource:
    listing = versions[-1]
    return SavedResource(
        key=listing.resource.key,
        revisions=tuple(revision.rules for revision in listing.revisions),
        require_payment=listing.require_payment,
        updated_at=listing.updated_at,
        archived_at=listing.archived_at,
        settlement=listing.settlement,
        versions=tuple(map(_build_version, versions)) if len(versions) > 1 else (),
    )


def _build_version(listing: Listing) -> ResourceVersion:
    return ResourceVersion(
        **dict(listing.resource.appearance), updated_at=listing.updated_at, archived_at=listing.archived_at
    )


def _dump_transaction(copy: TransactionCopy, due: Mapping[str, datetime]) -> SavedTransaction:
    # Not validated again: the records are valid already, and there may be 100,000 of them.
    record = copy.record
    return SavedTransaction.model_construct(
        id=record.id,
        payment_request_id=record.payment_request_id,
        payer=record.payer.id,
        request=record.context.request,
        proof=record.proof,
        history=tuple(StatusChange.model_construct(at=at, status=status) for at, status in copy.history),
        accepted=copy.accepted,
        submitted_at=copy.submitted_at,
        plan=copy.plan,
        due=due.get(record.id),
        reads=copy.reads,
        settled=None if copy.settled is None else _build_settled(copy.settled),
    )


def _build_settled(done: SettlementRecord) -> SavedSettlement:
    return SavedSettlement.model_construct(
        at=done.at,
        transaction_hash=done.transaction_hash,
        payment_response=done.payment_response,
        receipt=done.receipt,
    )

"""A world at one moment, copied while everybody waits, so it is quick. Pure.

`exporting.py` makes the state document of it, while the world goes on.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from faregate.emulator.clock import ClockState, WorldClock
from faregate.emulator.faults.rules import Faults, FaultsState
from faregate.emulator.ledger import Balance, SimulatedLedger, Use
from faregate.merchant.requests import (
    FailedCompleteRequest,
    ResourceExecutionMetadata,
    SucceededCompleteRequest,
)
from faregate.merchant.types import Environment
from faregate.service.catalog import Listing
from faregate.service.config import Seller
from faregate.service.goods import Settlement
from faregate.service.identifiers import Challenges, Ids, RewindableIds, SeededChallenges
from faregate.service.payments import Payments
from faregate.service.records import PayerRecord, Settled, Status, TransactionRecord
from faregate.service.state import Books


class TransactionCopy(NamedTuple):
    """What may yet change of a transaction; the rest is in the `record`."""

    record: TransactionRecord
    history: tuple[tuple[datetime, Status], ...]
    accepted: FailedCompleteRequest | SucceededCompleteRequest | None
    submitted_at: datetime | None
    plan: Settlement | None
    reads: int
    settled: Settled | None


@dataclass(frozen=True, slots=True)
class BooksCopy:
    """`listings` are every version of each resource; `due` is by transaction.

    `executions` are the id, the revision's id and the metadata of each.
    """

    listings: tuple[tuple[Listing, ...], ...]
    settlement: Settlement | None
    payer_settlements: dict[str, Settlement]
    payers: tuple[PayerRecord, ...]
    transactions: tuple[TransactionCopy, ...]
    executions: tuple[tuple[str, str, ResourceExecutionMetadata | None], ...]
    due: dict[str, datetime]


@dataclass(frozen=True, slots=True)
class WorldCopy:
    """`ids`, `challenges` and `ledger` are None for those that have no state that can be known."""

    seller: Seller
    clock: ClockState
    timeline: tuple[datetime, datetime]
    ids: int | None
    challenges: int | None
    faults: FaultsState
    ledger: tuple[dict[Balance, int], dict[Use, str]] | None
    test: BooksCopy
    live: BooksCopy


def copied(
    books: Mapping[Environment, Books],
    clock: WorldClock,
    ids: Ids,
    challenges: Challenges,
    payments: Payments,
    faults: Faults,
) -> WorldCopy:
    """Nothing in it changes any more."""
    return WorldCopy(
        seller=books["test"].seller,
        clock=_clock(clock),
        timeline=books["test"].timeline.state(),
        ids=ids.state() if isinstance(ids, RewindableIds) else None,
        challenges=challenges.state() if isinstance(challenges, SeededChallenges) else None,
        faults=FaultsState.model_validate(faults.state()),
        ledger=payments.state() if isinstance(payments, SimulatedLedger) else None,
        test=_books(books["test"]),
        live=_books(books["live"]),
    )


def _clock(clock: WorldClock) -> ClockState:
    """For one that stands still, what the clock behind it shows says nothing."""
    state = ClockState.model_validate(clock.state())
    return state if state.rate else state.model_copy(update={"real": state.world})


def _books(books: Books) -> BooksCopy:
    return BooksCopy(
        listings=tuple(books.catalog.versions(key) for key in books.catalog.listings),
        settlement=books.settlement,
        payer_settlements=dict(books.payer_settlements),
        payers=tuple(books.observed),
        transactions=tuple(map(_transaction, books.transactions.values())),
        executions=tuple((one.id, one.revision_id, one.metadata) for one in books.executions.values()),
        due={record.id: at for at, _, record in books.due if record.plan is not None},
    )


def _transaction(record: TransactionRecord) -> TransactionCopy:
    return TransactionCopy(
        record,
        tuple(record.history),
        record.accepted,
        record.submitted_at,
        record.plan,
        record.reads,
        record.settled,
    )

"""Inspect, retry or discard an unfinished payment. Nothing here hands a result out.

`retry` asks the service once more: only its proof lets a payer have the result. `discard` ends what is
stuck.
"""

import math
import time
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from faregate.core.claims import HoldInfo, Lease, PendingPayment
from faregate.core.driver import drive, started
from faregate.core.interfaces import MaybeAwaitable
from faregate.core.models import Response
from faregate.core.recovery import redeem
from faregate.errors import ConfigurationError, FaregateError
from faregate.events import Event, Failed, Held, Settled, Stuck
from faregate.journals.memory import MemoryJournal
from faregate.operations.sweep import overheard
from faregate.paywall import Paywall

STUCK = "stuck"


class NotHeld(FaregateError):
    """Nothing can be done about this transaction here, or not now."""


@runtime_checkable
class HoldStore(Protocol):
    """A journal that people can look into."""

    def list_holds(self, limit: int) -> list[HoldInfo]: ...

    def get_hold(self, transaction_id: str) -> HoldInfo | None: ...

    def lease_hold(self, transaction_id: str) -> PendingPayment | None: ...

    def record_final(self, lease: Lease, paid: bool) -> MaybeAwaitable[None]: ...


def desk_of(paywall: Paywall) -> HoldStore:
    """Raises `ConfigurationError` for a journal that another process keeps to itself."""
    journal = paywall.journal
    if isinstance(journal, MemoryJournal):
        raise ConfigurationError(
            "The memory journal is in the seller's own process, and nobody else can look into it: "
            "set FAREGATE_JOURNAL to the journal that the workers share."
        )
    if not isinstance(journal, HoldStore):
        raise ConfigurationError("This journal cannot be looked into: it has no holdings, holding and take.")
    return journal


def known(desk: HoldStore, transaction_id: str) -> HoldInfo:
    """Raises `NotHeld` if nothing is owed for it."""
    one = desk.get_hold(transaction_id)
    if one is None:
        raise NotHeld(f"Nothing is owed for {transaction_id}: it has ended, or this journal never knew it.")
    return one


def known_as_stuck(desk: HoldStore, transaction_id: str) -> HoldInfo:
    """Raises `NotHeld` if somebody else may still bring it to its end."""
    one = known(desk, transaction_id)
    if one.state != STUCK:
        raise NotHeld(
            f"{transaction_id} is not stuck ({one.state}): the sweep still works on it. "
            f"To have it looked at now, use holds retry {transaction_id}."
        )
    return one


def retry(paywall: Paywall, transaction_id: str) -> tuple[str, bool]:
    """What the service says now, and whether the matter is closed. Raises `NotHeld`, `JournalError`."""
    desk = desk_of(paywall)
    known(desk, transaction_id)
    flow, heard = redeem(_taken(desk, transaction_id), awaited=False), list[Event]()
    answer = drive(flow, overheard(paywall.world, heard.append), started(flow))
    left = desk.get_hold(transaction_id)
    event = heard[-1] if heard else None
    status = answer.status if isinstance(answer, Response) else 0
    if left is None:
        return _ended_by(event, status), True
    return _left_by(event, status, left.state), False


def _ended_by(event: Event | None, status: int) -> str:
    """`status` is what its payer would have got."""
    match event:
        case Settled() if status != 409:
            return "Settled: its payer gets the result with the same payment."
        case Failed(_, code):
            return f"Closed: nothing was charged ({code})."
        case _:
            return "Closed: it was paid, and there is no result to hand out."


def _left_by(event: Event | None, status: int, state: str) -> str:
    """`state` is that of the row."""
    match event:
        case Settled() | Failed():
            return "It has ended at the service, but the journal could not write so: do this again later."
        case Held() | Stuck() if status == 202:
            return "Kept: the payment is still settling."
        case Held(_, reason) | Stuck(_, reason):
            return f"Kept: {reason}."
        case _ if state == "open":
            return "Kept: the payment is open after all, with nothing done for it. Its payer may come back."
        case _:
            return "Kept as it was."


def discard(desk: HoldStore, transaction_id: str, paid: bool) -> None:
    """For a stuck one: the journal remembers it as `paid`, or as not charged. Raises `NotHeld`."""
    desk.record_final(_taken(desk, transaction_id).lease, paid)
    if desk.get_hold(transaction_id) is not None:
        raise NotHeld(f"{transaction_id} is kept: somebody else wrote it at the same moment.")


def _taken(desk: HoldStore, transaction_id: str) -> PendingPayment:
    """With a new ticket: whoever has had the row before can write it no more."""
    entry = desk.lease_hold(transaction_id)
    if entry is None:
        seconds = max(0.0, known(desk, transaction_id).due_at - time.time())
        raise NotHeld(
            f"{transaction_id} is being worked on; it is free again in {math.ceil(seconds)} s at the latest."
        )
    return entry


@dataclass(frozen=True, slots=True)
class HoldList:
    """Unfinished payments, oldest first, by who has to act: a person, the sweep, or nobody yet.

    `is_truncated`: there may be younger ones.
    """

    stuck: list[HoldInfo]
    held: list[HoldInfo]
    running: list[HoldInfo]
    is_truncated: bool


def list_holds(paywall: Paywall, limit: int, now: float) -> HoldList:
    """List the oldest unfinished payments at the POSIX time `now`. Raises `FaregateError`."""
    stuck, held, running = list[HoldInfo](), list[HoldInfo](), list[HoldInfo]()
    found = desk_of(paywall).list_holds(limit)
    for hold in found:
        is_running = hold.state != "waiting" and hold.attempts == 0 and hold.due_at > now
        (stuck if hold.state == STUCK else running if is_running else held).append(hold)
    return HoldList(stuck, held, running, len(found) == limit)

"""One sweep over the journal, sync and async: it can be stopped between two rows, and is counted."""

import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

from faregate.core.claims import PendingPayment
from faregate.core.driver import adrive, drive, started
from faregate.core.interfaces import Backend, Journal, MaybeAwaitable
from faregate.core.recovery import BATCH, sweep
from faregate.events import Event, Failed, Held, Settled, Stuck
from faregate.paywall import Paywall

IsOver = Callable[[], bool]
"""Whether whoever walks was asked to stop."""


@dataclass(slots=True)
class SweepReport:
    """What a walk came to. `stuck` has the transactions that became so, each with its reason."""

    looked_at: int = 0
    settled: int = 0
    failed: int = 0
    held: int = 0
    stuck: dict[str, str] = field(default_factory=dict[str, str])

    def hear(self, event: Event) -> None:
        match event:
            case Settled():
                self.settled += 1
            case Failed():
                self.failed += 1
            case Held():
                self.held += 1
            case Stuck(transaction_id, reason):
                self.stuck[transaction_id] = reason
            case _:
                pass

    def as_text(self) -> str:
        """One sentence, and one more for each that became stuck."""
        counts = {"settled": self.settled, "failed": self.failed, "held": self.held, "stuck": len(self.stuck)}
        said = ", ".join(f"{number} {name}" for name, number in counts.items() if number)
        sales = "sale" if self.looked_at == 1 else "sales"
        first = f"Looked at {self.looked_at} {sales}{said and ': '}{said}."
        return "\n".join((first, *(f"Stuck: {one} ({why})." for one, why in self.stuck.items())))

    def as_json(self) -> str:
        """One line."""
        found = {"looked_at": self.looked_at, "settled": self.settled, "failed": self.failed}
        return json.dumps({**found, "held": self.held, "stuck": self.stuck})


def walk(paywall: Paywall, limit: int = BATCH, is_over: IsOver = lambda: False) -> SweepReport:
    """Look at so many owed rows at most. Blocking. Raises `JournalError`."""
    tally, flow = SweepReport(), sweep(limit)
    tally.looked_at = cast(int, drive(flow, _counted(paywall.world, tally, is_over), started(flow)))
    return tally


async def awalk(paywall: Paywall, limit: int = BATCH, is_over: IsOver = lambda: False) -> SweepReport:
    """`walk`, awaiting."""
    tally, flow = SweepReport(), sweep(limit)
    world = _counted(paywall.async_world, tally, is_over)
    tally.looked_at = cast(int, await adrive(flow, world, started(flow)))
    return tally


def spread(seconds: float) -> float:
    """A quarter more or less, so that several who walk do not keep step."""
    return seconds * (0.75 + secrets.randbelow(501) / 1000)


def overheard(world: Backend, hear: Callable[[Event], object]) -> Backend:
    """The same world; its events are heard on their way to the seller's listener."""
    return cast(Backend, _Overheard(world, world.journal, hear))


def _counted(world: Backend, tally: SweepReport, is_over: IsOver) -> Backend:
    journal = cast(Journal, _Ending(world.journal, is_over))
    return cast(Backend, _Overheard(world, journal, tally.hear))


class _Overheard:
    def __init__(self, world: Backend, journal: Journal, hear: Callable[[Event], object]) -> None:
        self._world = world
        self._hear = hear
        self.journal = journal

    def __getattr__(self, name: str) -> Any:
        return getattr(self._world, name)

    def tell(self, event: Event) -> MaybeAwaitable[None]:
        self._hear(event)
        return self._world.tell(event)


class _Ending:
    """A journal in which nothing is due once the walk is over."""

    def __init__(self, journal: Journal, is_over: IsOver) -> None:
        self._journal = journal
        self._is_over = is_over

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)

    def lease_next(self) -> MaybeAwaitable[PendingPayment | None]:
        return None if self._is_over() else self._journal.lease_next()

"""Every call of a sale, and all that can be wrong with the answer to it."""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from faregate.emulator import Emulator
from tests.hostile.faults import (
    BASES,
    ONLY_AFTER,
    Twist,
    bodies,
    delivery,
    framing,
    payments,
    spoken,
    statuses,
    twisted,
)
from tests.hostile.faults.framing import goes_on_after, says
from tests.hostile.raw_server import Connection
from tests.hostile.service import Fault, Plan, ReceivedCall

Bases = tuple[str, ...]
Plans = dict[str, list[Plan]]
BOTH: Bases = tuple(BASES)


async def _acts_and_hangs_up(connection: Connection, ask: ReceivedCall) -> None:
    ask.real()
    await connection.hang_up()


async def _hangs_up(connection: Connection, ask: ReceivedCall) -> None:
    await connection.hang_up()


UNANSWERED = Fault("unanswered, after", _acts_and_hangs_up)
UNHEARD = Fault("unanswered, before", _hangs_up)


@dataclass(frozen=True)
class Call:
    """One operation of the service (`service.operation_of`), in one kind of sale.

    `path` is what the shop is asked for. `acts` is False where the service does nothing but tell.
    """

    name: str
    operation: str
    path: str
    own: Callable[[], Iterable[Fault]]
    acts: bool = True
    before: Plans = field(default_factory=dict)
    """What goes wrong besides, so that the sale comes to this call."""
    twin: bool = False
    """The same operation as another call's, so that only its own faults are always worth their time."""

    def plans(self, fault: Fault, numbers: range | None) -> dict[str, list[Plan]]:
        """What the service has in mind."""
        own = [Plan(fault, numbers)]
        if numbers == range(1, 2) and self.acts:
            own.append(Plan(UNANSWERED, range(1)))
        return {**self.before, self.operation: own}

    def faults(self) -> list[Fault]:
        bases = BOTH if self.acts else ONLY_AFTER
        return [*_spoken(bases), *_stated(bases), *_worded(bases), *_redirected(bases), *self.own()]


def _spoken(bases: Bases) -> Iterator[Fault]:
    for name, wrong in delivery.MUTE.items():
        yield from spoken(name, wrong, mute=True, bases=bases)
    for name, wrong in delivery.ENDING.items():
        yield from spoken(name, wrong, bases=bases)
    for name, make in framing.NOT_HTTP.items():
        yield from spoken(name, says(make), bases=bases)
    for name, make in framing.ODD.items():
        yield from spoken(
            name, goes_on_after(make) if name in framing.STAYS else says(make), bases=ONLY_AFTER
        )


def _stated(bases: Bases) -> Iterator[Fault]:
    for name, twist in {**statuses.STATUSES, **statuses.DISAGREEING}.items():
        yield from twisted(name, twist, bases)


def _worded(bases: Bases) -> Iterator[Fault]:
    for name, words in bodies.WRONG.items():
        yield from twisted(name, _in(words), bases)
    for name, words in bodies.ODD.items():
        yield from twisted(name, _in(words), ONLY_AFTER)


def _in(words: bodies.Words) -> Twist:
    return lambda reply: replace(reply, body=words(reply.body))


def _redirected(bases: Bases) -> Iterator[Fault]:
    for status in statuses.REDIRECTS:
        for base in bases:
            yield Fault(f"{status} to a stranger, {base}", _redirecting(status, base))


def _redirecting(status: int, base: str) -> Callable[[Connection, ReceivedCall], Awaitable[None]]:
    async def speak(connection: Connection, ask: ReceivedCall) -> None:
        stranger = ask.stranger + ask.request.path
        await connection.answer(statuses.redirecting(status, stranger)(BASES[base](ask)))

    return speak


_REVISION = Emulator().revision_id("daily_report")
_UNPROVEN = {"complete": [Plan(UNANSWERED, range(3))]}
_UNTOLD = {"complete": [Plan(UNHEARD, range(3))]}

CALLS = (
    Call("rules", "rules", "/paid", lambda: payments.of_rules(_REVISION), acts=False),
    Call("access without proof", "ask", "/paid", payments.of_ask, acts=False),
    Call("access", "access", "/paid", payments.of_access),
    Call("complete", "complete", "/paid", payments.of_complete),
    Call("complete as failed", "fail", "/refusing", payments.of_fail),
    Call("look at a paid one", "look", "/paid", lambda: payments.of_look(True), before=_UNPROVEN),
    Call(
        "look at an unpaid one",
        "look",
        "/paid",
        lambda: payments.of_look(False),
        before=_UNTOLD,
        twin=True,
    ),
    Call("close of a free one", "execution", "/free", payments.of_execution, acts=False),
)

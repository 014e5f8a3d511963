"""Every call of a sale, and all that can be wrong with the answer to it."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import repeat

from faregate.emulator import Emulator
from tests.hostile.faults import (
    BASES,
    ONLY_AFTER,
    bodies,
    delivery,
    framing,
    payments,
    spoken,
    statuses,
    twisted,
)
from tests.hostile.faults.framing import goes_on_after, says
from tests.hostile.sellers import NAMED
from tests.hostile.service import NamedFault, Speak
from tests.support.faulty_service import Call as ServiceCall
from tests.support.faulty_service import Fault, changes, lost_after, lost_before, well
from tests.support.raw_server import Connection
from tests.support.replies import Change, with_fields

Bases = tuple[str, ...]
BOTH: Bases = tuple(BASES)
WINDOWS = ("first", "again", "always")
"""Which calls go wrong: the first; the one after a first that was not answered; all, until it is healed."""


@dataclass(frozen=True)
class Call:
    """One operation of the service (`CaseService.operation_of`), in one kind of sale.

    `path` is what the shop is asked for. `acts` is False where the service does nothing but tell.
    """

    name: str
    operation: str
    path: str
    own: Callable[[], Iterable[NamedFault]]
    acts: bool = True
    before: Mapping[str, Fault] = field(default_factory=dict)
    """What goes wrong three times at other operations, so that the sale comes to this call."""
    twin: bool = False
    """The same operation as another call's, so that only its own faults are always worth their time."""

    def plan(self, fault: NamedFault, window: str) -> dict[str, Iterator[Fault]]:
        """What goes wrong at which operation, call by call. `window` is one of `WINDOWS`."""
        first = lost_after if self.acts else well
        own: dict[str, Iterable[Fault]] = {
            "first": [fault], "again": [first, fault], "always": repeat(fault),
        }  # fmt: skip
        others = {operation: repeat(before, 3) for operation, before in self.before.items()}
        return {**others, self.operation: iter(own[window])}

    def faults(self) -> list[NamedFault]:
        bases = BOTH if self.acts else ONLY_AFTER
        return [*_spoken(bases), *_stated(bases), *_worded(bases), *_redirected(bases), *self.own()]


def _spoken(bases: Bases) -> Iterator[NamedFault]:
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


def _stated(bases: Bases) -> Iterator[NamedFault]:
    for name, change in {**statuses.STATUSES, **statuses.DISAGREEING}.items():
        yield from twisted(name, change, bases)


def _worded(bases: Bases) -> Iterator[NamedFault]:
    for name, words in bodies.WRONG.items():
        yield from twisted(name, _in(words), bases)
    for name, words in bodies.ODD.items():
        yield from twisted(name, _in(words), ONLY_AFTER)


def _in(words: bodies.Words) -> Change:
    return lambda reply: replace(reply, body=words(reply.body))


def _redirected(bases: Bases) -> Iterator[NamedFault]:
    for status in statuses.REDIRECTS:
        for base in bases:
            yield NamedFault(f"{status} to a stranger, {base}", _redirecting(status, base))


def _redirecting(status: int, base: str) -> Speak:
    async def speak(connection: Connection, call: ServiceCall) -> None:
        stranger = f"http://127.0.0.1:{connection.port}/stranger{call.request.path}"
        await connection.answer(statuses.redirecting(status, stranger)(BASES[base](call)))

    return speak


_SETTLING = changes(with_fields(status="settling"))
_REVISION = Emulator().revision_id("daily_report")

CALLS = (
    Call("contracts", "contracts", "/paid", lambda: payments.of_contracts(_REVISION), acts=False),
    Call("access without proof", "ask", "/paid", payments.of_ask, acts=False),
    Call("access", "access", "/paid", payments.of_access),
    Call("complete", "complete", "/paid", payments.of_complete),
    Call("complete as failed", "fail", "/refusing", payments.of_fail),
    Call(
        "look at a paid one",
        "transaction",
        "/paid",
        lambda: payments.of_transaction(True),
        before={"complete": lost_after},
    ),
    Call(
        "look at an unpaid one",
        "transaction",
        "/paid",
        lambda: payments.of_transaction(False),
        before={"complete": lost_before},
        twin=True,
    ),
    Call("close of a free one", "execution", "/free", payments.of_execution, acts=False),
    Call("complete a use", "complete", "/used", payments.of_used_complete, twin=True),
    Call(
        "look at an unpaid use",
        "transaction",
        "/used",
        payments.of_used_transaction,
        before={"complete": lost_before},
        twin=True,
    ),
    Call("complete a named one", "complete", NAMED, payments.of_named_complete, twin=True),
    Call(
        "fail the second payment of a named one",
        "fail",
        NAMED,
        payments.of_named_fail,
        before={"complete": _SETTLING},
        twin=True,
    ),
    Call(
        "look at the payers of a named one",
        "transaction",
        NAMED,
        payments.of_named_transaction,
        before={"complete": _SETTLING},
        twin=True,
    ),
)

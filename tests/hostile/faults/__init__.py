"""How faults are made: what is wrong, and whether the service acted before (`after`) or not (`before`).

What is wrong is shown on a reply. `after`, it is the service's own, and it has acted; `before`, it is a
perfect lie (`forgery`), so that whoever overlooks what is wrong with it gives a result away.
"""

from collections.abc import Awaitable, Callable, Iterator

from faregate.core.models import Response
from tests.hostile.forgery import forged
from tests.hostile.service import NamedFault, Speak
from tests.support.faulty_service import Call
from tests.support.raw_server import Connection
from tests.support.replies import Change

Wrong = Callable[[Connection, Response], Awaitable[None]]

BASES: dict[str, Callable[[Call], Response]] = {"before": forged, "after": lambda call: call.act()}
ONLY_AFTER = ("after",)
"""For what is odd and yet right: to believe a perfect lie is no mistake."""


def spoken(
    name: str, wrong: Wrong, *, mute: bool = False, bases: tuple[str, ...] = tuple(BASES)
) -> Iterator[NamedFault]:
    """A fault of each base: `wrong` says the reply in its own way."""
    for base in bases:
        yield NamedFault(f"{name}, {base}", _speaking(wrong, BASES[base]), mute)


def _speaking(wrong: Wrong, reply: Callable[[Call], Response]) -> Speak:
    async def speak(connection: Connection, call: Call) -> None:
        await wrong(connection, reply(call))

    return speak


def twisted(name: str, change: Change, bases: tuple[str, ...] = tuple(BASES)) -> Iterator[NamedFault]:
    """The reply with something in it changed, said as it should be."""

    async def wrong(connection: Connection, reply: Response) -> None:
        await connection.answer(change(reply))

    return spoken(name, wrong, bases=bases)

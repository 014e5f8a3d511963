"""How faults are made: what is wrong, and whether the service acted before (`after`) or not (`before`).

What is wrong is shown on a reply. `after`, it is the service's own, and it has acted; `before`, it is a
perfect lie (`forgery`), so that whoever overlooks what is wrong with it gives a result away.
"""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace

from faregate.core.models import Response
from tests.hostile.raw_server import Connection
from tests.hostile.service import Fault, ReceivedCall

Wrong = Callable[[Connection, Response], Awaitable[None]]
Twist = Callable[[Response], Response]

BASES: dict[str, Callable[[ReceivedCall], Response]] = {
    "before": ReceivedCall.forged,
    "after": ReceivedCall.real,
}
ONLY_AFTER = ("after",)
"""For what is odd and yet right: to believe a perfect lie is no mistake."""


def spoken(
    name: str, wrong: Wrong, *, mute: bool = False, bases: tuple[str, ...] = tuple(BASES)
) -> Iterator[Fault]:
    """A fault of each base: `wrong` says the reply in its own way."""
    for base in bases:
        yield Fault(f"{name}, {base}", _speaking(wrong, BASES[base]), mute)


def _speaking(
    wrong: Wrong, reply: Callable[[ReceivedCall], Response]
) -> Callable[[Connection, ReceivedCall], Awaitable[None]]:
    async def speak(connection: Connection, ask: ReceivedCall) -> None:
        await wrong(connection, reply(ask))

    return speak


def twisted(name: str, twist: Twist, bases: tuple[str, ...] = tuple(BASES)) -> Iterator[Fault]:
    """The reply with something in it changed, said as it should be."""

    async def wrong(connection: Connection, reply: Response) -> None:
        await connection.answer(twist(reply))

    return spoken(name, wrong, bases=bases)


def with_status(status: int) -> Twist:
    return lambda reply: replace(reply, status=status)


def with_body(body: bytes) -> Twist:
    return lambda reply: replace(reply, body=body)


def without(name: str) -> Twist:
    return lambda reply: replace(
        reply, headers=tuple(pair for pair in reply.headers if pair[0].lower() != name.lower())
    )


def with_header(name: str, *values: str) -> Twist:
    """These values instead of those that are there."""
    return lambda reply: without(name)(reply).plus(*((name, value) for value in values))

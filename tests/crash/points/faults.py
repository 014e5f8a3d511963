"""What may go wrong with one call of the service. Whether it acted is a fault's own matter."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

from faregate.core.models import Response
from tests.support.faulty_service import Call, Fault, answers, changes
from tests.support.raw_server import Connection, written
from tests.support.replies import with_body, with_status

SILENCE = 0.7
"""Seconds: longer than the seller waits for an answer."""
SLOWNESS = 0.1


def _reset(*, acts: bool, before: float = 0.0, after: float = 0.0) -> Fault:
    """Break off: so many seconds before and after the service acts, if it does."""

    async def fault(connection: Connection, call: Call) -> None:
        await asyncio.sleep(before)
        if acts:
            call.act()
        await asyncio.sleep(after)
        await connection.reset()

    return fault


async def _slow(connection: Connection, call: Call) -> None:
    await asyncio.sleep(SLOWNESS)
    await connection.answer(call.act())


async def _half(connection: Connection, call: Call) -> None:
    reply = call.act()
    await connection.send(written(reply)[: -(len(reply.body) // 2 + 1)])
    await connection.hang_up()


def _error(status: int, code: str, acts: bool = False) -> Fault:
    says = answers(status, {"code": code, "message": "not now"})

    async def fault(connection: Connection, call: Call) -> None:
        if acts:
            call.act()
        await says(connection, call)

    return fault


def _bare(reply: Response) -> Response:
    """Without the headers that a payer needs."""
    kept = tuple(pair for pair in reply.headers if not pair[0].lower().startswith("payment-"))
    return replace(reply, headers=kept)


def _where_there(**fields: object) -> Callable[[Response], Response]:
    """The reply with these fields, where it has them."""

    def change(reply: Response) -> Response:
        try:
            return with_body(
                lambda body: {**body, **{name: fields[name] for name in fields if name in body}}
            )(reply)
        except ValueError:
            return reply

    return change


SOMEBODY_ELSE = "txn_0197a0b1c2d37e4f8a9b0c1d2e3f4a5b"
NETWORK: dict[str, Fault] = {
    "reset before": _reset(acts=False),
    "reset after": _reset(acts=True),
    "silent before": _reset(acts=False, after=SILENCE),
    "silent after": _reset(acts=True, after=SILENCE),
    "late": _reset(acts=True, before=SILENCE),
    "slow": _slow,
    "half": _half,
}
SERVICE: dict[str, Fault] = {
    "500 before": _error(500, "internal_error"),
    "500 after": _error(500, "internal_error", acts=True),
    "429": _error(429, "rate_limited"),
    "garbage": changes(lambda reply: replace(reply, body=b"<html>")),
    "bare": changes(_bare),
}
OF_COMPLETE: dict[str, Fault] = {
    "no receipt": changes(_where_there(receipt=None)),
    "another": changes(_where_there(transaction_id=SOMEBODY_ELSE, id=SOMEBODY_ELSE)),
    "pending": changes(with_status(202)),
}
FAULTS: dict[str, Fault] = {**NETWORK, **SERVICE, **OF_COMPLETE}
"""Every fault by its name."""

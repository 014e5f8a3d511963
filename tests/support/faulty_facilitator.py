"""A facilitator that lies, hangs, forgets and sends twice, as it is told, in front of a real one.

With `FaultyFacilitator(real.url).serving()` it has a URL of its own. The faults of `SETTLE_FAULTS` come in
pairs where it matters whether the real one was asked before: the payer may have paid, or not.
"""

import asyncio
import json
import secrets
import threading
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPException
from itertools import chain, cycle
from typing import Any

from faregate.core.models import Response, WireRequest
from tests.support.raw_server import Connection, serving_by_hand
from tests.support.replies import JSON, json_reply

_SECONDS = 60.0
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass
class FaultyFacilitator:
    """A proxy. A call uses up the next of the `faults` of its operation: `verify`, `settle`, `supported`."""

    url: str
    restart: Callable[[], None] | None = None
    """Kills the real facilitator and starts it anew, for the fault `forgets`."""
    faults: dict[str, Iterator["Fault"]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    met: list[str] = field(default_factory=list)
    """The names of the faults that calls met."""
    hashes: list[str] = field(default_factory=list)
    """Of transactions that the real one has sent."""

    def fail(self, operation: str, *faults: "Fault") -> None:
        """Let the next calls of this operation go wrong in this way."""
        self.faults[operation] = chain(self.faults.get(operation, ()), faults)

    def fail_always(self, operation: str, *faults: "Fault") -> None:
        """Let all calls of this operation go wrong, in these ways by turns."""
        self.faults[operation] = cycle(faults)

    def heal(self) -> None:
        """Let nothing go wrong from now on."""
        self.faults.clear()

    @contextmanager
    def serving(self) -> Generator[str]:
        """Serve while the block runs; gives the URL."""
        with serving_by_hand(self._answer) as port:
            yield f"http://127.0.0.1:{port}"

    async def _answer(self, connection: Connection, request: WireRequest) -> None:
        operation = request.path.strip("/")
        self.asked.append(operation)
        fault = next(self.faults.get(operation, iter(())), None)
        call = Call(self, request, asyncio.get_running_loop())
        if fault is None:
            await connection.answer(await call.act())
        else:
            self.met.append(fault.__name__)
            await fault(connection, call)


@dataclass
class Call:
    """One call. The real facilitator is asked by `act`."""

    proxy: FaultyFacilitator
    request: WireRequest
    loop: asyncio.AbstractEventLoop

    async def act(self) -> Response:
        """Ask the real one."""
        done: asyncio.Future[Response] = self.loop.create_future()

        def tell(response: Response) -> None:
            if not done.done():  # the client may have gone
                done.set_result(response)

        def ask() -> None:
            response = self._ask()
            with suppress(RuntimeError):  # the server has ended meanwhile
                self.loop.call_soon_threadsafe(tell, response)

        # A thread of its own, which nobody waits for at the end.
        threading.Thread(target=ask, daemon=True).start()
        return await done

    def _ask(self) -> Response:
        asked = urllib.request.Request(
            self.proxy.url + self.request.path, self.request.body, dict(JSON), method=self.request.method
        )
        try:
            with _DIRECT.open(asked, timeout=_SECONDS) as answer:
                response = Response(answer.status, JSON, answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return Response(error.code, JSON, error.read())
        except (OSError, HTTPException):  # it was killed, perhaps in the middle of its answer
            return json_reply(502, {"error": "the real facilitator gave no answer"})
        if sent := json.loads(response.body).get("transaction"):
            self.proxy.hashes.append(sent)
        return response

    @property
    def network(self) -> str:
        network: str = json.loads(self.request.body or b"{}")["paymentRequirements"]["network"]
        return network


Fault = Callable[[Connection, Call], Awaitable[None]]


def _settled(call: Call, success: bool, transaction: str, **more: Any) -> dict[str, Any]:
    return {"success": success, "transaction": transaction, "network": call.network, **more}


# Settle


async def says_failed_after(connection: Connection, call: Call) -> None:
    """It settled, and says that it failed."""
    await call.act()
    await connection.answer(json_reply(200, _settled(call, False, "", errorReason="transaction_failed")))


async def says_failed_before(connection: Connection, call: Call) -> None:
    """It did nothing, and says that it failed."""
    await connection.answer(json_reply(200, _settled(call, False, "", errorReason="unexpected_settle_error")))


async def says_settled(connection: Connection, call: Call) -> None:
    """It did nothing, and names a hash that no transaction has."""
    await connection.answer(json_reply(200, _settled(call, True, "0x" + secrets.token_hex(32))))


async def says_settled_by_another(connection: Connection, call: Call) -> None:
    """It did nothing, and names the transaction of an earlier payment."""
    await connection.answer(json_reply(200, _settled(call, True, call.proxy.hashes[0])))


async def says_settled_without_hash(connection: Connection, call: Call) -> None:
    """It did nothing, and names no transaction."""
    await connection.answer(json_reply(200, _settled(call, True, "")))


async def names_another_after(connection: Connection, call: Call) -> None:
    """It settled, and names a hash that no transaction has."""
    await call.act()
    await connection.answer(json_reply(200, _settled(call, True, "0x" + secrets.token_hex(32))))


async def is_pending_with_500(connection: Connection, call: Call) -> None:
    """It settled, and says with HTTP 500 that it does not know yet."""
    sent = json.loads((await call.act()).body).get("transaction", "")
    await connection.answer(
        json_reply(500, _settled(call, False, sent, errorReason="settlement_pending", payer=None))
    )


async def sends_twice(connection: Connection, call: Call) -> None:
    """It sends two transactions, of which the second reverts, and answers with that."""
    await call.act()
    await connection.answer(await call.act())


async def forgets(connection: Connection, call: Call) -> None:
    """It settles, and is killed and restarted before it answers."""
    await call.act()
    assert call.proxy.restart is not None, "name what restarts the real facilitator"
    await asyncio.to_thread(call.proxy.restart)
    await connection.hang_up()


# Any operation


async def hangs_before(connection: Connection, _call: Call) -> None:
    """It does nothing and says nothing."""
    await connection.silence()


async def hangs_after(connection: Connection, call: Call) -> None:
    """It acts and says nothing."""
    await call.act()
    await connection.silence()


async def hangs_up_before(connection: Connection, _call: Call) -> None:
    """It closes the connection."""
    await connection.hang_up()


async def hangs_up_after(connection: Connection, call: Call) -> None:
    """It acts and closes the connection."""
    await call.act()
    await connection.hang_up()


async def is_down(connection: Connection, _call: Call) -> None:
    """A gateway in front of it says that nobody is there."""
    await connection.answer(json_reply(503, b"<html>Service Unavailable</html>"))


async def talks_nonsense_after(connection: Connection, call: Call) -> None:
    """It acts and answers with something that is no JSON object."""
    await call.act()
    await connection.answer(json_reply(200, b"[null"))


async def is_huge_after(connection: Connection, call: Call) -> None:
    """It acts, and its answer has no end."""
    await call.act()
    await connection.answer(json_reply(200, b'{"success": false, "x": "' + b"x" * 3_000_000 + b'"}'))


# Verify


async def says_valid(connection: Connection, _call: Call) -> None:
    """It says that the payment is good, and has not looked."""
    await connection.answer(json_reply(200, {"isValid": True}))


async def says_invalid(connection: Connection, _call: Call) -> None:
    """It says that the payment is bad, and has not looked."""
    await connection.answer(json_reply(200, {"isValid": False, "invalidReason": "insufficient_funds"}))


SETTLE_FAULTS: tuple[Fault, ...] = (
    says_failed_after,
    says_failed_before,
    says_settled,
    says_settled_by_another,
    says_settled_without_hash,
    names_another_after,
    is_pending_with_500,
    sends_twice,
    hangs_before,
    hangs_after,
    hangs_up_before,
    hangs_up_after,
    is_down,
    talks_nonsense_after,
    is_huge_after,
)
"""All faults of a settlement but `forgets`, which needs `restart`."""

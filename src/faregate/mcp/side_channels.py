"""What a tool sends beside its result, and what keeps its result for others to fetch.

Until the payment of a tool is proven, anything that it sends could carry its result. So messages are held,
and leave with the released result. Progress is sent as a count alone: clients wait as long as there is
progress. A question to the client would have to be sent at once, so a tool that asks one fails.
"""

import copy
import logging
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

from mcp.server.context import ServerRequestContext

from faregate.errors import ConfigurationError
from faregate.logs import log

_MAX_HELD = 1000
"""Messages of one call; more are dropped."""

EVENT_STORE = (
    "This server has an event store and sells tools. The store keeps their results under the ids of the "
    "calls, which clients choose, so that one client can fetch what another one paid for. Leave event_store "
    "out: a payer whose connection broke calls again with the same payment, and gets the result."
)


class Outbox:
    """The messages of one call that wait for its payment to be proven."""

    def __init__(self) -> None:
        self.is_holding = False
        self._held: list[tuple[Any, str, Mapping[str, Any] | None]] = []
        self._ticks = 0

    def hold(self, channel: Any, method: str, params: Mapping[str, Any] | None) -> None:
        if len(self._held) < _MAX_HELD:
            self._held.append((channel, method, copy.deepcopy(params)))

    def count_progress(self) -> int:
        self._ticks += 1
        return self._ticks

    async def release(self) -> None:
        """Send what was held: the payment is proven."""
        self.is_holding = False
        held, self._held = self._held, []
        for channel, method, params in held:
            try:
                await channel.notify(method, params)
            except Exception as error:
                # The payer has paid: whatever fails here takes nothing away from it.
                log("sale", logging.WARNING, "a message of a paid tool was not sent", error=error)


CURRENT_OUTBOX: ContextVar[Outbox | None] = ContextVar("faregate MCP outbox", default=None)
"""The outbox of the call that the current code serves."""


class _HeldChannel:
    """A channel of the SDK to the client, in front of which an outbox stands.

    A tool may keep the session of an earlier call, and send through that. So a message is held, too, if the
    outbox of the current call holds.
    """

    def __init__(self, channel: Any, outbox: Outbox) -> None:
        self._channel = channel
        self._outbox = outbox

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)

    def _find_holding(self) -> Outbox | None:
        outboxes = (self._outbox, CURRENT_OUTBOX.get())
        return next((outbox for outbox in outboxes if outbox is not None and outbox.is_holding), None)

    @property
    def can_send_request(self) -> bool:
        return self._find_holding() is None and bool(self._channel.can_send_request)

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: Any = None) -> None:
        holding = self._find_holding()
        if holding is not None:
            holding.hold(self._channel, method, params)
        else:
            await self._channel.notify(method, params, opts)

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        holding = self._find_holding()
        if holding is not None:
            await self._channel.progress(holding.count_progress())
        else:
            await self._channel.progress(progress, total, message)

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: Any = None
    ) -> dict[str, Any]:
        if self._find_holding() is not None:
            raise ConfigurationError(
                f"A paid tool sends {method!r} to its client before its payment is proven: it can carry "
                "the result. Ask before the price, with a parameter annotated with Resolve(...)."
            )
        answer: dict[str, Any] = await self._channel.send_raw_request(method, params, opts)
        return answer


def hold_messages(ctx: ServerRequestContext[Any, Any], outbox: Outbox) -> ServerRequestContext[Any, Any]:
    """Return the context with `outbox` in front of both channels to the client."""
    connection = vars(ctx.session)["_connection"]
    if connection.has_standalone_channel:
        connection = copy.copy(connection)
        connection.outbound = _HeldChannel(connection.outbound, outbox)
    session = copy.copy(ctx.session)
    request_channel = _HeldChannel(_get_request_channel(ctx), outbox)
    vars(session).update(_request_outbound=request_channel, _connection=connection)
    return replace(ctx, session=session)


def _get_request_channel(ctx: ServerRequestContext[Any, Any]) -> Any:
    # The SDK has no public way to stand between a handler and its client. If it renames the attribute, this
    # raises, and no tool is served.
    return vars(ctx.session)["_request_outbound"]


def has_event_store(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Whether the transport of this call keeps what it sends, also a transport of the application's own."""
    # A transport says nothing of its store, but each of its calls leads back to the transport.
    end: Any = getattr(_get_request_channel(ctx).message_metadata, "on_request_unanswered", None)
    transport: Any = getattr(getattr(end, "func", end), "__self__", None)
    return ctx.close_sse_stream is not None or getattr(transport, "_event_store", None) is not None

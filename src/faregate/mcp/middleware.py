"""The paywall of one MCP server, as a middleware of the SDK, and how it is put there."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Unpack, cast

import anyio
from mcp.server import MCPServer, Server
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

from faregate.checkout.argument_checks import choose_paywall
from faregate.checkout.lifespan import check_lifespan
from faregate.checkout.shielding import run_shielded, wait_shielded
from faregate.errors import ConfigurationError
from faregate.maintenance.sweep_loop import sweep_until
from faregate.mcp.calls import ToolCall
from faregate.mcp.copy_detection import COPIED, is_copy, watch_handlers, watching
from faregate.mcp.prices import add_prices
from faregate.mcp.requests import LIST_METHOD, METHOD
from faregate.mcp.tools import AnyServer, check_tools, find_paywall, get_low_level, list_routes
from faregate.paywall import Paywall
from faregate.settings import Arguments

EnterLifespan = Callable[[Any], AbstractAsyncContextManager[Any]]


class PaywallMiddleware:
    """Holds the result of every paid tool until its payment is proven; `add_paywall` makes it."""

    faregate_middleware = True

    def __init__(
        self, server: AnyServer, paywall: Paywall, sweep_every: float | None, drain_seconds: float
    ) -> None:
        self.paywall = paywall
        self._server = server
        self._sweep_every = sweep_every
        self._drain_seconds = drain_seconds
        self._lives = 0
        watch_handlers(server)

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        # Without an id it is a notification, which gets no answer: there is nothing to sell.
        if ctx.request_id is None:
            return await call_next(ctx)
        with watching() as returned:
            if ctx.method == METHOD:
                return await self._serve(ToolCall(self._server, self.paywall, ctx, call_next, returned))
            answer = await call_next(ctx)
            if is_copy(answer, returned):
                raise ConfigurationError(COPIED)
        return await add_prices(self._server, self.paywall, answer) if ctx.method == LIST_METHOD else answer

    async def _serve(self, call: ToolCall) -> HandlerResult:
        if not call.has_payment:
            return await call.run()
        results: list[HandlerResult] = []

        async def work() -> None:
            results.append(await call.run())

        # In a task of its own: the SDK cancels that of a call whose client left or gave it up, and the
        # payment of a payer who left is completed all the same.
        await run_shielded(work)
        return results[0]

    def wrap_lifespan(self, inner: EnterLifespan) -> EnterLifespan:
        """Wrap the lifespan of the server in that of the paywall."""

        @asynccontextmanager
        async def live(server: Any) -> AsyncGenerator[Any]:
            # Not before the start: tools are added after the paywall.
            check_tools(self._server)
            self.paywall.expect_offers(list_routes(self._server).offers)
            async with inner(server) as state:
                self._lives += 1
                try:
                    async with self._sweeping():
                        yield state
                finally:
                    self._lives -= 1
                    await self._drain()

        return live

    @asynccontextmanager
    async def _sweeping(self) -> AsyncGenerator[None]:
        """Sweep the journal meanwhile, if asked for. At the end, the sweep stops between two rows."""
        if self._sweep_every is None:
            yield
            return
        ending = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(sweep_until, ending, self.paywall, self._sweep_every)
            try:
                yield
            finally:
                ending.set()
                tasks.cancel_scope.deadline = anyio.current_time() + self._drain_seconds

    async def _drain(self) -> None:
        """Wait for what was begun for payers; the rest is the next sweep's."""
        with anyio.move_on_after(self._drain_seconds, shield=True) as scope:
            await wait_shielded()
        # Over stdio and in memory, each connection runs the lifespan once.
        if not (scope.cancelled_caught or self._lives):
            await self.paywall.aclose()


def add_paywall(
    server: AnyServer,
    paywall: Paywall | None = None,
    *,
    sweep_every: float | None = None,
    drain_seconds: float = 10.0,
    **arguments: Unpack[Arguments],
) -> PaywallMiddleware:
    """Put a paywall in front of the tools of `server`, once, where the server is made.

    Give a `paywall`, or the arguments of one. With `sweep_every` the journal is swept as long as the server
    runs, every so many seconds. Its shutdown waits up to `drain_seconds` for what was begun. The server does
    not start if a tool can be called without its price. Raises `ConfigurationError`.
    """
    if not isinstance(cast(Any, server), MCPServer | Server):
        raise ConfigurationError(
            f"add_paywall goes to an MCPServer of the package mcp, not to {type(server).__name__}. "
            "For an ASGI application use faregate.asgi."
        )
    if find_paywall(server) is not None:
        raise ConfigurationError("This server already has a paywall: call add_paywall once.")
    check_lifespan(sweep_every, drain_seconds)
    chosen = choose_paywall("add_paywall", paywall, arguments)
    middleware = PaywallMiddleware(server, chosen, sweep_every, drain_seconds)
    low_level = get_low_level(server)
    low_level.lifespan = middleware.wrap_lifespan(low_level.lifespan)
    server.middleware.insert(_find_place(server), middleware)
    return middleware


def _find_place(server: AnyServer) -> int:
    """Find the place inside the middleware of the SDK and outside that of the seller.

    So a result is sold as the seller's middleware returns it.
    """
    own = (type(middleware).__module__.partition(".")[0] == "mcp" for middleware in server.middleware)
    return next((place for place, is_own in enumerate(own) if not is_own), len(server.middleware))

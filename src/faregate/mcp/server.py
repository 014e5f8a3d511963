"""Put a paywall in front of the tools of an MCP server."""

from typing import Any, Unpack, cast

from mcp.server import MCPServer, Server

from faregate.errors import ConfigurationError
from faregate.mcp.middleware import PaywallMiddleware
from faregate.mcp.tools import AnyServer, find_paywall, get_low_level
from faregate.middleware.arguments import choose_paywall
from faregate.middleware.lifespan import check_lifespan
from faregate.paywall import Paywall
from faregate.settings import Arguments


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
    runs, after so many seconds each time. Its shutdown waits up to `drain_seconds` for what was begun. A
    tool whose price is passed by fails the start of the server. Raises `ConfigurationError`.
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
    """Inside what the SDK brings, outside the seller's: what is sold is what theirs let through."""
    own = (type(one).__module__.partition(".")[0] == "mcp" for one in server.middleware)
    return next((place for place, is_own in enumerate(own) if not is_own), len(server.middleware))

"""Know the tools of a server: what each sells, and what would give its result away."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, TypeGuard, cast

from mcp.server import MCPServer, Server
from mcp.server.mcpserver.tools import Tool, ToolManager

from faregate.checkout.handlers import Handler, inspect_handler, name_handler
from faregate.errors import ConfigurationError
from faregate.mcp.requests import METHOD, ROOT
from faregate.mcp.side_channels import EVENT_STORE
from faregate.paywall import Paywall
from faregate.routes import RouteInfo, RouteTable
from faregate.routes.pricing import build_row, describe_several_offers

AnyServer = MCPServer[Any] | Server[Any]


def get_low_level(server: AnyServer) -> Server[Any]:
    """The server that runs an `MCPServer`, as the SDK's own transports take it."""
    return server if isinstance(server, Server) else cast(Any, server)._lowlevel_server  # noqa: SLF001


def list_tools(server: AnyServer) -> list[Tool]:
    """The tools with their functions. A low-level server keeps none: it has one handler for all calls."""
    return [] if isinstance(server, Server) else get_manager(server).list_tools()


def find_tool(server: AnyServer, name: object) -> Tool | None:
    if isinstance(server, Server) or not isinstance(name, str):
        return None
    return get_manager(server).get_tool(name)


def get_manager(server: MCPServer[Any]) -> ToolManager:
    # Private: in public, an MCPServer tells of its tools without their functions.
    manager: ToolManager = cast(Any, server)._tool_manager  # noqa: SLF001
    return manager


def inspect_tool(tool: Tool) -> Handler:
    """The offer of a tool, or the mistake that would give its result away."""
    handler = inspect_handler(tool.fn)
    if not handler.mistake:
        return handler
    return Handler(
        (),
        f"The tool {tool.name!r} is sold, but its server runs it without the price. Put @paid below "
        "@server.tool(), next to the function.",
    )


def sells_tools(server: AnyServer) -> bool:
    """Whether one of the tools is sold. What a low-level server sells is not known before it is called."""
    return any(inspect_tool(tool).offers for tool in list_tools(server))


def check_tools(server: AnyServer) -> None:
    """Raises `ConfigurationError` for a tool that would be given away."""
    if mistakes := list_mistakes(server):
        raise ConfigurationError(" ".join(mistakes))


def list_mistakes(server: AnyServer) -> tuple[str, ...]:
    handlers = [inspect_tool(tool) for tool in list_tools(server)]
    mistakes = [handler.mistake for handler in handlers if handler.mistake]
    # What a low-level server sells is not known before it is called.
    if _has_event_store(server) and (
        isinstance(server, Server) or any(handler.offers for handler in handlers)
    ):
        mistakes.append(EVENT_STORE)
    return tuple(mistakes)


def _has_event_store(server: AnyServer) -> bool:
    """Whether the HTTP application of a server keeps what it sends. A stateless one keeps nothing."""
    try:
        manager = get_low_level(server).session_manager
    except RuntimeError:  # the application has not been made
        return False
    return manager.event_store is not None and not manager.stateless


def find_server(app: Any) -> AnyServer | None:
    """The server whose HTTP endpoint this is, through the layers that the SDK puts around it."""
    seen = 0
    while app is not None and seen < _MAX_LAYERS:
        low_level = getattr(getattr(app, "session_manager", None), "app", None)
        if _is_low_level(low_level):
            return _find_outer(low_level)
        app, seen = getattr(app, "app", None), seen + 1
    return None


_MAX_LAYERS = 8


def _find_outer(low_level: Server[Any]) -> AnyServer:
    """The `MCPServer` around a low-level server, whose method handles the calls."""
    entry = low_level.get_request_handler(METHOD)
    owner = getattr(getattr(entry, "handler", None), "__self__", None)
    return owner if _is_outer(owner) else low_level


def _is_low_level(server: object) -> TypeGuard[Server[Any]]:
    return isinstance(server, Server)


def _is_outer(server: object) -> TypeGuard[MCPServer[Any]]:
    return isinstance(server, MCPServer)


def list_routes(server: AnyServer, root: str = ROOT) -> RouteTable:
    """List the tools of a server as routes below `root`, each as paid or free.

    Raises `ConfigurationError` for what is not a server.
    """
    if not _is_outer(server) and not _is_low_level(server):
        raise ConfigurationError(
            f"list_routes takes an MCPServer or a low-level Server, not {type(cast(Any, server)).__name__}."
        )
    paywall = find_paywall(server)
    around = None if paywall is None else lambda: paywall
    rows, faults = list[RouteInfo](), list[str]()
    for tool in list_tools(server):
        offers = inspect_tool(tool).offers
        row = build_row(f"{root}{tool.name}", (METHOD,), name_handler(tool.fn), offers)
        rows.append(replace(row, paywall=around))
        if len(offers) > 1:
            faults.append(describe_several_offers(row, offers))
        if offers and paywall is None:
            faults.append(
                f"The tool {tool.name!r} sells {row.sells!r}, and its server has no paywall: "
                "call add_paywall(server)."
            )
    return RouteTable(tuple(rows), (), tuple(faults), list_mistakes(server), around)


def list_endpoint(endpoint: Any, path: str) -> Iterator[RouteTable]:
    """The tools of the server whose HTTP endpoint is at `path`."""
    server = find_server(endpoint)
    if server is not None:
        yield list_routes(server, f"{path.rstrip('/')}/tools/")


def find_paywall(server: AnyServer) -> Paywall | None:
    added: list[Any] = [
        middleware for middleware in server.middleware if getattr(middleware, "faregate_middleware", False)
    ]
    return added[0].paywall if added else None

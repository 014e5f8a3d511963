"""The paywall for MCP servers: `add_paywall`, and `@paid` on a tool.

server = MCPServer("shop")
add_paywall(server)

@server.tool()
@paid("text_summary")
async def summarize(text: str, payment: Payment) -> str: ...
"""

try:
    import mcp.server as _mcp
    import mcp_types as _types
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "faregate.mcp needs the MCP SDK, 2.3 or later: pip install 'faregate[mcp]'", name=error.name
    ) from error
else:
    del _mcp, _types

from faregate.core.reported_values import Payment
from faregate.mcp.decorators import paid
from faregate.mcp.middleware import PaywallMiddleware, add_paywall
from faregate.mcp.tools import list_routes

__all__ = ["Payment", "PaywallMiddleware", "add_paywall", "list_routes", "paid"]

"""An MCP server with a free tool and two paid ones. Run it over HTTP (`uvicorn shop:app`) or stdio."""

from typing import TypedDict

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

from faregate.mcp import Payment, add_paywall, paid

FORECASTS = {"Oslo": "Sunny, with a chance of receipts.", "Bergen": "Rain, as agreed."}


class Summary(TypedDict):
    summary: str
    words: int


server = MCPServer(
    "weather and words", instructions="list_cities is free; the other tools are paid with x402."
)
add_paywall(server, sweep_every=30)


@server.tool()
def list_cities() -> list[str]:
    """The cities that there is a forecast for. Free."""
    return list(FORECASTS)


@server.tool()
@paid("daily_report", description="The weather of one city")
def forecast(city: str) -> str:
    """The weather of one city. An unknown city is not charged."""
    if city not in FORECASTS:
        raise ToolError(f"There is no forecast for {city!r}. Ask list_cities.")
    return FORECASTS[city]


@server.tool()
@paid("text_summary", description="The first words of a text")
async def summarize(text: str, payment: Payment) -> Summary:
    """The first five words of a text. The price is for the words that are read."""
    words = text.split()
    payment.report({"input-tokens": len(words), "output-tokens": min(len(words), 5)})
    return {"summary": " ".join(words[:5]), "words": len(words)}


app = server.streamable_http_app()

if __name__ == "__main__":
    server.run()

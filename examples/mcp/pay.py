"""Pay for a tool call with the official x402 client: python pay.py URL TOOL [ARGUMENTS]."""

import json
import os
import sys
from typing import Any

import anyio
from eth_account import Account
from mcp.client import Client
from mcp_types import CallToolResult, TextContent
from x402 import x402Client
from x402.mechanisms.evm.exact import ExactEvmScheme  # pyright: ignore[reportMissingTypeStubs]
from x402.schemas import parse_payment_required

PAYMENT, RECEIPT = "x402/payment", "x402/payment-response"


async def call_paid_tool(
    client: Client, payer: x402Client, name: str, arguments: dict[str, Any]
) -> CallToolResult:
    """Call a tool and pay for it if it says what it costs."""
    result = await client.call_tool(name, arguments)
    required = find_payment_required(result)
    if required is None:
        return result
    payment = await payer.create_payment_payload(parse_payment_required(required))
    meta: Any = {PAYMENT: payment.model_dump(by_alias=True, exclude_none=True)}
    return await client.call_tool(name, arguments, meta=meta)


def find_payment_required(result: CallToolResult) -> dict[str, Any] | None:
    """Return what an error asks for, from its structured content or else its text."""
    if not result.is_error:
        return None
    text = result.content[0].text if result.content and isinstance(result.content[0], TextContent) else ""
    try:
        said: dict[str, Any] = result.structured_content or json.loads(text)
        return said if "accepts" in said else None
    except (TypeError, ValueError):  # another error
        return None


async def main(url: str, name: str, arguments: str) -> None:
    key = os.environ.get("PAYER_KEY")  # without it the payer is a new one, as the emulator allows
    account = Account.from_key(key) if key else Account.create()
    payer = x402Client().register("eip155:*", ExactEvmScheme(account))
    async with Client(url) as client:
        result = await call_paid_tool(client, payer, name, json.loads(arguments))
    told = [item.text for item in result.content if isinstance(item, TextContent)]
    print(json.dumps({"error": result.is_error, "text": told, "receipt": (result.meta or {}).get(RECEIPT)}))


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    given = [*sys.argv[1:], "{}"]
    anyio.run(main, given[0], given[1], given[2])

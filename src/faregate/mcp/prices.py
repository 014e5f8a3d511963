"""What a server's list of tools says of their prices, in the `_meta` of each tool that is sold."""

from typing import Any

from mcp.server.context import HandlerResult

from faregate.checkout.openapi import INFO, add_known, payment_info
from faregate.core.models import Offer
from faregate.mcp.results import dump_result
from faregate.mcp.tools import AnyServer, find_tool, inspect_tool
from faregate.paywall import Paywall


async def add_prices(server: AnyServer, paywall: Paywall, listed: HandlerResult) -> HandlerResult:
    """Add to the answer of `tools/list` what each tool sells, and its price as far as the service says it.

    It has the shape of `x-payment-info` in OpenAPI documents.
    """
    result = dump_result(listed)
    tools: list[dict[str, Any]] = result.get("tools", [])
    sold = {tool["name"]: offers[0] for tool in tools if (offers := _find_offers(server, tool["name"]))}
    if not sold:
        return listed
    await paywall.ask_prices(alternative for offer in sold.values() for alternative in offer.alternatives)
    for tool in tools:
        if tool["name"] in sold:
            tool.setdefault("_meta", {}).setdefault(INFO, _describe(paywall, sold[tool["name"]]))
    return result


def _find_offers(server: AnyServer, name: str) -> tuple[Offer, ...]:
    tool = find_tool(server, name)
    return () if tool is None else inspect_tool(tool).offers


def _describe(paywall: Paywall, offer: Offer) -> dict[str, Any]:
    info = payment_info(offer)
    add_known(info, paywall.find_asset, paywall.find_price)
    return info

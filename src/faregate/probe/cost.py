"""What a probe may take from its payer, told before anything is paid. Pure."""

from collections.abc import Sequence

from faregate.probe.discovery import Ware
from faregate.x402.tokens import price_label


def cost(taken: Sequence[Ware], at_most: Sequence[Ware], address: str, environment: str) -> str:
    """`taken` if the service decides as expected; `at_most` if it also takes what it should refuse."""
    if not taken:
        return "Nothing was found that this payer may buy; nothing is spent."
    what = f"{taken[0].revision.resource_name!r} with {address}, {environment}"
    usual, worst = f"{_payments(taken)} ({_sum(taken)})", f"{len(at_most)} ({_sum(at_most)})"
    return f"This buys {what}: it takes {usual}, at most {worst}. All others are reported as failed."


def _payments(wares: Sequence[Ware]) -> str:
    return "1 payment" if len(wares) == 1 else f"{len(wares)} payments"


def _sum(wares: Sequence[Ware]) -> str:
    """`0.03 USDC + 0.01 EURC`."""
    sums: dict[str, int] = {}
    for ware in wares:
        asset = ware.revision.settlement_asset
        sums[asset] = sums.get(asset, 0) + ware.atomic
    return " + ".join(price_label(atomic, asset) for asset, atomic in sums.items())

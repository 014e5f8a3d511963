"""What a transfer may cost, and when one that waits is sent again with a higher fee. Pure; amounts in wei."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from faregate.service.chain.direct.eip1559 import Fees

GWEI: Final = 10**9
ETHER: Final = 10**18


@dataclass(frozen=True, slots=True)
class GasPolicy:
    """The limits of the gas account.

    `max_fee` is the highest fee for each unit of gas, `max_gas` bounds the units: a transfer takes about
    80,000. The account's balance is low below `alarm_balance`. A transfer that waited for
    `replace_after_seconds` is replaced by one with a higher fee.
    """

    max_fee: int = 5 * GWEI
    max_gas: int = 150_000
    alarm_balance: int = ETHER // 1000
    replace_after_seconds: int = 30


@dataclass(frozen=True, slots=True)
class FeeMarket:
    """What the node says: the base fee of the latest block, and the tip that it suggests."""

    base_fee: int
    priority: int


def choose_fees(market: FeeMarket, policy: GasPolicy) -> Fees | None:
    """Choose the fees of a new transfer, for a base fee that doubles; None if even today's is too high."""
    if market.base_fee > policy.max_fee:
        return None
    maximum = min(2 * market.base_fee + market.priority, policy.max_fee)
    return Fees(maximum, min(market.priority, maximum))


def raise_fees(waiting: Fees, market: FeeMarket, policy: GasPolicy) -> Fees | None:
    """Return the fees that replace those of a waiting transfer; None if `max_fee` leaves no room for that.

    Nodes take a replacement only if both fees are at least a tenth higher. A quarter leaves room for others.
    """
    maximum = min(max(_add_quarter(waiting.maximum), 2 * market.base_fee + market.priority), policy.max_fee)
    # A quarter more of nothing is nothing, and nodes take no replacement with the same tip.
    priority = min(max(_add_quarter(waiting.priority), market.priority, 1), maximum)
    if 10 * maximum < 11 * waiting.maximum or 10 * priority < 11 * waiting.priority:
        return None
    return Fees(maximum, priority)


def limit_gas(estimate: int, policy: GasPolicy) -> int | None:
    """Return the gas limit for this estimate, with a quarter to spare; None if it is not a plain transfer."""
    return None if estimate > policy.max_gas else min(_add_quarter(estimate), policy.max_gas)


def format_ether(wei: int) -> str:
    return f"{Decimal(wei) / ETHER:.9f}".rstrip("0").rstrip(".")


def _add_quarter(amount: int) -> int:
    """Return the amount and a quarter, rounded up: one wei becomes two."""
    return amount + (amount + 3) // 4

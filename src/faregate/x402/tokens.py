"""The tokens that settle a payment, per network, with their own EIP-712 domains.

Each environment has one network: Base Sepolia for `test`, Base for `live`. `CHAINS` and `TOKENS` are keyed by
environment, so a second network per environment needs other keys, and changes where they are used:

- `core/terms.py`: `_NETWORKS` has names for people, and `Price.is_live` takes every network but
  the test network as live.
- `pay/wallet.py`: signs for the two networks only.
- `service/environment_payments.py` and `service/commands/doctor.py`: one chain per environment.
- `rules/catalog.py`, `rules/simulated_ledger.py`, `service/database/simulated_ledger.py` and
  `service/payment_chain.py`: find tokens by environment.

USDC signs as `USDC` on Base Sepolia and as `USD Coin` on Base; EURC is `EURC` on both. Version 2,
six decimals, all four.
"""

from dataclasses import dataclass
from typing import Final, Literal, get_args

Environment = Literal["test", "live"]
ENVIRONMENTS: Final[tuple[Environment, ...]] = get_args(Environment)
Currency = Literal["EUR", "USD"]
SettlementAsset = Literal["EURC", "USDC"]

DECIMALS: Final = 6
CHAINS: Final[dict[Environment, int]] = {"test": 84532, "live": 8453}
CURRENCIES: Final[dict[SettlementAsset, Currency]] = {"USDC": "USD", "EURC": "EUR"}


@dataclass(frozen=True, slots=True)
class Token:
    """One asset on one network. `name` and `version` are those of its EIP-712 domain."""

    symbol: SettlementAsset
    chain: int
    address: str
    name: str
    version: str = "2"

    @property
    def network(self) -> str:
        return f"eip155:{self.chain}"


TOKENS: Final[dict[tuple[Environment, SettlementAsset], Token]] = {
    ("test", "USDC"): Token("USDC", 84532, "0x036CbD53842c5426634e7929541eC2318f3dCF7e", "USDC"),
    ("test", "EURC"): Token("EURC", 84532, "0x808456652fdb597867f38412077A9182bf77359F", "EURC"),
    ("live", "USDC"): Token("USDC", 8453, "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913", "USD Coin"),
    ("live", "EURC"): Token("EURC", 8453, "0x60a3E35Cc302bFA44Cb288Bc5a4F316Fdb1adb42", "EURC"),
}


def format_price(atomic: int, symbol: str) -> str:
    """Format an amount: `10000, "USDC"` is `0.01 USDC`. Exact, without floats.

    A symbol that is not in `CURRENCIES` has unknown decimals, and keeps atomic units: `10000 atomic XYZ`.
    """
    return f"{format_amount(atomic)} {symbol}" if symbol in CURRENCIES else f"{atomic} atomic {symbol}"


def format_amount(atomic: int) -> str:
    """Format an amount in units of its token, with two decimals or more: `10000` is `0.01`."""
    whole, fraction = divmod(atomic, 10**DECIMALS)
    tail = f"{fraction:0{DECIMALS}d}".rstrip("0")
    return f"{whole}.{tail.ljust(2, '0')}"

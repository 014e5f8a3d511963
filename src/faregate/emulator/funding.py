"""The balances that a world begins with. Pure."""

from typing import Final

from faregate.emulator.ledger import SimulatedLedger
from faregate.merchant.types import Environment
from faregate.service.config import World
from faregate.service.test_payers import payers_of
from faregate.x402.tokens import TOKENS

BOTH: Final[tuple[Environment, ...]] = ("test", "live")


def funded_ledger(world: World) -> SimulatedLedger:
    """A ledger with the balances the world names; the seller starts with nothing."""
    ledger = SimulatedLedger(world.default_balance)
    for token in TOKENS.values():
        ledger.fund(token, world.seller.pay_to, 0)
    for environment in BOTH:
        for payer in payers_of(world, environment):
            for asset, balance in payer.balances.items():
                ledger.fund(TOKENS[environment, asset], payer.address, balance)
    return ledger

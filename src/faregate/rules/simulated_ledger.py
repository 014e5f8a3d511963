"""What the simulated ledgers share: refusals, hashes, balances at the start. Pure.

The emulator keeps its ledger in memory, the self-hosted service in its database.
"""

from collections.abc import Iterator
from hashlib import sha256
from typing import Final

from faregate.rules.account import Account
from faregate.rules.payments import PaymentRefused
from faregate.rules.published_payers import list_special_payers
from faregate.x402.models import SignedPayment
from faregate.x402.tokens import TOKENS, Environment, Token

EXPIRED: Final = PaymentRefused("the authorization has expired")


def build_transaction_hash(token: Token, payment: SignedPayment) -> str:
    """Build the hash of the transfer, the same however often it is asked for."""
    parts = (token.network, token.address, payment.payer, payment.nonce)
    return "0x" + sha256("/".join(parts).encode()).hexdigest()


def list_balances(account: Account, environment: Environment) -> Iterator[tuple[Token, str, int]]:
    """List the balances at the start that are not the default; the seller starts with nothing."""
    tokens = {asset: token for (name, asset), token in TOKENS.items() if name == environment}
    for token in tokens.values():
        yield token, account.seller.pay_to, 0
    for payer in list_special_payers(account, environment):
        for asset, balance in payer.balances.items():
            yield tokens[asset], payer.address, balance

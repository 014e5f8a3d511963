"""The simulated ledger: balances, used nonces, transaction hashes. The first `Payments`."""

from collections.abc import Mapping
from datetime import datetime
from hashlib import sha256
from typing import Final

from faregate.merchant.types import Environment
from faregate.service.config import World
from faregate.service.payments import Refused, Settled, Verified
from faregate.service.test_payers import payers_of
from faregate.x402.eip712 import signer_of
from faregate.x402.models import Payment, Terms
from faregate.x402.tokens import TOKENS, Token
from faregate.x402.verify import fault_of

DEFAULT_BALANCE: Final = 1_000_000_000
Balance = tuple[Token, str]
"""Whose it is: the asset, and the address in lower case."""
Use = tuple[Token, str, str]
"""Of an authorization: the asset, the payer in lower case, and the nonce."""


class SimulatedLedger:
    """Keeps what each address has, in atomic units. An address it never saw has `default_balance`."""

    def __init__(self, default_balance: int = DEFAULT_BALANCE) -> None:
        self._default = default_balance
        self._balances: dict[Balance, int] = {}
        self._settled: dict[Use, str] = {}

    def balance(self, token: Token, address: str) -> int:
        return self._balances.get((token, address.lower()), self._default)

    def fund(self, token: Token, address: str, balance: int) -> None:
        """From now on the address has exactly this balance."""
        self._balances[token, address.lower()] = balance

    def twin(self) -> "SimulatedLedger":
        """Another ledger with the same balances and uses, which from now on goes its own way."""
        twin = SimulatedLedger(self._default)
        twin.restore(self._balances, self._settled)
        return twin

    def state(self) -> tuple[dict[Balance, int], dict[Use, str]]:
        """All balances that are not the default, and the hash of every use of an authorization."""
        return dict(self._balances), dict(self._settled)

    def restore(self, balances: Mapping[Balance, int], settled: Mapping[Use, str]) -> None:
        """From now on these are all that there are."""
        self._balances, self._settled = dict(balances), dict(settled)

    def verify(self, payment: Payment, terms: Terms, *, now: datetime, committed: int) -> Verified | Refused:
        """All checks of x402 `exact` that do not need a chain."""
        fault = fault_of(payment, terms, now)
        if fault is not None:
            return Refused(fault)
        signer = signer_of(payment, terms.token)
        if signer is None or signer.lower() != payment.payer:
            return Refused("the signature is not the payer's for this authorization")
        if self._use(payment, terms) in self._settled:
            return Refused("the authorization was already used")
        if self.balance(terms.token, payment.payer) - committed < payment.value:
            return Refused(f"the payer has not enough {terms.token.symbol}")
        return Verified(signer)

    def settle(self, payment: Payment, terms: Terms, *, now: datetime) -> Settled | Refused:
        """Moves the value from payer to recipient, once; the same payment again gives the same hash."""
        use = self._use(payment, terms)
        if use in self._settled:
            return Settled(self._settled[use])
        if now.timestamp() >= payment.valid_before:
            return Refused("the authorization has expired")
        left = self.balance(terms.token, payment.payer) - payment.value
        if left < 0:
            return Refused(f"the payer has not enough {terms.token.symbol}")
        self.fund(terms.token, payment.payer, left)
        self.fund(terms.token, payment.to, self.balance(terms.token, payment.to) + payment.value)
        self._settled[use] = _hash_of(use)
        return Settled(self._settled[use])

    @staticmethod
    def _use(payment: Payment, terms: Terms) -> Use:
        return terms.token, payment.payer, payment.nonce


def _hash_of(use: Use) -> str:
    token, payer, nonce = use
    return "0x" + sha256(f"{token.network}/{token.address}/{payer}/{nonce}".encode()).hexdigest()


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

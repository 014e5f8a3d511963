"""The wallet with its limits, over the official x402 client. It signs once per call, or says why not.

Rules
1. A test payer signs for test networks only; a key of one's own for live ones only if that was said.
2. Only USDC and EURC by their published addresses; what the seller calls a token plays no part.
3. Never more than the limit, in units of the asset.
What fits is looked at here, for the words; the official client's own controls hold the same limits.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from faregate.operations.app_loader import WrongCall
from faregate.pay.keys import PayerKey
from faregate.pay.official import (
    Account,
    ExactEvmScheme,
    PaymentRequired,
    PaymentRequirements,
    encode_payment_signature_header,
    x402ClientSync,
)
from faregate.pay.output import Signed
from faregate.pay.requirements import Unsigned, amount_of, is_atomic, token_of
from faregate.x402.tokens import CHAINS, DECIMALS, TOKENS

_TEST = f"eip155:{CHAINS['test']}"
_LIVE = f"eip155:{CHAINS['live']}"


@dataclass(frozen=True, slots=True)
class Payment:
    """A signed payment: the header's value, and what is told of it."""

    proof: str = field(repr=False)
    signed: Signed


class Purse:
    """`limit` is in units of the asset, such as 1.00. `live` lets a key of one's own pay on Base."""

    def __init__(self, key: PayerKey, limit: Decimal, *, live: bool) -> None:
        if live and not key.own:
            raise WrongCall("--live needs a key of your own: --key-file FILE, or FAREGATE_PAYER_KEY.")
        self._key = key
        self._networks = (_TEST, _LIVE) if live else (_TEST,)
        self._most = int(limit * 10**DECIMALS)
        account = Account.from_key(key.private_key)
        self.address = str(account.address)
        self._x402 = _client(account, self._networks, self._most)

    def fitting(self, required: PaymentRequired) -> PaymentRequirements:
        """The first entry of `accepts` that may be signed. Raises `Unsigned` with what is in the way."""
        reasons: list[str] = []
        for one in required.accepts:
            fault = self._fault(one)
            if fault is None:
                return one
            reasons.append(fault)
        raise Unsigned("; ".join(dict.fromkeys(reasons)) or "the seller names no way to pay")

    def sign(self, required: PaymentRequired) -> Payment:
        """The payment for what fits. Raises `Unsigned`."""
        fitting = self.fitting(required)
        asked = required.model_copy(update={"accepts": [fitting]})
        try:
            payload = self._x402.create_payment_payload(asked)
            proof = encode_payment_signature_header(payload)
        except Exception as error:  # whatever the client has against it, nothing was signed
            raise Unsigned(f"the x402 client refuses: {error}") from None
        signed = Signed(
            self._key.name,
            self.address,
            amount_of(fitting),
            fitting.network,
            _valid_until(payload.payload),
        )
        return Payment(proof, signed)

    def _fault(self, one: PaymentRequirements) -> str | None:
        if one.scheme != "exact":
            return f"the scheme {one.scheme} is not known here"
        if one.network not in self._networks:
            return self._why_not_on(one.network)
        if token_of(one) is None:
            return f"{one.asset} on {one.network} is neither USDC nor EURC"
        if not is_atomic(one.amount):
            return "the amount is no number of atomic units"
        if int(one.amount) > self._most:
            return f"{amount_of(one)} is above the limit; to allow it say --max"
        return None

    def _why_not_on(self, network: str) -> str:
        if network != _LIVE:
            return f"the network {network} is not known here"
        if not self._key.own:
            return (
                f"the test payer {self._key.name} signs only for {_TEST}, and this is real money ({network})"
            )
        return f"this is real money ({network}); to allow it say --live"


def _client(account: Any, networks: Sequence[str], most: int) -> x402ClientSync:
    client = x402ClientSync()
    for network in networks:
        client.register(network, ExactEvmScheme(account))
    allowed: Any = [
        {"network": token.network, "asset": token.address, "max_amount_per_payment": str(most)}
        for token in TOKENS.values()
        if token.network in networks
    ]
    return client.set_spend_controls({"allowed_assets": allowed})


def _valid_until(payload: dict[str, Any]) -> int | None:
    until = payload.get("authorization", {}).get("validBefore")
    return int(until) if isinstance(until, str) and until.isdigit() else None

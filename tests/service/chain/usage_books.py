"""Payments of the scheme `upto` on a chain, as a service knows them, and who settles or spoils them."""

from dataclasses import dataclass, replace

from examples.chain.permit2 import deploy_upto
from examples.chain.token import encode_call

from faregate.rules.payments import Attempt, PaymentRefused, PaymentSettled, SettlementPending
from faregate.service.chain.chain_reader import ChainReader
from faregate.service.chain.permit_calls import encode_settlement
from faregate.x402.models import SignedPayment, Terms
from faregate.x402.permit2 import PERMIT2, UPTO_PROXY
from tests.service.chain.books import SUBMITTED, TO
from tests.support.chain import USDC, ChainPayer, LocalChain
from tests.support.usage_payments import pay_usage

MAXIMUM, USED = 500_000, 12_300
OTHERWISE = PaymentRefused("the payer cancelled the authorization, or used its nonce for another payment")


@dataclass
class UsageBooks:
    """A chain with the contracts of `upto`, and a payer who has approved Permit2."""

    chain: LocalChain
    payer: ChainPayer

    def __post_init__(self) -> None:
        deploy_upto(self.chain)
        self.facilitator = self.chain.accounts[1].lower()
        self.chain.approve_permit2(USDC, self.payer.address)
        self.from_block = self.chain.head

    @property
    def terms(self) -> Terms:
        return Terms(USDC, MAXIMUM, TO, 300, (self.facilitator,))

    def pay(self) -> SignedPayment:
        """Pay with the official client."""
        return pay_usage(self.payer.private_key, self.terms)

    def settle(
        self, payment: SignedPayment, amount: int = USED, *, sender: str | None = None, suffix: str = ""
    ) -> str:
        """Settle as a facilitator does; return the hash, whether or not it succeeds."""
        data = "0x" + encode_settlement(payment, USDC, amount).hex() + suffix
        return self.chain.send(UPTO_PROXY, data, sender=sender or self.facilitator)

    def invalidate(self, nonce: str) -> str:
        """Cancel a nonce, as its payer."""
        word, bit = divmod(int(nonce), 256)
        call = encode_call("invalidateUnorderedNonces(uint256,uint256)", word, 1 << bit)
        return self.chain.send_as(self.payer.address, PERMIT2, call)

    def look(
        self, reader: ChainReader, payment: SignedPayment, *hashes: str
    ) -> PaymentSettled | PaymentRefused | SettlementPending:
        attempt = Attempt(SUBMITTED, from_block=self.from_block, hashes=hashes, amount=USED)
        return reader.look(payment, self.terms, attempt)

    def has_succeeded(self, transaction_hash: str) -> bool:
        receipt = self.chain.get_receipt(transaction_hash)
        return receipt is not None and receipt["status"] == "0x1"

    def read_allowance(self) -> int:
        call = encode_call("allowance(address,address)", self.payer.address, PERMIT2)
        return int(self.chain.call("eth_call", {"to": USDC.address, "data": call}, "latest"), 16)


def spoil(payment: SignedPayment, payer: ChainPayer, **changes: object) -> SignedPayment:
    """Sign the same nonce once more, with changes."""
    changed = replace(payment, **changes)  # type: ignore[arg-type]
    return payer.authorize(
        USDC,
        changed.to,
        changed.value,
        valid_before=changed.valid_before,
        valid_after=changed.valid_after,
        nonce=changed.nonce,
        facilitator=changed.facilitator,
    )

"""One payment as a service knows it, for tests of what a chain proves about it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from faregate.rules.payments import Attempt, PaymentRefused, PaymentSettled, SettlementPending
from faregate.service.chain.chain_reader import ChainReader
from faregate.x402.models import Terms
from tests.support.chain import USDC, ChainPayer, LocalChain
from tests.support.rpc_proxy import RpcProxy

MakeReader = Callable[..., ChainReader]
"""Makes a reader of these URLs, whose clock is the chain's."""
TO = "0x" + "ab" * 20
PRICE = 10_000
TERMS = Terms(token=USDC, amount=PRICE, pay_to=TO, max_timeout_seconds=300)
SUBMITTED = datetime(2026, 1, 1, tzinfo=UTC)
"""When the seller completed. A reader does not look at it."""
SETTLING, RECONCILING = SettlementPending("settling"), SettlementPending("reconciling")


class Books:
    """What a service knows of one payment: it was authorized at this block, and this is its attempt."""

    def __init__(self, chain: LocalChain, payer: ChainPayer) -> None:
        self.chain = chain
        self.payment = payer.authorize(USDC, TO, PRICE)
        self.attempt = Attempt(SUBMITTED, from_block=chain.head)

    def look(self, reader: ChainReader, *hashes: str) -> PaymentSettled | PaymentRefused | SettlementPending:
        return reader.look(self.payment, TERMS, replace(self.attempt, hashes=hashes))

    def settle(self) -> str:
        return self.chain.settle(USDC, self.payment)


@dataclass
class FaultyNode:
    """A node of a chain, which a test can break, and a payment."""

    chain: LocalChain
    proxy: RpcProxy
    books: Books
    make_reader: MakeReader

    def __post_init__(self) -> None:
        self.reader = self.make_reader(self.proxy.url)
        self.change = self.proxy.change
        self.settle = self.books.settle

    def look(self, *hashes: str) -> PaymentSettled | PaymentRefused | SettlementPending:
        return self.books.look(self.reader, *hashes)

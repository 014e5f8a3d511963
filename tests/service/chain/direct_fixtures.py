"""The fixtures of direct settlement: a gas account with ether, its books, and workers that share both."""

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tests.service.chain.gas_books import POLICY, PRICE, SELLER, Clock, GasBooks, Row, Worker
from tests.support.chain import USDC, ChainPayer, LocalChain


@dataclass
class DirectSettlement:
    """A gas account on a chain, its books, and a payer."""

    chain: LocalChain
    payer: ChainPayer
    gas: ChainPayer
    """The owner of the gas account."""
    books: GasBooks = field(default_factory=GasBooks)
    clock: Clock = field(default_factory=Clock)

    def start(self, confirmations: int = 1, **policy: Any) -> Worker:
        """Start a worker on the same books and gas account."""
        limits = replace(POLICY, **policy)
        return Worker(self.chain, self.gas.private_key, self.books, self.clock, limits, confirmations)

    def add(self) -> Row:
        """Add a payment to the books."""
        return self.books.add(self.payer.authorize(USDC, SELLER, PRICE))

    def let_it_get_stuck(self) -> None:
        """Let as much time pass as a transfer has before it is replaced."""
        self.clock.advance(POLICY.replace_after_seconds)

    @property
    def received(self) -> int:
        """The balance of the seller."""
        return self.chain.get_balance(USDC, SELLER)


@pytest.fixture
def gas(chain: LocalChain) -> ChainPayer:
    owner = ChainPayer()
    chain.fund(owner.address)
    return owner


@pytest.fixture
def direct(chain: LocalChain, payer: ChainPayer, gas: ChainPayer) -> DirectSettlement:
    return DirectSettlement(chain, payer, gas)


@pytest.fixture
def worker(direct: DirectSettlement) -> Worker:
    return direct.start()


@pytest.fixture
def row(direct: DirectSettlement) -> Row:
    return direct.add()

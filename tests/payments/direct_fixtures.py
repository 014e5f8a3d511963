"""The fixtures of direct settlement: a gas account with ether, its books, and workers that share both."""

from collections.abc import Callable

import pytest

from tests.payments.gas_books import PRICE, SELLER, Clock, GasBooks, Row, Worker
from tests.support.chain import USDC, ChainPayer, LocalChain


@pytest.fixture
def gas(chain: LocalChain) -> ChainPayer:
    """The owner of the gas account."""
    owner = ChainPayer()
    chain.fund(owner.address)
    return owner


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def gas_books() -> GasBooks:
    return GasBooks()


@pytest.fixture
def start(chain: LocalChain, gas: ChainPayer, gas_books: GasBooks, clock: Clock) -> Callable[[], Worker]:
    """Start a worker on the same books and gas account."""
    return lambda: Worker(chain, gas.private_key, gas_books, clock)


@pytest.fixture
def worker(start: Callable[[], Worker]) -> Worker:
    return start()


@pytest.fixture
def row(payer: ChainPayer, gas_books: GasBooks) -> Row:
    return gas_books.add(payer.authorize(USDC, SELLER, PRICE))

"""A real EVM for tests (`examples.chain`): the fixtures `chain` and `payer`, for a conftest to import.

Each test has a node of its own; one starts in a tenth of a second.
"""

from collections.abc import Generator

import pytest
from examples.chain.anvil import NoAnvil, install_anvil
from examples.chain.local import LocalChain, RpcRefusal, start_chain
from examples.chain.payer import ChainPayer

from faregate.x402.tokens import TOKENS

__all__ = [
    "EURC",
    "USDC",
    "ChainPayer",
    "LocalChain",
    "RpcRefusal",
    "chain",
    "payer",
    "require_anvil",
    "start_chain",
]

USDC = TOKENS["test", "USDC"]
EURC = TOKENS["test", "EURC"]


def require_anvil() -> None:
    """Skip the test, and say why, where anvil cannot be had."""
    try:
        install_anvil()
    except NoAnvil as error:
        pytest.skip(str(error))


@pytest.fixture
def chain() -> Generator[LocalChain]:
    """A chain with both tokens. It mines a block per transaction. Skipped where there is no anvil."""
    require_anvil()
    with start_chain() as chain:
        yield chain


@pytest.fixture
def payer(chain: LocalChain) -> ChainPayer:
    """A payer with 100 USDC and no ether."""
    someone = ChainPayer()
    chain.mint(USDC, someone.address, 100_000_000)
    return someone

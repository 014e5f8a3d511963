"""A real EVM for tests (`examples.chain`): the fixtures `chain` and `payer`, for a conftest to import.

Each test has a node of its own; one starts in a tenth of a second.
"""

from collections.abc import Generator

import pytest
from examples.chain.anvil import NoAnvil, install_anvil
from examples.chain.local import LocalChain, RpcRefusal, start_chain
from examples.chain.payer import ChainPayer
from examples.chain.token import encode_transfer

from faregate.x402.models import SignedPayment
from faregate.x402.tokens import TOKENS
from tests.servers.shared import need

__all__ = [
    "EURC",
    "USDC",
    "ChainPayer",
    "LocalChain",
    "RpcRefusal",
    "chain",
    "payer",
    "require_anvil",
    "settle_with_log",
    "start_chain",
]

USDC = TOKENS["test", "USDC"]
EURC = TOKENS["test", "EURC"]
_FORWARDER = "0x" + "fa" * 20
_LOGGED = 512 * 1024
_GAS = 20_000_000


def require_anvil() -> None:
    """Skip the test, and say why, where anvil cannot be had."""
    try:
        install_anvil()
    except NoAnvil as error:
        need("npm", str(error))


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


def settle_with_log(chain: LocalChain, payment: SignedPayment) -> str:
    """Settle the payment in a transaction that logs 512 KiB as well; return its hash."""
    chain.call("anvil_setCode", _FORWARDER, "0x" + _build_forwarder_code().hex())
    return chain.send(_FORWARDER, encode_transfer(payment), gas=_GAS)


def _build_forwarder_code() -> bytes:
    """Write a contract that calls the token with its input, and logs `_LOGGED` bytes."""
    call = b"\x36\x5f\x5f\x37\x5f\x5f\x36\x5f\x5f\x73" + bytes.fromhex(USDC.address[2:]) + b"\x5a\xf1\x50"
    return call + b"\x62" + _LOGGED.to_bytes(3, "big") + b"\x5f\xa0\x00"  # LOG0

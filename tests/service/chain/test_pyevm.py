"""The local chain of py-evm, for machines without npm: the official facilitator settles on it, too."""

import importlib.metadata
import shutil
from collections.abc import Generator
from datetime import UTC, datetime

import examples.chain.anvil
import pytest
from examples.chain.local import LocalChain, RpcRefusal, start_any_chain
from examples.chain.node_process import NoNode, run_node
from examples.chain.payer import ChainPayer
from examples.chain.token import encode_call

from faregate.rules.payments import PaymentRefused, PaymentSent, PaymentSettled
from faregate.service.chain.chain_reader import ChainReader
from faregate.service.chain.facilitator import FacilitatorClient, FacilitatorSettings
from tests.service.chain.books import PRICE, TO, Books
from tests.service.chain.facilitated import make_terms, sign_payment
from tests.support.chain import EURC, USDC
from tests.support.facilitators import run_facilitator

if not any(found.name == "py-evm" for found in importlib.metadata.distributions()):
    pytest.skip("py-evm is not installed", allow_module_level=True)


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Generator[LocalChain]:
    """A chain where there is no npm."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(examples.chain.anvil, "CACHE", tmp_path_factory.mktemp("none") / "anvil")
        patch.setattr(shutil, "which", lambda program: None)
        with start_any_chain() as chain:
            patch.undo()
            yield chain


@pytest.fixture
def reader(chain: LocalChain) -> Generator[ChainReader]:
    reader = ChainReader(84532, [chain.url], clock=lambda: datetime.now(UTC))
    yield reader
    reader.close()


def test_it_says_that_it_stands_in_for_anvil(chain: LocalChain, reader: ChainReader) -> None:
    assert chain.engine == "py-evm (npm is missing: anvil, the local EVM, is installed with it)"
    with pytest.raises(RpcRefusal, match="py-evm, which stands in for anvil, has no anvil_reorg"):
        chain.reorganise(1)
    assert [reader.find_token_fault(token) for token in (USDC, EURC)] == [None, None]


def test_a_payment_settles_once(chain: LocalChain, reader: ChainReader, payer: ChainPayer) -> None:
    books, before = Books(chain, payer), chain.get_balance(USDC, TO)
    sent, again = chain.settle(USDC, books.payment), chain.settle(USDC, books.payment)
    assert [books.look(reader), books.look(reader, again)] == [PaymentSettled(sent)] * 2
    assert chain.get_balance(USDC, TO) == before + PRICE


def test_a_cancelled_payment_fails(chain: LocalChain, reader: ChainReader, payer: ChainPayer) -> None:
    books = Books(chain, payer)
    payer.cancel(chain, USDC, books.payment.nonce)
    chain.mine()
    assert isinstance(books.look(reader), PaymentRefused)


def test_a_call_that_reverts_tells_why(chain: LocalChain) -> None:
    overdraft = {"to": USDC.address, "data": encode_call("transfer(address,uint256)", TO, 1)}
    with pytest.raises(RpcRefusal, match="execution reverted: ERC20: transfer amount exceeds balance"):
        chain.call("eth_call", overdraft, "latest")


def test_the_official_facilitator_settles(chain: LocalChain, reader: ChainReader, payer: ChainPayer) -> None:
    terms = make_terms()
    payment = sign_payment(payer, terms)
    with run_facilitator(chain.url) as facilitator:
        client = FacilitatorClient(FacilitatorSettings(facilitator.url))
        sent = client.settle(payment, terms)
        client.close()
    assert isinstance(sent, PaymentSent)
    assert sent.transaction_hash is not None
    assert chain.get_balance(USDC, terms.pay_to) == terms.amount


def test_a_node_that_does_not_start_says_why() -> None:
    with (
        pytest.raises(NoNode, match="the node did not start: no such chain"),
        run_node("the node", ["sh", "-c", "echo no such chain"]),
    ):
        pass

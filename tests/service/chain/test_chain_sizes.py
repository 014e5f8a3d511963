"""What strangers make large: they choose what a transaction that settles a payment logs, and its block."""

import pytest
from examples.chain.token import encode_call

from faregate.rules.payments import PaymentSettled
from faregate.service.chain.chain_reader import ChainReader
from tests.service.chain.books import PRICE, RECONCILING, TO, Books, MakeReader
from tests.support.chain import USDC, ChainPayer, LocalChain, settle_with_log
from tests.support.rpc_proxy import NO_ANSWER, Change, RpcProxy, fail_with


@pytest.fixture
def reader(chain: LocalChain, make_reader: MakeReader) -> ChainReader:
    return make_reader(chain.url)


def test_a_payment_in_a_transaction_with_a_large_log(
    chain: LocalChain, reader: ChainReader, books: Books
) -> None:
    """Its receipt has more than a megabyte."""
    sent = settle_with_log(chain, books.payment)
    assert chain.get_balance(USDC, TO) == PRICE
    assert books.look(reader) == PaymentSettled(sent)
    assert books.look(reader, sent) == PaymentSettled(sent)


@pytest.mark.parametrize("answer", [fail_with(-32005, "limit exceeded"), lambda params, result: NO_ANSWER])
def test_a_receipt_that_cannot_be_read_does_not_end_the_look(
    chain: LocalChain,
    reader: ChainReader,
    proxy: RpcProxy,
    make_reader: MakeReader,
    books: Books,
    answer: Change,
) -> None:
    sent = books.settle()
    proxy.change["eth_getTransactionReceipt"] = answer
    reader = make_reader(proxy.url)
    assert [books.look(reader), books.look(reader, sent)] == [PaymentSettled(sent)] * 2


@pytest.mark.parametrize("answer", [fail_with(-32005, "more than 10000 logs"), lambda params, result: None])
def test_a_block_whose_logs_cannot_be_read(
    proxy: RpcProxy, make_reader: MakeReader, books: Books, answer: Change
) -> None:
    """A stranger may add any number of transfers of nothing to it. The receipt is left."""
    sent = books.settle()
    proxy.change["eth_getLogs"] = lambda params, result: (
        result if len(params[0]["topics"]) == 3 else answer(params, result)
    )
    assert books.look(make_reader(proxy.url)) == PaymentSettled(sent)
    proxy.change["eth_getTransactionReceipt"] = fail_with(-32005, "too large")
    assert books.look(make_reader(proxy.url)) == RECONCILING


def test_transfers_of_nothing_in_the_same_block_do_not_count(
    chain: LocalChain, reader: ChainReader, payer: ChainPayer, books: Books
) -> None:
    transfer = encode_call("transferFrom(address,address,uint256)", payer.address, TO, 0)
    chain.set_automine(False)
    sent = [chain.send(USDC.address, transfer) for _ in range(3)]
    sent.insert(1, chain.settle(USDC, books.payment))
    chain.mine()
    blocks = [receipt["blockNumber"] for each in sent if (receipt := chain.get_receipt(each)) is not None]
    assert (len(blocks), len(set(blocks))) == (4, 1)
    assert books.look(reader) == PaymentSettled(sent[1])


def test_logs_that_a_node_leaves_out_refuse_nothing(
    chain: LocalChain, proxy: RpcProxy, make_reader: MakeReader, books: Books
) -> None:
    """A node may cut a list short: where the transfer is missing, it is not known to be another one."""
    books.settle()
    chain.mine(3)
    proxy.change["eth_getLogs"] = lambda params, result: result[:1]
    assert books.look(make_reader(proxy.url)) == RECONCILING

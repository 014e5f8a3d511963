"""Nodes that are down, behind, wrong, or lie: a payment then stays pending, whatever they say."""

import logging
import socket
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import faregate.payments.node
from faregate.payments.abi import encode_topic
from faregate.payments.chain import ChainReader
from faregate.payments.evidence import CANCELED
from faregate.service.payments import PaymentRefused, PaymentSettled, PaymentsUnavailable
from tests.payments.books import RECONCILING, SETTLING, TO, Books
from tests.support.chain import USDC, ChainPayer, LocalChain
from tests.support.rpc_proxy import NO_ANSWER, RpcProxy, fail_with

MakeReader = Callable[..., ChainReader]
ZERO = "0x" + "00" * 32


# Down


def test_no_node_answers(chain: LocalChain, make_reader: MakeReader, books: Books) -> None:
    sent = chain.settle(USDC, books.payment)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    reader = make_reader(f"http://127.0.0.1:{port}")
    assert books.look(reader, sent) == RECONCILING
    with pytest.raises(PaymentsUnavailable):
        reader.get_balance(USDC, TO)


def test_the_next_node_is_asked(
    chain: LocalChain, make_reader: MakeReader, proxy: RpcProxy, books: Books
) -> None:
    sent = chain.settle(USDC, books.payment)
    proxy.change["eth_chainId"] = lambda params, result: NO_ANSWER
    assert books.look(make_reader(proxy.url, chain.url), sent) == PaymentSettled(sent)


def test_a_node_that_hangs_leaves_time_for_the_next(
    chain: LocalChain, make_reader: MakeReader, books: Books
) -> None:
    sent = chain.settle(USDC, books.payment)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        silent = f"http://127.0.0.1:{listener.getsockname()[1]}"
        reader = make_reader(silent, silent, chain.url, look_seconds=6)
        assert books.look(reader, sent) == PaymentSettled(sent)


@pytest.mark.parametrize(
    "method",
    ["eth_getBlockByNumber", "eth_call", "eth_getLogs", "eth_getTransactionReceipt"],
)
@pytest.mark.parametrize("answer", ["error", "nothing", "null", "nonsense"])
def test_a_node_that_fails_half_way(
    chain: LocalChain, reader: ChainReader, proxy: RpcProxy, books: Books, method: str, answer: str
) -> None:
    chain.settle(USDC, books.payment)
    proxy.change[method] = {
        "error": fail_with(-32005, "limit exceeded"),
        "nothing": lambda params, result: NO_ANSWER,
        "null": lambda params, result: None,
        "nonsense": lambda params, result: {"hash": 7},
    }[answer]
    assert books.look(reader) == RECONCILING


# Behind


def stop_at(proxy: RpcProxy, chain: LocalChain, head: int) -> None:
    """Let the node know nothing after block `head`."""

    def show_block(params: list[Any], result: Any) -> Any:
        if params[0] == "latest":
            return chain.call("eth_getBlockByNumber", hex(head), False)
        if params[0] == "safe":
            return chain.call("eth_getBlockByNumber", hex(max(head - 1, 0)), False)
        return result if int(params[0], 16) <= head else None

    def show_receipt(params: list[Any], result: Any) -> Any:
        return result if result is not None and int(result["blockNumber"], 16) <= head else None

    def call(params: list[Any], result: Any) -> Any:
        return chain.call("eth_call", params[0], hex(head)) if params[1] == "latest" else result

    proxy.change["eth_getBlockByNumber"] = show_block
    proxy.change["eth_getTransactionReceipt"] = show_receipt
    proxy.change["eth_call"] = call


def test_a_node_that_lags_knows_nothing_yet(
    chain: LocalChain, make_reader: MakeReader, proxy: RpcProxy, books: Books
) -> None:
    head = chain.head
    sent = chain.settle(USDC, books.payment)
    stop_at(proxy, chain, head)
    assert books.look(make_reader(proxy.url), sent) == SETTLING
    assert books.look(make_reader(proxy.url, chain.url), sent) == PaymentSettled(sent)


def test_a_node_that_lags_does_not_see_an_expiry(
    chain: LocalChain, reader: ChainReader, proxy: RpcProxy, books: Books
) -> None:
    """By its blocks the payment may still settle, and in later ones it did."""
    head = chain.head
    sent = chain.settle(USDC, books.payment)
    chain.advance_time(301)
    stop_at(proxy, chain, head)
    assert books.look(reader, sent) == SETTLING


def test_a_node_whose_latest_block_is_far_older_than_the_payment(
    chain: LocalChain, reader: ChainReader, proxy: RpcProxy, payer: ChainPayer
) -> None:
    """It is one of another chain with the same id, where time passes, too."""
    chain.mine(70)
    books = Books(chain, payer)
    chain.advance_time(301)
    proxy.change["eth_getBlockByNumber"] = lambda params, result: {**result, "number": "0x3"}
    assert books.look(reader) == RECONCILING


def test_a_receipt_beyond_the_latest_block(
    chain: LocalChain, reader: ChainReader, proxy: RpcProxy, books: Books
) -> None:
    head = chain.head
    sent = chain.settle(USDC, books.payment)
    stop_at(proxy, chain, head)
    del proxy.change["eth_getTransactionReceipt"]
    assert books.look(reader, sent) == RECONCILING


def test_the_latest_block_in_front_of_the_receipt(
    chain: LocalChain, reader: ChainReader, proxy: RpcProxy, books: Books
) -> None:
    head = chain.head
    sent = chain.settle(USDC, books.payment)
    old = chain.call("eth_getBlockByNumber", hex(head), False)
    proxy.change["eth_getBlockByNumber"] = lambda params, result: old if params[0] == "latest" else result
    assert books.look(reader, sent) == RECONCILING


# Wrong


def change_receipt(proxy: RpcProxy, **fields: Any) -> None:
    proxy.change["eth_getTransactionReceipt"] = lambda params, result: {**result, **fields}


def test_a_receipt_of_a_block_that_was_replaced(
    chain: LocalChain, reader: ChainReader, proxy: RpcProxy, books: Books
) -> None:
    """Some nodes keep giving the receipts of a block that is no longer in the chain."""
    sent = chain.settle(USDC, books.payment)
    change_receipt(proxy, blockHash="0x" + "22" * 32)
    assert books.look(reader, sent) == RECONCILING


def test_a_receipt_of_another_transaction(
    chain: LocalChain, reader: ChainReader, proxy: RpcProxy, books: Books
) -> None:
    sent = chain.settle(USDC, books.payment)
    change_receipt(proxy)
    assert books.look(reader, sent) == PaymentSettled(sent)
    receipt = chain.get_receipt(sent)
    proxy.change["eth_getTransactionReceipt"] = lambda params, result: receipt
    assert books.look(reader, ZERO) == RECONCILING


def test_a_receipt_of_a_transaction_that_reverted(
    chain: LocalChain, reader: ChainReader, proxy: RpcProxy, books: Books
) -> None:
    """It has no logs; a node that shows some is not believed."""
    sent = chain.settle(USDC, books.payment)
    change_receipt(proxy, status="0x0")
    assert books.look(reader, sent) == RECONCILING


@pytest.mark.parametrize("logs", [0, 2])
def test_an_authorization_that_ended_in_no_log_or_twice(
    chain: LocalChain, reader: ChainReader, proxy: RpcProxy, books: Books, logs: int
) -> None:
    chain.settle(USDC, books.payment)
    proxy.change["eth_getLogs"] = lambda params, result: result * logs
    assert books.look(reader) == RECONCILING


def test_a_payment_of_long_before_it_was_authorized(
    chain: LocalChain, reader: ChainReader, books: Books
) -> None:
    """Then it was another sale of the same seller that it paid for."""
    sent = chain.settle(USDC, books.payment)
    chain.mine(70)
    books.attempt = replace(books.attempt, from_block=chain.head)
    assert [books.look(reader), books.look(reader, sent)] == [RECONCILING, RECONCILING]


def test_a_safe_block_ahead_of_the_latest(
    chain: LocalChain, reader: ChainReader, proxy: RpcProxy, books: Books
) -> None:
    chain.advance_time(301)
    latest = chain.call("eth_getBlockByNumber", "latest", False)
    proxy.change["eth_getBlockByNumber"] = lambda params, result: (
        {**latest, "number": hex(chain.head + 10)} if params[0] == "safe" else result
    )
    proxy.change["eth_call"] = lambda params, result: ZERO
    assert books.look(reader) == RECONCILING


def test_an_authorization_used_in_a_safe_block_but_not_in_the_latest(
    chain: LocalChain, reader: ChainReader, proxy: RpcProxy, books: Books
) -> None:
    chain.settle(USDC, books.payment)
    chain.advance_time(301)
    proxy.change["eth_call"] = lambda params, result: ZERO if params[1] == "latest" else result
    assert books.look(reader) == RECONCILING


def test_a_token_without_code(chain: LocalChain, reader: ChainReader, proxy: RpcProxy, books: Books) -> None:
    """The RPC URL is one of another chain with the same id, or the node is not synchronised."""
    chain.advance_time(301)
    proxy.change["eth_call"] = lambda params, result: "0x"
    assert books.look(reader) == RECONCILING


def test_a_chain_id_that_is_another(
    chain: LocalChain, reader: ChainReader, proxy: RpcProxy, books: Books
) -> None:
    sent = chain.settle(USDC, books.payment)
    proxy.change["eth_chainId"] = lambda params, result: "0x1"
    assert books.look(reader, sent) == RECONCILING


# Nodes that do not know a safe block


@pytest.mark.parametrize("answer", [fail_with(-32602, "unknown tag"), lambda params, result: None])
def test_depth_stands_in_for_a_safe_block(
    chain: LocalChain,
    reader: ChainReader,
    proxy: RpcProxy,
    books: Books,
    monkeypatch: pytest.MonkeyPatch,
    answer: Callable[[list[Any], Any], Any],
) -> None:
    monkeypatch.setattr(faregate.payments.node, "SAFE_DEPTH", 3)
    proxy.change["eth_getBlockByNumber"] = lambda params, result: (
        answer(params, result) if params[0] == "safe" else result
    )
    chain.advance_time(301)
    chain.mine(1)
    assert books.look(reader) == SETTLING
    chain.mine(1)
    assert isinstance(books.look(reader), PaymentRefused)


# Nodes that disagree


def deny(proxy: RpcProxy) -> None:
    """Let the node say that nothing of the payment is on the chain."""
    proxy.change["eth_getTransactionReceipt"] = lambda params, result: None
    proxy.change["eth_call"] = lambda params, result: ZERO


def forge_cancellation(proxy: RpcProxy) -> None:
    """Let the node show a cancellation instead of the payment."""

    def change_logs(logs: list[Any]) -> list[Any]:
        return [{**log, "topics": [CANCELED, *log["topics"][1:]]} for log in logs[:1]]

    proxy.change["eth_getLogs"] = lambda params, result: change_logs(result)
    proxy.change["eth_getTransactionReceipt"] = lambda params, result: {
        **result,
        "logs": change_logs(result["logs"]),
    }


@pytest.mark.parametrize("lie", [deny, forge_cancellation])
@pytest.mark.parametrize("liar_is_first", [True, False])
def test_one_node_does_not_fail_a_payment_that_another_proves(
    chain: LocalChain,
    make_reader: MakeReader,
    proxy: RpcProxy,
    books: Books,
    caplog: pytest.LogCaptureFixture,
    lie: Callable[[RpcProxy], None],
    liar_is_first: bool,
) -> None:
    sent = chain.settle(USDC, books.payment)
    chain.advance_time(301)
    lie(proxy)
    assert isinstance(books.look(make_reader(proxy.url)), PaymentRefused), "the lie is a good one"
    if liar_is_first:
        assert books.look(make_reader(proxy.url, chain.url)) == RECONCILING
        assert "disagree" in caplog.text
    else:
        assert books.look(make_reader(chain.url, proxy.url)) == PaymentSettled(sent)


def test_one_node_does_not_fail_a_payment_that_another_knows_nothing_of(
    chain: LocalChain, make_reader: MakeReader, proxy: RpcProxy, other_proxy: RpcProxy, books: Books
) -> None:
    head = chain.head
    chain.settle(USDC, books.payment)
    chain.advance_time(301)
    deny(proxy)
    stop_at(other_proxy, chain, head)
    for urls in ((proxy.url, other_proxy.url), (other_proxy.url, proxy.url)):
        assert books.look(make_reader(*urls)) == RECONCILING


def test_nodes_that_do_not_answer_have_no_say(
    chain: LocalChain, make_reader: MakeReader, proxy: RpcProxy, books: Books
) -> None:
    chain.advance_time(301)
    proxy.change["eth_call"] = fail_with(-32005, "limit exceeded")
    for urls in ((proxy.url, chain.url), (chain.url, proxy.url), (chain.url, chain.url)):
        assert isinstance(books.look(make_reader(*urls)), PaymentRefused)


def test_a_node_that_is_not_believed_is_logged(
    chain: LocalChain, reader: ChainReader, proxy: RpcProxy, books: Books, caplog: pytest.LogCaptureFixture
) -> None:
    chain.settle(USDC, books.payment)
    proxy.change["eth_getLogs"] = lambda params, result: []
    with caplog.at_level(logging.WARNING):
        books.look(reader)
    assert "is not believed: the authorization was used or cancelled, but no log tells where" in caplog.text
    assert books.payment.signature not in caplog.text
    assert encode_topic(books.payment.nonce) not in caplog.text

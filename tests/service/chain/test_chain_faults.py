"""Nodes that are down, behind, wrong, or lie: a payment then stays pending, whatever they say."""

import logging
import socket
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import faregate.service.chain.node
from faregate.rules.payments import PaymentRefused, PaymentSettled, PaymentsUnavailable
from faregate.service.chain.abi import encode_topic
from faregate.service.chain.chain_reader import ChainReader
from faregate.service.chain.evidence import CANCELED
from tests.service.chain.books import RECONCILING, SETTLING, TO, Books, FaultyNode
from tests.support.chain import USDC, ChainPayer, LocalChain
from tests.support.rpc_proxy import NO_ANSWER, RpcProxy, fail_with

ZERO = "0x" + "00" * 32


# Down


def test_no_node_answers(node: FaultyNode) -> None:
    sent = node.settle()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    node.reader = node.make_reader(f"http://127.0.0.1:{port}")
    assert node.look(sent) == RECONCILING
    with pytest.raises(PaymentsUnavailable):
        node.reader.get_balance(USDC, TO)


def test_the_next_node_is_asked(node: FaultyNode) -> None:
    sent = node.settle()
    node.change["eth_chainId"] = lambda params, result: NO_ANSWER
    assert node.books.look(node.make_reader(node.proxy.url, node.chain.url), sent) == PaymentSettled(sent)


def test_a_node_that_hangs_leaves_time_for_the_next(node: FaultyNode) -> None:
    sent = node.settle()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        silent = f"http://127.0.0.1:{listener.getsockname()[1]}"
        node.reader = node.make_reader(silent, silent, node.chain.url, look_seconds=6)
        assert node.look(sent) == PaymentSettled(sent)


@pytest.mark.parametrize("method", ["eth_getBlockByNumber", "eth_call", "eth_getLogs"])
@pytest.mark.parametrize("answer", ["error", "nothing", "null", "nonsense"])
def test_a_node_that_fails_half_way(node: FaultyNode, method: str, answer: str) -> None:
    node.settle()
    node.change[method] = {
        "error": fail_with(-32005, "limit exceeded"),
        "nothing": lambda params, result: NO_ANSWER,
        "null": lambda params, result: None,
        "nonsense": lambda params, result: {"hash": 7},
    }[answer]
    assert node.look() == RECONCILING


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


def test_a_node_that_lags_knows_nothing_yet(node: FaultyNode) -> None:
    head = node.chain.head
    sent = node.settle()
    stop_at(node.proxy, node.chain, head)
    assert node.look(sent) == SETTLING


def test_a_node_that_lags_does_not_see_an_expiry(node: FaultyNode) -> None:
    """By its blocks the payment may still settle, and in later ones it did."""
    head = node.chain.head
    sent = node.settle()
    node.chain.advance_time(301)
    stop_at(node.proxy, node.chain, head)
    assert node.look(sent) == SETTLING


def test_a_node_whose_latest_block_is_far_older_than_the_payment(
    chain: LocalChain, reader: ChainReader, proxy: RpcProxy, payer: ChainPayer
) -> None:
    """It is one of another chain with the same id, where time passes, too."""
    chain.mine(70)
    books = Books(chain, payer)
    chain.advance_time(301)
    proxy.change["eth_getBlockByNumber"] = lambda params, result: {**result, "number": "0x3"}
    assert books.look(reader) == RECONCILING


def test_a_receipt_beyond_the_latest_block(node: FaultyNode) -> None:
    head = node.chain.head
    sent = node.settle()
    stop_at(node.proxy, node.chain, head)
    del node.change["eth_getTransactionReceipt"]
    assert node.look(sent) == RECONCILING


def test_a_block_proves_that_the_latest_one_is_not_before_it(node: FaultyNode) -> None:
    """The nodes behind one address are not at the same block. One confirmation needs no latest block."""
    head = node.chain.head
    sent = node.settle()
    old = node.chain.call("eth_getBlockByNumber", hex(head), False)
    node.change["eth_getBlockByNumber"] = lambda params, result: old if params[0] == "latest" else result
    assert node.look(sent) == PaymentSettled(sent)
    node.reader = node.make_reader(node.proxy.url, confirmations=2)
    assert node.look(sent) == SETTLING


# Wrong


def change_receipt(proxy: RpcProxy, **fields: Any) -> None:
    proxy.change["eth_getTransactionReceipt"] = lambda params, result: {**result, **fields}


@pytest.mark.parametrize(
    "fields", [{"blockHash": "0x" + "22" * 32}, {"status": "0x0"}], ids=["replaced", "reverted"]
)
def test_a_receipt_of_a_block_that_was_replaced_or_of_a_transaction_that_reverted(
    node: FaultyNode, fields: dict[str, str]
) -> None:
    """Some nodes keep giving the receipts of a block that is no longer in the chain.

    What reverted has no logs; a node that shows some is not believed.
    """
    sent = node.settle()
    change_receipt(node.proxy, **fields)
    assert node.look(sent) == RECONCILING


def test_a_receipt_of_another_transaction(node: FaultyNode) -> None:
    sent = node.settle()
    change_receipt(node.proxy)
    assert node.look(sent) == PaymentSettled(sent)
    receipt = node.chain.get_receipt(sent)
    node.change["eth_getTransactionReceipt"] = lambda params, result: receipt
    node.change["eth_getLogs"] = fail_with(-32005, "limit exceeded")
    assert node.look(ZERO) == RECONCILING


@pytest.mark.parametrize("logs", [0, 2])
def test_an_authorization_that_ended_in_no_log_or_twice(node: FaultyNode, logs: int) -> None:
    node.settle()
    node.change["eth_getLogs"] = lambda params, result: result * logs
    assert node.look() == RECONCILING


def test_a_payment_of_long_before_it_was_authorized(node: FaultyNode) -> None:
    """Then it was another sale of the same seller that it paid for."""
    sent = node.settle()
    node.chain.mine(70)
    node.books.attempt = replace(node.books.attempt, from_block=node.chain.head)
    assert [node.look(), node.look(sent)] == [RECONCILING, RECONCILING]


def test_a_safe_block_ahead_of_the_latest(node: FaultyNode) -> None:
    node.chain.advance_time(301)
    latest = node.chain.call("eth_getBlockByNumber", "latest", False)
    node.change["eth_getBlockByNumber"] = lambda params, result: (
        {**latest, "number": hex(node.chain.head + 10)} if params[0] == "safe" else result
    )
    node.change["eth_call"] = lambda params, result: ZERO
    assert node.look() == RECONCILING


def test_an_authorization_used_in_a_safe_block_but_not_in_the_latest(node: FaultyNode) -> None:
    node.settle()
    node.chain.advance_time(301)
    node.change["eth_call"] = lambda params, result: ZERO if params[1] == "latest" else result
    assert node.look() == RECONCILING


def test_a_token_without_code(node: FaultyNode) -> None:
    """The RPC URL is one of another chain with the same id, or the node is not synchronised."""
    node.chain.advance_time(301)
    node.change["eth_call"] = lambda params, result: "0x"
    assert node.look() == RECONCILING


def test_a_chain_id_that_is_another(node: FaultyNode) -> None:
    sent = node.settle()
    node.change["eth_chainId"] = lambda params, result: "0x1"
    assert node.look(sent) == RECONCILING


# Nodes that do not know a safe block


@pytest.mark.parametrize("answer", [fail_with(-32602, "unknown tag"), lambda params, result: None])
def test_depth_stands_in_for_a_safe_block(
    node: FaultyNode, monkeypatch: pytest.MonkeyPatch, answer: Callable[[list[Any], Any], Any]
) -> None:
    monkeypatch.setattr(faregate.service.chain.node, "SAFE_DEPTH", 3)
    node.change["eth_getBlockByNumber"] = lambda params, result: (
        answer(params, result) if params[0] == "safe" else result
    )
    node.chain.advance_time(301)
    node.chain.mine(1)
    assert node.look() == SETTLING
    node.chain.mine(1)
    assert isinstance(node.look(), PaymentRefused)


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
    node: FaultyNode, caplog: pytest.LogCaptureFixture, lie: Callable[[RpcProxy], None], liar_is_first: bool
) -> None:
    sent = node.settle()
    node.chain.advance_time(301)
    lie(node.proxy)
    assert isinstance(node.look(), PaymentRefused), "the lie is a good one"
    urls = (node.proxy.url, node.chain.url) if liar_is_first else (node.chain.url, node.proxy.url)
    assert node.books.look(node.make_reader(*urls), sent) == RECONCILING
    assert "disagree" in caplog.text


def test_one_node_does_not_fail_a_payment_that_another_knows_nothing_of(
    node: FaultyNode, other_proxy: RpcProxy
) -> None:
    head = node.chain.head
    node.settle()
    node.chain.advance_time(301)
    deny(node.proxy)
    stop_at(other_proxy, node.chain, head)
    for urls in ((node.proxy.url, other_proxy.url), (other_proxy.url, node.proxy.url)):
        assert node.books.look(node.make_reader(*urls)) == RECONCILING


def test_nodes_that_do_not_answer_have_no_say(node: FaultyNode) -> None:
    node.chain.advance_time(301)
    node.change["eth_call"] = fail_with(-32005, "limit exceeded")
    broken, good = node.proxy.url, node.chain.url
    for urls in ((broken, good), (good, broken), (good, good)):
        assert isinstance(node.books.look(node.make_reader(*urls)), PaymentRefused)


def test_a_node_that_is_not_believed_is_logged(node: FaultyNode, caplog: pytest.LogCaptureFixture) -> None:
    node.settle()
    node.change["eth_getLogs"] = lambda params, result: []
    with caplog.at_level(logging.WARNING):
        node.look()
    assert "is not believed: the authorization was used or cancelled, but no log tells where" in caplog.text
    assert node.books.payment.signature not in caplog.text
    assert encode_topic(node.books.payment.nonce) not in caplog.text

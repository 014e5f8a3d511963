"""Several nodes: a settlement that one proves counts once another proves it, or no other one has a say."""

import socket
import threading
import time
from collections.abc import Generator
from typing import Any

import pytest

import faregate.service.chain.settlement_agreement
from faregate.rules.payments import PaymentSettled
from faregate.service.chain.chain_reader import ChainReader
from faregate.service.chain.settlement_agreement import STALE_SECONDS
from tests.service.chain.books import RECONCILING, SETTLING, Books, FaultyNode, MakeReader
from tests.service.chain.test_chain_faults import deny, stop_at
from tests.support.chain import USDC, ChainPayer, LocalChain, start_chain
from tests.support.rpc_proxy import NO_ANSWER, RpcProxy
from tests.support.waiting import PATIENCE

CONFIRM_SECONDS = 2.0


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faregate.service.chain.settlement_agreement, "CONFIRM_SECONDS", CONFIRM_SECONDS)


@pytest.fixture
def liar(chain: LocalChain, payer: ChainPayer) -> Generator[LocalChain]:
    """A node of a chain with the same id, where other things happen."""
    with start_chain() as liar:
        liar.mint(USDC, payer.address, 100_000_000)
        yield liar


def count_disagreements(reader: ChainReader) -> list[int]:
    return [node.disagreements for node in reader.client.nodes]


@pytest.mark.parametrize("is_preferred", [False, True])
def test_one_node_alone_does_not_prove_a_settlement_that_another_denies(
    chain: LocalChain,
    liar: LocalChain,
    books: Books,
    make_reader: MakeReader,
    caplog: pytest.LogCaptureFixture,
    is_preferred: bool,
) -> None:
    sent = liar.settle(USDC, books.payment)
    chain.mine(2)
    assert books.look(make_reader(liar.url)) == PaymentSettled(sent), "the lie is a good one"
    reader = make_reader(liar.url, chain.url) if is_preferred else make_reader(chain.url, liar.url)
    assert [books.look(reader), books.look(reader, sent)] == [RECONCILING, RECONCILING]
    assert count_disagreements(reader) == [2, 2]
    assert "RPC nodes disagree about a payment" in caplog.text
    # It is looked at again, and counts once it is true.
    sent = books.settle()
    assert not isinstance(books.look(reader, sent), PaymentSettled)
    assert books.look(make_reader(chain.url, chain.url)) == PaymentSettled(sent)


def test_a_node_cannot_invent_a_block_that_others_would_wait_for(
    chain: LocalChain, liar: LocalChain, books: Books, make_reader: MakeReader
) -> None:
    liar.mine(100)
    liar.settle(USDC, books.payment)
    chain.mine()
    reader = make_reader(chain.url, liar.url)
    assert books.look(reader) == RECONCILING
    assert count_disagreements(reader) == [1, 1]


@pytest.mark.parametrize("liar_at", [0, 1, 2])
def test_most_nodes_decide(node: FaultyNode, liar_at: int) -> None:
    """A node that denies for ever keeps no payment open where two others prove it."""
    sent = node.settle()
    deny(node.proxy)
    urls = [node.chain.url, node.chain.url]
    urls.insert(liar_at, node.proxy.url)
    reader = node.make_reader(*urls)
    assert node.books.look(reader) == PaymentSettled(sent)
    # With two proofs before it, the third is not asked.
    assert count_disagreements(reader) == [int(at == liar_at < 2) for at in range(3)]


def test_a_node_that_is_behind_is_waited_for(node: FaultyNode) -> None:
    head = node.chain.head
    sent = node.settle()
    stop_at(node.proxy, node.chain, head)
    catches_up = threading.Timer(1, node.change.clear)
    catches_up.start()
    reader = node.make_reader(node.chain.url, node.proxy.url)
    assert node.books.look(reader) == PaymentSettled(sent)
    catches_up.join()
    assert count_disagreements(reader) == [0, 0]


def test_a_node_that_stays_behind_keeps_the_payment_open_for_a_bounded_time(node: FaultyNode) -> None:
    head = node.chain.head
    sent = node.settle()
    stop_at(node.proxy, node.chain, head)
    reader = node.make_reader(node.chain.url, node.proxy.url)
    began = time.monotonic()
    assert node.books.look(reader, sent) == SETTLING
    assert time.monotonic() - began < CONFIRM_SECONDS + PATIENCE
    assert count_disagreements(reader) == [0, 0]
    # By then its latest block is old: it stands still.
    node.chain.advance_time(STALE_SECONDS + 1)
    assert node.books.look(reader, sent) == PaymentSettled(sent)


def test_a_second_node_waits_for_the_confirmations_too(node: FaultyNode) -> None:
    sent = node.settle()
    node.chain.mine()
    stop_at(node.proxy, node.chain, node.chain.head - 1)
    reader = node.make_reader(node.chain.url, node.proxy.url, confirmations=2)
    assert node.books.look(reader) == SETTLING
    assert count_disagreements(reader) == [0, 0]
    node.change.clear()
    assert node.books.look(reader) == PaymentSettled(sent)


@pytest.mark.parametrize("down_is_preferred", [False, True])
def test_where_no_other_node_answers_one_is_enough(
    chain: LocalChain, books: Books, make_reader: MakeReader, down_is_preferred: bool
) -> None:
    sent = books.settle()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        closed = f"http://127.0.0.1:{listener.getsockname()[1]}"
    urls = [closed, chain.url] if down_is_preferred else [chain.url, closed]
    reader = make_reader(*urls)
    assert books.look(reader) == PaymentSettled(sent)
    down = reader.client.nodes[urls.index(closed)]
    assert down.is_resting()
    assert books.look(reader) == PaymentSettled(sent)
    assert down.requests == 1, "it rests"


def test_a_slow_node_does_not_take_the_time_of_the_second(
    chain: LocalChain, liar: LocalChain, books: Books, proxy: RpcProxy, make_reader: MakeReader
) -> None:
    """A liar is not believed because the other node had no time left, nor because it answered only once."""
    sent = liar.settle(USDC, books.payment)
    chain.mine(2)

    def delay(params: list[Any], result: Any) -> Any:
        time.sleep(0.4)
        return result

    proxy.change["eth_call"] = delay
    assert books.look(make_reader(proxy.url, liar.url, look_seconds=0.9), sent) == RECONCILING


def test_an_answer_that_fails_has_no_say(node: FaultyNode) -> None:
    sent = node.settle()
    node.change["eth_getBlockByNumber"] = lambda params, result: NO_ANSWER
    assert node.books.look(node.make_reader(node.chain.url, node.proxy.url)) == PaymentSettled(sent)

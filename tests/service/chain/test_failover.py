"""Peers that stand in for each other: one that failed is asked last for a while, and nobody waits for it."""

import socket
import threading
import time
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest

from faregate.rules.payments import PaymentSettled, PaymentsUnavailable, PaymentVerified
from faregate.service.chain.chain_reader import ChainReader
from faregate.service.chain.deadline import get_time_left, limit_time
from faregate.service.chain.direct.gas_account import GasAccount
from faregate.service.chain.direct.signers import KeySigner
from faregate.service.chain.node_order import FIRST_REST, LONGEST_REST, Rest, take_turns
from faregate.service.chain.rpc import RpcClient, RpcError
from tests.service.chain.books import Books, MakeReader
from tests.service.chain.direct_fixtures import DirectSettlement
from tests.service.chain.facilitated import sign_payment
from tests.service.chain.gas_books import POLICY, PatientPayments
from tests.service.chain.gas_books import TERMS as DIRECT_TERMS
from tests.support.chain import USDC, LocalChain
from tests.support.rpc_proxy import NO_ANSWER, RpcProxy
from tests.support.waiting import PATIENCE


@dataclass
class Peer:
    name: str
    rest: Rest = field(default_factory=Rest)


@pytest.fixture
def peers() -> list[Peer]:
    return [Peer("a"), Peer("b"), Peer("c")]


@pytest.fixture
def hanging_url() -> Generator[str]:
    """A node that takes connections, and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


# Turns


def order(peers: list[Peer], now: float) -> str:
    """List who is asked if each of them fails."""
    return "".join(peer.name for peer, _ in take_turns(peers, now))


def test_a_peer_that_failed_is_asked_last(peers: list[Peer]) -> None:
    assert order(peers, 0) == "abc"
    peers[0].rest.record_failure(0)
    assert order(peers, 1) == "bca"
    peers[0].rest.record_success()
    assert order(peers, 2) == "abc"


def test_after_its_rest_one_request_tries_it(peers: list[Peer]) -> None:
    peers[0].rest.record_failure(0)
    assert order(peers, FIRST_REST - 1) == "bca"
    assert [order(peers, FIRST_REST), order(peers, FIRST_REST)] == ["abc", "bca"]
    assert order(peers, FIRST_REST + 60) == "abc", "the request that tried it may have died"


def test_a_peer_that_is_not_asked_is_not_tried(peers: list[Peer]) -> None:
    peers[1].rest.record_failure(0)
    assert next(take_turns(peers, FIRST_REST)) == (peers[0], False)
    assert order(peers, FIRST_REST) == "abc"


def test_each_rest_is_twice_as_long_up_to_a_bound(peers: list[Peer]) -> None:
    moment, rests = 0.0, list[float]()
    for _ in range(6):
        next(take_turns(peers[:1], moment))
        peers[0].rest.record_failure(moment)
        began = moment
        while peers[0].rest.is_resting(moment):
            moment += 1
        rests.append(moment - began)
    assert rests == [FIRST_REST, 60, 120, 240, LONGEST_REST, LONGEST_REST]
    peers[0].rest.record_success()
    peers[0].rest.record_failure(moment)
    assert not peers[0].rest.is_resting(moment + FIRST_REST)


def test_many_calls_that_fail_together_are_one_failure(peers: list[Peer]) -> None:
    for _ in range(20):
        peers[0].rest.record_failure(0)
    assert not peers[0].rest.is_resting(FIRST_REST)


# Deadlines


def test_the_earliest_deadline_counts() -> None:
    assert get_time_left(5) == 5
    with limit_time(300):
        assert 200 < get_time_left(500) <= 300
        with limit_time(1000):
            assert get_time_left(1000) <= 300
        with limit_time(100):
            assert get_time_left(500) <= 100
        assert get_time_left(0.1) == 0.1
    assert get_time_left(5) == 5


def test_a_deadline_is_of_one_thread() -> None:
    seen: list[float] = []
    with limit_time(1):
        thread = threading.Thread(target=lambda: seen.append(get_time_left(5)))
        thread.start()
        thread.join()
    assert seen == [5]


# A preferred node that hangs


def test_a_node_that_hangs_is_waited_for_once(
    chain: LocalChain, make_reader: MakeReader, books: Books, hanging_url: str
) -> None:
    reader = make_reader(hanging_url, chain.url)
    for _ in range(11):
        reader.get_head()
    assert not isinstance(books.look(reader), PaymentSettled)
    sent = books.settle()
    assert books.look(reader, sent) == books.look(reader) == PaymentSettled(sent)
    hanging, healthy = reader.client.nodes
    assert (hanging.requests, hanging.failures, hanging.is_resting()) == (1, 1, True)
    assert healthy.requests > 10
    assert (healthy.failures, healthy.is_resting()) == (0, False)


def test_a_payment_is_verified_and_settled_although_the_preferred_node_hangs(
    chain: LocalChain, direct: DirectSettlement, hanging_url: str
) -> None:
    """The node that hangs is waited for once, by the first access; a seller waits longer than that."""
    worker = direct.start()
    reader = ChainReader(USDC.chain, [hanging_url, chain.url], clock=direct.clock)
    worker.account = GasAccount(reader, KeySigner(direct.gas.private_key), direct.clock, POLICY)
    worker.payments = PatientPayments(worker.account, reader, chain)
    for _ in range(2):
        payment = sign_payment(direct.payer, DIRECT_TERMS)
        verified = worker.payments.verify(payment, DIRECT_TERMS, now=datetime.now(UTC), committed=0)
        assert isinstance(verified, PaymentVerified)
        assert isinstance(worker.attempt(direct.books.add(payment)), PaymentSettled)
        hanging, _ = reader.client.nodes
        assert hanging.requests == 1
    reader.close()


def test_nodes_that_hang_do_not_hold_a_request(hanging_url: str) -> None:
    with closing(RpcClient([hanging_url] * 3, seconds=8 * PATIENCE)) as client:
        began = time.monotonic()
        with limit_time(1), pytest.raises(RpcError):
            client.call("eth_blockNumber")
    assert time.monotonic() - began < 4 * PATIENCE, "what one call alone would have taken"


def test_a_node_that_rests_is_asked_where_no_other_answers(
    chain: LocalChain, make_reader: MakeReader, proxy: RpcProxy
) -> None:
    reader = make_reader(proxy.url)
    proxy.change["eth_getBlockByNumber"] = lambda params, result: NO_ANSWER
    with pytest.raises(PaymentsUnavailable):
        reader.get_head()
    assert reader.client.nodes[0].is_resting()
    del proxy.change["eth_getBlockByNumber"]
    assert reader.get_head() == chain.head
    assert not reader.client.nodes[0].is_resting()


@pytest.mark.parametrize(("status", "rests"), [(200, False), (400, False), (429, True), (503, True)])
def test_a_node_that_is_busy_rests(
    make_reader: MakeReader, proxy: RpcProxy, status: int, rests: bool
) -> None:
    reader = make_reader(proxy.url)
    reader.get_head()
    proxy.raw, proxy.status = b'{"error": {"code": -32005, "message": "limit exceeded"}}', status
    with pytest.raises(PaymentsUnavailable):
        reader.get_head()
    assert reader.client.nodes[0].is_resting() is rests

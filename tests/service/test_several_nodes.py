"""Two nodes, of which one is wrong: what is said of money needs the word of both, on a real EVM."""

from collections.abc import Generator, Iterator
from datetime import timedelta
from typing import Any

import pytest

from faregate.errors import ConfigurationError
from faregate.rules.payments import PaymentsUnavailable
from faregate.service import reconciliation
from faregate.service.chain.chain_reader import ChainReader
from faregate.service.chain.settlement_agreement import STALE_SECONDS
from faregate.service.database import reorg_records
from faregate.service.database.engine import Database
from faregate.service.database.refunds import list_refunds_of
from tests.crash.service.fork import matches
from tests.service.planted import Day, open_reader
from tests.service.sales import open_store
from tests.service.test_refunds import pay_back, record
from tests.service.test_reorg_watch import Clock, Facilitator, Watched
from tests.support.chain import ChainPayer, LocalChain, payer
from tests.support.rpc_proxy import RpcProxy, serve_rpc_proxy

__all__ = ["payer"]
UNUSED = "0x" + "00" * 32


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconciliation, "DISPUTE_SECONDS", 0.0)
    monkeypatch.setattr("faregate.service.chain.settlement_agreement.CONFIRM_SECONDS", 1.0)


@pytest.fixture
def day(database: Database, chain: LocalChain, payer: ChainPayer, clock: Clock) -> Day:
    return Day(database, open_store(database, clock), chain, payer)


@pytest.fixture
def node(chain: LocalChain) -> Generator[RpcProxy]:
    """A node that a test makes wrong."""
    with serve_rpc_proxy(chain.url) as proxy:
        yield proxy


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["preferred", "second"])
def reader(
    request: pytest.FixtureRequest, chain: LocalChain, node: RpcProxy, clock: Clock
) -> Iterator[ChainReader]:
    """Both nodes; the wrong one is preferred, or the second."""
    urls = [node.url, chain.url] if request.param == "preferred" else [chain.url, node.url]
    made = ChainReader(84532, urls, clock=clock)
    yield made
    made.close()


def hide_transfers(node: RpcProxy) -> None:
    """Deny all that tokens have logged, and that any authorization was used."""
    node.change["eth_getLogs"] = lambda _params, _result: []
    node.change["eth_getTransactionReceipt"] = lambda _params, _result: None
    node.change["eth_call"] = lambda _params, _result: UNUSED


def count_disagreements(reader: ChainReader) -> list[bool]:
    return [node.disagreements > 0 for node in reader.client.nodes]


# Reading again until a block is safe


@pytest.fixture
def watched(day: Day, reader: ChainReader, clock: Clock) -> Watched:
    return Watched(day, Facilitator(day.chain, reader), reader, clock)


def test_a_node_that_denies_a_transfer_makes_nothing_loose(
    day: Day, watched: Watched, reader: ChainReader, node: RpcProxy
) -> None:
    sold = watched.sell()
    day.chain.advance_time(30)
    day.chain.mine(2)
    hide_transfers(node)
    watched.wait()
    watched.turn()
    assert (watched.get_state(sold), len(watched.payments.sent)) == (None, 1)
    assert reorg_records.summarize_reorgs(day.database).unchecked_since is not None
    assert count_disagreements(reader) == [True, True]
    node.change.clear()
    watched.turn()
    assert reorg_records.summarize_reorgs(day.database).unchecked_since is None


def test_a_node_that_still_shows_a_lost_transfer_does_not_make_it_safe(
    day: Day, watched: Watched, node: RpcProxy
) -> None:
    """The preferred node is on a fork: the service would never notice that the chain has lost the payment."""
    sold = watched.sell()
    shown = day.chain.call("eth_getLogs", {"fromBlock": "0x0", "toBlock": "latest"})
    watched.lose(30)
    node.change["eth_getLogs"] = lambda _params, _result: select(shown, _params[0])
    watched.wait()
    day.chain.mine(3)
    watched.watch.check()
    assert reorg_records.summarize_reorgs(day.database).unchecked_since is not None or watched.get_state(sold)
    node.change.clear()
    watched.turn()
    assert watched.get_state(sold) == "open"
    assert watched.received == 1


def select(logs: list[Any], wanted: dict[str, Any]) -> list[Any]:
    """Select as `eth_getLogs` does."""
    first, last = int(wanted["fromBlock"], 16), int(wanted["toBlock"], 16)
    return [log for log in logs if first <= int(log["blockNumber"], 16) <= last and matches(log, wanted)]


# Books and chain


@pytest.mark.parametrize("plant", ["plant_missing", "plant_charged_failed", "plant_foreign"])
def test_a_transfer_that_one_node_hides_is_named(
    day: Day, reader: ChainReader, node: RpcProxy, plant: str
) -> None:
    getattr(day, plant)()
    day.chain.advance_time(60)
    hide_transfers(node)
    [difference], result = day.reconcile(reader)
    assert (difference.kind, difference.excess) == ("disputed", 0)
    shown, hidden = [one.host for one in reader.client.nodes if one.host not in node.url], node.url
    assert difference.chain == f"shown by {shown[0]}, not by {hidden.split('/')[2]}"
    assert not result.is_equal
    assert count_disagreements(reader) == [True, True]


def test_a_payment_whose_transfer_one_node_hides_is_named_once(
    day: Day, reader: ChainReader, node: RpcProxy
) -> None:
    sold = day.sell()
    day.chain.advance_time(60)
    hide_transfers(node)
    [difference], result = day.reconcile(reader)
    assert (difference.kind, difference.transaction) == ("disputed", sold.id)
    assert "succeeded in the books" in difference.books
    # The books say that it was received, and nothing proves the contrary.
    assert result.on_chain == result.settled


def test_a_payment_that_both_deny_is_unpaid(day: Day, reader: ChainReader) -> None:
    day.plant_unpaid()
    day.chain.advance_time(60)
    [difference], _ = day.reconcile(reader)
    assert difference.kind == "unpaid"
    assert count_disagreements(reader) == [False, False]


@pytest.mark.parametrize("liar_at", [0, 1, 2])
def test_most_nodes_decide(day: Day, node: RpcProxy, liar_at: int) -> None:
    day.sell()
    day.plant_missing()
    day.chain.advance_time(60)
    hide_transfers(node)
    urls = [day.chain.url, day.chain.url]
    urls.insert(liar_at, node.url)
    reader = open_reader(day.chain, *urls)
    [difference], _ = day.reconcile(reader)
    assert difference.kind == "missing"
    assert count_disagreements(reader) == [at == liar_at for at in range(3)]
    reader.close()


def test_a_node_that_is_behind_ends_the_comparison_earlier(
    day: Day, reader: ChainReader, node: RpcProxy, clock: Clock
) -> None:
    old = day.chain.call("eth_getBlockByNumber", "latest", False)
    day.plant_foreign()

    def stop(params: list[Any], result: Any) -> Any:
        return old if params[0] in ("latest", "safe") else result

    node.change["eth_getBlockByNumber"] = stop
    found, result = day.reconcile(reader)
    assert (found, result.last_block) == ([], int(old["number"], 16))
    # Once its latest block is old, it stands still and has no say.
    day.chain.advance_time(STALE_SECONDS + 5)
    clock.ahead += timedelta(seconds=STALE_SECONDS + 5)
    [difference], _ = day.reconcile(reader)
    assert difference.kind == "foreign"


def test_a_node_that_does_not_answer_has_no_say(day: Day, reader: ChainReader, node: RpcProxy) -> None:
    day.plant_missing()
    node.status = 503
    [difference], _ = day.reconcile(reader)
    assert difference.kind == "missing"


def test_a_node_without_logs_has_no_say(day: Day, reader: ChainReader, node: RpcProxy) -> None:
    day.plant_missing()
    node.change["eth_getLogs"] = lambda _params, _result: {"no": "list"}
    [difference], _ = day.reconcile(reader)
    assert difference.kind == "missing"


# Refunds


def test_a_refund_that_one_node_denies_is_not_recorded(day: Day, reader: ChainReader, node: RpcProxy) -> None:
    sold = day.sell()
    sent = pay_back(day)
    hide_transfers(node)
    with pytest.raises(PaymentsUnavailable, match="nodes disagree"):
        record(day, reader, sold, sent)
    assert list_refunds_of(day.database, day.store.account.id, sold.id) == []
    node.change.clear()
    made = record(day, reader, sold, sent)
    assert made.transaction == sold.id
    hide_transfers(node)
    found = {one.kind for one in day.reconcile(reader)[0]}
    assert found == {"disputed"}


def test_a_refund_is_safe_at_each_node(day: Day, reader: ChainReader, node: RpcProxy) -> None:
    sold = day.sell()
    sent = pay_back(day)
    first = day.chain.call("eth_getBlockByNumber", "0x1", False)

    def hold_back(params: list[Any], result: Any) -> Any:
        return first if params[0] == "safe" else result

    node.change["eth_getBlockByNumber"] = hold_back
    with pytest.raises(ConfigurationError, match="may still be replaced"):
        record(day, reader, sold, sent)

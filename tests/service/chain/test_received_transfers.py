"""What addresses received, as a chain's logs tell it, on a real EVM."""

from itertools import pairwise
from typing import Any

import pytest

from faregate.rules.payments import PaymentsUnavailable
from faregate.service.chain.chain_reader import ChainReader
from faregate.service.chain.received_transfers import (
    ReceivedTransfer,
    find_block_at,
    get_block_time,
    list_transfers_of,
    read_transfers,
)
from tests.service.chain.books import PRICE, TO
from tests.service.chain.test_chain_together import settle_together
from tests.support.chain import EURC, USDC, ChainPayer, LocalChain
from tests.support.rpc_proxy import RpcFault, RpcProxy, fail_with

OTHER = "0x" + "cd" * 20
TOKENS = (USDC, EURC)


def read(reader: ChainReader, *addresses: str, first: int = 0) -> list[ReceivedTransfer]:
    pages = read_transfers(reader.open_view(), TOKENS, addresses or (TO,), first)
    return [transfer for page in pages for transfer in page.transfers]


def test_payments_and_other_transfers(chain: LocalChain, payer: ChainPayer, reader: ChainReader) -> None:
    first, second = (payer.authorize(USDC, to, PRICE) for to in (TO, OTHER))
    hashes = [chain.settle(USDC, payment) for payment in (first, second)]
    moved = chain.move(USDC, payer.address, TO, 7)
    chain.move(USDC, payer.address, TO, 0)
    minted = chain.mint(EURC, TO.upper().replace("0X", "0x"), 9)
    found = read(reader, TO, OTHER)
    assert [(one.transaction_hash, one.value, one.nonce, one.to) for one in found] == [
        (hashes[0], PRICE, first.nonce, TO),
        (hashes[1], PRICE, second.nonce, OTHER),
        (moved, 7, None, TO),
        (minted, 9, None, TO),
    ]
    assert [one.sender for one in found[:3]] == [payer.address.lower()] * 3
    assert [one.asset for one in found] == [USDC.address.lower()] * 3 + [EURC.address.lower()]
    assert [one.block for one in read(reader, first=found[1].block)] == [one.block for one in found[2:]]


def test_each_of_several_transfers_has_its_own_nonce(
    chain: LocalChain, payer: ChainPayer, reader: ChainReader
) -> None:
    payments = [payer.authorize(USDC, TO, PRICE) for _ in range(3)]
    to_oneself = payer.authorize(USDC, payer.address, PRICE)
    sent = settle_together(chain, payments[0], to_oneself, *payments[1:])
    assert [one.nonce for one in read(reader)] == [one.nonce for one in payments]
    listed = list_transfers_of(reader.open_view(), USDC, sent, TO)
    assert listed is not None
    assert [one.nonce for one in listed] == [one.nonce for one in payments]


def test_a_range_that_a_node_refuses_is_halved(
    chain: LocalChain, payer: ChainPayer, reader: ChainReader, proxy: RpcProxy
) -> None:
    for _ in range(3):
        chain.settle(USDC, payer.authorize(USDC, TO, PRICE))
        chain.mine(5)

    def limit(params: list[Any], result: Any) -> Any:
        if int(params[0]["toBlock"], 16) - int(params[0]["fromBlock"], 16) >= 4:
            raise RpcFault(-32005, "range too wide")
        return result

    proxy.change["eth_getLogs"] = limit
    pages = list(read_transfers(reader.open_view(), TOKENS, [TO], 0))
    assert sum(len(page.transfers) for page in pages) == 3
    ends = [(page.first, page.last) for page in pages]
    assert ends[0][0] == 0
    assert ends[-1][1] == chain.head
    assert all(later[0] == earlier[1] + 1 for earlier, later in pairwise(ends))


def test_a_node_that_gives_no_logs_is_no_empty_page(
    chain: LocalChain, payer: ChainPayer, reader: ChainReader, proxy: RpcProxy
) -> None:
    chain.settle(USDC, payer.authorize(USDC, TO, PRICE))
    proxy.change["eth_getLogs"] = fail_with(-32000, "not here")
    with pytest.raises(PaymentsUnavailable):
        read(reader)
    view = reader.open_view()
    proxy.status = 503
    with pytest.raises(PaymentsUnavailable):
        list(read_transfers(view, TOKENS, [TO], 0))
    with pytest.raises(PaymentsUnavailable):
        reader.open_view()


def test_transfers_of_one_transaction(chain: LocalChain, payer: ChainPayer, reader: ChainReader) -> None:
    moved = chain.move(USDC, payer.address, TO, 7)
    found = list_transfers_of(reader.open_view(), USDC, moved, TO)
    assert found is not None
    assert [(one.value, one.nonce) for one in found] == [(7, None)]
    assert list_transfers_of(reader.open_view(), EURC, moved, TO) == ()
    assert list_transfers_of(reader.open_view(), USDC, "0x" + "00" * 32, TO) is None
    poor = chain.settle(USDC, ChainPayer().authorize(USDC, TO, PRICE))
    assert list_transfers_of(reader.open_view(), USDC, poor, TO) is None


def test_a_block_is_found_by_its_time(chain: LocalChain, reader: ChainReader) -> None:
    chain.advance_time(1000)
    moment = chain.time
    chain.advance_time(1000)
    view = reader.open_view()
    for wanted in (moment, moment + 1):
        found = find_block_at(view, wanted)
        assert get_block_time(view, found) >= wanted > get_block_time(view, found - 1)
    assert find_block_at(view, moment + 10_000) == view.head.number
    assert find_block_at(view, 0) == 0

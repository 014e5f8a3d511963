"""Payments are found on nodes that limit what one query of logs covers, or that know no old states."""

from collections.abc import Callable
from typing import Any

import pytest

import faregate.service.chain.node
from faregate.rules.payments import Attempt, PaymentSettled
from faregate.service.chain.chain_reader import ChainReader
from tests.service.chain.books import PRICE, RECONCILING, SUBMITTED, TERMS, TO, Books, MakeReader
from tests.support.chain import USDC, ChainPayer, LocalChain
from tests.support.products import take_part
from tests.support.rpc_proxy import RpcFault, RpcProxy


def limit_logs(proxy: RpcProxy, blocks: int) -> None:
    def change(params: list[Any], result: Any) -> Any:
        if int(params[0]["toBlock"], 16) - int(params[0]["fromBlock"], 16) >= blocks:
            raise RpcFault(-32600, f"at most {blocks} blocks")
        return result

    proxy.change["eth_getLogs"] = change


def forget_states(proxy: RpcProxy, head: Callable[[], int]) -> None:
    """Let the node know the state of its latest two blocks only, as a node that is no archive."""

    def change(params: list[Any], result: Any) -> Any:
        if params[1] != "latest" and int(params[1], 16) < head() - 1:
            raise RpcFault(-32000, "missing trie node")
        return result

    proxy.change["eth_call"] = change


LIMITS = (1, 3, 1000)
BLOCKS = ((0, 40), (40, 0), (25, 25))
SEARCHES = [(limit, archive, blocks) for limit in LIMITS for archive in (True, False) for blocks in BLOCKS]
"""Any two of these meet in the part that the suite takes."""


def is_in_part(limit: int, archive: bool, blocks: tuple[int, int]) -> bool:
    return (LIMITS.index(limit) + BLOCKS.index(blocks) + archive) % len(LIMITS) == 0


@pytest.mark.parametrize(("limit", "archive", "blocks"), take_part(SEARCHES, is_in_part, others=0))
def test_a_payment_is_found_in_many_blocks(
    chain: LocalChain,
    reader: ChainReader,
    proxy: RpcProxy,
    payer: ChainPayer,
    monkeypatch: pytest.MonkeyPatch,
    limit: int,
    archive: bool,
    blocks: tuple[int, int],
) -> None:
    monkeypatch.setattr(faregate.service.chain.node, "LOG_BLOCKS", 16)
    limit_logs(proxy, limit)
    if not archive:
        forget_states(proxy, lambda: chain.head)
    before, after = blocks
    chain.mine(before)
    payment = payer.authorize(USDC, TO, PRICE)
    sent = chain.settle(USDC, payment)
    chain.mine(after)
    attempt = Attempt(SUBMITTED)
    assert reader.look(payment, TERMS, attempt) == PaymentSettled(sent)


def test_a_search_that_takes_too_long_is_given_up(
    chain: LocalChain, make_reader: MakeReader, proxy: RpcProxy, books: Books
) -> None:
    books.settle()
    chain.mine(60)
    limit_logs(proxy, 1)
    forget_states(proxy, lambda: chain.head)
    assert books.look(make_reader(proxy.url, look_seconds=0.02)) == RECONCILING

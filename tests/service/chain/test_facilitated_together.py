"""Many payments at once through two facilitators, both bad by turns, and killed now and then."""

import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from examples.chain.facilitator import GAS_KEYS

from faregate.rules.records import FINAL
from faregate.service.chain.facilitator_backend import FacilitatorPayments
from tests.service.chain.facilitated import (
    PRICE,
    BelievingPayments,
    OnePayment,
    find_mistake,
    make_client,
    open_books,
    read_chain,
    work,
)
from tests.support.chain import USDC, ChainPayer, LocalChain
from tests.support.facilitators import run_facilitator
from tests.support.faulty_facilitator import SETTLE_FAULTS, FaultyFacilitator, forgets
from tests.support.waiting import eventually

PAYMENTS = 24
CANCELLED = 3
WORKERS = 6
SECONDS = 1.5
"""How long a facilitator may take that hangs."""


def settle_all(
    chain: LocalChain, backend: type[FacilitatorPayments], seed: int
) -> tuple[list[OnePayment], list[str]]:
    """Settle payments of one payer at once, until all have ended; return their books and what is wrong."""
    chance = random.Random(seed)
    payer = ChainPayer()
    chain.mint(USDC, payer.address, PAYMENTS * PRICE)
    books = [open_books(chain, payer) for _ in range(PAYMENTS)]
    with ExitStack() as stack:
        urls: list[str] = []
        proxies: list[FaultyFacilitator] = []
        for gas_key in GAS_KEYS[:2]:
            real = stack.enter_context(run_facilitator(chain.url, gas_key=gas_key, patience=SECONDS / 3))
            faulty = FaultyFacilitator(real.url, real.restart, hashes=[chain.mint(USDC, payer.address, 0)])
            faults = chance.choices(SETTLE_FAULTS, k=PAYMENTS // 2)
            faulty.fail("settle", *faults[:4], forgets, *faults[4:])
            proxies.append(faulty)
            urls.append(stack.enter_context(faulty.serving()))
        payments = backend([make_client(url, SECONDS) for url in urls], read_chain(chain))
        with ThreadPoolExecutor(WORKERS) as workers:
            list(workers.map(lambda one: work(one, payments), books[CANCELLED:]))
            for one in books[:CANCELLED]:
                payer.cancel(chain, USDC, one.payment.nonce)
            assert eventually(lambda: _work_on(workers, books, payments, chain), 120)
    assert all("forgets" in faulty.met for faulty in proxies), "the faults did not come"
    mistakes = [mistake for one in books if (mistake := find_mistake(one, chain))]
    return books, mistakes


def _work_on(
    workers: ThreadPoolExecutor, books: list[OnePayment], payments: FacilitatorPayments, chain: LocalChain
) -> bool:
    """Let workers come to all that is open; return whether nothing is."""
    chain.mine()  # a cancellation counts in a safe block
    open_ones = [one for one in books if one.status not in FINAL]
    list(workers.map(lambda one: work(one, payments), open_ones))
    return all(one.status in FINAL for one in books)


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.full)])
def test_the_books_of_many_payments_are_right(chain: LocalChain, seed: int) -> None:
    books, mistakes = settle_all(chain, FacilitatorPayments, seed)
    assert mistakes == []
    assert [one.status for one in books].count("failed") == CANCELLED
    hashes = [one.transaction_hash for one in books if one.status == "succeeded"]
    assert len(set(hashes)) == PAYMENTS - CANCELLED


def test_the_naive_backend_is_caught(chain: LocalChain) -> None:
    _, mistakes = settle_all(chain, BelievingPayments, 1)
    assert mistakes

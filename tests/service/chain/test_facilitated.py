"""Payments through facilitators, good and bad: the books say what the chain says."""

from collections.abc import Generator

import pytest
from examples.chain.facilitator import GAS_KEYS, FacilitatorProcess

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
from tests.support import faulty_facilitator as faults
from tests.support.chain import USDC, ChainPayer, LocalChain, require_anvil, start_chain
from tests.support.facilitators import run_facilitator
from tests.support.faulty_facilitator import SETTLE_FAULTS, Fault, FaultyFacilitator
from tests.support.waiting import PATIENCE, eventually

SECONDS = 2.0
"""How long a facilitator may take that hangs; it waits for a block for a quarter of this."""
MISLEADING = (
    faults.says_failed_after,
    faults.says_settled,
    faults.says_settled_by_another,
    faults.says_settled_without_hash,
    faults.names_another_after,
    faults.is_pending_with_500,
    faults.sends_twice,
    faults.hangs_after,
    faults.hangs_up_after,
    faults.talks_nonsense_after,
    faults.is_huge_after,
)
"""What makes wrong books if the facilitator is believed: a lie, or a second settle that fails."""


@pytest.fixture(scope="module")
def shared_chain() -> Generator[LocalChain]:
    require_anvil()
    with start_chain() as chain:
        yield chain


@pytest.fixture(scope="module")
def faulty(shared_chain: LocalChain) -> Generator[FaultyFacilitator]:
    """A facilitator that has settled one payment already, and is in order."""
    with run_facilitator(shared_chain.url, patience=SECONDS / 4) as real:
        yield FaultyFacilitator(real.url, real.restart)


def fund_payer(chain: LocalChain) -> ChainPayer:
    payer = ChainPayer()
    chain.mint(USDC, payer.address, 5 * PRICE)
    return payer


def has_ended(books: OnePayment, payments: FacilitatorPayments) -> bool:
    work(books, payments)
    return books.status in FINAL


def settle_with(
    backend: type[FacilitatorPayments], chain: LocalChain, faulty: FaultyFacilitator, *wrong: Fault
) -> str | None:
    """Settle one payment while these calls go wrong, and others do not; return what is wrong in the end."""
    payer = fund_payer(chain)
    with faulty.serving() as url:
        payments = backend([make_client(url, SECONDS)], read_chain(chain))
        work(open_books(chain, payer), payments)  # its hash is one that a liar can name
        books = open_books(chain, payer)
        faulty.fail("settle", *wrong)
        assert eventually(lambda: has_ended(books, payments))
        faulty.heal()
    return find_mistake(books, chain)


@pytest.mark.parametrize("fault", SETTLE_FAULTS, ids=lambda fault: fault.__name__)
def test_the_books_are_right_whatever_a_facilitator_says(
    shared_chain: LocalChain, faulty: FaultyFacilitator, fault: Fault
) -> None:
    assert settle_with(FacilitatorPayments, shared_chain, faulty, fault) is None


@pytest.mark.parametrize("fault", MISLEADING, ids=lambda fault: fault.__name__)
def test_a_backend_that_believes_it_keeps_wrong_books(
    shared_chain: LocalChain, faulty: FaultyFacilitator, fault: Fault
) -> None:
    assert settle_with(BelievingPayments, shared_chain, faulty, fault) is not None


def test_one_fault_after_another(shared_chain: LocalChain, faulty: FaultyFacilitator) -> None:
    """Nothing is sent at first, whatever is said; what is sent in the end is denied."""
    unsent = (faults.says_failed_before, faults.is_down, faults.says_settled, faults.hangs_up_before)
    assert settle_with(FacilitatorPayments, shared_chain, faulty, *unsent, faults.says_failed_after) is None


@pytest.mark.parametrize(
    ("backend", "mistake"),
    [
        (FacilitatorPayments, None),
        pytest.param(BelievingPayments, "called failed, but it was paid", marks=pytest.mark.full),
    ],
)
def test_a_facilitator_that_forgot_what_it_sent(
    chain: LocalChain,
    any_facilitator: FacilitatorProcess,
    backend: type[FacilitatorPayments],
    mistake: str | None,
) -> None:
    """It waits for a block in vain, restarts, and calls the next settlement failed: the money has moved."""
    payments = backend([make_client(any_facilitator.url, PATIENCE)], read_chain(chain))
    books = open_books(chain, fund_payer(chain))
    chain.set_automine(False)
    work(books, payments)
    first = books.hashes
    assert (len(first), books.status) == (1, "settling" if mistake is None else "reconciling")
    any_facilitator.restart()
    chain.set_automine(True)
    chain.mine()
    work(books, payments)
    assert find_mistake(books, chain) == mistake
    if mistake is None:
        assert (books.transaction_hash,) == first


def test_a_facilitator_that_dies_before_it_answers(
    shared_chain: LocalChain, faulty: FaultyFacilitator
) -> None:
    assert settle_with(FacilitatorPayments, shared_chain, faulty, faults.forgets) is None


def test_a_transfer_that_waits_is_sent_once_more_and_settles_once(
    chain: LocalChain, facilitator: FacilitatorProcess
) -> None:
    """Two facilitators take turns, and both have a transfer of the payment under way: one of them reverts."""
    payer = fund_payer(chain)
    with run_facilitator(chain.url, gas_key=GAS_KEYS[1]) as other:
        payments = FacilitatorPayments(
            [make_client(facilitator.url, PATIENCE), make_client(other.url, PATIENCE)], read_chain(chain)
        )
        books = open_books(chain, payer)
        chain.set_automine(False)
        work(books, payments)
        work(books, payments)
        assert len(set(books.hashes)) == 2
        assert books.status == "reconciling"
        chain.mine()
        work(books, payments)
    statuses = [(chain.get_receipt(known) or {})["status"] for known in books.hashes]
    assert sorted(statuses) == ["0x0", "0x1"]
    assert find_mistake(books, chain) is None


def test_a_stranger_who_settles_first_pays_the_seller_all_the_same(
    chain: LocalChain, facilitator: FacilitatorProcess
) -> None:
    books = open_books(chain, fund_payer(chain))
    strangers = chain.settle(USDC, books.payment)
    work(books, FacilitatorPayments([make_client(facilitator.url, PATIENCE)], read_chain(chain)))
    assert books.transaction_hash == strangers
    assert find_mistake(books, chain) is None


def test_a_cancelled_payment_fails(chain: LocalChain, facilitator: FacilitatorProcess) -> None:
    payer = fund_payer(chain)
    books = open_books(chain, payer)
    payer.cancel(chain, USDC, books.payment.nonce)
    chain.mine(3)
    work(books, FacilitatorPayments([make_client(facilitator.url, PATIENCE)], read_chain(chain)))
    assert (books.status, find_mistake(books, chain)) == ("failed", None)

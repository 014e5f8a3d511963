"""`scripts/demo --chain` tells the truth: it ends at the first thing that is not as told."""

import io
from collections.abc import Callable

import pytest
from examples.chain.typescript_payer import NoTypeScript, install_client
from examples.demo.chain_books import compare_books
from examples.demo.reporter import Reporter, Untrue
from rich.console import Console

from faregate.merchant.models import TransactionDetail
from tests.e2e.test_demo import demo
from tests.support.chain import USDC, ChainPayer, LocalChain, require_anvil

SELLER = "0x5e11e75E11e75e11E75E11E75E11e75E11E75E11"
PRICE = 50_000


BY_USE = ("at most 0.50", "are killed while it settles")
FIXED = ("202 Accepted", "delivered", "TypeScript client")


@pytest.mark.parametrize(
    "options",
    [
        pytest.param([], id="facilitator"),
        pytest.param(["--direct"], id="direct", marks=pytest.mark.full),
        pytest.param(["--one-process"], id="one process"),
        pytest.param(["--usage"], id="usage"),
        pytest.param(["--usage", "--direct"], id="usage, direct", marks=pytest.mark.full),
    ],
)
def test_all_is_as_told(options: list[str]) -> None:
    require_anvil()
    told = demo("--chain", *options, seconds=180)

    assert told.returncode == 0, told.stdout + told.stderr
    assert "✗" not in told.stdout
    for step in (*(BY_USE if "--usage" in options else FIXED), "all three are equal, to the unit"):
        assert step in told.stdout
    assert max(len(line) for line in told.stdout.splitlines()) <= 80
    assert ("facilitator is killed" in told.stdout) == ("--direct" not in options)
    if "--usage" not in options:
        assert ("worker is killed" in told.stdout) == ("--one-process" in options)
    assert ("client pays" in told.stdout.split("TypeScript")[1]) == _has_typescript()


def _has_typescript() -> bool:
    try:
        install_client()
    except NoTypeScript:
        return False
    return True


@pytest.mark.parametrize("option", ["--direct", "--one-process", "--usage"])
def test_it_is_said_of_a_chain_only(option: str) -> None:
    told = demo(option)

    assert (told.returncode, told.stdout) == (2, "")
    assert f"{option} goes with --chain" in told.stderr


Books = tuple[list[TransactionDetail], dict[str, int]]


@pytest.fixture
def true_books(chain: LocalChain) -> Books:
    """One payment on the chain, the books that say so, and the payer's receipt."""
    payer = ChainPayer()
    chain.mint(USDC, payer.address, 2 * PRICE)
    hash_of_it = chain.settle(USDC, payer.authorize(USDC, SELLER, PRICE))
    one = TransactionDetail(
        id="txn_019a206a705e7cff87c835182d203080",
        payer=payer.address,
        status="succeeded",
        settled_atomic=PRICE,
        transaction_hash=hash_of_it,
    )
    return [one], {hash_of_it: PRICE}


def compare(chain: LocalChain, books: Books) -> None:
    transactions, receipts = books
    compare_books(Reporter(Console(file=io.StringIO())), chain, USDC, SELLER, transactions, receipts)


def test_books_that_agree(chain: LocalChain, true_books: Books) -> None:
    compare(chain, true_books)


LIES: dict[str, Callable[[Books], Books]] = {
    "paid, by the books only": lambda books: (
        [*books[0], books[0][0].model_copy(update={"transaction_hash": "0x" + "1" * 64})],
        books[1],
    ),
    "paid, by the chain only": lambda books: ([], {}),
    "called failed": lambda books: ([books[0][0].model_copy(update={"status": "failed"})], books[1]),
    "another amount": lambda books: ([books[0][0].model_copy(update={"settled_atomic": 1})], books[1]),
    "another payer": lambda books: ([books[0][0].model_copy(update={"payer": SELLER})], books[1]),
    "no receipt": lambda books: (books[0], {}),
    "one receipt too many": lambda books: (books[0], books[1] | {"0x" + "2" * 64: PRICE}),
}


@pytest.mark.parametrize("lie", LIES)
def test_books_that_do_not_agree_end_it(lie: str, chain: LocalChain, true_books: Books) -> None:
    with pytest.raises(Untrue):
        compare(chain, LIES[lie](true_books))


def test_a_transfer_of_a_stranger_ends_it(chain: LocalChain, true_books: Books) -> None:
    chain.move(USDC, str(true_books[0][0].payer), SELLER, 1)

    with pytest.raises(Untrue):
        compare(chain, true_books)

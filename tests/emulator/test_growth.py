"""No call costs more because there is more to remember. Steps of the interpreter are counted, not seconds."""

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Any

import pytest

from .load import Seller

FEW, MANY = 100, 1_600
SLACK = 1.6
"""Sixteen times as many transactions: a walk over them would take far more than this times the steps."""


def seller_of(transactions: int) -> Seller:
    seller = Seller.trusted()
    for _ in range(transactions):
        seller.story()
    return seller


@pytest.fixture(scope="module")
def few() -> Seller:
    return seller_of(FEW)


@pytest.fixture(scope="module")
def many() -> Seller:
    return seller_of(MANY)


def steps(work: Callable[[], object]) -> int:
    """Instructions of Python that the work takes; once before, so that nothing is done for the first time."""
    work()
    taken = 0

    def count(frame: FrameType, event: str, _: object) -> Any:
        nonlocal taken
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        taken += event == "opcode"
        return count

    with collector_off():
        before = sys.gettrace()
        sys.settrace(count)
        try:
            work()
        finally:
            sys.settrace(before)
    return taken


@contextmanager
def collector_off() -> Iterator[None]:
    """What other tests left behind would be finalized, and counted, in the middle of ours."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def middle(seller: Seller, path: str) -> str:
    """The page in the middle of this list, of five."""
    page = max(1, seller.listed(path)["count"] // 10)
    return f"{path}&page_size=5&page={page}"


def payer_id(seller: Seller) -> str:
    """Of the payer who bought every second time."""
    return str(seller.listed("/payers?order=oldest")["items"][0]["id"])


def past(seller: Seller) -> str:
    """A moment when half of the transactions were there, and some of these had another status than now."""
    items = seller.listed(f"/transactions?page_size=1&page={seller.sold // 2}")["items"]
    return str(items[0]["created_at"])


LISTS: dict[str, Callable[[Seller], str]] = {
    "all": lambda seller: "/transactions?order=newest",
    "oldest": lambda seller: "/transactions?order=oldest",
    "of a moment": lambda seller: f"/transactions?as_of={past(seller)}",
    "of a payer": lambda seller: f"/transactions?payer_id={payer_id(seller)}",
    "open": lambda seller: "/transactions?status=authorized",
    "succeeded": lambda seller: "/transactions?status=succeeded",
    "failed": lambda seller: "/transactions?status=failed",
    "open at a moment": lambda seller: f"/transactions?status=authorized&as_of={past(seller)}",
    "succeeded, of a payer, at a moment, oldest": lambda seller: (
        f"/transactions?status=succeeded&payer_id={payer_id(seller)}&as_of={past(seller)}&order=oldest"
    ),
}


@pytest.mark.parametrize("name", LISTS)
def test_a_page_takes_the_same_steps_however_long_the_list(few: Seller, many: Seller, name: str) -> None:
    short, long = (
        steps(partial(seller.listed, middle(seller, LISTS[name](seller)))) for seller in (few, many)
    )
    assert long < SLACK * short


def test_payers_take_the_same_steps_however_much_they_bought(few: Seller, many: Seller) -> None:
    short, long = (
        steps(partial(seller.listed, f"/payers?page_size=2&as_of={past(seller)}")) for seller in (few, many)
    )
    assert long < SLACK * short


def test_a_sale_takes_the_same_steps_however_many_there_were(few: Seller, many: Seller) -> None:
    short, long = (steps(seller.sell) for seller in (few, many))
    assert long < SLACK * short

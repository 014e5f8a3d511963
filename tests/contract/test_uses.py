"""A price that follows the use, through every adapter: what a handler reports, and what is taken for it."""

import json
from typing import Any
from urllib.parse import quote

import pytest

from tests.contract.conftest import Seller, assert_instructions, assert_released, assert_withheld, only
from tests.support.headers import decode_header
from tests.support.usage_account import MAXIMUM

thorough = only(lambda stack: stack.is_reference)
FIXED = 50_000
"""What `/paid` costs."""


def build_path(values: Any, what: str = "report") -> str:
    return f"/used?what={quote(f'{what}-{json.dumps(values)}')}"


def get_balance(seller: Seller) -> int:
    return seller.service.emulator.balance(seller.wallet.address)


def test_the_instructions_ask_for_the_maximum(seller: Seller) -> None:
    required = assert_instructions(seller.get("/used"))
    [terms] = required["accepts"]
    assert (terms["scheme"], terms["amount"]) == ("upto", str(MAXIMUM))
    assert seller.runs() == []


@pytest.mark.parametrize(
    ("values", "settled"),
    [
        ({"tokens": 1230}, 12_300),
        ({"tokens": "60000"}, MAXIMUM),
        ({"tokens": "0"}, 1),
        pytest.param({"tokens": "0.05", "pages": "0.000000000001"}, 1, marks=thorough),
        pytest.param({"tokens": "1230", "pages": "0.1"}, 12_301, marks=thorough),
        pytest.param({"tokens": "9" * 18}, MAXIMUM, marks=thorough),
        pytest.param([{"tokens": "7", "pages": "2"}, {"tokens": "1230"}], 12_301, marks=thorough),
    ],
    ids=["used", "above", "nothing", "less-than-a-unit", "rounded-once", "the-most", "reported-twice"],
)
def test_what_was_used_is_taken_once(seller: Seller, values: Any, settled: int) -> None:
    before, path = get_balance(seller), build_path(values)
    proof = seller.proof_for(path)
    for _ in range(2):
        answer = seller.get(path, proof)
        assert_released(answer)
        assert decode_header(answer.headers["payment-response"])["amount"] == str(settled)
    assert len(seller.runs()) == 1
    assert before - get_balance(seller) == settled


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"tokens": "-1"},
        {"tokens": "NaN"},
        {"tokens": "1", "words": "1"},
        *(
            pytest.param(values, marks=thorough)
            for values in (
                {"pages": "1"},
                {"tokens": -1},
                {"tokens": "Infinity"},
                {"tokens": "1e3"},
                {"tokens": "9" * 19},
                {"tokens": "0." + "1" * 13},
                {"tokens": "\u0661"},
                {"tokens": 1.5},
                {"tokens": True},
                {"tokens": None},
                {"tokens": ["1"]},
                {"tokens": ""},
                {"Tokens": "1"},
            )
        ),
    ],
    ids=json.dumps,
)
def test_what_is_no_use_is_not_charged(seller: Seller, values: dict[str, Any]) -> None:
    before, path = get_balance(seller), build_path(values)
    assert_withheld(seller.buy(path), 500)
    assert seller.outcome() == "failed"
    assert get_balance(seller) == before


@pytest.mark.parametrize(("what", "status"), [("raise", 500), ("status-404", 404)])
def test_work_that_fails_is_not_charged(seller: Seller, what: str, status: int) -> None:
    before = get_balance(seller)
    answer = seller.buy(f"/used?what={what}")
    assert (answer.status_code, "payment-response" in answer.headers) == (status, False)
    assert seller.outcome() == "failed"
    assert get_balance(seller) == before


@pytest.mark.parametrize(
    ("path", "maximum"),
    [(build_path({"tokens": 1}, "maximum"), MAXIMUM), ("/paid?what=maximum-{}", FIXED)],
    ids=["usage", "fixed"],
)
def test_a_handler_knows_what_was_authorized(seller: Seller, path: str, maximum: int) -> None:
    answer = seller.buy(path)
    assert_released(answer, str(maximum))
    assert answer.text == str(maximum)

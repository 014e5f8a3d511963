"""An offer that the request chooses, in every adapter: on a handler, and by a prefix where there are any."""

import httpx
import pytest

from tests.contract.conftest import Seller, assert_instructions, assert_released, assert_withheld, only
from tests.contract.handlers import AMONG, CHOICE, CONTENT

SMALL, LARGE = AMONG

places = pytest.mark.parametrize(
    "path", ["/chosen", pytest.param("/ground/chosen/x", marks=only(lambda stack: stack.has_prefixes))]
)


def ask(seller: Seller, path: str, chosen: str, proof: str | None = None) -> httpx.Response:
    return seller.get(path, proof, headers={CHOICE: chosen})


def pay_for(seller: Seller, path: str, chosen: str) -> str:
    return seller.wallet.pay(ask(seller, path, chosen).headers["payment-required"])


@places
def test_each_request_is_sold_as_what_it_chooses(seller: Seller, path: str) -> None:
    asked = {one: assert_instructions(ask(seller, path, one))["accepts"][0]["amount"] for one in AMONG}
    assert asked[SMALL] != asked[LARGE]
    for chosen in AMONG:
        assert_released(ask(seller, path, chosen, pay_for(seller, path, chosen)))
    assert (len(seller.runs()), [*seller.statuses().values()]) == (2, ["succeeded", "succeeded"])


@places
def test_a_payment_for_one_offer_releases_no_other(seller: Seller, path: str) -> None:
    proof = pay_for(seller, path, SMALL)
    assert_instructions(ask(seller, path, LARGE, proof))
    assert (seller.runs(), seller.statuses()) == ([], {})
    first = ask(seller, path, SMALL, proof)
    assert_released(first)
    for _ in range(2):
        assert_withheld(ask(seller, path, LARGE, proof), 409, "proof_already_used")
    again = ask(seller, path, SMALL, proof)
    assert_released(again)
    assert (again.content, len(seller.runs())) == (first.content, 1)


@places
@pytest.mark.parametrize("wrong", ["token_meter", "", "raise"])
def test_a_request_without_a_choice_gets_nothing_and_pays_nothing(
    seller: Seller, path: str, wrong: str
) -> None:
    proof = pay_for(seller, path, SMALL)
    for sent in (None, proof):
        response = ask(seller, path, wrong, sent)
        assert response.status_code == 500, response.text
        assert (CONTENT in response.text, "secret" in response.text) == (False, False)
        assert "payment-response" not in response.headers
        if wrong != "raise":  # what it raises is answered by the framework
            assert_withheld(response, 500, "offer_not_chosen")
    assert (seller.runs(), seller.statuses()) == ([], {})
    assert_released(ask(seller, path, SMALL, proof))

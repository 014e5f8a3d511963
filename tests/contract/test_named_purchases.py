"""A payer names a purchase, and signs another payment for it (`docs/flow.md`, situation 19)."""

from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import httpx

from faregate.emulator import Wallet
from tests.contract.conftest import (
    Seller,
    assert_instructions,
    assert_released,
    assert_withheld,
    only,
)
from tests.contract.test_resumption import SETTLING, assert_one_charge
from tests.support.faulty_service import changes
from tests.support.headers import decode_header, encode_header
from tests.support.identifiers import with_identifier
from tests.support.replies import with_fields
from tests.support.waiting import eventually

thorough = only(lambda stack: stack.is_reference)
REUSED = "payment_identifier_reused"


def name() -> str:
    return f"pay_{uuid4().hex}"


def proof_for(seller: Seller, path: str, identifier: str, method: str = "GET") -> str:
    return with_identifier(seller.proof_for(path, method), identifier)


def buy(seller: Seller, path: str, identifier: str, method: str = "GET", **options: object) -> httpx.Response:
    return seller.get(path, proof_for(seller, path, identifier, method), method=method, **options)


def test_the_instructions_offer_it(seller: Seller) -> None:
    required = assert_instructions(seller.get("/paid"))
    assert required["extensions"]["payment-identifier"]["info"] == {"required": False}


def test_after_its_delivery_a_named_purchase_is_not_made_again(seller: Seller) -> None:
    identifier = name()
    first, second, third = (buy(seller, "/paid", identifier) for _ in range(3))
    for response in (first, second, third):
        assert_released(response)
        assert response.headers["payment-response"] == first.headers["payment-response"]
    assert_one_charge(seller, 3)


def test_an_open_named_purchase_is_resumed(seller: Seller) -> None:
    identifier = name()
    first, second = (proof_for(seller, "/paid", identifier) for _ in range(2))
    seller.service.fails("complete", SETTLING)
    held = seller.get("/paid", first)
    assert_withheld(held, 202)
    response = seller.get("/paid", second)
    assert_released(response)
    assert response.headers["faregate-transaction"] == held.json()["transaction_id"]
    assert_one_charge(seller)
    assert_released(seller.get("/paid", second))
    assert_one_charge(seller)


def test_purchases_with_different_names_are_made_beside_each_other(seller: Seller) -> None:
    first, second = (proof_for(seller, "/paid", name()) for _ in range(2))
    seller.service.fails("complete", SETTLING)
    assert_withheld(seller.get("/paid", first), 202)
    assert_released(seller.get("/paid", second))
    assert_released(seller.get("/paid", first))
    assert len(seller.runs()) == 2


def test_a_name_of_another_request_is_refused_and_nothing_is_charged(seller: Seller) -> None:
    identifier = name()
    assert_released(buy(seller, "/paid", identifier))
    other = [
        buy(seller, "/paid?q=2", identifier),
        buy(seller, "/do?what=", identifier),
        buy(seller, "/paid", identifier, "POST", content=b"a=1"),
    ]
    for response in other:
        assert_withheld(response, 409, REUSED)
    assert_one_charge(seller, 4)


def test_a_name_of_another_body_is_refused_and_nothing_is_charged(seller: Seller) -> None:
    identifier = name()
    assert_released(buy(seller, "/paid", identifier, "POST", content=b"a=1"))
    assert_released(buy(seller, "/paid", identifier, "POST", content=b"a=1"))
    proof = proof_for(seller, "/paid", identifier, "POST")
    for _ in range(2):
        response = seller.get("/paid", proof, method="POST", content=b"a=2")
        assert_withheld(response, 409, REUSED)
    assert_one_charge(seller, 3)


def test_a_name_of_another_payer_is_free(seller: Seller) -> None:
    identifier = name()
    assert_released(buy(seller, "/paid", identifier))
    other = Seller(seller.running, Wallet())
    response = buy(other, "/paid", identifier)
    assert_released(response)
    assert len(seller.runs()) == 2
    assert sorted(other.statuses().values()) == ["succeeded"]


def test_another_client_of_the_payer_gets_no_second_purchase(seller: Seller) -> None:
    identifier = name()
    mine, other = ({"Authorization": f"Bearer {holder}"} for holder in ("mine", "other"))
    assert_released(buy(seller, "/paid", identifier, headers=mine))
    assert_withheld(buy(seller, "/paid", identifier, headers=other), 409, "proof_already_used")
    assert_one_charge(seller)
    assert_released(buy(seller, "/paid", identifier, headers=mine))


def test_a_failed_purchase_may_be_made_again_under_its_name(seller: Seller) -> None:
    identifier, path = name(), "/do?what=raise"
    assert [buy(seller, path, identifier).status_code for _ in range(2)] == [500, 500]
    assert len(seller.runs()) == 2


def test_a_name_in_the_wrong_form_is_refused_before_access(seller: Seller) -> None:
    proof = seller.proof_for("/paid")
    before = seller.count("access")
    response = seller.get("/paid", with_identifier(proof, "short"))
    assert_withheld(response, 400, "invalid_payment_identifier")
    assert seller.count("access") == before
    assert_released(seller.get("/paid", with_identifier(proof, name())))


def test_a_result_is_delivered_as_often_as_to_its_own_payment(seller: Seller) -> None:
    identifier = name()
    responses = [buy(seller, "/paid", identifier) for _ in range(5)]
    for response in responses[:4]:
        assert_released(response)
    assert_withheld(responses[4], 409, "proof_already_used")
    assert_one_charge(seller, 5)


def test_twenty_named_payments_at_once_run_once(seller: Seller) -> None:
    identifier, path = name(), "/do?what=sleep-0.6"
    proofs = [proof_for(seller, path, identifier) for _ in range(20)]
    with ThreadPoolExecutor(20) as pool:
        responses = list(pool.map(lambda proof: seller.get(path, proof), proofs))
    assert len(seller.runs()) == 1
    assert eventually(lambda: sorted(seller.statuses().values()) == ["failed"] * 19 + ["succeeded"])
    released = [response for response in responses if response.status_code == 200]
    assert len({response.headers["payment-response"] for response in released}) == 1
    for response in responses:
        if response.status_code == 200:
            assert_released(response)
        else:
            assert_withheld(response, 409)
            assert response.json()["code"] in ("payment_in_progress", "proof_already_used")


@thorough
def test_a_payer_that_the_service_names_otherwise_is_another_one(seller: Seller) -> None:
    identifier = name()
    assert_released(buy(seller, "/paid", identifier))
    seller.service.fails("transaction", changes(with_fields(payer="0x" + "9" * 40)))
    assert_released(buy(seller, "/paid", identifier))
    assert len(seller.runs()) == 2


@thorough
def test_a_name_in_a_forged_payment_of_its_payer_gets_and_blocks_nothing(seller: Seller) -> None:
    """The id and the payer's address may be known to a stranger. The signature is not."""
    identifier = name()
    forged = [_forge(seller, identifier) for _ in range(2)]
    assert_instructions(seller.get("/paid", forged[0]))
    assert_released(buy(seller, "/paid", identifier))
    assert_instructions(seller.get("/paid", forged[1]))
    assert_one_charge(seller, 1)


@thorough
def test_a_name_that_was_changed_on_the_way_does_not_give_the_result_of_another(seller: Seller) -> None:
    """The signature does not cover the id: what others know of it must buy nothing."""
    victims = name()
    assert_released(buy(seller, "/paid", victims))
    stranger = Seller(seller.running, Wallet())
    response = buy(stranger, "/paid", victims)
    assert_released(response)
    assert stranger.statuses().keys() == {response.headers["faregate-transaction"]}
    assert sorted(stranger.statuses().values()) == ["succeeded"]


def _forge(seller: Seller, identifier: str) -> str:
    """A stranger's payment, with the address of the payer in it."""
    payment = decode_header(with_identifier(Seller(seller.running, Wallet()).proof_for("/paid"), identifier))
    payment["payload"]["authorization"]["from"] = seller.wallet.address
    return encode_header(payment)

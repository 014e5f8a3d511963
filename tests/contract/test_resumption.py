"""A payer signs a new payment for a request whose first one is open (`docs/flow.md`, situation 18)."""

from concurrent.futures import ThreadPoolExecutor

import httpx

from faregate.emulator import Wallet
from tests.contract.conftest import (
    Seller,
    assert_instructions,
    assert_released,
    assert_unconfirmed,
    assert_withheld,
    only,
)
from tests.support.faulty_service import answers, changes
from tests.support.replies import with_fields
from tests.support.waiting import eventually

thorough = only(lambda stack: stack.is_reference)
SETTLING = changes(with_fields(status="settling"))


def assert_one_charge(seller: Seller, payments: int = 2) -> None:
    """One execution, one payment that is charged, and no other that could be."""
    assert len(seller.runs()) == 1
    assert sorted(seller.statuses().values()) == ["failed"] * (payments - 1) + ["succeeded"]


def test_a_new_payment_gets_the_result_of_the_open_one(seller: Seller) -> None:
    first, second = (seller.proof_for("/paid") for _ in range(2))
    seller.service.fails("complete", SETTLING)
    held = seller.get("/paid", first)
    assert_withheld(held, 202)
    response = seller.get("/paid", second)
    assert_released(response)
    assert response.headers["faregate-transaction"] == held.json()["transaction_id"]
    assert_one_charge(seller)
    for again in (seller.get("/paid", first), seller.get("/paid", second)):
        assert_released(again)
        assert again.headers["payment-response"] == response.headers["payment-response"]
    assert_one_charge(seller)


def test_a_new_payment_is_told_to_come_back_while_the_open_one_settles(seller: Seller) -> None:
    first, second = (seller.proof_for("/late") for _ in range(2))
    answered = [seller.get("/late", first), *(seller.get("/late", second) for _ in range(3))]
    statuses = [response.status_code for response in answered]
    assert statuses == sorted(statuses, reverse=True)
    assert (statuses[0], statuses[-1]) == (202, 200)
    assert_released(answered[-1])
    assert_one_charge(seller)


def test_a_new_payment_waits_for_work_that_runs(seller: Seller) -> None:
    path = "/do?what=sleep-0.6"
    first, second = (seller.proof_for(path) for _ in range(2))
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(seller.get, path, first)
        assert eventually(lambda: len(seller.runs()) == 1)
        response = seller.get(path, second)
        assert_released(running.result())
    # A server with one thread serves it after the first: as a purchase of its own, when that was delivered.
    if response.status_code == 200:
        assert sorted(seller.statuses().values()).count("succeeded") == len(seller.runs())
        return
    assert_withheld(response, 409, "payment_in_progress")
    assert_released(seller.get(path, second))
    assert_one_charge(seller)


def test_twenty_payments_at_once_run_once(seller: Seller) -> None:
    path = "/do?what=sleep-0.6"
    proofs = [seller.proof_for(path) for _ in range(20)]
    with ThreadPoolExecutor(20) as pool:
        responses = list(pool.map(lambda proof: seller.get(path, proof), proofs))
    # A server with few threads serves some of them after a delivery: a new purchase each. One that comes at
    # the very moment of a delivery gets its result.
    runs = len(seller.runs())
    assert sorted(seller.statuses().values()) == ["failed"] * (20 - runs) + ["succeeded"] * runs
    released = [response for response in responses if response.status_code == 200]
    assert len({response.headers["faregate-transaction"] for response in released}) == runs
    for response in responses:
        if response.status_code == 200:
            assert_released(response)
        else:
            assert_withheld(response, 409)
            assert response.json()["code"] in ("payment_in_progress", "proof_already_used")


def test_after_delivery_a_new_payment_is_a_new_purchase(seller: Seller) -> None:
    for _ in range(2):
        assert_released(seller.buy("/paid"))
    assert len(seller.runs()) == 2
    assert sorted(seller.statuses().values()) == ["succeeded"] * 2


def test_after_a_failed_payment_a_new_one_is_a_new_purchase(seller: Seller) -> None:
    path = "/do?what=raise"
    assert [seller.buy(path).status_code for _ in range(2)] == [500, 500]
    assert len(seller.runs()) == 2


def test_another_payer_and_another_request_are_served(seller: Seller) -> None:
    first = seller.proof_for("/paid")
    seller.service.fails("complete", SETTLING)
    assert_withheld(seller.get("/paid", first), 202)
    other = Seller(seller.running, Wallet())
    assert_released(other.buy("/paid"))
    assert_released(seller.buy("/paid?q=2"))
    assert_released(seller.get("/paid", first))
    assert len(seller.runs()) == 3


def test_a_request_with_other_credentials_is_a_purchase_of_its_own(seller: Seller) -> None:
    mine, other = ({"Authorization": f"Bearer {name}"} for name in ("mine", "other"))
    first, second = (seller.proof_for("/paid") for _ in range(2))
    seller.service.fails("complete", SETTLING)
    assert_withheld(seller.get("/paid", first, headers=mine), 202)
    assert_released(seller.get("/paid", second, headers=other))
    assert len(seller.runs()) == 2


def test_payers_that_cannot_be_compared_wait(seller: Seller) -> None:
    first, second = (seller.proof_for("/paid") for _ in range(2))
    seller.service.fails("complete", SETTLING)
    held = seller.get("/paid", first)
    assert_withheld(held, 202)
    seller.service.fails("transaction", answers(503, b"down"))
    response = seller.get("/paid", second)
    assert_unconfirmed(response, seller)
    assert response.json()["transaction_id"] != held.json()["transaction_id"]
    assert_released(seller.get("/paid", second))
    assert_one_charge(seller)


@thorough
def test_a_payer_that_the_service_names_otherwise_is_another_one(seller: Seller) -> None:
    first, second = (seller.proof_for("/paid") for _ in range(2))
    seller.service.fails("complete", SETTLING)
    assert_withheld(seller.get("/paid", first), 202)
    seller.service.fails("transaction", changes(with_fields(payer="0x" + "9" * 40)))
    assert_released(seller.get("/paid", second))
    assert len(seller.runs()) == 2
    assert_released(seller.get("/paid", first))


@thorough
def test_a_payment_that_cannot_be_given_up_is_given_up_later(seller: Seller) -> None:
    first, second = (seller.proof_for("/paid") for _ in range(2))
    seller.service.fails("complete", SETTLING)
    assert_withheld(seller.get("/paid", first), 202)
    down = answers(503, b"down")
    seller.service.fails("complete", down, down, down)
    response: httpx.Response = seller.get("/paid", second)
    assert_released(response)
    assert_released(seller.get("/paid", second))
    assert_one_charge(seller)


@thorough
def test_a_new_payment_of_one_that_failed_is_asked_for(seller: Seller) -> None:
    first, second = (seller.proof_for("/never") for _ in range(2))
    responses = [seller.get("/never", first)]
    while responses[-1].status_code == 202:
        responses.append(seller.get("/never", second))
    assert_instructions(responses[-1])
    assert "nothing was charged" in responses[-1].text
    assert set(seller.statuses().values()) == {"failed"}

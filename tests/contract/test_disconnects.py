"""Payers who hang up, and handlers that end their task or process."""

import contextlib
import socket
import time

import httpx
import pytest

from tests.contract.conftest import Seller, assert_instructions, assert_released, only
from tests.contract.raw_http import connected, request, reset
from tests.contract.test_resumption import assert_one_charge
from tests.support.waiting import eventually

ENDS = "/do?what=exit"
SLOW = "/do?what=sleep-0.25"
BLOCKS = "/do?what=block-0.4"


def asking(seller: Seller, path: str, proof: str, *headers: str, method: str = "GET") -> socket.socket:
    """A connection on which a paid request was sent, whose work is running."""
    connection = connected(seller.port, request(path, f"PAYMENT-SIGNATURE: {proof}", *headers, method=method))
    assert eventually(lambda: len(seller.runs()) == 1)
    return connection


@pytest.mark.parametrize("goodbye", ["reset", "close", "half"])
def test_a_payer_who_hangs_up_during_the_work_is_served_later(seller: Seller, goodbye: str) -> None:
    proof = seller.proof_for(SLOW)
    connection = asking(seller, SLOW, proof)
    if goodbye == "reset":
        reset(connection)
    elif goodbye == "half":
        connection.shutdown(socket.SHUT_WR)
    with connection:
        assert eventually(lambda: seller.outcome() == "succeeded")
    assert eventually(lambda: seller.get(SLOW, proof).status_code == 200)
    assert_released(seller.get(SLOW, proof))
    assert (len(seller.runs()), seller.count("complete")) == (1, 1)


@pytest.mark.every_value  # each server tells in its own way that a payer left
@only(lambda stack: stack.interface == "asgi")
def test_a_payer_who_hung_up_during_the_work_and_signs_again_pays_once(seller: Seller) -> None:
    first, second = (seller.proof_for(SLOW) for _ in range(2))
    reset(asking(seller, SLOW, first))
    assert eventually(lambda: seller.outcome() == "succeeded")
    time.sleep(0.2)  # the settlement is written: the second payment does not come while the first is open
    assert_released(seller.get(SLOW, second))
    assert_one_charge(seller)


@pytest.mark.every_value
@only(lambda stack: stack.interface == "asgi" and "--workers" not in stack.command)
def test_a_payer_who_hung_up_before_a_busy_server_began_pays_once(seller: Seller) -> None:
    first, second = (seller.proof_for("/paid") for _ in range(2))
    with asking(seller, BLOCKS, seller.proof_for(BLOCKS)) as busy:
        connected(seller.port, request("/paid", f"PAYMENT-SIGNATURE: {first}")).close()
        assert busy.recv(1)
    # The server may take it as a request that has no client any more, and not run it at all.
    eventually(lambda: seller.count("complete") == 2, seconds=2)
    time.sleep(0.2)  # the settlement is written
    assert_released(seller.get("/paid", second))
    assert sorted(seller.statuses().values()).count("succeeded") == len(seller.runs()) == 2


def test_a_payer_who_hangs_up_during_the_completion_is_served_later(seller: Seller) -> None:
    proof = seller.proof_for("/paid")
    seller.service.delay = 0.15
    reset(asking(seller, "/paid", proof))
    seller.service.delay = 0.0
    assert eventually(lambda: seller.outcome() == "succeeded")
    assert eventually(lambda: seller.get("/paid", proof).status_code == 200)
    assert len(seller.runs()) == 1


@pytest.mark.every_value  # each server tells in its own way that a payer left
@only(lambda stack: stack.runs_handler_in_our_task)
def test_a_payer_who_hangs_up_during_access_is_served_later(seller: Seller) -> None:
    """A framework that cancels what it runs leaves a claim, and the payer waits until its lease is over."""
    proof = seller.proof_for("/paid")
    seller.service.delay = 0.15
    connection = connected(seller.port, request("/paid", f"PAYMENT-SIGNATURE: {proof}"))
    assert eventually(lambda: seller.count("access") == 2)
    reset(connection)
    seller.service.delay = 0.0
    assert eventually(lambda: seller.get("/paid", proof).status_code == 200)
    assert (len(seller.runs()), seller.outcome()) == (1, "succeeded")


def test_a_payer_who_hangs_up_in_the_middle_of_a_body(seller: Seller) -> None:
    """Nothing of it is lost: either nothing ran, or it is settled one way or the other."""
    path, length = "/do?what=echo", "Content-Length: 1000"
    proof = seller.proof_for(path, "POST")
    half = request(path, f"PAYMENT-SIGNATURE: {proof}", length, method="POST", body="x" * 10)
    connection = connected(seller.port, half)
    eventually(lambda: seller.count("access") == 2, seconds=0.3)  # unless the server waits for the whole
    time.sleep(0.05)
    reset(connection)

    statuses: list[int] = []

    def is_settled() -> bool:
        statuses.append(seller.get(path, proof, method="POST", content=b"y").status_code)
        return statuses[-1] in (200, 402)

    assert eventually(is_settled), statuses
    status = statuses[-1]
    # A second price means that the first payment is over, and was not charged.
    assert (status, seller.outcome()) in ((200, "succeeded"), (402, "failed"))
    assert len(seller.runs()) in ((1,) if status == 200 else (0, 1))


def test_a_handler_that_cancels_itself_is_a_failed_one(seller: Seller) -> None:
    path = "/do?what=cancel"
    proof = seller.proof_for(path)
    with contextlib.suppress(httpx.TransportError):
        response = seller.get(path, proof, timeout=1)  # waitress leaves such a payer waiting
        assert (response.status_code, "payment-response" in response.headers) == (500, False)
    assert eventually(lambda: seller.outcome() == "failed")
    seller.running.server.until_ready()
    assert_instructions(seller.get(path, proof))
    assert len(seller.runs()) == 1


@only(lambda stack: stack.runs_handler_in_our_task)
def test_a_handler_that_ends_its_process_is_not_charged_for(seller: Seller) -> None:
    proof = end_process_and_get_proof(seller)
    assert seller.outcome() == "failed"
    seller.running.server.revive()
    assert_instructions(seller.get(ENDS, proof))
    assert len(seller.runs()) == 1
    assert_released(seller.buy("/paid"))


@only(lambda stack: not stack.runs_handler_in_our_task)
def test_a_handler_that_ends_its_process_from_a_task_of_its_framework_is_a_crash(seller: Seller) -> None:
    """The journal knows that the process has died: nobody is charged, and the work does not run again."""
    proof = end_process_and_get_proof(seller)
    assert seller.outcome() == "authorized"
    seller.running.server.revive()
    assert_instructions(seller.get(ENDS, proof))
    assert (seller.outcome(), len(seller.runs())) == ("failed", 1)
    assert_released(seller.buy("/paid"))


def end_process_and_get_proof(seller: Seller) -> str:
    proof = seller.proof_for(ENDS)
    with contextlib.suppress(httpx.TransportError):
        response = seller.get(ENDS, proof, timeout=1)
        assert (response.status_code, "payment-response" in response.headers) == (500, False)
    return proof

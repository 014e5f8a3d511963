"""Payers who hang up, and handlers that end more than themselves."""

import contextlib
import socket
import time

import httpx
import pytest

from tests.contract.conftest import (
    Shop,
    assert_instructions,
    assert_released,
    assert_withheld,
    only,
)
from tests.contract.raw_http import connected, request, reset
from tests.support.waiting import eventually

ENDS = "/do?what=exit"
SLOW = "/do?what=sleep-0.25"


def asking(shop: Shop, path: str, proof: str, *headers: str, method: str = "GET") -> socket.socket:
    """A connection on which a paid request was sent, whose work is running."""
    connection = connected(shop.port, request(path, f"PAYMENT-SIGNATURE: {proof}", *headers, method=method))
    assert eventually(lambda: len(shop.runs()) == 1)
    return connection


@pytest.mark.parametrize("goodbye", ["reset", "close", "half"])
def test_a_payer_who_hangs_up_during_the_work_is_served_later(shop: Shop, goodbye: str) -> None:
    proof = shop.proof_for(SLOW)
    connection = asking(shop, SLOW, proof)
    if goodbye == "reset":
        reset(connection)
    elif goodbye == "half":
        connection.shutdown(socket.SHUT_WR)
    with connection:
        assert eventually(lambda: shop.outcome() == "succeeded")
    assert eventually(lambda: shop.get(SLOW, proof).status_code == 200)
    assert_released(shop.get(SLOW, proof))
    assert (len(shop.runs()), shop.count("complete")) == (1, 1)


def test_a_payer_who_hangs_up_during_the_completion_is_served_later(shop: Shop) -> None:
    proof = shop.proof_for("/paid")
    shop.service.delay = 0.15
    reset(asking(shop, "/paid", proof))
    shop.service.delay = 0.0
    assert eventually(lambda: shop.outcome() == "succeeded")
    assert eventually(lambda: shop.get("/paid", proof).status_code == 200)
    assert len(shop.runs()) == 1


@only(lambda stack: stack.is_in_hand)
def test_a_payer_who_hangs_up_during_access_is_served_later(shop: Shop) -> None:
    """A framework that cancels what it runs leaves a claim, and the payer waits until its lease is over."""
    proof = shop.proof_for("/paid")
    shop.service.delay = 0.15
    connection = connected(shop.port, request("/paid", f"PAYMENT-SIGNATURE: {proof}"))
    assert eventually(lambda: shop.count("access") == 2)
    reset(connection)
    shop.service.delay = 0.0
    assert eventually(lambda: shop.get("/paid", proof).status_code == 200)
    assert (len(shop.runs()), shop.outcome()) == (1, "succeeded")


def test_a_payer_who_hangs_up_in_the_middle_of_a_body(shop: Shop) -> None:
    """Nothing of it is lost: either nothing ran, or it is settled one way or the other."""
    path, length = "/do?what=echo", "Content-Length: 1000"
    proof = shop.proof_for(path, "POST")
    half = request(path, f"PAYMENT-SIGNATURE: {proof}", length, method="POST", body="x" * 10)
    connection = connected(shop.port, half)
    eventually(lambda: shop.count("access") == 2, seconds=0.3)  # unless the server waits for the whole
    time.sleep(0.05)
    reset(connection)

    def is_settled() -> bool:
        again = shop.get(path, proof, method="POST", content=b"y")
        return again.status_code in (200, 402) and set(shop.statuses().values()) < {"failed", "succeeded"}

    assert eventually(is_settled)
    assert len(shop.runs()) <= 1


def test_a_handler_that_cancels_itself_is_a_failed_one(shop: Shop) -> None:
    path = "/do?what=cancel"
    proof = shop.proof_for(path)
    with contextlib.suppress(httpx.TransportError):
        response = shop.get(path, proof, timeout=1)  # waitress leaves such a payer waiting
        assert (response.status_code, "payment-response" in response.headers) == (500, False)
    assert eventually(lambda: shop.outcome() == "failed")
    shop.running.server.until_ready()
    assert_instructions(shop.get(path, proof))
    assert len(shop.runs()) == 1


@only(lambda stack: stack.is_in_hand)
def test_a_handler_that_ends_its_process_is_not_charged_for(shop: Shop) -> None:
    proof = ended(shop)
    assert shop.outcome() == "failed"
    shop.running.server.revive()
    assert_instructions(shop.get(ENDS, proof))
    assert len(shop.runs()) == 1
    assert_released(shop.buy("/paid"))


@only(lambda stack: not stack.is_in_hand)
def test_a_handler_that_ends_its_process_from_a_task_of_its_framework_is_a_crash(shop: Shop) -> None:
    """The journal knows: nobody is charged, asked to pay again or served twice; a sweep ends it."""
    proof = ended(shop)
    assert shop.outcome() == "authorized"
    shop.running.server.revive()
    assert_withheld(shop.get(ENDS, proof), 409, "payment_in_progress")
    assert len(shop.runs()) == 1
    assert_released(shop.buy("/paid"))


def ended(shop: Shop) -> str:
    proof = shop.proof_for(ENDS)
    with contextlib.suppress(httpx.TransportError):
        response = shop.get(ENDS, proof, timeout=1)
        assert (response.status_code, "payment-response" in response.headers) == (500, False)
    return proof

"""What a payment buys is bound to the body that came with it, and the handler still reads that body."""

import socket
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from faregate.checkout.incoming_request import MAX_COMPARED
from tests.contract.conftest import Seller, assert_released, assert_withheld
from tests.contract.handlers import CONTENT
from tests.contract.raw_http import request, status_of

ECHO = "/do?what=echo"


def post(seller: Seller, proof: str, body: bytes | Iterator[bytes], **options: Any) -> httpx.Response:
    return seller.get(ECHO, proof, method="POST", content=body, **options)


def assert_echoed(response: httpx.Response, body: bytes) -> None:
    assert_released(response)
    assert response.content == CONTENT.encode() + b": " + body


def chunked(body: bytes) -> Iterator[bytes]:
    yield body[:5]
    yield body[5:]


@pytest.mark.parametrize("size", [10, MAX_COMPARED])
def test_another_body_is_another_request(seller: Seller, size: int) -> None:
    body = b"x" * size
    proof = seller.proof_for(ECHO, "POST")
    assert_echoed(post(seller, proof, body), body)
    for other in (body[:-1] + b"?", body[:-1], b""):
        assert_withheld(post(seller, proof, other), 409, "proof_already_used")
    assert_echoed(post(seller, proof, body), body)
    assert (len(seller.runs()), seller.outcome()) == (1, "succeeded")


def test_a_body_is_another_request_than_none(seller: Seller) -> None:
    proof = seller.proof_for(ECHO, "POST")
    assert_echoed(seller.get(ECHO, proof, method="POST"), b"")
    assert_withheld(post(seller, proof, b"x"), 409, "proof_already_used")
    assert_echoed(seller.get(ECHO, proof, method="POST"), b"")
    assert len(seller.runs()) == 1


def test_a_form_with_a_file_is_compared_and_read(seller: Seller) -> None:
    """Frameworks read forms from the stream, not from the body."""
    boundary = {"headers": {"Content-Type": "multipart/form-data; boundary=b"}}
    form = "--b\r\nContent-Disposition: form-data; name=f; filename=f\r\n\r\n{}\r\n--b--\r\n"
    one, other = form.format("one").encode(), form.format("two").encode()
    proof = seller.proof_for(ECHO, "POST")
    assert_echoed(post(seller, proof, one, **boundary), one)
    assert_withheld(post(seller, proof, other, **boundary), 409, "proof_already_used")
    again = one.replace(b"--b", b"--another")
    boundary["headers"]["Content-Type"] = 'multipart/form-data; charset=utf-8; boundary="another"'
    assert_echoed(post(seller, proof, again, **boundary), one)
    assert len(seller.runs()) == 1


def test_a_large_body_is_read_and_not_compared(seller: Seller) -> None:
    one, other = b"1" * (MAX_COMPARED + 1), b"2" * (MAX_COMPARED + 1)
    proof = seller.proof_for(ECHO, "POST")
    assert_echoed(post(seller, proof, one), one)
    assert_echoed(post(seller, proof, other), one)
    assert len(seller.runs()) == 1


def test_a_chunked_body_is_read_as_without_a_payment_and_not_compared(seller: Seller) -> None:
    free = seller.get("/free?what=echo", method="POST", content=chunked(b"chunked body"))
    assert free.status_code == 200
    proof = seller.proof_for(ECHO, "POST")
    paid = post(seller, proof, chunked(b"chunked body"))
    assert_released(paid)
    assert paid.content == free.content
    again = post(seller, proof, chunked(b"other body"))
    if seller.stack.counts_chunks:
        assert_withheld(again, 409, "proof_already_used")
    else:
        assert (again.status_code, again.content) == (200, free.content)
    assert len(seller.runs()) == 2


def test_a_body_that_ends_early_runs_nothing(seller: Seller) -> None:
    proof = seller.proof_for(ECHO, "POST")
    half = request(ECHO, f"PAYMENT-SIGNATURE: {proof}", "Content-Length: 10", method="POST", body="12345")
    said = b""
    with socket.create_connection(("127.0.0.1", seller.port), timeout=10) as connection:
        connection.sendall(half)
        connection.shutdown(socket.SHUT_WR)
        while chunk := connection.recv(65536):
            said += chunk
    assert status_of(said) in (None, 400)
    assert (seller.runs(), seller.statuses(), seller.count("access")) == ([], {}, 1)
    assert_echoed(post(seller, proof, b"1234567890"), b"1234567890")

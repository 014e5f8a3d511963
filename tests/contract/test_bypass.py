"""No request gets a paid handler to run, or a byte of its content, without paying."""

from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import httpx
import pytest

from tests.contract.bypass import GARBAGE, TABLE, Trick
from tests.contract.conftest import Seller, assert_released, only
from tests.contract.handlers import CONTENT
from tests.contract.raw_http import exchange, request, status_of

DECORATED, MOUNTED, GROUND = "/paid", "/mount/inner/paid", "/ground/x"
CLOSED = "/closed/x"


def leaks(seller: Seller, tricks: dict[str, Trick], *paths: str) -> dict[str, bytes]:
    """Tricks whose answer has content in it, or says that it was paid."""
    sent = {f"{name} {path}": trick(path) for name, trick in tricks.items() for path in paths}
    with ThreadPoolExecutor(32) as pool:
        said = pool.map(
            lambda request: exchange(seller.port, request, quiet=0.1, patience=0.6), sent.values()
        )
        answers = dict(zip(sent, said, strict=True))
    signs = (CONTENT.encode(), b"x-own", b"payment-response: ")
    return {name: said for name, said in answers.items() if any(sign in said.lower() for sign in signs)}


@pytest.mark.parametrize("tricks", TABLE.values(), ids=TABLE)
def test_nothing_leaves_and_nothing_runs(seller: Seller, tricks: dict[str, Trick]) -> None:
    assert leaks(seller, tricks, DECORATED, MOUNTED) == {}
    assert seller.runs() == []


@pytest.mark.every_value  # servers differ in what they make of bytes that are no text
@only(lambda stack: stack.has_prefixes)
@pytest.mark.parametrize("tricks", TABLE.values(), ids=TABLE)
def test_nothing_of_a_paid_prefix_leaves_or_runs(seller: Seller, tricks: dict[str, Trick]) -> None:
    assert leaks(seller, tricks, GROUND) == {}
    assert seller.runs() == []


@only(lambda stack: stack.has_prefixes)
@pytest.mark.parametrize("tricks", TABLE.values(), ids=TABLE)
def test_nothing_of_a_closed_prefix_leaves(seller: Seller, tricks: dict[str, Trick]) -> None:
    """The application is asked, for one of its handlers may sell."""
    assert leaks(seller, tricks, CLOSED) == {}


@pytest.mark.parametrize("path", [DECORATED, MOUNTED])
def test_the_same_bytes_with_a_payment_are_served(seller: Seller, path: str) -> None:
    """So the tricks reach what they are meant to reach."""
    said = exchange(seller.port, request(path, f"PAYMENT-SIGNATURE: {seller.proof_for(path)}"))
    assert (status_of(said), CONTENT.encode() in said) == (200, True)
    assert len(seller.runs()) == 1


MISUSED = {
    "twice": "PAYMENT-SIGNATURE: {proof}\r\nPAYMENT-SIGNATURE: {proof}",
    "joined": "PAYMENT-SIGNATURE: {proof}, {proof}",
    "with another": f"PAYMENT-SIGNATURE: {GARBAGE}\r\nPAYMENT-SIGNATURE: {{proof}}",
    "with version 1": f"PAYMENT-SIGNATURE: {{proof}}\r\nX-PAYMENT: {GARBAGE}",
    "with a space inside": "PAYMENT-SIGNATURE: {proof} {proof}",
    "beyond 16 KiB": "PAYMENT-SIGNATURE: {proof}" + "=" * 16 * 1024,
}


@pytest.mark.parametrize("header", MISUSED.values(), ids=MISUSED)
def test_a_good_payment_that_is_not_unmistakable_is_refused_and_stays_good(
    seller: Seller, header: str
) -> None:
    proof = seller.proof_for("/paid")
    said = exchange(seller.port, request("/paid", header.format(proof=proof)))
    assert (status_of(said) in (400, 402, 431), CONTENT.encode() in said) == (True, False)
    assert (seller.runs(), seller.count("complete")) == ([], 0)
    assert seller.get("/paid", proof).status_code == 200
    assert len(seller.runs()) == 1


def test_an_underscore_twin_never_gives_anything_for_nothing(seller: Seller) -> None:
    """Some servers fold `_` into `-`: then it is the proof, and is used up."""
    proof = seller.proof_for("/paid")
    said = exchange(seller.port, request("/paid", f"PAYMENT_SIGNATURE: {proof}"))
    sold = status_of(said) == 200
    assert sold or (status_of(said) in (400, 402) and CONTENT.encode() not in said)
    assert [run.transaction for run in seller.runs()] == list(seller.statuses())
    assert len(seller.runs()) == sold
    assert seller.get("/paid", proof).status_code == 200
    assert len(seller.runs()) == 1


# HTTP/2, in which there is no request line to play with


@pytest.fixture
def http2(seller: Seller) -> Generator[httpx.Client]:
    url = seller.running.server.url
    with httpx.Client(base_url=url, http1=False, http2=True, trust_env=False, timeout=10) as client:
        yield client


@only(lambda stack: stack.speaks_http2)
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "OPTIONS", "get", "PROPFIND"])
@pytest.mark.parametrize(
    "headers", [{}, {"payment-signature": GARBAGE}, {"x-http-method-override": "OPTIONS"}]
)
def test_nothing_leaves_and_nothing_runs_over_http_2(
    seller: Seller, http2: httpx.Client, method: str, headers: dict[str, str]
) -> None:
    response = answered(seller, http2, method, headers)
    assert (response.http_version, CONTENT in response.text, seller.runs()) == ("HTTP/2", False, [])


def answered(seller: Seller, http2: httpx.Client, method: str, headers: dict[str, str]) -> httpx.Response:
    """Where an answer is ready before its request has ended, Hypercorn drops the connection now and then, and
    under trio the process with it.
    """
    for _ in range(4):
        with suppress(httpx.TransportError):
            return http2.request(method, "/paid", headers=headers)
        if not seller.running.server.is_ready():
            seller.running.server.revive()
    return http2.request(method, "/paid", headers=headers)


@only(lambda stack: stack.speaks_http2)
def test_a_payment_over_http_2_is_served_once_it_is_unmistakable(seller: Seller, http2: httpx.Client) -> None:
    proof = seller.proof_for("/paid")
    twice = http2.get("/paid", headers=[("payment-signature", proof), ("payment-signature", proof)])
    assert (twice.status_code, seller.runs()) == (400, [])
    assert_released(http2.get("/paid", headers={"payment-signature": proof}))
    assert (len(seller.runs()), seller.outcome()) == (1, "succeeded")

"""A request that asks for the connection itself, and a handler that takes it: no byte leaves unpaid."""

import pytest

from tests.contract.conftest import Seller, assert_instructions, assert_released, only
from tests.contract.handlers import CONTENT, FRAME
from tests.contract.raw_http import exchange, request, status_of

WEBSOCKET = (
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
)
UPGRADES = {
    "websocket": ("GET", WEBSOCKET),
    "websocket in capitals, among others": ("GET", ("Connection: close", "Upgrade: h2c, WebSocket")),
    "websocket with a version": ("GET", ("Upgrade: websocket/13",)),
    "a key of a websocket alone": ("GET", WEBSOCKET[-1:]),
    "an invented protocol": ("GET", ("Connection: Upgrade", "Upgrade: mine")),
    "a tunnel": ("CONNECT", ()),
}


@pytest.mark.parametrize(("method", "headers"), UPGRADES.values(), ids=UPGRADES)
def test_an_upgrade_of_what_is_sold_is_refused_and_the_payment_stays_good(
    seller: Seller, method: str, headers: tuple[str, ...]
) -> None:
    path = "/do?what=frame"
    proof = seller.proof_for(path)
    for header in ((), (f"PAYMENT-SIGNATURE: {proof}",)):
        said = exchange(seller.port, request(path, *headers, *header, method=method), quiet=0.1)
        # A server that speaks websockets may answer itself, and one that tunnels nothing may hang up.
        assert status_of(said) in (400, 403, 404, 405, 426, 500, 501, None), said
        assert CONTENT.encode() not in said
    assert (seller.runs(), seller.count("complete")) == ([], 0)
    assert_released(seller.get(path, proof))


@only(lambda stack: stack.interface == "wsgi")
@pytest.mark.parametrize("path", ["/paid", "/mount/inner/paid"])
def test_the_refusal_says_what_to_do(seller: Seller, path: str) -> None:
    # Werkzeug finds no route for a websocket, and says so itself.
    said = exchange(seller.port, request(path, "Connection: Upgrade", "Upgrade: mine"))
    assert (status_of(said), b'"upgrade_not_sold"' in said) == (400, True)
    assert_instructions(seller.get(path))


@pytest.mark.parametrize("offered", ["h2c", "TLS/1.2, h2c", "HTTP/2.0", ""])
def test_a_client_that_only_offers_an_upgrade_is_served(seller: Seller, offered: str) -> None:
    """As `curl --http2` and Java do with each request; some proxies add the Connection header to all."""
    proof = f"PAYMENT-SIGNATURE: {seller.proof_for('/paid')}"
    headers = ("Connection: Upgrade, HTTP2-Settings, close", "HTTP2-Settings: AAMAAABkAAQAAP__", proof)
    upgrade = (f"Upgrade: {offered}",) if offered else ()
    said = exchange(seller.port, request("/paid", *upgrade, *headers))
    assert CONTENT.encode() in said
    assert len(seller.runs()) == 1


@only(lambda stack: stack.interface == "wsgi" and stack.seller in ("flask_app", "django_app", "wsgi_app"))
@pytest.mark.parametrize("size", [0, 5, 80_000])
def test_a_handler_is_not_given_the_connection(seller: Seller, size: int) -> None:
    """A small body is read ahead; of a larger one the handler is given a stream, and no more."""
    path = "/do?what=frame"
    proof = f"PAYMENT-SIGNATURE: {seller.proof_for(path, 'POST')}"
    headers = (proof, f"Content-Length: {size}")
    said = exchange(seller.port, request(path, *headers, method="POST", body="x" * size))
    assert (FRAME in said, status_of(said), CONTENT.encode() in said) == (False, 200, True)
    assert seller.outcome() == "succeeded"

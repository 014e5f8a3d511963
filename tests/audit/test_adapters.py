"""What an audit of the adapters found: each of these cost a payer or a seller something once."""

import contextlib
import time
from collections.abc import Iterable, Iterator
from typing import Any

import anyio
import pytest
from werkzeug.test import Client, create_environ

from faregate.asgi import PaywallMiddleware as ASGIMiddleware
from faregate.asgi import require_payment as arequire_payment
from faregate.checkout.wsgi_environ import BYPASS_KEYS
from faregate.emulator import TEST_KEY, Emulator, Wallet
from faregate.emulator.transports import EmbeddedTransport
from faregate.errors import ConfigurationError
from faregate.merchant.client import MerchantClient
from faregate.offers import offer
from faregate.paywall import Paywall
from faregate.wsgi import PaywallMiddleware, require_payment
from tests.adapters.asgi import a_paywall
from tests.adapters.wsgi_app import CONTENT, PLAIN, SOLD, Body, Seller, Start, answering, selling
from tests.audit.purchases import BACKENDS, bought, outcomes

# What servers refuse to send, they refuse after the payment was taken: so it is refused before.

UNSENDABLE = {
    "a line break": ("X-Name", "report\r\nSet-Cookie: session=1"),
    "a control character": ("X-Name", "report\x00"),
    "a space in the name": ("X Name", "report"),
    "no name": ("", "report"),
}


@pytest.mark.parametrize(
    "header",
    [*UNSENDABLE.values(), ("X-Name", "\u2603"), ("X-Name", 3), (b"X-Name", b"report")],
    ids=[*UNSENDABLE, "no latin-1", "a number", "bytes"],
)
def test_a_header_that_no_server_sends_is_not_charged(header: Any) -> None:
    def handler(_environ: Any, start_response: Start) -> Iterable[bytes]:
        start_response("200 OK", [header])
        return [CONTENT]

    seller = Seller(selling(handler))
    proof = seller.proof()
    with pytest.raises((ValueError, TypeError, AttributeError)):
        seller.ask("/", proof)
    assert seller.statuses == ["failed"]


def asgi_shop(status: int, *headers: tuple[bytes, bytes]) -> tuple[Emulator, ASGIMiddleware]:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await arequire_payment(scope, SOLD)
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": CONTENT})

    emulator = Emulator()
    return emulator, ASGIMiddleware(app, a_paywall(emulator, public_url="https://seller.example"))


@pytest.mark.parametrize(("name", "value"), UNSENDABLE.values(), ids=UNSENDABLE)
def test_an_asgi_header_that_no_server_sends_is_not_charged(name: str, value: str) -> None:
    emulator, seller = asgi_shop(200, (name.encode(), value.encode()))
    with pytest.raises(ValueError, match="cannot be sent"):
        anyio.run(bought, seller)
    assert outcomes(emulator) == ["failed"]


def test_a_status_that_ends_no_response_is_an_error_of_the_handler() -> None:
    """With httptools the payer would wait for the rest of a 103."""
    emulator, seller = asgi_shop(103)
    with pytest.raises(ValueError, match="103"):
        anyio.run(bought, seller)
    assert outcomes(emulator) == ["failed"]


def test_spaces_around_a_value_are_taken_off() -> None:
    """h11 would send nothing at all."""

    def handler(_environ: Any, start_response: Start) -> Iterable[bytes]:
        start_response("200 OK", [("X-Name", " a report\t")])
        return [CONTENT]

    assert Seller(selling(handler)).buy().headers["X-Name"] == "a report"


def test_a_buffer_that_is_used_again_is_sold_as_it_was_sent() -> None:
    def handler(_environ: Any, start_response: Start) -> Iterator[Any]:
        start_response("200 OK", PLAIN)
        buffer = bytearray(4)
        for letter in b"ABC":
            buffer[:] = bytes([letter]) * 4
            yield memoryview(buffer)

    assert Seller(selling(handler)).buy().data == b"AAAABBBBCCCC"


def test_what_the_application_opened_is_closed_if_the_server_refuses_the_response() -> None:
    body = Body(CONTENT)
    seller = Seller(answering(body))
    environ = create_environ("/")
    environ["HTTP_PAYMENT_SIGNATURE"] = seller.proof()
    body.closed = 0

    def refusing(*_start: Any) -> Any:
        raise OSError("the connection is gone")

    with pytest.raises(OSError, match="gone"):
        seller.client.application(environ, refusing)
    assert body.closed == 1


def pieces() -> Iterator[bytes]:
    for _ in range(300):
        time.sleep(0.01)
        yield b"."
    raise AssertionError("nobody stopped this")


def streamed(_environ: Any, start_response: Start) -> Iterable[bytes]:
    start_response("200 OK", PLAIN)
    return pieces()


def written(_environ: Any, start_response: Start) -> Iterable[bytes]:
    write = start_response("200 OK", PLAIN)
    for piece in pieces():
        write(piece)
    return []


@pytest.mark.parametrize("handler", [streamed, written])
def test_a_stream_without_an_end_is_cut_off_between_its_pieces(handler: Any) -> None:
    """It held its payer and a thread of the server until it grew too large: for days, if it was slow."""
    brief = offer("daily_report", max_work_seconds=0.1)
    seller = Seller(selling(handler, brief))
    response = seller.buy()
    assert (response.status_code, response.get_json()["code"]) == (500, "work_timed_out")
    assert seller.statuses == ["failed"]


# Applications behind the paywall that ask one another


def test_an_application_that_was_asked_before_does_not_take_the_gate_along() -> None:
    """Its gate was left in the environ, and the handler beside it opened that: its result left unpaid."""

    def gives_up(_environ: Any, _start_response: Start) -> Iterable[bytes]:
        raise LookupError

    emulator = Emulator()
    transport: Any = EmbeddedTransport(emulator)
    service: Any = {"base_url": "http://service.example", "api_key": TEST_KEY, "transport": transport}
    paywall = Paywall(public_url="https://seller.example", environ={}, **service)
    first, second = PaywallMiddleware(gives_up, paywall), answering([CONTENT])

    def one_or_the_other(environ: Any, start_response: Start) -> Any:
        try:
            return first(environ, start_response)
        except LookupError:
            return second(environ, start_response)

    client = Client(PaywallMiddleware(one_or_the_other, paywall))
    unpaid = client.get("/")
    assert (unpaid.status_code, CONTENT in unpaid.data) == (402, False)
    proof = Wallet().pay(unpaid.headers["PAYMENT-REQUIRED"])
    paid = client.get("/", headers={"PAYMENT-SIGNATURE": proof})
    assert (paid.data, "PAYMENT-RESPONSE" in paid.headers) == (CONTENT, True)
    assert [transaction.status for transaction in MerchantClient(**service).iter_transactions()] == [
        "succeeded"
    ]


def test_a_gate_whose_request_is_over_opens_for_nobody() -> None:
    kept: list[Any] = []

    def app(environ: Any, start_response: Start) -> Any:
        kept.append(environ)
        return answering([CONTENT])(environ, start_response)

    seller = Seller(app)
    seller.buy()
    with pytest.raises(ConfigurationError, match="after its request has ended"):
        require_payment(kept[-1], SOLD)


def test_a_refused_request_opens_nothing() -> None:
    """On closed ground, an offer that comes after the response began left a payment open."""

    def app(environ: Any, start_response: Start) -> Any:
        if environ["PATH_INFO"] == "/closed":
            start_response("200 OK", PLAIN)
        with contextlib.suppress(Exception):
            require_payment(environ, SOLD)
        return [CONTENT]

    seller = Seller(app, refuse=["/closed"])
    proof = seller.proof()
    refused = seller.ask("/closed", proof)
    assert (refused.status_code, CONTENT in refused.data) == (403, False)
    assert seller.statuses == []


# Ways past the paywall


@pytest.mark.parametrize("name", BYPASS_KEYS)
def test_a_paid_wsgi_handler_is_not_given_the_connection(name: str) -> None:
    seen: list[bool] = []

    def handler(environ: Any, start_response: Start) -> Iterable[bytes]:
        seen.append(name in environ)
        start_response("200 OK", PLAIN)
        return [CONTENT]

    seller = Seller(selling(handler))
    headers = {"PAYMENT-SIGNATURE": seller.proof()}
    assert seller.client.get("/", headers=headers, environ_overrides={name: object()}).data == CONTENT
    assert seen == [False]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_middleware_with_a_task_group_does_not_turn_a_stop_into_an_error(backend: str) -> None:
    """The payer has an answer already; the server must not log a failure, nor break the connection off."""
    late = offer("slow_settlement")

    async def handler(scope: Any, send: Any) -> None:
        await arequire_payment(scope, late)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": CONTENT})

    async def app(scope: Any, receive: Any, send: Any) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(handler, scope, send)

    async def main() -> None:
        emulator = Emulator()
        seller = ASGIMiddleware(app, a_paywall(emulator, public_url="https://seller.example"))
        status, body = await bought(seller)
        assert (status, CONTENT in body) == (202, False)

    anyio.run(main, backend=backend)


@pytest.mark.parametrize("name", ["push", "early_hint", "pathsend", "zerocopysend", "trailers"])
def test_a_paid_asgi_handler_is_not_offered_what_it_may_not_send(name: str) -> None:
    offered: list[bool] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await arequire_payment(scope, SOLD)
        offered.append(f"http.response.{name}" in scope["extensions"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": CONTENT})

    async def main() -> None:
        seller = ASGIMiddleware(app, a_paywall(public_url="https://seller.example"))

        async def server(scope: Any, receive: Any, send: Any) -> None:
            await seller({**scope, "extensions": {f"http.response.{name}": {}}}, receive, send)

        assert (await bought(server))[0] == 200
        assert offered == [False]

    anyio.run(main)

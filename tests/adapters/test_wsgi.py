"""What is WSGI's own: `write`, `close`, late starts, second starts, and the ways past a middleware."""

import contextlib
import time
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from werkzeug.test import Client, EnvironBuilder

from faregate.checkout.checkout import SkipHandler
from faregate.core.reported_values import Payment
from faregate.emulator import Wallet
from faregate.errors import ConfigurationError
from faregate.events import Worked
from faregate.offers import offer
from faregate.wsgi import require_payment
from tests.adapters.wsgi_app import CONTENT, PLAIN, SOLD, Body, Seller, Start, answering, anything, selling


def test_what_is_written_is_held_and_sold() -> None:
    def handler(_environ: Any, start_response: Start) -> Iterable[bytes]:
        write = start_response("200 OK", PLAIN)
        write(b"paid ")
        return [b"content"]

    seller = Seller(selling(handler))
    unpaid = seller.ask()
    assert (unpaid.status_code, CONTENT in unpaid.data) == (402, False)
    response = seller.buy()
    assert (response.data, response.headers["Content-Length"]) == (CONTENT, "12")
    assert "PAYMENT-RESPONSE" in response.headers
    assert seller.completions == 1


def test_an_application_that_swallows_the_stop_gives_nothing_away() -> None:
    def app(environ: Any, start_response: Start) -> Iterable[bytes]:
        with contextlib.suppress(SkipHandler):
            require_payment(environ, SOLD)
        start_response("200 OK", PLAIN)(CONTENT)
        return [CONTENT]

    seller = Seller(app)
    unpaid = seller.ask()
    assert (unpaid.status_code, CONTENT in unpaid.data) == (402, False)
    assert seller.buy().data == CONTENT * 2


def test_nothing_that_is_written_instead_of_a_refusal_reaches_the_server() -> None:
    """The test client drops what `write` sends, so this one calls the middleware as a server does."""

    def app(environ: Any, start_response: Start) -> Iterable[bytes]:
        with contextlib.suppress(SkipHandler):
            require_payment(environ, SOLD)
        start_response("200 OK", PLAIN)(CONTENT)
        return [CONTENT]

    started: list[str] = []
    written: list[bytes] = []

    def start(status: str, _headers: Any, _error: Any = None) -> Any:
        started.append(status)
        return written.append

    middleware: Any = Seller(app).client.application
    body = b"".join(middleware(EnvironBuilder("/").get_environ(), start))
    assert (started, written, CONTENT in body) == (["402 Payment Required"], [], False)


def test_a_request_that_reached_two_offers_is_not_charged_whoever_swallows_the_mistake() -> None:
    def app(environ: Any, start_response: Start) -> Iterable[bytes]:
        require_payment(environ, SOLD)
        with contextlib.suppress(ConfigurationError):
            require_payment(environ, offer("text_summary"))
        start_response("200 OK", PLAIN)
        return [CONTENT]

    seller = Seller(app)
    response = seller.buy()
    assert (response.status_code, response.get_json()["code"]) == (500, "two_offers")
    assert seller.statuses == ["failed"]


def test_the_body_is_closed_once_and_after_the_payment_is_proven() -> None:
    completions_at_close: list[int] = []
    body = Body(CONTENT, closing=lambda: completions_at_close.append(seller.completions))
    seller: Seller = Seller(answering(body))
    assert seller.buy().data == CONTENT
    assert (body.closed, completions_at_close) == (1, [1])


def test_a_body_that_breaks_off_is_closed_and_not_charged() -> None:
    body = Body(b"paid ", error=ZeroDivisionError("half-way"))
    seller = Seller(answering(body))
    with pytest.raises(ZeroDivisionError):
        seller.buy()
    assert body.closed == 1
    assert seller.statuses == ["failed"]


def test_a_second_start_takes_the_place_of_the_first() -> None:
    def handler(_environ: Any, start_response: Start) -> Iterable[bytes]:
        start_response("200 OK", [("X-First", "1")])(b"first")
        start_response("500 Oh no", PLAIN, (None, None, None))
        return [b"second"]

    response = Seller(selling(handler)).buy()
    assert (response.status_code, response.data) == (500, b"second")
    assert "X-First" not in response.headers


def test_a_result_that_is_started_again_after_a_part_of_it_is_not_charged() -> None:
    def handler(_environ: Any, start_response: Start) -> Iterable[bytes]:
        start_response("200 OK", PLAIN)(b"first")
        start_response("200 OK", PLAIN, (None, None, None))
        return [b"second"]

    seller = Seller(selling(handler))
    response = seller.buy()
    assert (response.status_code, response.get_json()["code"]) == (500, "result_cut_short")
    assert seller.statuses == ["failed"]


def test_an_application_that_answers_a_head_like_a_get_sends_no_body() -> None:
    def handler(environ: Any, start_response: Start) -> Iterable[bytes]:
        environ["REQUEST_METHOD"] = "GET"  # as some frameworks do, in place
        start_response("200 OK", PLAIN)
        return [CONTENT]

    seller = Seller(selling(handler))
    unpaid = seller.ask(method="HEAD")
    paid = seller.ask(proof=Wallet().pay(unpaid.headers["PAYMENT-REQUIRED"]), method="HEAD")
    assert (paid.status_code, paid.data, "PAYMENT-RESPONSE" in paid.headers) == (200, b"", True)


def test_an_application_that_is_a_generator_may_open_the_gate_late() -> None:
    def app(environ: Any, start_response: Start) -> Iterator[bytes]:
        require_payment(environ, SOLD)
        start_response("200 OK", PLAIN)
        yield b""
        yield CONTENT

    seller = Seller(app)
    assert seller.ask().status_code == 402
    assert seller.buy().data == CONTENT


def test_an_offer_after_the_response_has_begun_is_a_mistake() -> None:
    def app(environ: Any, start_response: Start) -> Iterator[bytes]:
        start_response("200 OK", PLAIN)
        require_payment(environ, SOLD)
        yield CONTENT

    with pytest.raises(ConfigurationError, match="after the response began"):
        Seller(app).ask()


def test_what_is_free_passes_untouched() -> None:
    body = Body(b"free")

    def app(_environ: Any, start_response: Start) -> Iterable[bytes]:
        start_response("200 OK", PLAIN)
        return body

    given: list[Any] = []

    def start_response(status: str, headers: Any) -> Any:
        given.append((status, headers))
        return lambda chunk: None

    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/", "QUERY_STRING": "", "wsgi.file_wrapper": Body}
    middleware: Any = Seller(app).client.application
    assert middleware(environ, start_response) is body  # the server's own file wrapper stays itself
    assert given == [("200 OK", PLAIN)]


def test_ways_past_the_middleware_are_withheld_from_payers() -> None:
    def handler(environ: Any, start_response: Start) -> Iterable[bytes]:
        assert "wsgi.early_hints" not in environ
        start_response("200 OK", PLAIN)
        return [environ["wsgi.file_wrapper"].__module__.encode()]

    seller = Seller(selling(handler))
    headers = {"PAYMENT-SIGNATURE": seller.proof()}
    overrides = {"wsgi.file_wrapper": object(), "wsgi.early_hints": print}
    assert seller.client.get("/", headers=headers, environ_overrides=overrides).data == b"werkzeug.wsgi"


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
def test_a_handler_that_ends_the_process_is_reported_first(error: BaseException) -> None:
    def handler(_environ: Any, _start: Start) -> Iterable[bytes]:
        raise error

    seller = Seller(selling(handler))
    proof = seller.proof()
    with pytest.raises(type(error)):
        seller.ask("/", proof)
    assert seller.statuses == ["failed"]
    assert seller.ask("/", proof).status_code == 402


def test_the_work_is_measured_in_milliseconds_from_the_open_gate_on() -> None:
    """Late work is not sold by this measure."""

    def handler(_environ: Any, start_response: Start) -> Iterable[bytes]:
        time.sleep(0.05)
        start_response("200 OK", PLAIN)
        return [CONTENT]

    seller = Seller(selling(handler))
    assert seller.buy().data == CONTENT
    [worked] = [event for event in seller.heard if isinstance(event, Worked)]
    assert 49 <= worked.duration_ms < 30_000


def test_too_much_is_not_charged_even_if_the_handler_does_not_mind() -> None:
    def handler(_environ: Any, start_response: Start) -> Iterable[bytes]:
        write = start_response("200 OK", PLAIN)
        for _ in range(3):
            try:
                write(b"x" * 50)
            except Exception:
                continue
        return []

    seller = Seller(selling(handler, offer("daily_report", max_result_bytes=100)))
    response = seller.buy()
    assert (response.status_code, response.get_json()["code"]) == (500, "result_too_large")


@pytest.mark.parametrize("path", ["/reports", "//reports/x", "/REPORTS", "/reports;v=1/y", "/./reports"])
def test_a_prefix_is_sold_as_a_whole(path: str) -> None:
    seller = Seller(anything, offers={"/reports": "daily_report"}, refuse=["/closed"])
    unpaid = seller.ask(path)
    assert (unpaid.status_code, CONTENT in unpaid.data) == (402, False)
    assert seller.buy("/reports").data == CONTENT
    assert seller.ask("/open").data == CONTENT
    assert seller.ask("/closed/x").status_code == 403
    assert seller.ask("/open/../reports").status_code == 400


@pytest.mark.parametrize(("path", "status"), [("/reports", 204), ("/closed", 403)])
def test_options_costs_nothing_and_gives_nothing(path: str, status: int) -> None:
    seller = Seller(anything, offers={"/reports": "daily_report"}, refuse=["/closed"])
    response = seller.ask(path, method="OPTIONS")
    assert (response.status_code, CONTENT in response.data) == (status, False)


def test_without_the_middleware_a_paid_handler_is_a_clear_error() -> None:
    with pytest.raises(ConfigurationError, match="no PaywallMiddleware"):
        Client(selling(anything)).get("/")


def test_a_payment_is_given_to_the_handler_that_asks_for_it() -> None:
    given: list[Payment] = []

    def app(environ: Any, start_response: Start) -> Iterable[bytes]:
        given.append(require_payment(environ, SOLD))
        return anything(environ, start_response)

    assert Seller(app).buy().data == CONTENT
    assert str(given[0].transaction_id).startswith("txn_")


@pytest.mark.parametrize("chunks", [(), (CONTENT,)])
def test_work_that_leaves_no_time_to_report_it_is_not_charged(chunks: tuple[bytes, ...]) -> None:
    """It cannot be cut off, but it must not be sold after servers and proxies have given the request up."""

    def slow(_environ: Any, start_response: Start) -> Iterable[bytes]:
        time.sleep(1.1)
        start_response("200 OK", PLAIN)
        return chunks

    seller = Seller(selling(slow), times={"max_request_seconds": 5.1, "timeout": 0.1})
    response = seller.buy()
    assert (response.status_code, response.json["code"]) == (500, "work_timed_out")  # type: ignore[index]
    assert seller.statuses == ["failed"]

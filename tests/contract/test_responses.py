"""What a framework answers with, in each of its own kinds, and what of it a payer gets."""

import time
from dataclasses import replace
from urllib.parse import urlsplit

import pytest

from faregate.core.models import Response
from tests.contract.conftest import Seller, assert_instructions, assert_released, assert_withheld, only
from tests.contract.handlers import CONTENT, FILE, MIB, pattern
from tests.contract.raw_http import exchange, request
from tests.support.faulty_service import answers, changes
from tests.support.waiting import eventually


def test_two_cookies_are_kept_and_payment_headers_of_the_handler_are_not(seller: Seller) -> None:
    response = seller.buy("/do?what=cookies")
    assert_released(response)
    cookies = sorted(cookie.split(";")[0] for cookie in response.headers.get_list("set-cookie"))
    assert cookies == ["a=1", "b=2"]
    assert len(response.headers.get_list("payment-response")) == 1
    assert "payment-required" not in response.headers
    assert response.headers.get_list("cache-control") == ["private, no-store"]


def test_a_head_is_paid_for_like_a_get(seller: Seller) -> None:
    unpaid = seller.get("/paid", method="HEAD")
    assert (unpaid.status_code, unpaid.content, seller.runs()) == (402, b"", [])
    proof = seller.wallet.pay(unpaid.headers["payment-required"])
    paid = seller.get("/paid", proof, method="HEAD")
    assert (paid.status_code, paid.content, "payment-response" in paid.headers) == (200, b"", True)
    assert_withheld(seller.get("/paid", proof), 409, "proof_already_used")
    assert (len(seller.runs()), seller.outcome()) == (1, "succeeded")


def test_no_byte_follows_the_answer_to_a_head(seller: Seller) -> None:
    """Not even from an application that answers it like a GET: what follows would be the next answer."""
    proof = seller.proof_for("/paid", "HEAD")
    said = exchange(seller.port, request("/paid", f"PAYMENT-SIGNATURE: {proof}", method="HEAD"))
    assert said.startswith(b"HTTP/1.1 200")
    assert said.endswith(b"\r\n\r\n")
    assert seller.outcome() == "succeeded"


def test_a_post_is_paid_for_and_its_body_is_the_handlers(seller: Seller) -> None:
    path = "/do?what=echo"
    response = seller.get(path, seller.proof_for(path, "POST"), method="POST", content=b"x" * 100_000)
    assert_released(response)
    assert response.content == CONTENT.encode() + b": " + b"x" * 100_000


@pytest.mark.parametrize("proven", [False, True])
def test_options_costs_nothing_and_runs_nothing(seller: Seller, proven: bool) -> None:
    proof = seller.proof_for("/paid") if proven else None
    response = seller.get("/paid", proof, method="OPTIONS")
    assert response.status_code not in (402, 500, 502)
    assert (CONTENT in response.text, seller.runs(), seller.statuses()) == (False, [], {})


def test_an_empty_204_is_a_result(seller: Seller) -> None:
    response = seller.buy("/do?what=status-204")
    assert (response.status_code, response.content) == (204, b"")
    assert ("payment-response" in response.headers, response.headers["x-mine"]) == (True, "1")
    assert seller.outcome() == "succeeded"


def test_a_redirect_is_a_result(seller: Seller) -> None:
    response = seller.buy("/do?what=redirect")
    assert (response.status_code, urlsplit(response.headers["location"]).path) == (303, "/open")
    assert "payment-response" in response.headers
    assert seller.outcome() == "succeeded"


def test_a_stream_is_sold_whole(seller: Seller) -> None:
    response = seller.buy("/do?what=stream")
    assert_released(response)
    assert (response.text, response.headers["content-length"]) == (CONTENT, str(len(CONTENT)))
    assert seller.outcome() == "succeeded"


@pytest.mark.parametrize("conditional", [{}, {"range": "bytes=0-0"}, {"if-none-match": "*"}])
def test_a_payment_buys_the_whole_file(seller: Seller, conditional: dict[str, str]) -> None:
    """A range or a condition is not honoured: the payer could get less than they pay for."""
    response = seller.buy("/do?what=file", headers=conditional)
    assert (response.status_code, response.content) == (200, FILE.read_bytes())
    assert (seller.outcome(), "payment-response" in response.headers) == ("succeeded", True)


def test_a_large_result_takes_linear_time(seller: Seller) -> None:
    """Four times as much may take four times as long, and as much again for a busy machine."""
    seconds = {}
    for size in (5 * MIB, 20 * MIB):
        path = f"/do?what=big-{size}"
        proof = seller.proof_for(path)
        began = time.monotonic()
        response = seller.get(path, proof)
        seconds[size] = time.monotonic() - began
        assert response.content == b"".join(pattern(size))
        assert "payment-response" in response.headers
    assert seconds[20 * MIB] < 10 * seconds[5 * MIB] + 0.2


@only(lambda stack: stack.runs_handler_in_our_task)
def test_what_is_done_after_the_response_is_done_after_it_is_paid(seller: Seller) -> None:
    completed: list[float] = []

    def slowly(reply: Response) -> Response:
        assert seller.runs("later") == []
        time.sleep(0.2)
        completed.append(time.monotonic())
        return replace(reply)

    proof = seller.proof_for("/do?what=later")
    seller.service.fails("complete", changes(slowly))
    assert_released(seller.get("/do?what=later", proof))
    assert eventually(lambda: len(seller.runs("later")) == 1)
    assert seller.runs("later")[0].at > completed[0]


@only(lambda stack: stack.runs_handler_in_our_task)
def test_a_background_task_of_what_was_not_sold_never_runs(seller: Seller) -> None:
    """What is closed is closed sold or not: no place for what only a payer may have."""
    proof = seller.proof_for("/do?what=later")
    seller.service.fails("complete", answers(404, {"code": "transaction_not_found", "message": "no"}))
    assert_withheld(seller.get("/do?what=later", proof), 404)
    time.sleep(0.1)
    assert len(seller.runs("later")) == (1 if seller.stack.closes else 0)


def test_what_is_free_is_left_alone(seller: Seller) -> None:
    response = seller.get("/open")
    assert (response.status_code, response.json()) == (200, {"open": True})
    assert not {"cache-control", "payment-required", "payment-response"} & set(response.headers)
    assert seller.service.asked[seller.asked :] == []


# Paths

PLACES = {
    "/prix/%C3%A9t%C3%A9": "/prix/%C3%A9t%C3%A9",
    "/prix/%c3%a9t%c3%a9?q=%C3%A9": "/prix/%C3%A9t%C3%A9",
    "/items/a%20b": "/items/a%20b",
    "/items/%E2%82%AC": "/items/%E2%82%AC",
    "/items/a%3Fb%23c": "/items/a%3Fb%23c",
    "/mount/inner/paid": "/mount/inner/paid",
    "/%70aid": "/paid",
}


@pytest.mark.parametrize(("path", "told"), PLACES.items(), ids=PLACES)
def test_the_service_and_the_payer_get_the_address(seller: Seller, path: str, told: str) -> None:
    unpaid = seller.get(path)
    required = assert_instructions(unpaid)
    assert required["resource"]["url"] == f"https://seller.example{told}"
    assert_released(seller.get(path, seller.wallet.pay(unpaid.headers["payment-required"])))
    assert (len(seller.runs()), seller.outcome()) == (1, "succeeded")


def test_a_host_that_the_payer_chose_is_passed_on_to_nobody(seller: Seller) -> None:
    headers = {"host": "evil.example", "x-forwarded-host": "evil.example", "x-forwarded-proto": "gopher"}
    unpaid = seller.get("/paid", headers=headers)
    assert assert_instructions(unpaid)["resource"]["url"] == "https://seller.example/paid"
    assert "evil" not in unpaid.text


# Prefixes


@only(lambda stack: stack.has_prefixes)
def test_a_prefix_is_sold_and_a_closed_one_is_not(seller: Seller) -> None:
    assert_withheld(seller.get("/ground/x"), 402)
    assert_released(seller.buy("/ground/x/y"))
    assert len(seller.runs()) == 1
    assert_withheld(seller.get("/closed/x"), 403, "not_for_sale")
    assert seller.get("/ground/%2e%2e/closed/x").status_code in (400, 402, 403, 404)


# People

BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}


def test_a_person_gets_a_page_and_is_not_charged(seller: Seller) -> None:
    """With the status and headers that a program gets."""
    told, page = seller.get("/paid?city=Oslo"), seller.get("/paid?city=Oslo", headers=BROWSER)
    assert (told.headers["content-type"], told.json()["code"]) == ("application/json", "payment_required")
    assert_withheld(page, 402)
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["content-security-policy"].startswith("default-src 'none'; style-src 'sha256-")
    assert "Accept" in page.headers["vary"]
    assert "https://seller.example/paid?city=Oslo" in page.text
    assert "0.05 USDC" in page.text
    assert seller.wallet.pay(page.headers["payment-required"])
    assert (seller.runs(), seller.statuses()) == ([], {})


@only(lambda stack: stack.is_reference)
def test_a_person_who_paid_is_not_asked_to_pay_again(seller: Seller) -> None:
    proof = seller.proof_for("/late")
    page = seller.get("/late", proof, headers=BROWSER)
    assert_withheld(page, 202)
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "do not pay again" in page.text
    assert "faregate pay" not in page.text
    assert_released(seller.get("/paid", seller.proof_for("/paid"), headers=BROWSER))

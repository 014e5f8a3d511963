"""The page of a 402: who gets it, what it says, and that nothing of a stranger's becomes markup."""

import base64
import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from html import unescape
from typing import Any

import pytest

from faregate import ConfigurationError, PaymentPage, PaymentTerms, Paywall, Price
from faregate.core import responses
from faregate.core.models import Request, Response
from faregate.core.terms import read_prices, read_terms
from faregate.pages.payment import build_command, build_policy, prefers_html, present
from faregate.x402.tokens import TOKENS
from tests.core.flow_script import TXN
from tests.support.headers import encode_header

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"
HOSTILE = "<script>alert(1)</script>\"'&"
URL = "https://seller.example/report?city=Oslo"


def encode(required: object) -> str:
    return encode_header(required)


def entry(environment: Any = "live", **changes: Any) -> dict[str, Any]:
    token = TOKENS[environment, "USDC"]
    price = {"scheme": "exact", "amount": "50000", "asset": token.address, "network": token.network}
    return {**price, "payTo": "0x" + "1" * 40, **changes}


def unpaid(
    *entries: Mapping[str, Any], body: bytes = b'{"code":"payment_required","message":"Pay."}'
) -> Response:
    headers = (("Content-Type", "application/json"), ("PAYMENT-REQUIRED", encode({"accepts": entries})))
    return responses.build_payment_required(Response(402, headers, body))


def terms_of(response: Response, **changes: Any) -> PaymentTerms:
    return replace(read_terms(response, "GET", URL, "A report", "application/json"), **changes)


@pytest.mark.parametrize(
    ("accept", "is_page"),
    [
        (BROWSER, True),
        ("text/html", True),
        ("TEXT/HTML, application/json;q=0.5", True),
        ("text/html;q=0.4, */*;q=0.3", True),
        ("text/html;level=1;q=0.9,application/json;q=0.1", True),
        ("", False),
        ("*/*", False),
        ("application/json", False),
        ("application/json, text/html", False),
        ("text/html;q=0.5, application/json", False),
        ("text/html;q=0.5, application/*;q=0.5", False),
        ("text/html;q=0", False),
        ("text/html;q=nan", False),
        ("text/html;q=-1", False),
        ("text/html;q=0.9.9", False),
        ("application/xhtml+xml", False),
        ("text/html," + "x" * 5000, False),
    ],
)
def test_a_page_is_for_who_wants_html_more_than_json(accept: str, is_page: bool) -> None:
    assert prefers_html(accept) is is_page


def test_everybody_else_gets_the_bytes_of_the_service() -> None:
    response = unpaid(entry())
    assert present(response, terms_of(response), "*/*", None, None) is response


def test_a_page_has_the_status_and_headers_of_the_json() -> None:
    response = unpaid(entry())
    page = present(response, terms_of(response), BROWSER, None, None)
    assert page.status == 402
    kept = [pair for pair in response.headers if pair[0].lower() != "content-type"]
    assert [pair for pair in page.headers if pair in kept] == kept
    assert page.first("vary") == "Accept"
    assert page.first("content-type") == "text/html; charset=utf-8"
    assert len(page.body) < 20_000


def test_a_page_tells_what_is_sold_for_how_much_and_how_to_pay() -> None:
    told = PaymentPage("Acme", contact="mailto:help@acme.example", note="Thank you.")(
        terms_of(unpaid(entry()))
    )
    for words in ("A report", "0.05 USDC", "on Base", "Acme", "help@acme.example", "Thank you."):
        assert words in told
    command = "faregate pay --live --key-file your-key.txt 'https://seller.example/report?city=Oslo'"
    assert f"<pre>{command}</pre>" in unescape(told)


def test_the_policy_allows_the_pages_own_style_and_nothing_else() -> None:
    html = PaymentPage()(terms_of(unpaid(entry())))
    (css,) = re.findall(r"<style>(.*?)</style>", html, re.DOTALL)
    digest = base64.b64encode(sha256(css.encode()).digest()).decode()
    assert build_policy(html) == (
        f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )
    assert "<script" not in html
    assert "style-src 'none'" in build_policy("<p>plain</p>")
    own = "<STYLE media='print'>a::after{content:'<b>'}</STYLE >\n<style>p{}</style>"
    hashes = [base64.b64encode(sha256(css).digest()).decode() for css in (b"a::after{content:'<b>'}", b"p{}")]
    assert f"style-src 'sha256-{hashes[0]}' 'sha256-{hashes[1]}';" in build_policy(own)
    assert "img-src 'self' data:" in build_policy("<img src=/logo.svg>")


def test_whatever_a_page_shows_is_escaped() -> None:
    names = ("amount", "asset", "network", "payTo")
    foreign = {**dict.fromkeys(names, HOSTILE), "amount": "7"}
    response = unpaid(foreign, body=json.dumps(dict.fromkeys(("code", "message"), HOSTILE)).encode())
    hostile = terms_of(response, url=HOSTILE, description=HOSTILE, method=HOSTILE, transaction_id=HOSTILE)
    page = PaymentPage(HOSTILE, note=HOSTILE)
    for html in (page(hostile), page.render_notice(hostile)):
        assert "<script" not in html
        assert HOSTILE not in html
    for misplaced in ({"accent": "red;}"}, {"contact": "javascript:alert(1)"}, {"contact": 'https://x"y'}):
        with pytest.raises(ConfigurationError, match=next(iter(misplaced))):
            PaymentPage(**misplaced)


@pytest.mark.parametrize("url", ["https://x.example/a?b='$(id)';rm -rf ~", "https://x.example/`id`?a&b|c"])
def test_the_command_can_be_pasted_into_a_shell(url: str) -> None:
    terms = terms_of(unpaid(entry("test", amount="12500000")), url=url, method="POST")
    assert shlex.split(build_command(terms)) == ["faregate", "pay", "-X", "POST", "--max", "12.50", url]


@pytest.mark.parametrize(
    "instructions",
    ["", "not base64", encode([]), encode({"accepts": {}}), encode({"accepts": [1, None, {}]}), "A" * 100_000]
    + [
        encode({"accepts": [entry(**wrong)]})
        for wrong in ({"amount": 5}, {"amount": "-1"}, {"amount": "9" * 99})
    ],
)
def test_instructions_that_cannot_be_read_have_no_price(instructions: str) -> None:
    assert read_prices(instructions) == ()
    response = responses.build_payment_required(Response(402, (("PAYMENT-REQUIRED", instructions),)))
    page = present(response, terms_of(response), BROWSER, None, None)
    assert b"PAYMENT-REQUIRED" in page.body


def test_an_unknown_asset_is_shown_in_atomic_units() -> None:
    (price,) = read_prices(encode({"accepts": [entry(asset="0xabc", network="eip155:1")]}))
    assert price == Price("50000", "atomic units of 0xabc", "eip155:1", "eip155:1", "0x" + "1" * 40, "50000")


@pytest.mark.parametrize(
    "notice",
    [
        responses.build_settling(TXN),
        responses.build_unconfirmed(TXN),
        responses.build_already_used(TXN),
        responses.build_in_progress(),
    ],
)
def test_no_other_page_asks_for_a_payment(notice: Response) -> None:
    page = present(
        notice, terms_of(notice), BROWSER, lambda _terms: "Pay again!", lambda _terms: {"pay": "again"}
    )
    text = page.body.decode()
    assert json.loads(notice.body)["message"] in text
    assert "faregate pay" not in text
    assert "Pay again" not in text
    assert present(notice, terms_of(notice), "", None, lambda _terms: {"pay": "again"}) is notice


def test_a_json_body_of_the_sellers_keeps_code_and_message() -> None:
    response = unpaid(entry())
    shaped = present(response, terms_of(response), "", None, lambda terms: {"price": str(terms.prices[0])})
    body = {"code": "payment_required", "message": "Pay.", "price": "0.05 USDC on Base"}
    assert json.loads(shaped.body) == body
    assert shaped.first("payment-required") == response.first("payment-required")


@pytest.mark.parametrize("page", [None, PaymentPage("Acme")])
def test_a_page_that_fails_is_replaced_by_the_json(
    page: PaymentPage | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_names: object, **_values: object) -> str:
        raise OSError("the template is gone")

    paywall = Paywall(base_url="emulator:", environ={}, payment_page=page)
    response, request = unpaid(entry()), Request("GET", "/report", ())
    assert b"<h1>" in paywall.render_response(response, request, BROWSER, URL, None).body
    monkeypatch.setattr("faregate.pages.payment.render", fail)
    assert paywall.render_response(response, request, BROWSER, f"{URL}&new", None) is response
    assert "the JSON is sent" in caplog.text

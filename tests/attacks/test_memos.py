"""A memo of functools above a helper function that asks for the payment."""

from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

import flask
import pytest

from faregate.emulator import Wallet
from faregate.flask import Faregate
from tests.attacks.site import make_paywall

ABOVE = "A memo of functools stands above the price"


def serve(memo: Callable[[Any], Any], is_above: bool) -> list[str]:
    """Return what an unpaid, a paid and another unpaid request get."""
    app = flask.Flask("shop")
    paywall = Faregate()
    paywall.init_app(app, make_paywall())

    def work() -> str:
        return "content"

    helper = (
        memo(paywall.paid("daily_report")(work)) if is_above else paywall.paid("daily_report")(memo(work))
    )
    helpers = {"report": helper}  # the paywall does not see what the view calls
    app.add_url_rule("/sold", "sold", lambda: helpers["report"]())
    client = app.test_client()
    unpaid = client.get("/sold")
    instructions = unpaid.headers.get("PAYMENT-REQUIRED")
    headers = {"PAYMENT-SIGNATURE": Wallet().pay(instructions)} if instructions else {}
    return [unpaid.text, client.get("/sold", headers=headers).text, client.get("/sold").text]


@pytest.mark.parametrize("memo", [cache, lru_cache(maxsize=3)])
def test_it_gives_nothing_away(memo: Any, caplog: pytest.LogCaptureFixture) -> None:
    assert "content" not in serve(memo, is_above=True)
    assert ABOVE in caplog.text


def test_a_memo_below_the_price_is_sold(caplog: pytest.LogCaptureFixture) -> None:
    answers = serve(cache, is_above=False)
    assert [answer == "content" for answer in answers] == [False, True, False]
    assert ABOVE not in caplog.text

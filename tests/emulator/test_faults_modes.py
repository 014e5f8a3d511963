"""The known modes of failing, against a real paywall: what the payer gets, and that nothing is lost."""

from collections.abc import Iterator

import httpx
import pytest

from faregate.emulator import Fault

from .flask_seller import FlaskSeller
from .seller import ApiClient


@pytest.fixture
def seller(api: ApiClient, monkeypatch: pytest.MonkeyPatch) -> Iterator[FlaskSeller]:
    monkeypatch.setattr("faregate.core.completion.COMPLETE_PAUSES", (0.01,))
    seller = FlaskSeller(api, "good", timeout=1.0)
    yield seller
    seller.close()


def assert_to_come_back(answer: httpx.Response, status: int, code: str) -> None:
    """Whoever gets this comes back with the same payment, and does not sign another."""
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert status != 503 or int(answer.headers["retry-after"]) > 0
    assert "payment-required" not in answer.headers
    assert "payment-response" not in answer.headers
    assert "Sunny" not in answer.text


def assert_served_once(seller: FlaskSeller) -> None:
    served = seller.visit()
    assert (served.status_code, served.json()) == (200, {"report": "Sunny."})
    assert "payment-response" in served.headers
    assert seller.visit().content == served.content
    assert (seller.runs, seller.charged) == (1, 50_000)


@pytest.mark.parametrize(
    ("mode", "status", "code"),
    [
        ("accept-then-time-out", 503, "payment_unconfirmed"),
        ("5xx-after-settle", 502, "completion_refused"),
        ("double-402", 503, "payment_unconfirmed"),
        ("slow-answer", 503, "payment_unconfirmed"),  # slower than this seller waits
        ("reconcile-unavailable", 503, "payment_unconfirmed"),
    ],
)
def test_taken_but_it_looks_failed(
    api: ApiClient, seller: FlaskSeller, mode: str, status: int, code: str
) -> None:
    api.emulator.mode(mode)
    for _ in range(2):
        assert_to_come_back(seller.visit(), status, code)
        assert (seller.runs, seller.charged) == (1, 50_000)
    api.emulator.mode("clean")
    assert_served_once(seller)


def test_what_would_reconcile_is_out_of_order_too(api: ApiClient) -> None:
    bought = api.buy()
    api.emulator.mode("reconcile-unavailable")
    assert api.get(f"/transactions/{bought.id}").status_code == 503
    assert api.get("/transactions").status_code == 503
    assert api.get("/payers").status_code == 200


def test_a_slow_answer_in_time_is_a_good_one(api: ApiClient, seller: FlaskSeller) -> None:
    rule = api.emulator.faults.add(Fault(kind="latency", seconds=0.05, operation="complete"))
    assert_served_once(seller)
    assert rule.applied == 1


def test_clean(api: ApiClient, seller: FlaskSeller) -> None:
    api.emulator.mode("clean")
    assert_served_once(seller)

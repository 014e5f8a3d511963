"""The known modes of failing, against a real paywall: what the payer gets, and that nothing is lost."""

from collections.abc import Iterator

import httpx
import pytest
from flask import Flask

from faregate.emulator import TEST_KEY, Fault, Wallet
from faregate.flask import Faregate
from faregate.paywall import Paywall

from .seller import ApiClient


class Stand:
    """A Flask app that sells one report, and its one payer, who always brings the same payment."""

    def __init__(self, api: ApiClient) -> None:
        self.runs = 0
        app, selling = Flask(__name__), Faregate()
        self._api = api
        self._paywall = Paywall(
            api_key=TEST_KEY,
            base_url=str(api.http.base_url),
            public_url="https://s.example",
            timeout=1.0,
            environ={},
        )
        selling.init_app(app, self._paywall)

        @app.get("/report")
        @selling.paid("daily_report")
        def report() -> dict[str, str]:
            self.runs += 1
            return {"report": "Sunny."}

        self._http = httpx.Client(transport=httpx.WSGITransport(app), base_url="http://stand")
        self.wallet = Wallet.test("good", clock=api.clock)
        self.before = self._balance()
        self.proof = self.wallet.pay(self._http.get("/report").headers["payment-required"])

    def visit(self) -> httpx.Response:
        return self._http.get("/report", headers={"PAYMENT-SIGNATURE": self.proof})

    @property
    def charged(self) -> int:
        return self.before - self._balance()

    def _balance(self) -> int:
        return self._api.emulator.balance(self.wallet.address)

    def close(self) -> None:
        self._http.close()
        self._paywall.close()


@pytest.fixture
def stand(api: ApiClient, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stand]:
    monkeypatch.setattr("faregate.core.completion.COMPLETE_PAUSES", (0.01,))
    stand = Stand(api)
    yield stand
    stand.close()


def assert_to_come_back(answer: httpx.Response, status: int, code: str) -> None:
    """Whoever gets this comes back with the same payment, and does not sign another."""
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert status != 503 or int(answer.headers["retry-after"]) > 0
    assert "payment-required" not in answer.headers
    assert "payment-response" not in answer.headers
    assert "Sunny" not in answer.text


def assert_served_once(stand: Stand) -> None:
    served = stand.visit()
    assert (served.status_code, served.json()) == (200, {"report": "Sunny."})
    assert "payment-response" in served.headers
    assert stand.visit().content == served.content
    assert (stand.runs, stand.charged) == (1, 50_000)


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
def test_taken_but_it_looks_failed(api: ApiClient, stand: Stand, mode: str, status: int, code: str) -> None:
    api.emulator.mode(mode)
    for _ in range(2):
        assert_to_come_back(stand.visit(), status, code)
        assert (stand.runs, stand.charged) == (1, 50_000)
    api.emulator.mode("clean")
    assert_served_once(stand)


def test_what_would_reconcile_is_out_of_order_too(api: ApiClient) -> None:
    bought = api.buy()
    api.emulator.mode("reconcile-unavailable")
    assert api.get(f"/transactions/{bought.id}").status_code == 503
    assert api.get("/transactions").status_code == 503
    assert api.get("/payers").status_code == 200


def test_a_slow_answer_in_time_is_a_good_one(api: ApiClient, stand: Stand) -> None:
    rule = api.emulator.faults.add(Fault(kind="latency", seconds=0.05, operation="complete"))
    assert_served_once(stand)
    assert rule.struck == 1


def test_clean(api: ApiClient, stand: Stand) -> None:
    api.emulator.mode("clean")
    assert_served_once(stand)

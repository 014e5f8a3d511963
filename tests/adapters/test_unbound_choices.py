"""An offer that the handler chooses by itself: `require_payment(environ, small if ... else large)`.

The payment is bound to the URL, not to the choice. A payer who returns with another choice gets what was paid
for, or nothing.
"""

from typing import Any

import pytest
from werkzeug.test import Client

from faregate import Paywall
from faregate.emulator import Emulator, Fault, Wallet
from faregate.emulator.transports import transport
from faregate.journals.memory import MemoryJournal
from faregate.offers import offer
from faregate.wsgi import PaywallMiddleware, require_payment

SMALL, LARGE = offer("daily_report"), offer("text_summary")


class Shop:
    """A handler that sells by a header, and its payer. `runs` are the sizes whose work was begun."""

    def __init__(self, *faults: Fault, has_among: bool = False) -> None:
        self.emulator = Emulator()
        self.journal = MemoryJournal()
        self.runs: list[str] = []
        self.has_among = has_among
        paywall = Paywall(
            base_url="emulator:",
            environ={},
            transport=transport(self.emulator),
            public_url="https://seller.example",
            journal=self.journal,
            timeout=0.5,
        )
        self.paywall = paywall
        self.client = Client(PaywallMiddleware(self._serve, paywall))
        self.proof = Wallet().pay(self.ask("small", "").headers["PAYMENT-REQUIRED"])
        for fault in faults:
            self.emulator.faults.add(fault)

    def _serve(self, environ: Any, start_response: Any) -> list[bytes]:
        size = environ["HTTP_X_SIZE"]
        sold = LARGE if size == "large" else SMALL
        if self.has_among:
            chosen = offer(lambda _: sold.sells, among=(SMALL, LARGE))
            payment = require_payment(environ, chosen)
        else:
            payment = require_payment(environ, sold)
        self.runs.append(size)
        if payment.sells == LARGE.sells:
            payment.report({"input-tokens": 3})
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [f"work for {size}".encode()]

    def ask(self, size: str, proof: str | None = None) -> Any:
        sent = self.proof if proof is None else proof
        return self.client.get(
            "/report", headers={"X-Size": size} | ({"PAYMENT-SIGNATURE": sent} if sent else {})
        )


def fail(operation: Any, when: Any, times: int | None = None) -> Fault:
    return Fault(kind="status", operation=operation, status=503, when=when, times=times)


def test_a_payment_that_was_not_used_buys_no_other_offer() -> None:
    shop = Shop()
    assert (shop.ask("large").status_code, shop.runs) == (402, [])
    assert (shop.ask("small").text, shop.runs) == ("work for small", ["small"])


def test_a_delivered_result_is_delivered_again_whatever_is_chosen() -> None:
    shop = Shop()
    assert shop.ask("small").text == "work for small"
    again = shop.ask("large")
    assert (again.status_code, again.text, shop.runs) == (200, "work for small", ["small"])


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_result_whose_payment_was_not_confirmed_stays_the_one_that_was_paid_for(when: Any) -> None:
    shop = Shop(fail("complete", when))
    assert (shop.ask("small").status_code, shop.runs) == (503, ["small"])
    assert "work" not in shop.ask("large").text
    shop.emulator.faults.clear()
    released = shop.ask("large")
    assert (released.status_code, released.text, shop.runs) == (200, "work for small", ["small"])


def test_a_payment_that_was_authorized_for_one_offer_begins_no_work_of_another() -> None:
    shop = Shop(fail("access", "after"))
    assert (shop.ask("small").status_code, shop.runs) == (503, [])  # the service has a transaction, we do not
    shop.emulator.faults.clear()
    refused = shop.ask("large")
    assert (refused.status_code in (402, 409, 502, 503), shop.runs) == (True, []), refused.text
    assert (shop.ask("small").text, shop.runs) == ("work for small", ["small"])


def test_after_a_deploy_that_lets_the_request_choose_an_open_payment_is_refused_and_kept() -> None:
    shop = Shop(fail("complete", "after"))
    assert shop.ask("small").status_code == 503
    shop.emulator.faults.clear()
    shop.has_among = True
    for size in ("small", "large"):
        refused = shop.ask(size)
        assert (refused.status_code, "PAYMENT-REQUIRED" in refused.headers) == (409, False)
    shop.has_among = False
    assert (shop.ask("small").text, shop.runs) == ("work for small", ["small"])

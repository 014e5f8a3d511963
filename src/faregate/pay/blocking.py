"""Run the purchase of `faregate pay`, blocking."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from x402.schemas import PaymentRequired

from faregate.core.driver import run
from faregate.core.models import Response
from faregate.pay.payer_backend import Flow
from faregate.pay.payment_file import SavedPayment
from faregate.pay.purchase import Purchase, PurchaseResult, SystemClock
from faregate.pay.wallet import PayerWallet, PaymentProof

T = TypeVar("T")


class PaymentSender(Protocol):
    """Sends the request of a purchase, over HTTP or as the call of a tool."""

    def send(self, payment: SavedPayment | None = None) -> Response: ...


@dataclass(frozen=True, slots=True)
class BlockingPayer:
    """Does what a purchase asks for, with a wallet whose key is at hand."""

    client: PaymentSender
    wallet: PayerWallet
    clock: SystemClock

    def send(self, payment: SavedPayment | None) -> Response:
        return self.client.send(payment)

    def sign(self, required: PaymentRequired) -> PaymentProof:
        return self.wallet.sign(required)

    def sleep(self, seconds: float) -> None:
        self.clock.sleep(seconds)

    def call(self, action: Callable[[], T]) -> T:
        return action()


def run_purchase(purchase: Purchase, steps: Flow[PurchaseResult]) -> PurchaseResult:
    """Run the steps to their end; whatever goes wrong, keep a payment that may be charged."""
    try:
        return run(steps)
    except KeyboardInterrupt:
        if purchase.payment_file.payment is None:
            raise
        return purchase.end_interrupted()
    # BaseException: SystemExit too. A payer who loses the payment would have to pay again.
    except BaseException:
        purchase.payment_file.save_pending()
        raise

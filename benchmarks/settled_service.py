"""`faregate service serve`, with payments that are good and settled at once: what is measured is the service.

    python benchmarks/settled_service.py DATABASE_URL

Prints one JSON line with its URL, as `faregate service serve --json` does.
"""

import secrets
import sys
from typing import Any

from faregate.rules.dependencies import Dependencies
from faregate.rules.payments import (
    Attempt,
    PaymentPostponed,
    PaymentRefused,
    PaymentSent,
    PaymentSettled,
    PaymentVerified,
    SignedTransfer,
)
from faregate.service import served_accounts
from faregate.service.commands.serve import serve
from faregate.service.settings import Settings
from faregate.x402.models import SignedPayment, Terms


class SettledPayments:
    """A facilitator and a chain that believe everything, and answer at once."""

    def verify(self, payment: SignedPayment, terms: Terms, **_: Any) -> PaymentVerified | PaymentRefused:
        return PaymentVerified(payment.payer, 1, 10**12)

    def list_facilitators(self, *_: Any) -> tuple[str, ...]:
        return ()

    def look(self, payment: SignedPayment, terms: Terms, attempt: Attempt) -> PaymentSettled:
        return PaymentSettled(attempt.hashes[-1])

    def is_used(self, payment: SignedPayment, terms: Terms) -> bool:
        return False

    def get_gas_account(self, terms: Terms) -> str | None:
        return None

    def sign(self, *_: Any) -> SignedTransfer | PaymentPostponed | None:
        return None

    def send(self, payment: SignedPayment, terms: Terms, attempt: Attempt) -> PaymentSent:
        return PaymentSent(f"0x{secrets.token_hex(32)}", "HTTP 200 success")


def build_dependencies(store: Any, payments: Any, *calls: Any) -> Dependencies:
    """Build what the rules work on. The payments that the settings name are never asked."""
    return Dependencies(store, SettledPayments(), *calls)


def main() -> None:
    settings = Settings(
        database=sys.argv[1],
        payments="facilitator",
        facilitator_test=("http://127.0.0.1:9/never-asked",),
        rpc_test=("http://127.0.0.1:9/never-asked",),
        port=0,
        rate_limit=0,
        log_level="warning",
    )
    setattr(served_accounts, "Dependencies", build_dependencies)  # noqa: B010
    serve(settings, as_json=True)


if __name__ == "__main__":
    main()

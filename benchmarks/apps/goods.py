"""What all contestants have in common: the report that is for sale, and the settings of the run."""

import os
from typing import Any

from faregate.paywall import Paywall

REPORT = {"report": "Sunny, with a chance of receipts."}
HEALTH = {"status": "ok"}
SERVICE = os.environ["BENCH_SERVICE"]
"""The URL of the Merchant API, which is an x402 facilitator too."""
KEY = "svc_test_benchmark"
NETWORK = "eip155:84532"
PAY_TO = "0x" + "2" * 40


def read_settings() -> dict[str, Any]:
    """Return the arguments of the `Paywall` that the harness asks for."""
    return {
        "api_key": KEY,
        "base_url": SERVICE,
        "journal": os.environ["BENCH_JOURNAL"],
        "redelivery_window": float(os.environ["BENCH_WINDOW"]),
        "max_result_bytes": 64 << 20,
    }


def build_paywall() -> Paywall:
    return Paywall(**read_settings())

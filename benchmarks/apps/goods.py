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


def build_whole_paywall() -> Paywall:
    """Build the paywall of an application with the service inside its process."""
    settings = {
        "FAREGATE_BASE_URL": "service:",
        "FAREGATE_SERVICE_DATABASE": os.environ["BENCH_JOURNAL"],
        "FAREGATE_SERVICE_PAY_TO": PAY_TO,
        "FAREGATE_SERVICE_FACILITATOR_TEST": SERVICE,
        "FAREGATE_SERVICE_RPC_TEST": f"{SERVICE}/rpc",
    }
    return Paywall(environ=settings)

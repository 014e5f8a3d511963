"""Faults for the tests: one of each kind at least, each with the call that it strikes."""

from faregate.emulator import Fault
from faregate.emulator.faults.models import KINDS

EXAMPLES = (
    Fault(kind="latency", seconds=0.01, operation="access"),
    Fault(kind="silence", operation="access"),
    Fault(kind="silence", operation="complete", when="before"),
    Fault(kind="reset", operation="complete"),
    Fault(kind="reset", operation="access", when="before"),
    Fault(kind="cut", operation="complete"),
    Fault(kind="status", status=429, retry_after=3, operation="access"),
    Fault(kind="status", status=500, operation="complete"),
    Fault(kind="status", status=503, operation="complete", when="after"),
    Fault(kind="second-402", operation="access"),
    Fault(kind="second-402", operation="complete"),
    Fault(kind="second-402", operation="complete", when="before"),
    Fault(kind="garbage", operation="complete"),
    Fault(kind="missing-header", header="PAYMENT-RESPONSE", operation="complete"),
    Fault(kind="doubled-header", header="Payment-Response", value="bm90", operation="complete"),
    Fault(kind="changed-body", fields={"transaction_id": None}, operation="complete"),
    Fault(kind="stale-read", operation="transaction"),
    Fault(kind="stale-read", operation="transactions"),
    Fault(kind="stale-read", seconds=600, operation="payers"),
    Fault(kind="refused-repeat", operation="complete"),
    Fault(kind="refused-repeat", status=404, operation="complete"),
    Fault(kind="predictable-instructions", operation="access"),
)

assert {fault.kind for fault in EXAMPLES} == set(KINDS)


def name_of(fault: Fault) -> str:
    """For the ids of parametrized tests."""
    return f"{fault.kind}-{fault.when or ''}-{fault.operation}".replace("--", "-")

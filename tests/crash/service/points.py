"""The named points at which a process of the service can be killed: around and inside each call of the rules.

`before` and `after` a call to the store or the payments. Where a call writes, `in` is just before its commit,
or between the commit and the answer if its only statement commits by itself. Where it asks the network, `in`
is a random moment.
"""

from typing import Final

from faregate.rules.payments import Payments
from faregate.rules.store import Store

NETWORK: Final = {"verify", "look", "sign", "send"}
WRITING: Final = {
    *("authorize", "record_outcome", "begin_attempt", "record_signed", "record_answer"),
    *("record_settled", "record_failed", "postpone", "take_job", "replace_transfer"),
}
BY_WORKERS: Final = ("take_job", "replace_transfer")
"""What workers do beside the rules: lease a due payment, and raise the fee of a transfer that waits."""
ELSEWHERE: Final = {
    "begin_execution": "free resources only",
    "find_execution": "free resources only",
    "record_execution": "free resources only",
    "schedule": "simulated payments only",
    "seller_name": "no call",
}
"""What no rule calls for a real payment, and why."""
DIRECT_ONLY: Final = {"get_gas_nonce", "sign", "record_signed", "replace_transfer"}


def list_calls() -> list[str]:
    """List the names of all that the rules call."""
    methods = {name for kind in (Store, Payments) for name in vars(kind) if not name.startswith("_")}
    return sorted({*methods, "settle", "wait"})


def list_points(payments: str) -> list[str]:
    """List the points that sales with these payments reach."""
    names = [name for name in (*list_calls(), *BY_WORKERS) if name not in ELSEWHERE]
    if payments != "direct":
        names = [name for name in names if name not in DIRECT_ONLY]
    return [point for name in names for point in _list_points_of(name)]


def _list_points_of(name: str) -> list[str]:
    inside = [f"{name}:in"] if name in NETWORK | WRITING else []
    return [f"{name}:before", *inside, f"{name}:after"]

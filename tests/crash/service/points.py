"""The named points at which a process of the service can be killed: around and inside each step.

`before` and `after` a step. Where a step writes, `in` is just before its commit, or between the commit and
the answer if its only statement commits by itself. Where it asks the network, `in` is a random moment.
"""

from typing import Any, Final, cast

from faregate.service import steps

NETWORK: Final = {"VerifyPayment", "LookAtPayment", "SignTransfer", "SendPayment"}
WRITING: Final = {
    *("Authorize", "RecordReport", "BeginAttempt", "RecordSigned", "RecordSent"),
    *("RecordSettled", "RecordFailed", "PostponePayment", "TakeJob", "ReplaceTransfer"),
}
NOT_STEPS: Final = ("TakeJob", "ReplaceTransfer")
"""What workers do beside steps: lease a due payment, and raise the fee of a transfer that waits."""
ELSEWHERE: Final = {
    "BeginExecution": "free resources only",
    "FindExecution": "free resources only",
    "RecordExecution": "free resources only",
    "Schedule": "simulated payments only",
}
"""Steps that no real payment takes, and why."""
DIRECT_ONLY: Final = {"GetGasNonce", "SignTransfer", "RecordSigned", "ReplaceTransfer"}


def list_steps() -> list[str]:
    """List the names of all steps of the rules."""
    kinds = cast("list[type[Any]]", steps.Step.__subclasses__())
    # A dataclass with slots replaces its class, and the first one may still be there.
    return sorted({kind.__name__ for kind in kinds})


def list_points(payments: str) -> list[str]:
    """List the points that sales with these payments reach."""
    names = [name for name in (*list_steps(), *NOT_STEPS) if name not in ELSEWHERE]
    if payments != "direct":
        names = [name for name in names if name not in DIRECT_ONLY]
    return [point for name in names for point in _list_points_of(name)]


def _list_points_of(name: str) -> list[str]:
    inside = [f"{name}:in"] if name in NETWORK | WRITING else []
    return [f"{name}:before", *inside, f"{name}:after"]

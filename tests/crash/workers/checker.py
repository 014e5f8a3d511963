"""Compare three records: what payers got, what was executed, and what the service charged."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.crash.workers.payers import Payment, Purchase
from tests.support.promises import Wrong

LIMIT = 15.0
"""Seconds after which the payer of a killed worker must be served."""


@dataclass(frozen=True)
class Charge:
    """A transaction of the service, by the address that paid."""

    id: str
    payer: str
    status: str


@dataclass(frozen=True)
class Execution:
    transaction: str
    pid: int


@dataclass(frozen=True)
class Evidence:
    purchases: Sequence[Purchase]
    charges: Sequence[Charge]
    executions: Sequence[Execution]
    deaths: Sequence[float] = ()


WRONGS = (
    Wrong.SECOND_EXECUTION,
    "double charges",
    Wrong.NOT_DELIVERED,
    Wrong.UNPAID_RELEASE,
    Wrong.NOT_FINAL,
    "unserved",
    "refused",
)
FINAL = ("succeeded", "failed")


def judge(evidence: Evidence, *, forgets: bool = False) -> dict[str, Any]:
    """Figures, and what is wrong among them. A journal that `forgets` may do so with the process that died:
    what happened to payments that were open then is counted as forgotten.
    """
    payments = [payment for purchase in evidence.purchases for payment in purchase.payments]
    open_at_death = {one.address for one in payments if _is_open_at(one, evidence.deaths)}
    excused = open_at_death if forgets else set[str]()
    found = _wrongs(evidence, set())
    wrongs = _wrongs(evidence, excused) if forgets else found
    times = sorted(payment.seconds for payment in payments if payment.ended == "delivered")
    lost = [payment for payment in payments if payment.interruptions]
    returns = sorted(payment.returned_after for payment in lost)
    slowest = max(lost, key=lambda payment: payment.returned_after, default=None)
    longest = max(lost, key=lambda payment: payment.seconds, default=None)
    return {
        "payments": len(payments),
        "delivered": len(times),
        "pay_again": sum(payment.ended == "pay again" for payment in payments),
        "interrupted": len(lost),
        "interrupted_again": sum(payment.interruptions > 1 for payment in lost),
        "median_return": round(_quantile(returns, 0.5), 2),
        "slowest_return": round(slowest.returned_after, 2) if slowest else 0.0,
        "slowest": slowest.answers if slowest else [],
        "longest_wait": round(longest.seconds, 2) if longest else 0.0,
        "longest": longest.answers if longest else [],
        "p50": round(_quantile(times, 0.5), 3),
        "p99": round(_quantile(times, 0.99), 3),
        "wrongs": wrongs,
        "forgotten": {name: found[name] - wrongs[name] for name in WRONGS},
    }


def is_wrong(said: dict[str, Any], limit: float = LIMIT) -> bool:
    return any(said["wrongs"].values()) or said["slowest_return"] > limit or not said["delivered"]


def _wrongs(evidence: Evidence, excused: set[str]) -> dict[str, int]:
    payer_of = {charge.id: charge.payer for charge in evidence.charges}
    paid = {charge.payer for charge in evidence.charges if charge.status == "succeeded"}
    judged = [
        [payment for payment in purchase.payments if payment.address not in excused]
        for purchase in evidence.purchases
    ]
    payments = [payment for some in judged for payment in some]
    ended = {payment.address for payment in payments if payment.ended}
    counted = Counter(
        one.transaction for one in evidence.executions if payer_of.get(one.transaction) not in excused
    )
    same_process = Counter(evidence.executions) if excused else Counter[Execution]()
    return {
        Wrong.SECOND_EXECUTION: sum(counted.values())
        - len(counted)
        + sum(count - 1 for one, count in same_process.items() if payer_of.get(one.transaction) in excused),
        "double charges": sum(max(0, sum(one.address in paid for one in some) - 1) for some in judged),
        Wrong.NOT_DELIVERED: sum(one.address in paid and one.ended != "delivered" for one in payments),
        Wrong.UNPAID_RELEASE: sum(_is_unpaid(one, payer_of, paid) for one in _all(evidence))
        + sum(purchase.leaks for purchase in evidence.purchases),
        Wrong.NOT_FINAL: sum(one.payer in ended and one.status not in FINAL for one in evidence.charges),
        "unserved": sum(not one.ended for one in payments),
        "refused": sum(one.ended not in ("", "delivered", "pay again") for one in payments),
    }


def _is_open_at(payment: Payment, moments: Sequence[float]) -> bool:
    return any(payment.began <= moment <= payment.began + payment.seconds for moment in moments)


def _all(evidence: Evidence) -> list[Payment]:
    return [payment for purchase in evidence.purchases for payment in purchase.payments]


def _is_unpaid(payment: Payment, payer_of: dict[str, str], paid: set[str]) -> bool:
    """Delivered without its own charge, or without the proof of it."""
    if payment.ended != "delivered":
        return False
    is_its_own = payer_of.get(payment.transaction) == payment.address
    return not (is_its_own and payment.address in paid and payment.has_receipt)


def _quantile(times: Sequence[float], part: float) -> float:
    return times[min(len(times) - 1, int(part * len(times)))] if times else 0.0

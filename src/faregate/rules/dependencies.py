"""What an operation of the service works on: the store and the payments of one environment of one account.

Rules call both directly. A method of the store is one short transaction, and one of the payments may ask the
network: so no rule holds a lock or a database transaction while a payment is verified or sent.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Literal

from faregate.rules.payments import Payments
from faregate.rules.records import Transaction
from faregate.rules.store import Store

AttemptResult = Literal["succeeded", "failed", "postponed"]
SettleFunction = Callable[["Dependencies"], Transaction]
"""Settles a payment as far as that is possible now; returns its transaction as it then stands."""


def _settle_here(settlement: SettleFunction, transaction: Transaction, deps: "Dependencies") -> Transaction:
    return settlement(deps)


def _never_wait(transaction: Transaction, deps: "Dependencies") -> Transaction:
    return transaction


def _settles_later() -> bool:
    return False


def _observe_nothing(result: AttemptResult, transaction: Transaction) -> None:
    """Ignore the end of an attempt."""


class AmountIssue(Enum):
    """What an operator should know of the amount of a payment by use."""

    ABOVE_MAXIMUM = "above_maximum"
    """The use cost more than its payer has authorized, and settles the maximum."""
    OTHER_THAN_ASKED = "other_than_asked"
    """Another amount was settled than the service has asked for."""


def count_nothing(issue: AmountIssue) -> None:
    """Ignore the amount of a payment."""


@dataclass(frozen=True, slots=True)
class Dependencies:
    """The store and the payments of one environment of one account.

    `settle` runs a settlement. It may stop waiting for it, and return the transaction as it then stands.
    `wait` does not settle a pending transaction: it waits for the call or the worker that does. `settles_now`
    is whether `settle` would begin without waiting for another settlement. `observe` is called with the
    result of each attempt to settle that ends, and with its transaction. `count_issue` is called for each
    payment by use with such an amount. `sells_earlier`: a published revision may be sold
    although it is not the active one any more. `accepts_less`: an operator takes a payment by use for what
    was settled, although more was used.
    """

    store: Store
    payments: Payments
    settle: Callable[[SettleFunction, Transaction, "Dependencies"], Transaction] = _settle_here
    wait: Callable[[Transaction, "Dependencies"], Transaction] = _never_wait
    settles_now: Callable[[], bool] = _settles_later
    observe: Callable[[AttemptResult, Transaction], None] = _observe_nothing
    count_issue: Callable[[AmountIssue], None] = count_nothing
    sells_earlier: bool = False
    accepts_less: bool = False

"""What must never happen to a payment, whatever the order of events.

Rules
1. The work runs at most once for a payment.
2. One outcome is told to the service, for ever the same.
3. Content leaves only after a completion proved a payment that did succeed.
4. While the payment of a proof is open or succeeded, its payer is given no fresh 402.
5. An id that somebody learned is in the journal, or in the log of last resort, one step later; a row that
   owes something is never forgotten.
6. Nobody takes a row whose lease is not over.
7. Who lost its lease runs nothing, sends nothing, releases nothing (`tests.model.knowledge`).
8. Of a payer's payments for one request, no two have work that a result may come of. A payer is given the
   result of another payment only if it is their own, and is not charged for the one that was sent.
9. While the payment that another one was given up for is open, or its result waits, no fresh 402.
10. Of a payer's payments with one name, no work begins in one while the journal has another that was paid.
"""

from collections.abc import Collection
from enum import Enum
from typing import Any, NamedTuple

from faregate.core.models import Outcome, Response, WorkSucceeded
from faregate.errors import JournalError
from tests.model.service import FINAL, OPEN, SUCCEEDED, Payment
from tests.support.promises import Wrong


class Violation(AssertionError):
    """One of the rules is broken. `wrong` is what it comes to, where all campaigns have a word for it."""

    def __init__(self, how: str, wrong: Wrong | None = None) -> None:
        super().__init__(f"{wrong}: {how}" if wrong else how)


class TransactionState(Enum):
    """Whose the row of a payment is, to a request with one of its proofs."""

    OWN = "own"
    OTHERS = "another proof's"
    NOBODYS = "nobody's"


class Facts(NamedTuple):
    """What happened to one payment. `over`: its row was final, and forgotten in its time.

    `refused`: before it knew of a payment, the service said 402 to its proof.
    """

    works: int = 0
    told: str = ""
    proven: bool = False
    last_resort: bool = False
    over: bool = False
    refused: bool = False


def worked(facts: Facts) -> Facts:
    if facts.works:
        raise Violation("the work ran again", Wrong.SECOND_EXECUTION)
    return facts._replace(works=1)


def named(outcome: Outcome) -> str:
    if isinstance(outcome, WorkSucceeded):
        return f"succeeded {outcome.result.body.decode()}"
    return f"failed {outcome.code}"


def told(facts: Facts, outcome: Outcome) -> Facts:
    """Who slept until all was over, and only then writes the id it learned, begins anew: it is refused."""
    if facts.told not in ("", named(outcome)) and not facts.over:
        raise Violation(f"{facts.told!r}, and then {named(outcome)!r}", Wrong.CONTRADICTION)
    return facts._replace(told=named(outcome))


def check_alone(own: str, others: Collection[str]) -> None:
    """`own` and `others` are the states of the rows of one purchase, as work begins in the first one."""
    if own == "running" and not {"running", "ok"}.isdisjoint(others):
        raise Violation(f"work began beside that of an earlier payment: {others}", Wrong.SECOND_EXECUTION)


def check_named(own: str, was_paid: bool) -> None:
    """`was_paid`: whether another payment of the same payer and name was, and the journal remembers it."""
    if own == "running" and was_paid:
        raise Violation("work began for a purchase that was paid", Wrong.SECOND_EXECUTION)


def check_led(is_same_payer: bool, given_up: Payment) -> None:
    if not is_same_payer:
        raise Violation("a payer was given what another one paid for", Wrong.UNPAID_RELEASE)
    if given_up.status == SUCCEEDED:
        raise Violation("charged, and led to an earlier payment", Wrong.CONTRADICTION)


def check_known(learned: str, kept: bool) -> None:
    if learned and not kept:
        raise Violation(f"one step later neither journal nor log has {learned}", Wrong.LOST)


def check_kept(owed_before: bool, there_after: bool) -> None:
    if owed_before and not there_after:
        raise Violation("a row that owes something was forgotten", Wrong.LOST)


def check_raised(error: Exception | None) -> None:
    """A walk may end with the journal's own trouble, and with no other."""
    if not isinstance(error, JournalError | None):
        raise Violation(f"a flow raised {error!r}")


def check_lease(taken: bool) -> None:
    if taken:
        raise Violation("a row was taken while somebody held its lease")


def check_answer(response: Any, payment: Payment, facts: Facts, standing: TransactionState) -> None:
    if not isinstance(response, Response):
        raise Violation(f"the payer was given {response!r}")
    if is_content(response) and not (payment.status == SUCCEEDED and facts.proven):
        raise Violation(f"of a payment {payment.status}, proven: {facts.proven}", Wrong.UNPAID_RELEASE)
    open_or_paid = payment.status in (*OPEN, SUCCEEDED)
    if response.status == 402 and open_or_paid and not _is_excused(payment, facts, standing):
        raise Violation(f"for a payment that is {payment.status}", Wrong.PAY_AGAIN)


def _is_excused(payment: Payment, facts: Facts, standing: TransactionState) -> bool:
    """What the journal cannot know.

    A payment that it has forgotten in time is one that it never saw, and so is one that others sold for: the
    service says 402 to each. And what the service refused a moment ago it may grant to somebody who asked
    before, and lost the claim.
    """
    if standing is TransactionState.OWN:
        return False
    others = standing is TransactionState.NOBODYS and not facts.told
    return facts.refused or (payment.status == SUCCEEDED and (facts.over or others))


def check_swept(is_over: bool) -> None:
    if not is_over:
        raise Violation("sweeps alone do not bring every row to its end", Wrong.NOT_FINAL)


def check_end(payment: Payment, facts: Facts, owed: bool, delivered: bool) -> None:
    """After sweeps and a payer who came back, without faults. `delivered`: as often as it may be."""
    if payment.status not in FINAL:
        raise Violation(f"the payment is {payment.status}", Wrong.NOT_FINAL)
    if owed and payment.accepted == facts.told:
        raise Violation("its row owes something", Wrong.NOT_FINAL)
    if payment.status == SUCCEEDED and payment.accepted and not (delivered or facts.over):
        raise Violation("the payer came back in vain", Wrong.NOT_DELIVERED)


def is_content(response: Response) -> bool:
    return response.first("payment-response") is not None or response.body.startswith(b"the paid result")

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
"""

from enum import Enum
from typing import Any, NamedTuple

from faregate.core.models import Outcome, Response, Succeeded
from faregate.errors import JournalError
from tests.model.service import OPEN, SUCCEEDED, Payment


class Violation(AssertionError):
    """One of the rules is broken."""


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
        raise Violation("the work ran twice for one payment")
    return facts._replace(works=1)


def named(outcome: Outcome) -> str:
    if isinstance(outcome, Succeeded):
        return f"succeeded {outcome.result.body.decode()}"
    return f"failed {outcome.code}"


def told(facts: Facts, outcome: Outcome) -> Facts:
    """Who slept until all was over, and only then writes the id it learned, begins anew: it is refused."""
    if facts.told not in ("", named(outcome)) and not facts.over:
        raise Violation(f"the service was told {facts.told!r}, and then {named(outcome)!r}")
    return facts._replace(told=named(outcome))


def check_known(learned: str, kept: bool) -> None:
    if learned and not kept:
        raise Violation(f"{learned} was granted, and one step later neither journal nor log has it")


def check_kept(owed_before: bool, there_after: bool) -> None:
    if owed_before and not there_after:
        raise Violation("a row that owes something was forgotten")


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
        raise Violation(f"content left, and the payment is {payment.status}, proven: {facts.proven}")
    open_or_paid = payment.status in (*OPEN, SUCCEEDED)
    if response.status == 402 and open_or_paid and not _is_excused(payment, facts, standing):
        raise Violation(f"a fresh 402 for a payment that is {payment.status}")


def _is_excused(payment: Payment, facts: Facts, standing: TransactionState) -> bool:
    """What the journal cannot know.

    Another encoding of a payment is a proof it never saw, and so is one that it has forgotten in time, or
    that others sold for: the service says 402 to each. And what the service refused a moment ago it may
    grant to somebody who asked before, and lost the claim.
    """
    if standing is TransactionState.OWN:
        return False
    others = standing is TransactionState.OTHERS or not facts.told
    return facts.refused or (payment.status == SUCCEEDED and (facts.over or others))


def is_content(response: Response) -> bool:
    return response.first("payment-response") is not None or response.body.startswith(b"the paid result")

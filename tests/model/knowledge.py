"""What one flow knows at a place, and what it may not do then: it follows from its questions and answers."""

from typing import Any, NamedTuple

from faregate.core.claim_types import Claimed, EarlierPayment, PendingPayment, Recoverable
from faregate.core.interfaces import RunHandler
from faregate.core.results import AccessGranted, AccessPending, CompletionPaid
from tests.core.steps import (
    AbandonClaim,
    CallAccess,
    CallComplete,
    ClaimTransaction,
    LeaseNext,
    Question,
    RecordOutcome,
    RecordResumption,
    RecordSettlement,
    RecordTransaction,
)
from tests.model.invariants import Violation
from tests.model.replies import Raised


class Knowledge(NamedTuple):
    """`learned`: an id that is still to be written. `lost`: it was told not to go on.

    `waits`: an earlier payment stands in the way of its start. `given_up`: so its claim was, before any work.
    """

    learned: str = ""
    waits: bool = False
    given_up: bool = False
    lost: bool = False
    proven: bool = False
    fences: frozenset[int] = frozenset()

    def after(self, question: Question | None, answer: Any) -> "Knowledge":
        if self.lost and isinstance(question, CallComplete | RunHandler | RecordSettlement):
            raise Violation(f"it lost its lease, and asked {type(question).__name__}")
        waits = isinstance(answer, EarlierPayment) or (self.waits and not isinstance(question, _ENDS_WAIT))
        gives_up = self.waits and isinstance(question, AbandonClaim)
        is_unwritten = waits or (isinstance(answer, Raised) and not gives_up)
        return Knowledge(
            _id_in(question, answer) or (self.learned if is_unwritten else ""),
            waits,
            self.given_up or gives_up,
            _is_lost(self.lost, question, answer),
            (self.proven and not isinstance(question, LeaseNext)) or isinstance(answer, CompletionPaid),
            self.fences | _fences_in(answer),
        )


BLANK = Knowledge()
_ENDS_WAIT = RecordTransaction | RecordResumption | AbandonClaim


def _id_in(question: Question | None, answer: Any) -> str:
    if isinstance(question, CallAccess) and isinstance(answer, AccessGranted | AccessPending):
        return answer.transaction_id or ""
    return ""


def _is_lost(lost: bool, question: Question | None, answer: Any) -> bool:
    """Refused, or not known to be written: either way it sends nothing."""
    if isinstance(question, LeaseNext | ClaimTransaction):
        return False
    # It ended the row of an earlier payment, or did not, and starts with its own.
    if isinstance(question, RecordTransaction) and answer is True:
        return False
    refused = answer is False or isinstance(answer, Raised)
    return lost or (refused and isinstance(question, RecordTransaction | RecordOutcome))


def _fences_in(answer: Any) -> frozenset[int]:
    match answer:
        case Claimed(lease) | Recoverable(PendingPayment(lease)) | PendingPayment(lease):
            return frozenset((lease.fence,))
        case _:
            return frozenset()

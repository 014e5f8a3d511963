"""The statements that complete a transaction: the seller's outcome, and the end of the payment.

Each changes one transaction (`of_account`, `of_transaction`) and returns `CHANGING`, or nothing if it came
too late.
"""

from typing import Final

from sqlalchemy import BigInteger, bindparam, case, func, update

from faregate.selfhosted.database.clock import NOW, STAMP
from faregate.selfhosted.database.schema import transactions
from faregate.selfhosted.database.statements import Statement
from faregate.selfhosted.database.transactions import CHANGING, OF_ID, T

_NEXT: Final = bindparam("next", type_=BigInteger())
_ACCEPT: Final = update(transactions).where(OF_ID, T.outcome.is_(None)).returning(*CHANGING)
ACCEPT_FAILED: Final = Statement(
    _ACCEPT.values(
        outcome=bindparam("accepted"),
        finished_at=func.coalesce(T.finished_at, STAMP),
        final_status=func.coalesce(T.final_status, "failed"),
    )
)
_IS_OPEN: Final = T.finished_at.is_(None)
_SUBMIT: Final = _ACCEPT.values(
    outcome=bindparam("accepted"),
    submitted_at=case((_IS_OPEN, STAMP)),
    # If this process dies before it settles the payment, somebody else does so at this time.
    next_attempt_at=case((_IS_OPEN, _NEXT)),
)
ACCEPT_SUCCEEDED: Final = Statement(_SUBMIT)
ACCEPT_AND_SETTLE: Final = Statement(_SUBMIT.values(settling_at=case((_IS_OPEN, STAMP))))
_END: Final = (
    update(transactions)
    .where(OF_ID, _IS_OPEN)
    .values(next_attempt_at=None, lease_until=None, plan=None)
    .returning(*CHANGING)
)
FAIL: Final = Statement(_END.values(finished_at=STAMP, final_status="failed"))
SUCCEED: Final = Statement(
    # The receipt names the moment, so it must be known before: nothing is changed if the fence has passed it.
    _END.where(STAMP == NOW).values(
        finished_at=NOW,
        final_status="succeeded",
        transaction_hash=bindparam("settled_hash"),
        payment_response=bindparam("settled_response"),
        receipt=bindparam("settled_receipt"),
    )
)

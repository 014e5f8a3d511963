"""The states of a row: what may follow each of them, and which columns it has.

Only these tables define it. The constraints and triggers of SQLite and PostgreSQL
(`faregate.journals.sql`), the script for Redis and the constraints of Django's model are made from them. They
are a safety net: `faregate.journals.row_rules.Row` is stricter, and never writes what they refuse.
"""

from enum import Enum
from typing import Final, NamedTuple


class RowState(Enum):
    """The values are stored, and cannot change without a new version of every schema: some are older than
    their names."""

    CLAIMED = "claimed"
    """The proof is claimed, and no transaction is known."""
    UNSTARTED = "open"
    """A transaction is known, and no work was started for it."""
    WAITING = "waiting"
    """The payment settles without work of ours."""
    RUNNING = "running"
    """The work was started."""
    SUCCEEDED = "ok"
    """The work is done; its result is stored."""
    FAILED = "failed"
    """The work gave nothing to sell."""
    SETTLED = "settled"
    """Paid: the result may be handed out."""
    UNPAID = "closed"
    """The payment failed for certain."""
    PAID_NO_RESULT = "paid"
    """Paid, and there is no result to hand out, or not any more."""
    STUCK = "stuck"
    """The service gives no answer that would end it; left to the payer or to an operator."""


# Python 3.11 takes 0.2 us to find a member in its class: each sale asks for a dozen.
CLAIMED: Final = RowState.CLAIMED
UNSTARTED: Final = RowState.UNSTARTED
WAITING: Final = RowState.WAITING
RUNNING: Final = RowState.RUNNING
SUCCEEDED: Final = RowState.SUCCEEDED
FAILED: Final = RowState.FAILED
SETTLED: Final = RowState.SETTLED
UNPAID: Final = RowState.UNPAID
PAID_NO_RESULT: Final = RowState.PAID_NO_RESULT
STUCK: Final = RowState.STUCK


DECIDED = (SUCCEEDED, FAILED)
FINAL = (SETTLED, UNPAID, PAID_NO_RESULT)
OWED = (UNSTARTED, WAITING, RUNNING, *DECIDED, STUCK)
AWAITING_SETTLEMENT = (*DECIDED, WAITING, STUCK)
_NO_RESULT = (UNPAID, PAID_NO_RESULT)

TRANSITIONS: dict[RowState, tuple[RowState, ...]] = {
    CLAIMED: (*OWED, *_NO_RESULT),
    UNSTARTED: (*OWED, *_NO_RESULT),
    WAITING: (*OWED, *_NO_RESULT),
    RUNNING: (*OWED, *_NO_RESULT),
    SUCCEEDED: (STUCK, *FINAL),
    FAILED: (STUCK, *_NO_RESULT),
    STUCK: (*OWED, *FINAL),
    SETTLED: (PAID_NO_RESULT,),
    UNPAID: (),
    PAID_NO_RESULT: (),
}
"""The states that may follow each state, besides itself.

That a STUCK row keeps its outcome is not in this table: `Row` sees to it.
"""


class ColumnRule(NamedTuple):
    """A column that is null (or, unless `is_null`, not null) in exactly these states.

    In the states of `optional_in` it may be either.
    """

    name: str
    column: str
    is_null: bool
    states: tuple[RowState, ...]
    optional_in: tuple[RowState, ...] = ()


HAS_REASON = (STUCK,)
"""Exactly these states, besides those of `MAY_HAVE_REASON`, have a reason."""
MAY_HAVE_REASON = _NO_RESULT

COLUMN_RULES = (
    ColumnRule("claimed_has_no_transaction", "transaction_id", True, (CLAIMED,)),
    ColumnRule("owed_never_expires", "expires_at", True, OWED),
    ColumnRule("decided_has_outcome", "result", False, (*DECIDED, SETTLED), (STUCK,)),
    ColumnRule("settled_is_paid", "payment_response", False, (SETTLED,)),
    ColumnRule("settled_has_its_receipt", "receipt", False, (SETTLED,), (PAID_NO_RESULT,)),
    ColumnRule("settled_is_remembered", "forget_at", False, (SETTLED,), (PAID_NO_RESULT,)),
    ColumnRule("proof_until_final", "proof", True, FINAL),
    ColumnRule("payer_without_receipt", "payer", True, (CLAIMED, *OWED, SETTLED), _NO_RESULT),
    ColumnRule(
        "purchase_since_start",
        "purchase",
        True,
        (CLAIMED, UNSTARTED, WAITING, FAILED, UNPAID),
        (RUNNING, SUCCEEDED, STUCK, SETTLED, PAID_NO_RESULT),
    ),
)

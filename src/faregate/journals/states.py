"""The states of a row: what may follow each of them, and which columns it has.

These tables are the only place where this is said. The constraints and triggers of SQLite and PostgreSQL
(`faregate.journals.sql`), the script for Redis and the constraints of Django's model are made from them. They
are a safety net: `faregate.journals.row.Row` is stricter, and never writes what they refuse.
"""

from enum import Enum
from typing import NamedTuple


class State(Enum):
    """The values are stored, and cannot change without a new version of every schema: some are older than
    their names."""

    CLAIMED = "claimed"
    """The proof is claimed, and no transaction is known."""
    OPEN = "open"
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
    """Paid, and there is no result to hand out."""
    STUCK = "stuck"
    """The service gives no answer that would end it; left to the payer or to an operator."""


DECIDED = (State.SUCCEEDED, State.FAILED)
FINAL = (State.SETTLED, State.UNPAID, State.PAID_NO_RESULT)
OWED = (State.OPEN, State.WAITING, State.RUNNING, *DECIDED, State.STUCK)
AWAITING_SETTLEMENT = (*DECIDED, State.WAITING, State.STUCK)
_NO_RESULT = (State.UNPAID, State.PAID_NO_RESULT)

TRANSITIONS: dict[State, tuple[State, ...]] = {
    State.CLAIMED: (*OWED, *_NO_RESULT),
    State.OPEN: (*OWED, *_NO_RESULT),
    State.WAITING: (*OWED, *_NO_RESULT),
    State.RUNNING: (*OWED, *_NO_RESULT),
    State.SUCCEEDED: (State.STUCK, *FINAL),
    State.FAILED: (State.STUCK, *_NO_RESULT),
    State.STUCK: (*OWED, *FINAL),
    State.SETTLED: (),
    State.UNPAID: (),
    State.PAID_NO_RESULT: (),
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
    states: tuple[State, ...]
    optional_in: tuple[State, ...] = ()


HAS_REASON = (State.STUCK,)
"""Exactly these states, besides those of `MAY_HAVE_REASON`, have a reason."""
MAY_HAVE_REASON = _NO_RESULT

COLUMN_RULES = (
    ColumnRule("claimed_has_no_transaction", "transaction_id", True, (State.CLAIMED,)),
    ColumnRule("owed_never_expires", "expires_at", True, OWED),
    ColumnRule("decided_has_outcome", "result", False, (*DECIDED, State.SETTLED), (State.STUCK,)),
    ColumnRule("settled_is_paid", "payment_response", False, (State.SETTLED,)),
    ColumnRule("settled_has_its_receipt", "receipt", False, (State.SETTLED,), (State.PAID_NO_RESULT,)),
    ColumnRule("proof_until_final", "proof", True, FINAL),
    ColumnRule("payer_without_receipt", "payer", True, (State.CLAIMED, *OWED, State.SETTLED), _NO_RESULT),
)

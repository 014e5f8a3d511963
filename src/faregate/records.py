"""What the journal remembers and answers: one row per proof (DESIGN section 5).

A row is written before the thing it speaks of is done. A `Ticket` carries the fencing number under
which its holder may write; who lost the lease holds an old number, and every write it tries is refused.
"""

from dataclasses import dataclass, field

from faregate.model import Outcome, Response


@dataclass(frozen=True, slots=True)
class Ticket:
    """The right to write one row, until somebody is given a newer one."""

    key: bytes
    fence: int


@dataclass(frozen=True, slots=True)
class Entry:
    """A row with a transaction: what is needed to complete it.

    `outcome` None is not decided: the work did not begin, is running, or was interrupted; or the payment
    is `waiting`: it settles without work of ours. `proof` is the payer's header, which complete needs.
    """

    ticket: Ticket
    proof: str = field(repr=False)
    transaction_id: str
    revision_id: str
    outcome: Outcome | None = None
    waiting: bool = False


@dataclass(frozen=True, slots=True)
class Fresh:
    """Nobody has this proof: go on to access."""

    ticket: Ticket


@dataclass(frozen=True, slots=True)
class InProgress:
    """Another request with this proof is being served."""


@dataclass(frozen=True, slots=True)
class UsedElsewhere:
    """The proof belongs to another request."""


@dataclass(frozen=True, slots=True)
class Owed:
    """Work was started for this proof and its payment is not final; the lease is ours now."""

    entry: Entry


@dataclass(frozen=True, slots=True)
class Again:
    """Paid and released: the same result once more, already counted."""

    result: Response
    payment_response: str
    transaction_id: str


@dataclass(frozen=True, slots=True)
class Spent:
    """Paid, released, and delivered as often as is allowed."""

    transaction_id: str


@dataclass(frozen=True, slots=True)
class Void:
    """The payment with this proof failed for certain; a new one is right."""


@dataclass(frozen=True, slots=True)
class Holding:
    """What a person may know of a row that owes something. Times are the journal's clock, in seconds.

    `state` is one of `open`, `waiting`, `running`, `ok`, `failed`, `stuck`; `reason` says why it is stuck.
    `size` is that of the result, in bytes; `attempts` how often it was left open.
    """

    transaction_id: str
    revision_id: str
    state: str
    reason: str
    since: float
    due_at: float
    attempts: int
    size: int


Claim = Fresh | InProgress | UsedElsewhere | Owed | Again | Spent | Void

"""The events that `Paywall(on_event=...)` is called with. None carries a proof, a key or content.

A sale that goes well tells `Authorized`, `Worked`, `Settled` and `Released`. A listener is told, and is
not asked: what it raises is logged and changes nothing.
"""

from faregate.frozen import frozen


@frozen
class Refused:
    """The handler did not run: the payer got this status, and a body with this code."""

    status: int
    code: str


@frozen
class Authorized:
    """Access granted the transaction and the journal has its id: the work may begin."""

    transaction_id: str


@frozen
class Worked:
    """The handler gave a result that can be sold, and the journal has it."""

    transaction_id: str
    status: int
    duration_ms: int


@frozen
class Settled:
    """A completion proved the payment, or the payment was taken and there is no result to deliver."""

    transaction_id: str


@frozen
class Released:
    """The result is handed to the server, for the payer who waits for it."""

    transaction_id: str


@frozen
class Redelivered:
    """The same result was delivered again for the same proof."""

    transaction_id: str


@frozen
class Held:
    """Not proven yet: the result stays here, and the sweep or the payer comes back for it."""

    transaction_id: str
    reason: str


@frozen
class Failed:
    """The payer was not charged: the work failed with this code, or the payment did (`payment_failed`)."""

    transaction_id: str
    code: str


@frozen
class Stuck:
    """The sweep has given up: an operator must look (`faregate holds`). The row keeps the result."""

    transaction_id: str
    reason: str


@frozen
class Expired:
    """A paid result was removed: its payer did not come for it in time (`faregate holds list`)."""

    transaction_id: str


Event = Refused | Authorized | Worked | Settled | Released | Redelivered | Held | Failed | Stuck | Expired

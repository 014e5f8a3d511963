"""The events that `Paywall(on_event=...)` is called with. None carries a proof, a key, a query or content.

A sale that succeeds emits `Authorized`, `Worked`, `Settled` and `Released`. A listener cannot change a sale:
what it raises is logged.
"""

from faregate.frozen import frozen


@frozen
class Sale:
    """What is known of a sale when something happens to it. None is not known, or not yet.

    `offer` is what the handler sells: an integration key or a revision id. `route` is the framework's pattern
    of the path, such as `/reports/{day}`, or the paid prefix. `status` is that of the handler's response.
    `amount` is what was paid, in atomic units of `asset`. `authorized` is the maximum that its payer had
    authorized, where the price follows the use. Durations are in milliseconds: of the call to
    access, of the handler, and of the completion with its retries.
    """

    offer: str | None = None
    revision_id: str | None = None
    method: str | None = None
    route: str | None = None
    environment: str | None = None
    asset: str | None = None
    amount: int | None = None
    status: int | None = None
    access_ms: int | None = None
    work_ms: int | None = None
    complete_ms: int | None = None
    authorized: int | None = None

    @property
    def is_at_maximum(self) -> bool:
        """Whether all that was authorized was paid: the use may have been worth more."""
        return self.authorized is not None and self.authorized == self.amount


UNKNOWN_SALE = Sale()


@frozen
class Refused:
    """The handler did not run: the payer got this status, and a body with this code."""

    status: int
    code: str
    sale: Sale = UNKNOWN_SALE


@frozen
class Authorized:
    """Access granted the transaction and the journal has its id: the work may begin."""

    transaction_id: str
    sale: Sale = UNKNOWN_SALE


@frozen
class Worked:
    """The handler gave a result that can be sold, and the journal has it."""

    transaction_id: str
    status: int
    duration_ms: int
    sale: Sale = UNKNOWN_SALE


@frozen
class Settled:
    """A completion proved the payment, or the payment was taken and there is no result to deliver.

    `awaited`: its payer waits for the result, so that `Released` follows.
    """

    transaction_id: str
    awaited: bool = False
    sale: Sale = UNKNOWN_SALE


@frozen
class Released:
    """The result is handed to the server, for the payer who waits for it."""

    transaction_id: str
    sale: Sale = UNKNOWN_SALE


@frozen
class Redelivered:
    """The same result was delivered again for the same proof."""

    transaction_id: str
    sale: Sale = UNKNOWN_SALE


@frozen
class Held:
    """Not proven yet: the result stays here, and the sweep or the payer comes back for it."""

    transaction_id: str
    reason: str
    sale: Sale = UNKNOWN_SALE


@frozen
class Failed:
    """The payer was not charged: the work failed with this code, or the payment did (`payment_failed`)."""

    transaction_id: str
    code: str
    sale: Sale = UNKNOWN_SALE


@frozen
class Stuck:
    """The sweep has given up: an operator must look (`faregate holds`). The row keeps the result."""

    transaction_id: str
    reason: str
    sale: Sale = UNKNOWN_SALE


@frozen
class Expired:
    """A paid result was removed: its payer did not come for it in time (`faregate holds list`)."""

    transaction_id: str


@frozen
class Swept:
    """A sweep has ended. Rows it looked at, and of those how many settled, failed, were held and stuck.

    `expired` counts paid results that were removed because their payers did not fetch them in time.
    """

    looked_at: int
    settled: int
    failed: int
    held: int
    stuck: int
    duration_ms: int
    environment: str | None = None
    expired: int = 0


Event = (
    Refused | Authorized | Worked | Settled | Released | Redelivered | Held | Failed | Stuck | Expired | Swept
)

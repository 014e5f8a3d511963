"""Results of calls to the service, and what became of a payment (`Settlement`).

`faregate.merchant.interpret` reads replies as these; `faregate.core.flow` decides by them.
"""

from dataclasses import field
from enum import Enum

from faregate.core.models import Response
from faregate.frozen import frozen

# Access


@frozen
class AccessGranted:
    """200 with a transaction: do the work, then complete."""

    transaction_id: str


@frozen
class AccessFree:
    """200 without a transaction: nothing to pay."""

    execution_id: str | None = None


@frozen
class AccessUnpaid:
    """402 that a payer can act on."""

    response: Response


@frozen
class AccessPending:
    """202: an earlier payment with this proof is still settling."""

    response: Response
    transaction_id: str | None


@frozen
class AccessFailed:
    """Anything else: the seller's problem, not the payer's. `status` is 502 or 503."""

    status: int
    reason: str
    retry_after: str | None = None


@frozen
class RevisionRejected:
    """422: perhaps a newer revision was published meanwhile. `failure` is what it is otherwise."""

    failure: AccessFailed


Access = AccessGranted | AccessFree | AccessUnpaid | AccessPending | RevisionRejected | AccessFailed

# Completion


@frozen
class CompletionPaid:
    """200, `succeeded`, the same transaction, a receipt and a `PAYMENT-RESPONSE`: the only way out."""

    payment_response: str
    receipt: str = field(repr=False)


@frozen
class CompletionPending:
    """202, or 200 with a status that is not final."""

    response: Response


@frozen
class CompletionUnpaid:
    """200 `failed` for this transaction: nothing was charged, for certain."""


@frozen
class CompletionUnknown:
    """No answer, or one that proves nothing. The outcome is unknown."""

    reason: str


@frozen
class CompletionRejected:
    """Another status: the service refused to complete."""

    status: int
    code: str
    retry_after: str | None = None
    is_readable: bool = True
    """Whether the body is an error of the service, and not a page of something in between."""

    @property
    def is_about_the_transaction(self) -> bool:
        """Whether asking again would be answered in the same way: unknown there, or in conflict."""
        return self.is_readable and self.status in (400, 404, 409, 410, 422)


Completion = CompletionPaid | CompletionPending | CompletionUnpaid | CompletionUnknown | CompletionRejected


class Predictability(Enum):
    """Whether the service's payment instructions can be guessed, as far as known."""

    UNPREDICTABLE = "unpredictable"
    """Every 402 carries a fresh value: only the payer can know a proof."""
    PREDICTABLE = "predictable"
    UNKNOWN = "unknown"
    """The caller is to find it out."""
    BEING_CHECKED = "being checked"
    """Another request is finding it out."""


class TransactionState(Enum):
    """The status read from the get-transaction endpoint, unless it has settled."""

    AUTHORIZED = "authorized"
    PENDING = "pending"
    FAILED = "failed"
    CONTRADICTORY = "contradictory"
    """`succeeded` without a receipt, or `failed` with signs of a payment. Only a completion tells."""
    NOT_FOUND = "not found"
    """The service does not know the transaction."""
    UNRECOGNIZED = "unrecognized"
    """A status that the contract does not name, or an answer that cannot be read. It proves nothing."""
    UNAVAILABLE = "unavailable"
    """The service cannot be asked now."""


@frozen
class TransactionSettled:
    """The get-transaction endpoint says `succeeded`, with this receipt. It never releases a result."""

    receipt: str = field(repr=False)


TransactionReply = TransactionState | TransactionSettled


# Settlement: what became of a payment after its work was done, or had begun


@frozen
class PaymentProven:
    """A completion proved the payment: `result` may leave, with `payment_response`."""

    result: Response
    payment_response: str


@frozen
class DeliveredElsewhere:
    """The payment is proven, and the process that took over the lease has delivered the result."""


@frozen
class PaidWithoutResult:
    """The payer was charged, and there is no result to deliver. Do not ask them to pay again."""


@frozen
class PaymentFailed:
    """The payer was certainly not charged. Only then may they be asked to pay again."""

    code: str


@frozen
class StillSettling:
    """The service settles the payment. `reply` is its 202 to a completion, if it sent one."""

    reply: Response | None = None

    @property
    def reason(self) -> str:
        return "settling"


@frozen
class Unconfirmed:
    """Whether the payer was charged is unknown."""

    reason: str


@frozen
class OpenAfterRejection:
    """The service refused to complete; it may do so later."""

    rejection: CompletionRejected

    @property
    def reason(self) -> str:
        return f"completion was refused: {self.rejection.status} {self.rejection.code}"


OpenPayment = StillSettling | Unconfirmed | OpenAfterRejection
"""The journal keeps the payment, and the payer or the sweep comes back for it."""


@frozen
class StuckPayment:
    """Still open, and neither the payer nor the sweep will end it: a person has to look."""

    payment: OpenPayment
    reason: str


@frozen
class LeaseLost:
    """Another request has the row, or it could not be written: nothing was sent to the service."""


@frozen
class OtherSellersPayment:
    """The payment began under another API key, and the service does not show it to ours."""


@frozen
class NothingBegun:
    """The payment is still authorized, and no work was started for it: its payer may start again."""


Settlement = (
    PaymentProven
    | DeliveredElsewhere
    | PaidWithoutResult
    | PaymentFailed
    | OpenPayment
    | StuckPayment
    | LeaseLost
    | OtherSellersPayment
    | NothingBegun
)

"""The results of claiming a proof in the journal, and what a row says of its payment.

A row is written before the step that it describes. A `Lease` carries a fencing token: a worker that lost the
row to another process holds another token than the row, and its writes are refused. Two of its writes are
accepted all the same: a transaction id, and a settlement.

This module only defines the results. For a proof that the journal knows already,
`faregate.journals.row_rules.Row.claim_again` decides on the result. `faregate.core.flow` acts on it, and
`faregate.core.responses` builds the answers.
"""

from dataclasses import field
from enum import Enum

from faregate.core.models import Outcome, Response
from faregate.events import UNKNOWN_SALE, Sale
from faregate.frozen import frozen


class ReplayPolicy(Enum):
    """When a delivered result is delivered again."""

    NEVER = "never"
    SAME_CLIENT = "same client"
    """To a request with the credentials of the first one, if that had any."""
    PROVEN_PAYER = "proven payer"
    """Also where the first request had no credentials: only the payer can have sent this one."""


@frozen
class Claimant:
    """The identity of a request that claims a proof.

    `request` is its method and URL. `sold` tells apart what equal requests buy: the name of the offer and the
    public URL. `credentials` and `body_digest` may be empty; a digest is compared only where both requests
    have one. `identifier` is empty, or the seller's origin and the name that the payer gave the purchase
    (`faregate.core.payment_identifier`).
    """

    request: str
    credentials: tuple[str, ...] = field(default=(), repr=False)
    body_digest: str = ""
    replay: ReplayPolicy = ReplayPolicy.PROVEN_PAYER
    sold: str = ""
    identifier: str = ""


@frozen
class Lease:
    """The right to write one row, until another process is given a newer lease of it."""

    key: bytes
    fence: int


@frozen
class PendingPayment:
    """A row with a transaction: what is needed to complete it.

    `outcome` is None while it is not decided: the work did not begin, is running, or was interrupted; or the
    payment is `waiting`: it settles without a run of the handler. `proof` is the payer's header, which
    complete needs. `foreign`: the payment was begun under another API key, perhaps another seller's. `sale`
    is for events alone.
    """

    lease: Lease
    proof: str = field(repr=False)
    transaction_id: str
    revision_id: str
    outcome: Outcome | None = None
    waiting: bool = False
    foreign: bool = False
    sale: Sale = field(default=UNKNOWN_SALE, compare=False, repr=False)


class SettlementWrite(Enum):
    """What the journal already knew when a worker recorded a settlement."""

    FIRST = "first"
    """No settlement was recorded before: this worker counts the sale.

    Also for a row that had ended as unpaid or discarded: no worker has counted its sale.
    """
    REPEATED = "repeated"
    """The settlement was recorded before, and no other worker has delivered the result: the sale is not
    counted again.

    It is also returned for a settlement whose row is gone, or was replaced by a new row of the proof: a row
    is removed only some time after its end, so its sale was counted.
    """
    DELIVERED_ELSEWHERE = "delivered elsewhere"
    """Another worker has delivered the result: it must not leave again."""


@frozen
class Claimed:
    """The proof is claimed for this request: go on to access.

    `transaction_id` and `revision_id` are known if an earlier request got them but started no work.
    """

    lease: Lease
    transaction_id: str = ""
    revision_id: str = ""


@frozen
class InProgress:
    """Another request with this proof is being served."""


@frozen
class RequestMismatch:
    """The proof belongs to another request: another URL, method or body."""


@frozen
class ClientMismatch:
    """There is a result for this proof, bound to credentials that this request does not carry."""


@frozen
class ClientUnverified:
    """The client of the first request cannot be recognised with certainty.

    It had no credentials and its result was delivered, or its cookie was signed at another time. The
    request may come from a stranger who can rebuild the proof. Claim again with `ReplayPolicy.PROVEN_PAYER`
    if only the payer can know it.
    """

    transaction_id: str


@frozen
class Recoverable:
    """The payment of this proof is not final, and the lease is ours now.

    Its work was started or refused, or it settles without work.
    """

    payment: PendingPayment


@frozen
class Replayable:
    """Paid and released: the same result once more, already counted."""

    result: Response
    payment_response: str
    transaction_id: str


@frozen
class AlreadyUsed:
    """Paid, released, and delivered as often as is allowed."""

    transaction_id: str


@frozen
class AlreadyFailed:
    """The payment with this proof failed for certain, or its row is gone; a new one is right.

    Unless it was not taken because an earlier payment was `resumed`: then that transaction tells.
    """

    resumed: str = ""


@frozen
class EarlierPayment:
    """The start of the work was not recorded: the payer has begun this purchase with an earlier transaction.

    With an identifier, the earlier one may have been delivered, and may be for another request.

    The payer is who the proofs name, which is not verified. `is_interrupted`: the work of the earlier payment
    began and was cut off, so no result can come of it.
    """

    transaction_id: str
    is_interrupted: bool = False


_RESUMED = "resumed:"


def name_resumption(transaction_id: str) -> str:
    """Build the failure code of a payment that was not taken, because this earlier one was resumed."""
    return f"{_RESUMED}{transaction_id}"


def find_resumed(code: str) -> str:
    """Return the transaction that a failure code names as resumed, or ""."""
    return code.removeprefix(_RESUMED) if code.startswith(_RESUMED) else ""


@frozen
class HoldInfo:
    """A row that still lacks something, as shown to operators: the payment's end, or the fetch of its result.

    Times are the journal's clock, in seconds.

    `state` is one of `open`, `waiting`, `running`, `ok`, `failed`, `stuck`; or `settled`, of a result that is
    paid and that its payer has not fetched. `reason` says why the row is stuck. `size` is that of the result,
    in bytes; `attempts` counts how often the payment was left open for a later try. A row that is not
    `readable` is encrypted with a key that this journal does not have. `kept_until` is None while the payment
    is open. `namespace` is empty where there is only one.
    """

    transaction_id: str
    revision_id: str
    state: str
    reason: str
    since: float
    due_at: float
    attempts: int
    size: int
    readable: bool = True
    kept_until: float | None = None
    namespace: str = ""


Claim = (
    Claimed
    | InProgress
    | RequestMismatch
    | ClientMismatch
    | Recoverable
    | Replayable
    | ClientUnverified
    | AlreadyUsed
    | AlreadyFailed
)

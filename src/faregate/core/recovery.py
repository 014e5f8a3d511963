"""Recover unfinished payments, for a payer who comes back, for the sweep, or for an operator.

Each picks up only a row whose lease is over: a payer by a claim of the same proof (`claim`), or of an
earlier payment (`claim_transaction`), the sweep with `lease_next`, an operator with `lease_hold`. The old
owner learns it at its next write: the row has another fencing token and refuses it, unless it is a fact that
is true under any lease (rules 2 and 3 of `faregate.journals.row_rules`).

The rules are at the top of `faregate.core.flow`.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field

from faregate.core.claim_types import PendingPayment
from faregate.core.completion import (
    abandon_claim,
    close_paid,
    close_unpaid,
    complete_failure,
    complete_success,
    hold,
    mark_stuck,
    postpone,
    record_outcome,
    schedule_retry,
    wait_until_ended,
)
from faregate.core.interfaces import Backend, Flow
from faregate.core.models import INTERRUPTED, PaidRequest, WorkFailed, WorkSucceeded
from faregate.core.results import (
    DeliveredElsewhere,
    LeaseLost,
    NothingBegun,
    OtherSellersPayment,
    PaidWithoutResult,
    PaymentFailed,
    PaymentProven,
    Settlement,
    StillSettling,
    StuckPayment,
    TransactionReply,
    TransactionSettled,
    TransactionState,
    Unconfirmed,
)
from faregate.core.sales import describe, describe_recovered, measure
from faregate.errors import BadAnswer, Forbidden, ServiceError, TransactionNotFound
from faregate.events import Expired, Swept

BATCH = 1000
"""Rows that one sweep looks at, so that it has an end."""


def never() -> bool:
    """Never stop."""
    return False


@dataclass(slots=True)
class SweepReport:
    """The result of a sweep, in numbers of rows; `stuck` gives the reason for each transaction.

    `expired` counts paid results that were removed because their payers did not fetch them in time.
    """

    looked_at: int = 0
    settled: int = 0
    failed: int = 0
    held: int = 0
    expired: int = 0
    stuck: dict[str, str] = field(default_factory=dict[str, str])

    def add(self, transaction_id: str, settlement: Settlement) -> None:
        match settlement:
            case PaymentProven() | DeliveredElsewhere() | PaidWithoutResult():
                self.settled += 1
            case PaymentFailed():
                self.failed += 1
            case StuckPayment(_, reason):
                self.stuck[transaction_id] = reason
            case LeaseLost() | OtherSellersPayment() | NothingBegun():
                pass
            case _:
                self.held += 1

    def as_event(self, duration_ms: int, environment: str | None) -> Swept:
        stuck = len(self.stuck)
        counts = (self.looked_at, self.settled, self.failed, self.held, stuck)
        return Swept(*counts, duration_ms, environment, self.expired)

    def as_text(self) -> str:
        """Write one sentence, and one more for each transaction that became stuck."""
        counts = {"settled": self.settled, "failed": self.failed, "held": self.held, "stuck": len(self.stuck)}
        listed = ", ".join(f"{number} {name}" for name, number in counts.items() if number)
        payments = "payment" if self.looked_at == 1 else "payments"
        first = f"Looked at {self.looked_at} {payments}{listed and ': '}{listed}."
        lines = [first, *(f"Stuck: {transaction} ({reason})." for transaction, reason in self.stuck.items())]
        if self.expired:
            lines.append(f"Removed, paid and not fetched in time: {self.expired}.")
        return "\n".join(lines)

    def as_json(self) -> str:
        """Write one line of JSON."""
        counts = {"looked_at": self.looked_at, "settled": self.settled, "failed": self.failed}
        return json.dumps({**counts, "held": self.held, "expired": self.expired, "stuck": self.stuck})


def sweep(
    backend: Backend,
    limit: int = BATCH,
    should_stop: Callable[[], bool] = never,
    environment: str | None = None,
) -> Flow[SweepReport]:
    """Recover rows whose lease is over, each once, until `limit`, or until `should_stop` between two rows.

    Before that, remove paid results that their payers did not fetch in time. `environment` is for events
    alone.
    """
    began = backend.get_time()
    report = SweepReport(expired=(yield from _remove_unfetched(backend, limit)))
    seen: set[bytes] = set()
    while len(seen) < limit and not should_stop():
        payment: PendingPayment | None = yield backend.journal.lease_next()
        if payment is None:
            break
        if payment.lease.key in seen:
            # The service is so slow that the first rows are due again: enough for this time.
            yield from schedule_retry(backend, payment)
            break
        seen.add(payment.lease.key)
        report.looked_at += 1
        payment = describe(payment, environment=environment)
        report.add(payment.transaction_id, (yield from recover(backend, payment, None)))
    yield backend.emit_event(report.as_event(measure(backend, began), environment))
    return report


def _remove_unfetched(backend: Backend, limit: int) -> Flow[int]:
    """Remove paid results whose payer did not come in time, and tell: the payer may ask the seller yet."""
    removed: tuple[str, ...] = yield backend.journal.remove_unfetched(limit)
    for transaction_id in removed:
        yield backend.log_warning(
            "a paid result was removed: it was not fetched within its retention", transaction_id
        )
        yield backend.emit_event(Expired(transaction_id))
    return len(removed)


def recover(backend: Backend, payment: PendingPayment, request: PaidRequest | None) -> Flow[Settlement]:
    """Bring an unfinished payment nearer to its end. `request` is its payer's, if one waits."""
    payment = describe_recovered(payment)
    if payment.foreign and not (yield from _is_known_to_service(backend, payment)):
        yield backend.log_warning(
            "started with another API key: its seller must finish it",
            payment.transaction_id,
        )
        yield from postpone(backend, payment)
        return OtherSellersPayment()
    match payment.outcome:
        case WorkSucceeded() as outcome:
            return (yield from _recover_success(backend, payment, outcome, request))
        case WorkFailed() as outcome:
            return (yield from _recover_failure(backend, payment, outcome, sticks_if_refused=True))
        case None if payment.waiting:
            return (yield from _recover_waiting(backend, payment))
        case None:
            # The work was interrupted, or never began. It does not run now, so its outcome is decided.
            interrupted = WorkFailed(INTERRUPTED)
            if not (yield from record_outcome(backend, payment, interrupted)):
                return LeaseLost()
            return (yield from _recover_failure(backend, payment, interrupted, sticks_if_refused=False))


def _recover_success(
    backend: Backend, payment: PendingPayment, outcome: WorkSucceeded, request: PaidRequest | None
) -> Flow[Settlement]:
    """A GET may end the payment as failed, or says whether to complete again. Only a completion proves it."""
    match (yield from _get_state(backend, payment)):
        # Acting on a GET is safe here, because it releases nothing.
        case TransactionState.FAILED:
            return (yield from close_unpaid(backend, payment, "payment_failed"))
        case TransactionState.PENDING if not (yield from wait_until_ended(backend, payment, request)):
            return (yield from hold(backend, payment, StillSettling()))
        case TransactionState.UNAVAILABLE:
            return (yield from hold(backend, payment, Unconfirmed("not known how it stands")))
        case TransactionState.CONTRADICTORY:
            # Waiting for a clearer GET could last for ever. It looks paid, so a refusal must not
            # make it stuck (`sticks_if_refused`).
            return (
                yield from complete_success(
                    backend, payment, outcome, sticks_if_refused=False, request=request
                )
            )
        # This includes replies that cannot be read: waiting for a clear GET could last for ever.
        case _:
            return (
                yield from complete_success(
                    backend, payment, outcome, sticks_if_refused=True, request=request
                )
            )


def _recover_failure(
    backend: Backend, payment: PendingPayment, outcome: WorkFailed, *, sticks_if_refused: bool
) -> Flow[Settlement]:
    """Where the service knows of an end already, nothing is reported."""
    match (yield from _get_state(backend, payment)):
        case TransactionState.FAILED:
            return (yield from close_unpaid(backend, payment, outcome.code))
        case TransactionSettled(receipt):
            yield backend.log_warning(
                "a payment settled although its work was reported as failed", payment.transaction_id
            )
            return (yield from close_paid(backend, payment, receipt, outcome.code))
        case TransactionState.PENDING | TransactionState.CONTRADICTORY:
            return (yield from hold(backend, payment, Unconfirmed("settling")))
        case TransactionState.UNAVAILABLE:
            return (yield from hold(backend, payment, Unconfirmed("not known how it stands")))
        case _:
            return (
                yield from complete_failure(backend, payment, outcome, sticks_if_refused=sticks_if_refused)
            )


def _recover_waiting(backend: Backend, payment: PendingPayment) -> Flow[Settlement]:
    """Recover a payment without work of ours: access found it settling, or it is stuck without an outcome."""
    match (yield from _get_state(backend, payment)):
        case TransactionState.FAILED:
            return (yield from close_unpaid(backend, payment, "payment_failed"))
        case TransactionSettled(receipt):
            # It was paid and its result is not here: a new payment would make it worse.
            yield backend.log_warning(
                "a payment settled, but its result is not in the journal", payment.transaction_id
            )
            return (yield from close_paid(backend, payment, receipt, "not_started"))
        case TransactionState.AUTHORIZED:
            yield from abandon_claim(backend, payment.lease, payment.transaction_id)
            return NothingBegun()
        case TransactionState.NOT_FOUND:
            unknown = Unconfirmed("the service does not know the transaction")
            return (yield from mark_stuck(backend, payment, unknown))
        case _:
            return (yield from hold(backend, payment, StillSettling()))


def compare_payers(backend: Backend, *transaction_ids: str) -> Flow[bool | None]:
    """Whether one payer made these payments, as the service verified it; None if that cannot be found out."""
    payers: set[str] = set()
    for transaction_id in transaction_ids:
        try:
            payer: str = yield backend.find_payer(transaction_id)
        except ServiceError as error:
            yield backend.log_warning(
                f"the payer of this payment cannot be read, so it waits for an earlier one: {error}",
                transaction_id,
                "resume_open_payments",
            )
            return None
        payers.add(payer)
    return len(payers) == 1


def _is_known_to_service(backend: Backend, payment: PendingPayment) -> Flow[bool]:
    """Whether the service shows the transaction to our API key: then the key was replaced, and it is ours.

    A GET asks, because complete would send the payer's proof under what may be another seller's key.
    """
    try:
        yield backend.get_transaction_state(payment.transaction_id)
    except ServiceError:
        return False
    return True


def _get_state(backend: Backend, payment: PendingPayment) -> Flow[TransactionReply]:
    try:
        state: TransactionReply = yield backend.get_transaction_state(payment.transaction_id)
        return state
    except TransactionNotFound:
        return TransactionState.NOT_FOUND
    # A key that may not read a transaction may still complete it.
    except Forbidden:
        return TransactionState.UNRECOGNIZED
    except BadAnswer as error:
        yield backend.log_warning(f"the transaction cannot be read: {error}", payment.transaction_id)
        return TransactionState.UNRECOGNIZED
    except ServiceError as error:
        yield backend.log_warning(f"the state of the transaction is unknown: {error}", payment.transaction_id)
        return TransactionState.UNAVAILABLE

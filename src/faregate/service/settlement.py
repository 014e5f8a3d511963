"""How a completed payment settles: the steps of an attempt, and when the first one begins. Pure.

The threads that run them are in `selfhosted/settlements.py`, and the rows that they read and write in
`selfhosted/database/settlement.py`. `emulator/settlement_control.py` sets rules and ends payments for tests.

Begin an attempt; if an earlier one may have sent something, look at the chain; send; look at the chain;
record what it proves. Only the chain ends a payment that may have been sent.

A simulated payment may have a rule: it settles after some time, after some reads, or on command. A read is a
GET of the transaction or a repeated complete. It counts before it is answered.
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

from faregate.service.clock import LAST_SECOND
from faregate.service.config import SettlementRule
from faregate.service.payments import (
    Attempt,
    PaymentPostponed,
    PaymentRefused,
    PaymentSent,
    PaymentSettled,
    PaymentsUnavailable,
    SettlementPending,
    SettlementResult,
)
from faregate.service.records import FINAL, PENDING, Transaction
from faregate.service.steps import (
    AwaitResult,
    BeginAttempt,
    CountRead,
    FindSettlementRule,
    FindTransaction,
    GetGasAccount,
    GetGasNonce,
    LookAtPayment,
    PostponePayment,
    RecordFailed,
    RecordSent,
    RecordSettled,
    RecordSigned,
    Schedule,
    SendPayment,
    Settle,
    SignTransfer,
    Steps,
    TakeDue,
)

IMMEDIATE: Final = SettlementRule(after_reads=0)
_MAX_SIGNATURES: Final = 20
"""How often an attempt signs while other workers are faster with the gas nonce."""


def submit(transaction: Transaction) -> Steps[Transaction]:
    """Settle a payment that the seller has completed: at once, or as its rule says."""
    at = transaction.submitted_at
    # A payment that was made to fail stays failed.
    if at is None or transaction.status in FINAL:
        return transaction
    rule = yield from FindSettlementRule(transaction)
    # Submitted after its authorization had expired: it fails now, whatever its rule would wait for.
    if rule is None or at.timestamp() >= transaction.payment.valid_before:
        return (yield from settle(transaction, at=at))
    return (yield from schedule(transaction, rule, at))


def schedule(transaction: Transaction, rule: SettlementRule, at: datetime) -> Steps[Transaction]:
    """Settle the submitted payment by this rule, starting at `at`."""
    # Due payments settle at once, so that complete is answered 200 and not 202.
    due = _get_due_time(transaction, rule, at)
    if rule.after_reads == 0 or (due is not None and due <= at):
        return (yield from settle(transaction, rule, at))
    return (yield from Schedule(transaction, rule, due, at))


def read(transaction: Transaction) -> Steps[Transaction]:
    """Count a read by the seller, which may settle the payment."""
    if transaction.status not in PENDING:
        return transaction
    rule = yield from CountRead(transaction)
    return transaction if rule is None else (yield from Settle(settle(transaction, rule), transaction))


def repeat(transaction: Transaction) -> Steps[Transaction]:
    """Answer a repeated completion: as a read, but it waits as the first completion does."""
    found = yield from read(transaction)
    return found if found.status in FINAL else (yield from AwaitResult(found))


def settle_due(until: datetime) -> Steps[None]:
    """Settle what is due by time. Runs before every request, so that all snapshots agree."""
    for due in (yield from TakeDue(until)):
        # Stamped with the due time, not with now: when a list is read must not change what it shows.
        yield from settle(due.transaction, due.rule, due.at)


def settle(
    transaction: Transaction, rule: SettlementRule = IMMEDIATE, at: datetime | None = None
) -> Steps[Transaction]:
    """Bring the payment to its end, as far as that is possible now; stamped `at`, or with the present."""
    if rule.to == "failed":
        return (yield from RecordFailed(transaction, at))
    attempt = yield from BeginAttempt(transaction)
    if attempt is None:
        return (yield from FindTransaction(transaction.id)) or transaction
    return (yield from run_attempt(transaction, attempt, at))


def run_attempt(transaction: Transaction, attempt: Attempt, at: datetime | None = None) -> Steps[Transaction]:
    """Run an attempt that has begun, and record its result."""
    match (yield from find_result(transaction, attempt)):
        case PaymentSettled(transaction_hash=found):
            return (yield from RecordSettled(transaction, found, at))
        case PaymentRefused():
            return (yield from RecordFailed(transaction, at))
        case SettlementPending() as pending:
            return (yield from PostponePayment(transaction, attempt, pending, at))


def find_result(transaction: Transaction, attempt: Attempt) -> Steps[SettlementResult]:
    """Look whether the payment has ended; if not, send it. Return what the chain then proves."""
    if attempt.sent_before:
        seen = yield from LookAtPayment(transaction, attempt)
        if not isinstance(seen, SettlementPending):
            # A gas nonce in the books that is never used would stop every later transfer of the account.
            if attempt.signed is not None:
                yield from SendPayment(transaction, attempt)
            return seen
    ready = yield from _sign(transaction, attempt)
    if isinstance(ready, PaymentPostponed):
        yield from RecordSent(transaction, attempt, PaymentSent(None, ready.reason))
        return (yield from LookAtPayment(transaction, attempt))
    sent = yield from SendPayment(transaction, ready)
    if not isinstance(sent, PaymentSent):
        return sent
    yield from RecordSent(transaction, ready, sent)
    if sent.transaction_hash is not None and sent.transaction_hash not in ready.hashes:
        ready = replace(ready, hashes=(*ready.hashes, sent.transaction_hash))
    return (yield from LookAtPayment(transaction, ready))


def _sign(transaction: Transaction, attempt: Attempt) -> Steps[Attempt | PaymentPostponed]:
    """Sign the transfer, if the service sends it itself, and write it down before it is sent."""
    terms = transaction.context.terms
    sender = yield from GetGasAccount(terms)
    if sender is None:
        return attempt
    for _ in range(_MAX_SIGNATURES):
        gas_nonce = yield from GetGasNonce(terms.token.chain, sender)
        try:
            signed = yield from SignTransfer(transaction, attempt, gas_nonce)
        except PaymentsUnavailable:
            return PaymentPostponed("the chain could not be asked, so nothing was signed")
        if isinstance(signed, PaymentPostponed):
            return signed
        if signed is None or signed == attempt.signed:
            # Nothing to write: the facilitator sends it, or the books hold this transfer already.
            return attempt
        if (yield from RecordSigned(transaction, attempt, signed)):
            return replace(attempt, signed=signed, hashes=(*attempt.hashes, signed.transaction_hash))
        if signed.replaces is not None:
            # Another worker replaced it first. What this one knows of may be sent as well.
            return attempt
        # Another worker was faster with this gas nonce: sign again with the next one.
    return PaymentPostponed("other workers took each gas nonce that was tried")


def _get_due_time(transaction: Transaction, rule: SettlementRule, at: datetime) -> datetime | None:
    """Return when time alone settles the payment; None for other rules."""
    if rule.after_seconds is not None:
        return at + timedelta(seconds=rule.after_seconds)
    if rule.until_expiry:
        return datetime.fromtimestamp(min(transaction.payment.valid_before, LAST_SECOND), UTC)
    return None

"""How a completed payment settles: what an attempt does, and when the first one begins.

The threads that run them are in `service/settlement_workers.py`, and the rows that they read and write in
`service/database/attempts.py`. `emulator/settlement_control.py` sets rules and ends payments for tests.

An attempt, step by step: begin it; if an earlier one may have sent something, look at the chain; send; look
at the chain; record what it proves. Only the chain ends a payment that may have been sent.

A simulated payment may have a rule: it settles after some time, after some reads, or on command. A read is a
GET of the transaction or a repeated complete. It counts before it is answered.
"""

import logging
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

from faregate.rules.account import SettlementRule
from faregate.rules.clock import LAST_SECOND
from faregate.rules.dependencies import AmountIssue, Dependencies
from faregate.rules.payments import (
    Attempt,
    PaymentPostponed,
    PaymentRefused,
    PaymentSent,
    PaymentSettled,
    PaymentsUnavailable,
    SettlementPending,
    SettlementResult,
)
from faregate.rules.records import FINAL, PENDING, Transaction

_log = logging.getLogger("faregate.service")
IMMEDIATE: Final = SettlementRule(after_reads=0)
_MAX_SIGNATURES: Final = 20
"""How often an attempt signs while other workers are faster with the gas nonce."""


def begin_settlement(transaction: Transaction, deps: Dependencies) -> Transaction:
    """Settle a payment that the seller has completed: at once, or as its rule says."""
    at = transaction.submitted_at
    # A payment that was made to fail stays failed.
    if at is None or transaction.status in FINAL:
        return transaction
    rule = deps.store.find_settlement_rule(transaction)
    # Without a rule, the payment settles now. If it was submitted after its authorization had expired, it
    # fails now, whatever its rule would wait for.
    if rule is None or at.timestamp() >= transaction.payment.valid_before:
        return settle(transaction, deps, at=at)
    return schedule(transaction, deps, rule, at)


def schedule(transaction: Transaction, deps: Dependencies, rule: SettlementRule, at: datetime) -> Transaction:
    """Settle the submitted payment by this rule, starting at `at`."""
    # Due payments settle at once, so that complete is answered 200 and not 202.
    due = _get_due_time(transaction, rule, at)
    if rule.after_reads == 0 or (due is not None and due <= at):
        return settle(transaction, deps, rule, at)
    return deps.store.schedule(transaction, rule, due, at)


def count_read(transaction: Transaction, deps: Dependencies) -> Transaction:
    """Count a read by the seller, which may settle the payment."""
    if transaction.status not in PENDING:
        return transaction
    rule = deps.store.count_read(transaction)
    if rule is None:
        return transaction
    return deps.settle(partial(settle, transaction, rule=rule), transaction, deps)


def answer_repeated_complete(transaction: Transaction, deps: Dependencies) -> Transaction:
    """Answer a repeated completion: as a read, but it waits as the first completion does."""
    counted = count_read(transaction, deps)
    return counted if counted.status in FINAL else deps.wait(counted, deps)


def settle_due(until: datetime, deps: Dependencies) -> None:
    """Settle what is due by time. Runs before every request, so that all snapshots agree."""
    for due in deps.store.take_due(until):
        # Stamped with the due time, not with now: otherwise the time of reading a list would show in it.
        settle(due.transaction, deps, due.rule, due.at)


def settle(
    transaction: Transaction,
    deps: Dependencies,
    rule: SettlementRule = IMMEDIATE,
    at: datetime | None = None,
) -> Transaction:
    """Bring the payment to its end, as far as that is possible now; stamped `at`, or with the present."""
    if rule.to == "failed":
        return _record_failed(transaction, deps, at)
    attempt = deps.store.begin_attempt(transaction)
    if attempt is None:
        return deps.store.find_transaction(transaction.id) or transaction
    return run_attempt(transaction, attempt, deps, at, rule)


def run_attempt(
    transaction: Transaction,
    attempt: Attempt,
    deps: Dependencies,
    at: datetime | None = None,
    rule: SettlementRule = IMMEDIATE,
) -> Transaction:
    """Run an attempt that has begun, and record its result."""
    faulty_amount = _find_faulty_amount(transaction, attempt, rule)
    sent = attempt if faulty_amount is None else replace(attempt, amount=faulty_amount)
    match find_result(transaction, sent, deps):
        case PaymentSettled(transaction_hash=transaction_hash, amount=amount):
            amount = faulty_amount if amount is None else amount
            if amount is not None and amount != attempt.amount:
                _report_other_amount(transaction, attempt, amount, deps)
            if amount is not None and _is_withheld(amount, attempt, deps):
                latest = deps.store.park_underpaid(transaction, attempt, amount, at)
                deps.observe("postponed", latest)
            else:
                latest = deps.store.record_settled(transaction, transaction_hash, at, amount)
                deps.observe("succeeded", latest)
        case PaymentRefused():
            latest = _record_failed(transaction, deps, at)
        case SettlementPending() as pending:
            latest = deps.store.postpone(transaction, attempt, pending, at)
            deps.observe("postponed", latest)
    return latest


def _find_faulty_amount(transaction: Transaction, attempt: Attempt, rule: SettlementRule) -> int | None:
    """Find what a faulty facilitator moves in place of the amount of the attempt; None without a fault."""
    if rule.amount is None or attempt.amount is None:
        return None
    return min(rule.amount, transaction.payment.value)


def _is_withheld(amount: int, attempt: Attempt, deps: Dependencies) -> bool:
    """Whether a settlement is not enough: less was paid than was used.

    A facilitator settles the amount that its client names. The payer has the signed authorization, so the
    payer can send it to a facilitator first, with a smaller amount. A settlement is not enough, either, if
    the used amount is unknown. With `accepts_less`, none is withheld.
    """
    is_enough = attempt.amount is not None and amount >= attempt.amount
    return not is_enough and not deps.accepts_less


def _report_other_amount(transaction: Transaction, attempt: Attempt, amount: int, deps: Dependencies) -> None:
    deps.count_issue(AmountIssue.OTHER_THAN_ASKED)
    consequence = (
        "the seller must not release its result until an operator accepts that"
        if _is_withheld(amount, attempt, deps)
        else "the books record the settled amount"
    )
    _log.warning(
        "%s settled %s atomic units instead of %s; %s", transaction.id, amount, attempt.amount, consequence
    )


def _record_failed(transaction: Transaction, deps: Dependencies, at: datetime | None) -> Transaction:
    ended = deps.store.record_failed(transaction, at)
    deps.observe("failed", ended)
    return ended


def find_result(transaction: Transaction, attempt: Attempt, deps: Dependencies) -> SettlementResult:
    """Look whether the payment has ended; if not, send it. Return what the chain then proves."""
    payment, terms, payments = transaction.payment, transaction.context.terms, deps.payments
    if attempt.sent_before:
        seen = payments.look(payment, terms, attempt)
        if not isinstance(seen, SettlementPending):
            # The payment has ended, but its transfer is still sent: a gas nonce in the books that is never
            # used would stop every later transfer of the account.
            if attempt.signed is not None:
                payments.send(payment, terms, attempt)
            return seen
    ready = _sign(transaction, attempt, deps)
    if isinstance(ready, PaymentPostponed):
        deps.store.record_answer(transaction, attempt, None, ready.reason)
        return payments.look(payment, terms, attempt)
    sent = payments.send(payment, terms, ready)
    if not isinstance(sent, PaymentSent):
        return sent
    deps.store.record_answer(transaction, ready, sent.transaction_hash, sent.note)
    if sent.transaction_hash is not None and sent.transaction_hash not in ready.hashes:
        ready = replace(ready, hashes=(*ready.hashes, sent.transaction_hash))
    return payments.look(payment, terms, ready)


def _sign(transaction: Transaction, attempt: Attempt, deps: Dependencies) -> Attempt | PaymentPostponed:
    """Sign the transfer, if the service sends it itself, and write it down before it is sent."""
    terms = transaction.context.terms
    sender = deps.payments.get_gas_account(terms)
    if sender is None:
        return attempt
    for _ in range(_MAX_SIGNATURES):
        gas_nonce = deps.store.get_gas_nonce(terms.token.chain, sender)
        try:
            signed = deps.payments.sign(transaction.payment, terms, attempt, gas_nonce)
        except PaymentsUnavailable:
            return PaymentPostponed("the chain could not be asked, so nothing was signed")
        if isinstance(signed, PaymentPostponed):
            return signed
        if signed is None or signed == attempt.signed:
            # Nothing to write: the facilitator sends it, or the books hold this transfer already.
            return attempt
        if deps.store.record_signed(transaction, attempt, signed):
            return replace(attempt, signed=signed, hashes=(*attempt.hashes, signed.transaction_hash))
        if signed.replaces is not None:
            # Another worker has replaced the transfer first. The transfer of this attempt may still be sent.
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

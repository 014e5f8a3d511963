"""Read payments again until their block is safe, and send again what the chain has lost.

A payment succeeds after `confirmations` blocks, and its result is released. A reorganisation may still
replace its block. The payment then stays succeeded in the books, because its seller has its result; the
service sends it again while its authorization is valid. Such a payment is called loose. The token takes an
authorization once, so it is never paid twice.
"""

import logging
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from faregate.errors import FaregateError
from faregate.rules.dependencies import Dependencies
from faregate.rules.payments import (
    PaymentRefused,
    PaymentSettled,
    PaymentsUnavailable,
    SettlementPending,
    SettlementResult,
)
from faregate.rules.settlement import find_result
from faregate.service.callers import describe_account
from faregate.service.chain.majority_view import NodesDisagree
from faregate.service.chain.received_transfers import ReceivedTransfer
from faregate.service.chain.settlement_verdict import REORG_BLOCKS
from faregate.service.database import reorg_records
from faregate.service.database.clock import Stamps
from faregate.service.database.engine import Database
from faregate.service.database.payment_rows import PaymentRow, find_payment_by_id
from faregate.service.database.reorg_records import Unchecked
from faregate.service.log_format import log_context
from faregate.service.payment_chain import PaymentChain

_BATCH: Final = 2_000
"""Payments of one account that are checked in one go."""
_MAX_DUE: Final = 100
_SECOND: Final = 1_000_000
_LATE_STAMPS: Final = 60 * _SECOND
"""Payments that succeeded so recently are listed again: other processes may still write earlier stamps."""
_LEASE: Final = 30 * _SECOND
"""The same as for an attempt (`StoreOptions.lease`): an authorization is valid for about a minute."""
_PAUSE: Final = 5 * _SECOND
_LONGEST_PAUSE: Final = 60 * _SECOND
_log = logging.getLogger("faregate.service")


@dataclass(frozen=True, slots=True)
class ReorgWatch:
    """Watches the payments of one environment. `build_dependencies` makes what sends those of an account."""

    database: Database
    stamps: Stamps
    chain: PaymentChain
    build_dependencies: Callable[[int], Dependencies]
    threads: int = 4

    def check(self) -> None:
        """Check what has succeeded, once. Raises `PaymentsUnavailable`."""
        for unchecked in reorg_records.list_unchecked(self.database):
            if unchecked.account in self.chain.stores:
                self._check_account(unchecked)

    def send_again(self) -> None:
        """Make an attempt for each loose payment that is due."""
        now = self.stamps.read_clock()
        due_payments = reorg_records.find_due(self.database, now, _MAX_DUE)
        due = [entry for entry in due_payments if entry[0] in self.chain.stores]
        if due:
            # An authorization is valid for a minute or so, and one attempt may take some seconds.
            with ThreadPoolExecutor(self.threads, "faregate-again") as pool:
                list(pool.map(self._try_again, due))

    def _check_account(self, unchecked: Unchecked) -> None:
        now = self.stamps.read_clock()
        payments = reorg_records.list_unchecked_payments(self.database, unchecked, _BATCH)
        checked = now - _LATE_STAMPS
        if len(payments) == _BATCH:
            checked = min(checked, payments[-1].finished_at or 0)
        if payments:
            checked = min(checked, *self._find_unsafe(payments, now))
        reorg_records.record_checked(self.database, unchecked.account, checked)

    def _find_unsafe(self, payments: list[PaymentRow], now: int) -> Iterable[int]:
        """Yield the times at which payments succeeded that are not in a safe block yet, then `now`.

        `now` makes it never empty. Record the payments that came loose.
        """
        view = self.chain.open_view()
        first = max(0, min(payment.from_block or 0 for payment in payments) - REORG_BLOCKS)
        transfers = self.chain.index_transfers(view, {payment.authorized_to for payment in payments}, first)
        for payment in payments:
            with log_context(self._describe(payment.account, payment.id)):
                settled_by = transfers.get(payment.authorization)
                is_final = self._is_final(payment, settled_by, view.safe.number, now)
            if not is_final:
                yield payment.finished_at or 0
        yield now

    def _is_final(self, payment: PaymentRow, transfer: ReceivedTransfer | None, safe: int, now: int) -> bool:
        """Return whether the payment needs no further check: it is in a safe block, or its loss is known."""
        if transfer is not None and transfer.value == payment.settled_amount:
            return transfer.block <= safe and self._accept(payment, transfer.transaction_hash, now)
        match self.chain.look(payment):
            case PaymentSettled(transaction_hash=settled_by):
                return self._is_safe(settled_by) and self._accept(payment, settled_by, now)
            case PaymentRefused(reason=reason):
                if reorg_records.record_loose(self.database, payment, now, ended=True):
                    _log.error("%s succeeded, and the chain has lost it: %s", payment.id, reason)
                return True
            case SettlementPending():
                if not self._is_unused(payment):
                    return False
                if reorg_records.record_loose(self.database, payment, now):
                    _log.warning("%s succeeded, and the chain has lost it: it is sent again", payment.id)
                return True

    def _accept(self, payment: PaymentRow, settled_by: str, now: int) -> bool:
        """Note by which transaction a payment settled, if the books name another. True: no check is left."""
        if settled_by != payment.transaction_hash:
            # The chain has lost the transaction of the books, and another transaction settled the payment.
            reorg_records.record_loose(self.database, payment, now, ended=True, settled_by=settled_by)
        return True

    def _is_unused(self, payment: PaymentRow) -> bool:
        """Whether the chain proves that the authorization is unused: nodes that disagree prove nothing."""
        try:
            return self.chain.is_unused(payment) is True
        except NodesDisagree:
            return False

    def _is_safe(self, transaction_hash: str) -> bool:
        try:
            return self.chain.is_safe(transaction_hash)
        except NodesDisagree:
            return False

    def _describe(self, account: int, transaction_id: str) -> dict[str, str]:
        return {**describe_account(self.chain.stores[account].account), "transaction": transaction_id}

    # Loose payments

    def _try_again(self, account_and_id: tuple[int, str]) -> None:
        account, transaction_id = account_and_id
        now = self.stamps.read_clock()
        if not reorg_records.lease(self.database, account, transaction_id, now, now + _LEASE):
            return
        with log_context(self._describe(account, transaction_id)):
            try:
                self._settle_again(account, transaction_id, now)
            except (FaregateError, PaymentsUnavailable) as error:
                # Its lease ends, and the next attempt looks at the chain first.
                _log.warning("sending %s again was interrupted: %s", transaction_id, error)

    def _settle_again(self, account: int, transaction_id: str, now: int) -> None:
        payment = find_payment_by_id(self.database, account, transaction_id)
        if payment is None:
            return
        result = self.chain.look(payment)
        if isinstance(result, SettlementPending) and self._may_send(payment, now):
            result = self._send(account, transaction_id)
        match result:
            case PaymentSettled(transaction_hash=settled_by) if self._is_safe(settled_by):
                reorg_records.end(self.database, account, transaction_id, now, settled_by)
                _log.warning("%s settled after all, by %s", transaction_id, settled_by)
            case PaymentRefused(reason=reason):
                reorg_records.end(self.database, account, transaction_id, now, None)
                _log.error("%s succeeded, and is lost: %s", transaction_id, reason)
            case _:
                loose = reorg_records.find_loose(self.database, account, transaction_id)
                age = 0 if loose is None else now - loose.noticed
                pause = min(_PAUSE + age, _LONGEST_PAUSE)
                reorg_records.postpone(self.database, account, transaction_id, now + pause)

    def _may_send(self, payment: PaymentRow, now: int) -> bool:
        """Whether the chain proves that the authorization is unused, and it is still valid."""
        return now < int(payment.valid_before) * _SECOND and self._is_unused(payment)

    def _send(self, account: int, transaction_id: str) -> SettlementResult:
        store = self.chain.stores[account]
        begun = store.begin_attempt_again(transaction_id)
        if begun is None:
            return SettlementPending("reconciling")
        return find_result(*begun, self.build_dependencies(account))

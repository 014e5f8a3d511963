"""The books of a gas account and its workers, for tests. The rule of settlement is the service's own."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

from faregate.rules.dependencies import Dependencies
from faregate.rules.payments import (
    Attempt,
    PaymentPostponed,
    PaymentRefused,
    PaymentSent,
    PaymentSettled,
    SettlementPending,
    SignedTransfer,
)
from faregate.rules.records import Transaction
from faregate.rules.settlement import settle
from faregate.service.chain.chain_reader import ChainReader
from faregate.service.chain.direct.backend import DirectPayments
from faregate.service.chain.direct.fees import GWEI, GasPolicy
from faregate.service.chain.direct.gas_account import GasAccount
from faregate.service.chain.direct.signers import KeySigner
from faregate.x402.models import SignedPayment, Terms
from tests.support.chain import USDC, LocalChain

SELLER = "0x" + "ab" * 20
PRICE = 10_000
TERMS = Terms(USDC, PRICE, SELLER, 300)
POLICY = GasPolicy(max_fee=100 * GWEI)
Seen = PaymentSettled | PaymentRefused | SettlementPending
SETTLING = SettlementPending()


class Clock:
    """The present, which a test can move."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.ahead

    def advance(self, seconds: float) -> None:
        self.ahead += timedelta(seconds=seconds)


@dataclass
class Row:
    """A payment in the books, as the rule of settlement sees it."""

    payment: SignedPayment = field(repr=False)
    from_block: int = 0
    attempts: int = 0
    hashes: tuple[str, ...] = ()
    signed: SignedTransfer | None = None
    notes: tuple[str, ...] = ()
    seen: Seen = SETTLING
    id: str = "txn_1"

    @property
    def transfer(self) -> SignedTransfer:
        """What was signed."""
        assert self.signed is not None
        return self.signed

    @property
    def context(self) -> Any:
        return SimpleNamespace(terms=TERMS)

    def begin(self) -> Attempt:
        """Begin an attempt, by what is written down only."""
        self.attempts += 1
        return Attempt(
            submitted_at=datetime.now(UTC),
            number=self.attempts,
            from_block=self.from_block,
            hashes=self.hashes,
            signed=self.signed,
            sent_before=self.attempts > 1,
        )


class GasBooks:
    """Every signed transfer. Each method is one commit."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.rows: list[Row] = []
        self.conflicts = 0

    def add(self, payment: SignedPayment, from_block: int = 0) -> Row:
        row = Row(payment, from_block)
        self.rows.append(row)
        return row

    def get_gas_nonce(self, _chain: int, sender: str) -> int | None:
        signed = [row.signed for row in self.rows if row.signed is not None]
        nonces = [each.gas_nonce for each in signed if each.sender == sender.lower()]
        return max(nonces) + 1 if nonces else None

    def record_signed(self, row: Row, _attempt: Attempt | None, signed: SignedTransfer) -> bool:
        """Write it down, by the conditions of `Payments.sign`."""
        with self._lock:
            free = self.get_gas_nonce(signed.chain, signed.sender) or 0
            if signed.replaces is None:
                may_write = signed.gas_nonce >= free
            else:
                may_write = row.signed is not None and row.signed.transaction_hash == signed.replaces
            if may_write:
                row.signed = signed
                row.hashes = (*row.hashes, signed.transaction_hash)
            else:
                self.conflicts += 1
            return may_write

    # The steps of a settlement

    def find_transaction(self, _id: str) -> None:
        return None

    def begin_attempt(self, row: Row) -> Attempt | None:
        return row.begin() if isinstance(row.seen, SettlementPending) else None

    def record_answer(self, row: Row, _attempt: Attempt, found: str | None, note: str) -> None:
        row.notes = (*row.notes, note)
        if found is not None and found not in row.hashes:
            row.hashes = (*row.hashes, found)

    def record_settled(self, row: Row, found: str, _at: datetime | None, _amount: int | None = None) -> Row:
        row.seen = PaymentSettled(found)
        return row

    def record_failed(self, row: Row, _at: datetime | None) -> Row:
        row.seen = PaymentRefused("failed")
        return row

    def postpone(self, row: Row, _attempt: Attempt, pending: SettlementPending, _at: datetime | None) -> Row:
        row.seen = pending
        return row

    # The upkeep of the gas account

    def list_transfers(
        self, sender: str, chain: int, from_nonce: int, limit: int
    ) -> Sequence[SignedTransfer]:
        signed = [row.signed for row in self.rows if row.signed is not None]
        mine = [each for each in signed if (each.sender, each.chain) == (sender, chain)]
        waiting = [each for each in mine if each.gas_nonce >= from_nonce]
        return sorted(waiting, key=lambda each: each.gas_nonce)[:limit]

    def replace_transfer(self, transfer: SignedTransfer) -> bool:
        replaced = [
            row for row in self.rows if row.signed and row.signed.transaction_hash == transfer.replaces
        ]
        return bool(replaced) and self.record_signed(replaced[0], None, transfer)


class PatientPayments(DirectPayments):
    """Waits for what it sent, where blocks are mined by themselves."""

    def __init__(self, account: GasAccount, reader: ChainReader, chain: LocalChain) -> None:
        super().__init__(account, reader)
        self._local = chain

    def send(self, payment: SignedPayment, terms: Terms, attempt: Attempt) -> PaymentSent:
        sent = super().send(payment, terms, attempt)
        wait_for_blocks(self._local)
        return sent


class Worker:
    """One process of the service: it knows nothing that is not in the books or on the chain."""

    def __init__(
        self,
        chain: LocalChain,
        key: str,
        books: GasBooks,
        clock: Clock,
        policy: GasPolicy = POLICY,
        confirmations: int = 1,
    ) -> None:
        self.books = books
        reader = ChainReader(USDC.chain, [chain.url], clock=clock, confirmations=confirmations)
        self.account = GasAccount(reader, KeySigner(key), clock, policy)
        self.payments = PatientPayments(self.account, reader, chain)

    def sign(self, row: Row, before_record: Callable[[], None] = lambda: None) -> Attempt:
        """Sign and write down, and no more: the process dies then."""
        attempt = self.try_to_sign(row, before_record)
        assert not isinstance(attempt, PaymentPostponed)
        return attempt

    def try_to_sign(
        self, row: Row, before_record: Callable[[], None] = lambda: None
    ) -> Attempt | PaymentPostponed:
        attempt = row.begin()
        for _ in range(20):
            gas_nonce = self.books.get_gas_nonce(USDC.chain, self.account.address)
            signed = self.payments.sign(row.payment, TERMS, attempt, gas_nonce)
            if isinstance(signed, PaymentPostponed):
                return signed
            before_record()
            if signed == attempt.signed or self.books.record_signed(row, attempt, signed):
                return replace(attempt, signed=signed, hashes=row.hashes)
        raise AssertionError("no gas nonce is free")

    def send(self, row: Row, attempt: Attempt) -> PaymentSent:
        """Send what was signed."""
        return self.payments.send(row.payment, TERMS, attempt)

    def attempt(self, row: Row) -> Seen:
        """Make one whole attempt, by the rule of the service; return what the books say then."""
        backend = Dependencies(cast(Any, self.books), self.payments)
        settle(cast(Transaction, row), backend)
        return row.seen


def wait_for_blocks(chain: LocalChain) -> None:
    """Wait until all transactions are mined, where blocks are mined by themselves."""
    give_up = time.monotonic() + 20
    while chain.call("anvil_getAutomine") and int(chain.call("txpool_status")["pending"], 16):
        assert time.monotonic() < give_up
        time.sleep(0.002)

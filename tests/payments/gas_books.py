"""The books of a gas account and its workers, for tests: what the store and the settlement rule do."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from faregate.payments.chain import ChainReader
from faregate.payments.direct.backend import DirectPayments
from faregate.payments.direct.fees import GWEI, GasPolicy
from faregate.payments.direct.gas_account import GasAccount
from faregate.payments.direct.signers import KeySigner
from faregate.service.payments import (
    Attempt,
    PaymentPending,
    PaymentPostponed,
    PaymentRefused,
    PaymentSent,
    PaymentSettled,
    SignedTransfer,
)
from faregate.x402.models import SignedPayment, Terms
from tests.support.chain import USDC, LocalChain

SELLER = "0x" + "ab" * 20
PRICE = 10_000
TERMS = Terms(USDC, PRICE, SELLER, 300)
POLICY = GasPolicy(max_fee=100 * GWEI)
Seen = PaymentSettled | PaymentRefused | PaymentPending


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
    """A payment in the books."""

    payment: SignedPayment = field(repr=False)
    from_block: int = 0
    attempts: int = 0
    hashes: tuple[str, ...] = ()
    signed: SignedTransfer | None = None

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

    def get_gas_nonce(self, sender: str) -> int | None:
        signed = [row.signed for row in self.rows if row.signed is not None]
        nonces = [each.gas_nonce for each in signed if each.sender == sender]
        return max(nonces) + 1 if nonces else None

    def record_signed(self, row: Row, signed: SignedTransfer) -> bool:
        """Write it down, by the conditions of `Payments.sign`."""
        with self._lock:
            free = self.get_gas_nonce(signed.sender) or 0
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

    def list_transfers(
        self, sender: str, chain: int, from_nonce: int, limit: int
    ) -> Sequence[SignedTransfer]:
        signed = [row.signed for row in self.rows if row.signed is not None]
        mine = [each for each in signed if (each.sender, each.chain) == (sender, chain)]
        waiting = [each for each in mine if each.gas_nonce >= from_nonce]
        return sorted(waiting, key=lambda each: each.gas_nonce)[:limit]

    def replace_transfer(self, transfer: SignedTransfer) -> bool:
        row = next(
            (
                row
                for row in self.rows
                if row.signed is not None and row.signed.transaction_hash == transfer.replaces
            ),
            None,
        )
        return row is not None and self.record_signed(row, transfer)


class Worker:
    """One process of the service: it knows nothing that is not in the books or on the chain."""

    def __init__(
        self, chain: LocalChain, key: str, books: GasBooks, clock: Clock, policy: GasPolicy = POLICY
    ) -> None:
        self.chain = chain
        self.books = books
        reader = ChainReader(USDC.chain, [chain.url], clock=clock)
        self.account = GasAccount(reader, KeySigner(key), clock, policy)
        self.payments = DirectPayments(self.account, reader)

    def sign(
        self, row: Row, attempt: Attempt, before_record: Callable[[], None] = lambda: None
    ) -> Attempt | PaymentPostponed:
        """Sign and write down, as `service.settlement` does."""
        while True:
            gas_nonce = self.books.get_gas_nonce(self.payments.get_gas_account(TERMS))
            signed = self.payments.sign(row.payment, TERMS, attempt, gas_nonce)
            if isinstance(signed, PaymentPostponed):
                return signed
            if signed == attempt.signed:
                return attempt
            before_record()
            if self.books.record_signed(row, signed):
                return replace(attempt, signed=signed, hashes=row.hashes)

    def send(self, row: Row, attempt: Attempt) -> PaymentSent:
        """Send what was signed, and wait until it is mined where blocks are mined by themselves."""
        sent = self.payments.send(row.payment, TERMS, attempt)
        self.wait()
        return sent

    def wait(self) -> None:
        """Wait until all transactions are mined, where blocks are mined by themselves."""
        give_up = time.monotonic() + 20
        while self.chain.call("anvil_getAutomine") and int(self.chain.call("txpool_status")["pending"], 16):
            assert time.monotonic() < give_up
            time.sleep(0.002)

    def attempt(self, row: Row) -> Seen:
        """Make one whole attempt; return what the chain proves then."""
        attempt = row.begin()
        if attempt.sent_before:
            seen = self.payments.look(row.payment, TERMS, attempt)
            if not isinstance(seen, PaymentPending):
                return seen
        ready = self.sign(row, attempt)
        if not isinstance(ready, PaymentPostponed):
            self.send(row, ready)
            attempt = ready
        return self.payments.look(row.payment, TERMS, attempt)

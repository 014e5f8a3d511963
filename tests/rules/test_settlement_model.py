"""The settlement rule against every answer of a facilitator, turn of the chain, and crash at a step.

The chain here is a model of three facts: an authorization is used, cancelled or neither; a sent transfer may
wait; time passes. All sequences of choices up to a bound are tried. Whatever happens, the books must say what
the chain says: of a price that follows the use, how much, too.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import product
from typing import Any, Literal, cast

import pytest

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
from tests.support.watched_backend import Killed, count_moments, watch

START = datetime(2026, 1, 1, tzinfo=UTC)
USED = 7
"""What was used of an authorization, where the price follows the use."""
Answer = Literal[
    "settles another amount",
    "settles",
    "settles, says no",
    "says yes, does nothing",
    "says no",
    "waits",
    "waits, no answer",
]
ANSWERS: tuple[Answer, ...] = (
    "settles",
    "settles, says no",
    "says yes, does nothing",
    "says no",
    "waits",
    "waits, no answer",
)
Turn = Literal["nothing", "mined", "dropped", "stranger", "cancelled", "expired"]
TURNS: tuple[Turn, ...] = ("nothing", "mined", "dropped", "stranger", "cancelled", "expired")


@dataclass
class Chain:
    """What is true. `used` is the hash of the transfer that used the authorization."""

    used: str | None = None
    amount: int | None = None
    """What the transfer moved of an authorization; None: all of it."""
    cancelled: bool = False
    expired: bool = False
    waiting: str | None = None
    waiting_amount: int | None = None
    nonces_sent: set[int] = field(default_factory=set[int])

    def transfer(self, transaction_hash: str, amount: int | None = None) -> None:
        if self.used is None and not self.cancelled and not self.expired:
            self.used, self.amount = transaction_hash, amount

    def turn(self, turn: Turn) -> None:
        match turn:
            case "mined" if self.waiting is not None:
                self.transfer(self.waiting, self.waiting_amount)
                self.waiting = None
            case "dropped":
                self.waiting = None
            case "stranger":
                self.transfer("0xstranger")
            case "cancelled":
                self.cancelled = self.cancelled or self.used is None
            case "expired":
                self.expired = True
            case _:
                pass


@dataclass
class Books:
    """A store of one transaction: what is written survives a crash."""

    status: str = "authorized"
    transaction_hash: str | None = None
    attempts: int = 0
    hashes: tuple[str, ...] = ()
    signed: SignedTransfer | None = None
    next_nonce: int | None = None
    id: str = "txn_1"
    valid_before: int = 2**40
    used: int | None = None
    amount: int | None = None

    def now(self) -> datetime:
        return START

    def find_transaction(self, _transaction_id: str) -> "Books":
        return self

    def begin_attempt(self, _transaction: object) -> Attempt | None:
        if self.status in ("succeeded", "failed"):
            return None
        self.attempts += 1
        self.status = "settling"
        return Attempt(START, self.attempts, 1, self.hashes, self.signed, self.attempts > 1, self.used)

    def get_gas_nonce(self, _chain: int, _sender: str) -> int | None:
        return self.next_nonce

    def record_signed(self, _transaction: object, _attempt: Attempt, signed: SignedTransfer) -> bool:
        if self.next_nonce is not None and signed.gas_nonce < self.next_nonce:
            return False
        self.next_nonce, self.signed = signed.gas_nonce + 1, signed
        self.hashes = (*self.hashes, signed.transaction_hash)
        return True

    def record_answer(self, _transaction: object, _attempt: Attempt, found: str | None, _note: str) -> None:
        if found is not None and found not in self.hashes:
            self.hashes = (*self.hashes, found)

    def record_settled(
        self, _transaction: object, found: str, _at: datetime | None, amount: int | None = None
    ) -> "Books":
        if self.status not in ("succeeded", "failed"):
            self.status, self.transaction_hash, self.amount = "succeeded", found, amount
        return self

    def record_failed(self, _transaction: object, _at: datetime | None) -> "Books":
        if self.status not in ("succeeded", "failed"):
            self.status = "failed"
        return self

    def postpone(
        self, _transaction: object, _attempt: Attempt, pending: SettlementPending, _at: datetime | None
    ) -> "Books":
        self.status = pending.status
        return self

    @property
    def payment(self) -> None:
        return None

    @property
    def context(self) -> Any:
        class Token:
            chain = 84532

        class Terms:
            token = Token

        class Context:
            terms = Terms

        return Context


@dataclass
class Facilitated:
    """Payments through a facilitator that gives these answers, one for each send; then it is honest."""

    chain: Chain
    answers: Iterator[Answer]
    sends: int = 0
    looked_for: tuple[str, ...] = ()
    """The hashes that the chain was last asked for."""

    def look(
        self, _payment: object, _terms: object, attempt: Attempt
    ) -> PaymentSettled | PaymentRefused | SettlementPending:
        self.looked_for = attempt.hashes
        if self.chain.used is not None:
            return PaymentSettled(self.chain.used, self.chain.amount)
        if self.chain.cancelled or self.chain.expired:
            return PaymentRefused("it can never settle")
        return SettlementPending("reconciling")

    def get_gas_account(self, _terms: object) -> str | None:
        return None

    def send(self, _payment: object, _terms: object, attempt: Attempt) -> PaymentSent | PaymentSettled:
        self.sends += 1
        found, amount = f"0x{self.sends}", attempt.amount
        self.chain.waiting_amount = amount
        match next(self.answers, "settles"):
            case "settles another amount":
                self.chain.transfer(found, None if amount is None else amount + 1)
                return PaymentSent(found, "success")
            case "settles":
                self.chain.transfer(found, amount)
                return PaymentSent(found, "success")
            case "settles, says no":
                self.chain.transfer(found, amount)
                return PaymentSent(None, "transaction_failed")
            case "says yes, does nothing":
                return PaymentSent("0xnothing", "success")
            case "says no":
                return PaymentSent(None, "insufficient_funds")
            case "waits":
                self.chain.waiting = found
                return PaymentSent(found, "settlement_pending")
            case _:
                self.chain.waiting = found
                return PaymentSent(None, "no answer")


@dataclass
class Direct(Facilitated):
    """Payments by an own gas account."""

    def get_gas_account(self, _terms: object) -> str | None:
        return "0xgas"

    def sign(
        self, _payment: object, _terms: object, attempt: Attempt, gas_nonce: int | None
    ) -> SignedTransfer | PaymentPostponed | None:
        if attempt.signed is not None:
            return attempt.signed
        if self.chain.used is not None or self.chain.cancelled or self.chain.expired:
            return PaymentPostponed("the transfer would revert")
        nonce = gas_nonce or 0
        return SignedTransfer("0xgas", 84532, nonce, "0xraw", f"0xsigned{nonce}")

    def send(self, payment: object, terms: object, attempt: Attempt) -> PaymentSent | PaymentSettled:
        assert attempt.signed is not None
        self.chain.nonces_sent.add(attempt.signed.gas_nonce)
        answer = super().send(payment, terms, attempt)
        self.chain.waiting = self.chain.waiting and attempt.signed.transaction_hash
        return answer


def drive(books: Books, payments: Facilitated, dies_at: int | None) -> int:
    """Settle once; die before (even) or after (odd) a call to books or payments. Returns how many moments."""
    backend = Dependencies(cast(Any, books), cast(Any, payments))
    pass_moments, count = count_moments(dies_at)
    settle(cast(Transaction, books), watch(backend, pass_moments))
    return count()


def settle_to_the_end(books: Books, payments: Facilitated, chain: Chain) -> None:
    """Workers run on, the facilitator honest from now on, until the payment has ended."""
    payments.answers = iter(())
    for _ in range(4):
        chain.turn("mined")
        drive(books, payments, None)
    chain.turn("expired")
    drive(books, payments, None)


def assert_books_equal_chain(books: Books, chain: Chain) -> None:
    assert books.status == ("succeeded" if chain.used is not None else "failed")
    assert books.transaction_hash == chain.used
    assert books.amount == chain.amount


@pytest.mark.parametrize("backend", [Facilitated, Direct])
@pytest.mark.parametrize("used", [None, USED])
def test_the_books_say_what_the_chain_says(backend: type[Facilitated], used: int | None) -> None:
    tried = 0
    # An own gas account settles what it was told to, and only it can settle a part.
    others: tuple[Answer, ...] = () if used is None or backend is Direct else ("settles another amount",)
    possible = TURNS if used is None else tuple(turn for turn in TURNS if turn != "stranger")
    for answers in product((*ANSWERS, *others), repeat=2):
        for turns in product(possible, repeat=2):
            for dies_at in (None, *range(16)):
                chain, tried_before = Chain(), tried
                books, payments = Books(used=used), backend(chain, iter(answers))
                for turn in turns:
                    try:
                        drive(books, payments, dies_at)
                    except Killed:
                        tried += 1
                    if books.status == "succeeded":
                        assert chain.used == books.transaction_hash
                    if books.status == "failed":
                        assert chain.used is None
                    chain.turn(turn)
                settle_to_the_end(books, payments, chain)
                assert_books_equal_chain(books, chain)
                if books.next_nonce is not None:
                    assert chain.nonces_sent == set(range(books.next_nonce)), "a gas nonce was never sent"
                if dies_at is not None and tried == tried_before:
                    break  # nothing comes so late: this was the run without a death once more
    assert tried > 1_000


@pytest.mark.parametrize(
    ("answers", "hashes"),
    [
        (("waits",), ("0x1",)),
        (("waits, no answer",), ()),
        (("says no", "waits"), ("0x2",)),
        (("waits", "waits"), ("0x1", "0x2")),
        (("says yes, does nothing", "says yes, does nothing"), ("0xnothing",)),
    ],
)
def test_the_chain_is_asked_for_each_hash_that_was_given_once(
    answers: tuple[Answer, ...], hashes: tuple[str, ...]
) -> None:
    """A send that gave no hash adds none: no node can be asked for that."""
    books, payments = Books(), Facilitated(Chain(), iter(answers))
    for _ in answers:
        drive(books, payments, None)
    assert payments.looked_for == hashes


def test_a_rule_that_believes_the_answer_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def believe(self: Facilitated, *given: Any) -> object:
        sent = send(self, *given)
        if isinstance(sent, PaymentSent):
            transaction_hash = sent.transaction_hash
            return PaymentRefused(sent.note) if transaction_hash is None else PaymentSettled(transaction_hash)
        return sent

    send = Facilitated.send
    monkeypatch.setattr(Facilitated, "send", believe)
    with pytest.raises(AssertionError):
        test_the_books_say_what_the_chain_says(Facilitated, USED)


@dataclass
class Impatient(Direct):
    """Payments that raise the fee of whatever was signed."""

    signs: int = 0

    def sign(
        self, payment: object, terms: object, attempt: Attempt, gas_nonce: int | None
    ) -> SignedTransfer | PaymentPostponed | None:
        self.signs += 1
        assert self.signs == 1, "the same replacement again"
        assert attempt.signed is not None
        return replace(attempt.signed, transaction_hash="0xraised", replaces=attempt.signed.transaction_hash)


def test_a_replacement_that_another_worker_wrote_first_is_not_tried_again() -> None:
    """The books refuse it, and always will; the transfer that this attempt knows of is sent."""
    chain = Chain()
    signed = SignedTransfer("0xgas", 84532, 0, "0xraw", "0xsigned0")
    books = Books(attempts=1, signed=signed, next_nonce=1, hashes=("0xsigned0", "0xraised by another"))
    drive(books, Impatient(chain, iter(())), None)
    assert (books.status, books.signed, chain.nonces_sent) == ("succeeded", signed, {0})

"""What tests of facilitated payments share: a seller, proofs, books of one payment, a naive backend."""

import secrets
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, cast

from faregate.emulator import Wallet
from faregate.rules.dependencies import Dependencies
from faregate.rules.payments import Attempt, PaymentRefused, PaymentSent, PaymentSettled, SettlementPending
from faregate.rules.records import Transaction
from faregate.rules.settlement import settle
from faregate.service.chain.chain_reader import ChainReader
from faregate.service.chain.facilitator import FacilitatorClient, FacilitatorSettings
from faregate.service.chain.facilitator_backend import FacilitatorPayments
from faregate.system import system_clock
from faregate.x402.headers import build_payment_required, parse_payment
from faregate.x402.models import SignedPayment, Terms
from tests.rules.test_settlement_model import Books
from tests.support.chain import USDC, ChainPayer, LocalChain

PRICE = 10_000
RESOURCE = cast(
    Any, SimpleNamespace(url="https://seller.example/report", description="", mime_type="text/csv")
)


def make_terms() -> Terms:
    """Make the terms of a seller who has no money yet."""
    return Terms(USDC, PRICE, ChainPayer().address, 300)


def sign_payment(payer: ChainPayer, terms: Terms) -> SignedPayment:
    """Pay as a client does who was answered 402."""
    instructions = build_payment_required(terms, RESOURCE, "", secrets.token_hex(32))
    return parse_payment(Wallet(payer.private_key).pay(instructions))


def read_chain(chain: LocalChain) -> ChainReader:
    return ChainReader(USDC.chain, [chain.url], clock=system_clock)


def make_client(url: str, seconds: float = 4.0) -> FacilitatorClient:
    return FacilitatorClient(FacilitatorSettings(url, verify_seconds=seconds, settle_seconds=seconds))


@dataclass
class OnePayment(Books):
    """The books of one payment on a real chain."""

    signed_payment: SignedPayment | None = None
    terms: Terms | None = None
    from_block: int = 0

    @property
    def payment(self) -> Any:
        return self.signed_payment

    @property
    def context(self) -> Any:
        return SimpleNamespace(terms=self.terms)

    def begin_attempt(self, transaction: object) -> Attempt | None:
        begun = super().begin_attempt(transaction)
        return begun and replace(begun, from_block=self.from_block)


def open_books(chain: LocalChain, payer: ChainPayer) -> OnePayment:
    """Open the books of a new payment to a new seller."""
    terms = make_terms()
    payment = payer.authorize(USDC, terms.pay_to, PRICE)
    return OnePayment(signed_payment=payment, terms=terms, from_block=chain.head)


def work(books: OnePayment, payments: FacilitatorPayments) -> None:
    """Settle as a worker does that has come to this payment."""
    settle(cast(Transaction, books), Dependencies(cast(Any, books), payments))


def find_mistake(books: OnePayment, chain: LocalChain) -> str | None:
    """Compare the books of an ended payment with the chain."""
    assert books.terms is not None
    received = chain.get_balance(USDC, books.terms.pay_to)
    if books.status == "failed":
        return None if received == 0 else "called failed, but it was paid"
    if books.status != "succeeded":
        return f"still {books.status}"
    if received != PRICE:
        return f"called succeeded, but {received} came"
    receipt = chain.get_receipt(books.transaction_hash or "0x" + "00" * 32)
    if receipt is None or receipt["status"] != "0x1":
        return "succeeded with the hash of no such transfer"
    nonce = books.payment.nonce[2:]
    return (
        None if any(nonce in topic for log in receipt["logs"] for topic in log["topics"]) else "foreign hash"
    )


class BelievingPayments(FacilitatorPayments):
    """The naive backend: what the facilitator says is the result, and nobody looks at the chain."""

    def look(self, payment: object, terms: object, attempt: Attempt) -> SettlementPending:
        return SettlementPending("reconciling")

    def send(  # type: ignore[override]
        self, payment: SignedPayment, terms: Terms, attempt: Attempt
    ) -> PaymentSent | PaymentSettled | PaymentRefused:
        sent = super().send(payment, terms, attempt)
        _, _, said = sent.note.partition("HTTP 200 ")
        if not said or said.startswith("settlement_pending"):
            return sent
        if said == "success":
            return PaymentSettled(sent.transaction_hash or "")
        return PaymentRefused(said)

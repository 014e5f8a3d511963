"""Simulated payments: the rules of the emulator's ledger, on tables, with several workers at once."""

import threading
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import text

from faregate.emulator import TEST_PAYERS, Wallet
from faregate.merchant.models import AccessResource
from faregate.rules.account import Account, Seller, SettlementRule
from faregate.rules.builtin_account import builtin_account
from faregate.rules.payments import (
    Attempt,
    PaymentRefused,
    PaymentSettled,
    PaymentsUnavailable,
    PaymentVerified,
    SettlementPending,
)
from faregate.service.database.accounts import ensure_account
from faregate.service.database.engine import Database, DatabaseError
from faregate.service.database.simulated_ledger import (
    DEFAULT,
    find_rules,
    get_balances,
    lock_funds,
    set_balance,
    set_rule,
    set_up_ledger,
)
from faregate.service.simulated_payments import SimulatedPayments
from faregate.x402.headers import build_payment_required, parse_payment
from faregate.x402.models import SignedPayment, Terms
from faregate.x402.tokens import TOKENS
from tests.service.databases import START, MovedClock

SELLER = Seller()
TERMS = Terms(TOKENS["test", "USDC"], 10_000, SELLER.pay_to, 60)
RESOURCE = AccessResource(url="https://seller.example/a", mime_type="text/plain")
ATTEMPT = Attempt(START)


@pytest.fixture
def config() -> Account:
    return builtin_account().model_copy(update={"default_balance": 15_000})


@pytest.fixture
def payments(database: Database, config: Account) -> SimulatedPayments:
    with database.write() as connection:
        account, _ = ensure_account(connection, config.seller, "test", 0)
        set_up_ledger(connection, account, config)
    return SimulatedPayments(database, account.id)


def sign(clock: MovedClock, wallet: Wallet | None = None) -> SignedPayment:
    wallet = wallet or Wallet(clock=clock)
    return parse_payment(wallet.pay(build_payment_required(TERMS, RESOURCE, "pay", "ab" * 32)))


def balance(payments: SimulatedPayments, address: str) -> int:
    with payments.database.read() as connection:
        [found] = get_balances(connection, payments.account, TERMS.token, address)
    return found


def test_a_good_payment_is_verified_then_sent_once(payments: SimulatedPayments, clock: MovedClock) -> None:
    payment = sign(clock)
    verdict = payments.verify(payment, TERMS, now=START, committed=5_000)
    assert isinstance(verdict, PaymentVerified)
    assert verdict.payer.lower() == payment.payer
    assert payments.look(payment, TERMS, ATTEMPT) == SettlementPending()
    sent = payments.send(payment, TERMS, ATTEMPT)
    assert isinstance(sent, PaymentSettled)
    assert payments.send(payment, TERMS, ATTEMPT) == payments.look(payment, TERMS, ATTEMPT) == sent
    assert balance(payments, payment.payer) == 5_000
    assert balance(payments, SELLER.pay_to) == 10_000
    again = payments.verify(payment, TERMS, now=START, committed=0)
    assert again == PaymentRefused("the authorization was already used")


def test_what_is_reserved_or_missing_cannot_be_spent(payments: SimulatedPayments, clock: MovedClock) -> None:
    payment = sign(clock)
    assert isinstance(payments.verify(payment, TERMS, now=START, committed=5_001), PaymentRefused)
    with payments.database.write() as connection:
        set_balance(connection, payments.account, TERMS.token, payment.payer, 9_999)
    assert isinstance(payments.send(payment, TERMS, ATTEMPT), PaymentRefused)
    assert balance(payments, payment.payer) == 9_999


def test_an_expired_authorization_is_not_sent(payments: SimulatedPayments, clock: MovedClock) -> None:
    late = Attempt(START + timedelta(seconds=60))
    assert isinstance(payments.send(sign(clock), TERMS, late), PaymentRefused)
    assert balance(payments, SELLER.pay_to) == 0


def test_paying_oneself_changes_nothing(payments: SimulatedPayments, clock: MovedClock) -> None:
    payment = sign(clock)
    own = replace(payment, to=payment.payer)
    assert isinstance(payments.send(own, TERMS, ATTEMPT), PaymentSettled)
    assert balance(payments, payment.payer) == 15_000


@pytest.mark.every_value
def test_workers_at_once_move_the_value_once(payments: SimulatedPayments, clock: MovedClock) -> None:
    """Each of two payers has money for one of their two payments, and every payment is sent four times."""
    wallets = [Wallet(clock=clock) for _ in range(2)]
    signed = [sign(clock, wallet) for wallet in wallets for _ in range(2)]
    answers: list[tuple[str, object]] = []

    def work(payment: SignedPayment) -> None:
        answers.append((payment.nonce, payments.send(payment, TERMS, ATTEMPT)))

    workers = [threading.Thread(target=work, args=(payment,)) for payment in signed * 4]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    settled = {answer for answer in answers if isinstance(answer[1], PaymentSettled)}
    assert len(answers) == 16
    assert len(settled) == 2
    assert [balance(payments, wallet.address) for wallet in wallets] == [5_000, 5_000]
    assert balance(payments, SELLER.pay_to) == 20_000


@pytest.mark.every_value
def test_a_transfer_waits_for_another_one_of_its_payer_or_seller(
    payments: SimulatedPayments, clock: MovedClock
) -> None:
    if payments.database.is_sqlite:
        pytest.skip("SQLite has one writer at a time")
    payment = sign(clock)
    to_another = replace(payment, to=Wallet(clock=clock).address)
    from_another = replace(payment, payer=Wallet(clock=clock).address)

    def lock(signed: SignedPayment) -> None:
        with payments.database.write() as connection:
            connection.execute(text("SET LOCAL lock_timeout = '50ms'"))
            lock_funds(connection, payments.account, TERMS, signed)

    lock(payment)  # its balances have rows from now on
    with payments.database.write() as connection:
        lock_funds(connection, payments.account, TERMS, payment)
        for other in (to_another, from_another):
            with pytest.raises(DatabaseError):
                lock(other)


def test_a_file_that_is_applied_again_changes_no_balance(
    payments: SimulatedPayments, config: Account, clock: MovedClock
) -> None:
    payment = sign(clock)
    payments.send(payment, TERMS, ATTEMPT)
    with payments.database.write() as connection:
        account, _ = ensure_account(connection, config.seller, "test", 0)
        set_up_ledger(connection, account, config)
    assert balance(payments, payment.payer) == 5_000
    assert balance(payments, SELLER.pay_to) == 10_000
    assert balance(payments, TEST_PAYERS["poor"].address) == 0
    assert balance(payments, TEST_PAYERS["good"].address) == 10**12


def test_rules_are_those_of_the_file(payments: SimulatedPayments, config: Account) -> None:
    slow, database = TEST_PAYERS["slow"], payments.database
    with database.write() as connection:
        own = {slow.address.lower(): slow.settlement}
        assert find_rules(connection, payments.account, slow.address.lower()) == own
        set_rule(connection, payments.account, DEFAULT, SettlementRule(manual=True))
        assert find_rules(connection, payments.account, slow.address.lower()) == {
            **own,
            DEFAULT: SettlementRule(manual=True),
        }
        account, _ = ensure_account(connection, config.seller, "test", 0)
        set_up_ledger(connection, account, config)
        assert find_rules(connection, payments.account, slow.address.lower()) == own


def test_a_database_that_is_down_decides_nothing(clock: MovedClock) -> None:
    database = Database("postgresql://nobody@127.0.0.1:1/nothing", timeout=0.2)
    payments, payment = SimulatedPayments(database, 1), sign(clock)
    with pytest.raises(PaymentsUnavailable):
        payments.verify(payment, TERMS, now=START, committed=0)
    assert payments.send(payment, TERMS, ATTEMPT) == SettlementPending("reconciling")
    assert payments.look(payment, TERMS, ATTEMPT) == SettlementPending("reconciling")
    database.close()


def test_a_real_payment_is_not_ended_by_the_simulation(
    payments: SimulatedPayments, clock: MovedClock
) -> None:
    payment = sign(clock)
    found = payments.send(payment, TERMS, replace(ATTEMPT, from_block=100))
    assert found == SettlementPending("reconciling")
    assert balance(payments, payment.payer) == 15_000

"""A payer has one balance on a chain: what is open with all sellers of a database is counted together."""

from typing import Any

import pytest

from faregate.rules.builtin_account import builtin_account
from faregate.rules.dependencies import Dependencies
from faregate.rules.payments import PaymentVerified
from faregate.rules.records import Transaction
from faregate.rules.settlement import settle
from faregate.service.chain.chain_reader import ChainReader
from faregate.service.chain.direct import DirectPayments, GasAccount, GasPolicy
from faregate.service.chain.direct.fees import GWEI
from faregate.service.chain.direct.signers import KeySigner
from faregate.service.database.accounts import list_accounts
from faregate.service.database.apply import apply_account
from faregate.service.database.attempts import AttemptSchedule
from faregate.service.database.clock import Stamps
from faregate.service.database.engine import Database
from faregate.service.database.sql_store import SqlStore
from faregate.service.database.store_options import Shared, StoreOptions
from faregate.system import random_challenge, random_id, system_clock
from tests.service.chain.facilitated import sign_payment
from tests.service.chain.gas_books import Clock, wait_for_blocks
from tests.service.sales import PAYER, resolve, sign, succeeded
from tests.service.sales import settle as sell
from tests.service.test_concurrency import run_at_once
from tests.support.chain import USDC, ChainPayer, LocalChain

SELLERS = 6
pytestmark = pytest.mark.every_value


def open_stores(
    database: Database, clock: Any = system_clock, *, is_simulated: bool = False
) -> list[SqlStore]:
    """The stores of several sellers, who are paid at one address."""
    stamps = Stamps(database, clock)
    account = builtin_account()
    for number in range(SELLERS):
        seller = account.seller.model_copy(update={"id": f"seller-{number}"})
        apply_account(database, stamps, account.model_copy(update={"seller": seller}), environments=("test",))
    options = StoreOptions(is_simulated=is_simulated, attempt_schedule=AttemptSchedule(60.0, first_retry=0.0))
    shared = Shared(database, stamps, random_id, random_challenge, options)
    with database.read() as connection:
        return [SqlStore(shared, account) for account in list_accounts(connection)]


def test_sellers_at_once_share_the_payers_funds(database: Database) -> None:
    """Each found them free when it looked."""
    stores = open_stores(database)
    made: list[object] = []

    def pay(store: SqlStore) -> None:
        context = resolve(store)
        seen = store.find_uses(context.terms.token, payment := sign(context))
        made.append(store.authorize(context, payment, PaymentVerified(PAYER, 1, payment.value), seen))

    run_at_once(*(lambda store=store: pay(store) for store in stores))
    assert (len(made), sum(one is not None for one in made)) == (SELLERS, 1)


def test_what_is_open_with_another_seller_is_reserved(database: Database) -> None:
    first, second, *_ = open_stores(database)
    context = resolve(first)
    payment = sign(context)
    assert first.authorize(context, payment, PaymentVerified(PAYER, 1, payment.value)) is not None
    found = second.find_uses(context.terms.token, sign(resolve(second)))
    assert [(one.nonce, one.value) for one in found.reservations] == [(payment.nonce, payment.value)]
    assert (found.by_proof, found.by_authorization) == (None, None)
    stranger = second.find_uses(context.terms.token, sign(resolve(second), "0x" + "57" * 20))
    assert stranger.reserved == 0


def test_a_balance_read_before_a_payment_to_another_seller(database: Database) -> None:
    first, second, *_ = open_stores(database)
    context = resolve(second)
    payment = sign(context)
    before = second.find_uses(context.terms.token, payment)
    sell(first)
    verified = PaymentVerified(PAYER, 1, payment.value)
    assert second.authorize(context, payment, verified, before) is None
    after = second.find_uses(context.terms.token, payment)
    assert second.authorize(context, payment, verified, after) is not None


def test_simulated_ledgers_are_each_sellers_own(database: Database) -> None:
    made: list[Transaction | None] = []
    for store in open_stores(database, is_simulated=True)[:2]:
        context = resolve(store)
        for _ in range(2):
            payment = sign(context)
            seen = store.find_uses(context.terms.token, payment)
            made.append(store.authorize(context, payment, PaymentVerified(PAYER, None, payment.value), seen))
    assert [one is not None for one in made] == [True, False, True, False]


def test_money_for_one_sale_costs_the_gas_of_one_transfer(database: Database, chain: LocalChain) -> None:
    clock, gas, payer = Clock(), ChainPayer(), ChainPayer()
    chain.fund(gas.address)
    stores = open_stores(database, clock)
    chain.mint(USDC, payer.address, resolve(stores[0]).terms.amount)
    reader = ChainReader(USDC.chain, [chain.url], clock=clock)
    account = GasAccount(reader, KeySigner(gas.private_key), clock, GasPolicy(max_fee=100 * GWEI))
    payments = DirectPayments(account, reader)
    allowed: list[tuple[SqlStore, Transaction]] = []

    def ask(store: SqlStore) -> None:
        context = resolve(store)
        payment = sign_payment(payer, context.terms)
        seen = store.find_uses(context.terms.token, payment)
        verdict = payments.verify(
            payment, context.terms, now=clock(), committed=seen.reserved, reservations=seen.reservations
        )
        if isinstance(verdict, PaymentVerified):
            made = store.authorize(context, payment, verdict, seen)
            if made is not None:
                allowed.append((store, made))

    run_at_once(*(lambda store=store: ask(store) for store in stores))
    for store, made in allowed:
        submitted = store.record_outcome(made, succeeded(made))
        assert submitted is not None
        settle(submitted, Dependencies(store, payments))
        wait_for_blocks(chain)
    reader.close()
    sent = int(chain.call("eth_getTransactionCount", gas.address, "latest"), 16)
    assert (len(allowed), sent) == (1, 1)

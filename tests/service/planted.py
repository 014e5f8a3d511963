"""A day of sales on a real EVM, whose books and chain a test makes differ."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import delete, update

from faregate.rules.payments import PaymentVerified
from faregate.rules.records import Transaction
from faregate.service.chain.chain_reader import ChainReader
from faregate.service.database.engine import Database
from faregate.service.database.schema import attempts, transactions
from faregate.service.database.sql_store import SqlStore
from faregate.service.environment_payments import EnvironmentPayments
from faregate.service.payment_chain import PaymentChain
from faregate.service.reconciliation import Difference, Reconciler, Reconciliation
from faregate.system import system_clock
from faregate.x402.models import SignedPayment
from tests.service.sales import failed, resolve, succeeded
from tests.support.chain import USDC, ChainPayer, LocalChain


@dataclass
class Day:
    """The sales of one store on one chain. `planted` is every difference: its kind, and whose it is."""

    database: Database
    store: SqlStore
    chain: LocalChain
    payer: ChainPayer
    planted: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    others: list[SqlStore] = field(default_factory=list[SqlStore])
    """Stores of other sellers, who are compared with it."""

    def sign(self) -> SignedPayment:
        """An authorization for what the store sells."""
        terms = resolve(self.store).terms
        signed = self.payer.authorize(USDC, terms.pay_to, terms.amount)
        return replace(signed, header=secrets.token_hex(40))

    def authorize(self) -> Transaction:
        context = resolve(self.store)
        made = self.store.authorize(
            context, self.sign(), PaymentVerified(self.payer.address, self.chain.head)
        )
        assert made is not None
        return made

    def submit(self) -> Transaction:
        made = self.authorize()
        submitted = self.store.record_outcome(made, succeeded(made))
        assert submitted is not None
        return submitted

    def record(self, made: Transaction, transaction_hash: str) -> Transaction:
        assert self.store.begin_attempt(made) is not None
        return self.store.record_settled(made, transaction_hash, None)

    def sell(self) -> Transaction:
        """A payment that is the same in the books and on the chain."""
        made = self.submit()
        return self.record(made, self.chain.settle(USDC, made.payment))

    def change(self, made: Transaction, **values: Any) -> None:
        with self.database.write() as connection:
            connection.execute(update(transactions).where(transactions.c.id == made.id).values(values))

    def forget(self, made: Transaction) -> None:
        """Lose the rows, as the restoring of an older copy does."""
        with self.database.write() as connection:
            connection.execute(delete(attempts).where(attempts.c.transaction == made.id))
            connection.execute(delete(transactions).where(transactions.c.id == made.id))

    # What differs

    def plant_missing(self) -> None:
        sold = self.sell()
        assert sold.settled is not None
        self.forget(sold)
        self.planted.add(("missing", sold.settled.transaction_hash))

    def plant_foreign(self) -> None:
        pay_to = resolve(self.store).terms.pay_to
        self.planted.add(("foreign", self.chain.move(USDC, self.payer.address, pay_to, 3)))

    def plant_unpaid(self) -> None:
        made = self.submit()
        self.planted.add(("unpaid", self.record(made, f"0x{secrets.token_hex(32)}").id))

    def plant_unpaid_by_another(self) -> None:
        """A payment that names the transfer of another one, of the same payer and amount."""
        other = self.sell()
        assert other.settled is not None
        made = self.record(self.submit(), other.settled.transaction_hash)
        self.planted.add(("unpaid", made.id))

    def plant_charged_failed(self) -> None:
        made = self.authorize()
        self.store.record_outcome(made, failed(made))
        self.chain.settle(USDC, made.payment)
        self.planted.add(("charged", made.id))

    def plant_charged_authorized(self) -> None:
        made = self.authorize()
        self.chain.settle(USDC, made.payment)
        self.planted.add(("charged", made.id))

    def plant_amount(self) -> None:
        made = self.sell()
        self.change(made, amount=made.context.terms.amount + 1)
        self.planted.add(("amount", made.id))

    def plant_authorized_amount(self) -> None:
        made = self.sell()
        self.change(made, authorized_value=1)
        self.planted.add(("amount", made.id))

    def plant_hash(self) -> None:
        made = self.sell()
        self.change(made, transaction_hash=f"0x{secrets.token_hex(32)}")
        self.planted.add(("hash", made.id))

    # What does not

    def sell_unsent(self) -> None:
        self.authorize()

    def sell_failed(self) -> None:
        made = self.authorize()
        self.store.record_outcome(made, failed(made))

    def sell_open(self) -> None:
        """Submitted and settled; a worker will write it down."""
        self.chain.settle(USDC, self.submit().payment)

    @property
    def plants(self) -> list[Callable[[], None]]:
        return [getattr(self, name) for name in dir(type(self)) if name.startswith("plant_")]

    def reconcile(self, reader: ChainReader, since: Any = None) -> tuple[list[Difference], Reconciliation]:
        return run(Reconciler(self.database, self.open_chain(reader)), since)

    def open_chain(self, reader: ChainReader) -> PaymentChain:
        payments: Any = reader  # it has `look`, which is all that a comparison needs
        return PaymentChain(EnvironmentPayments("test", payments, reader), [self.store, *self.others])


def run(reconciler: Reconciler, since: Any = None) -> tuple[list[Difference], Reconciliation]:
    found: list[Difference] = []
    comparison = reconciler.compare(since)
    while True:
        try:
            found.append(next(comparison))
        except StopIteration as end:
            return found, end.value


def open_reader(chain: LocalChain, *urls: str) -> ChainReader:
    return ChainReader(84532, urls or (chain.url,), clock=system_clock)

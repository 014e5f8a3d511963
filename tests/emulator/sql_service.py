"""The self-hosted service's rules on a database, with the hands that tests of the emulator have.

The catalog changes by applying account files, as an operator changes it.
"""

import itertools
import secrets
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from sqlalchemy import Connection, select, update

from faregate.core.models import Response, WireRequest
from faregate.emulator import Account, Revision, SettlementRule, SimulatedLedger
from faregate.errors import ConfigurationError
from faregate.rules import settlement as settling
from faregate.rules.account import Resource
from faregate.rules.app import KeyGrant, respond
from faregate.rules.builtin_account import builtin_account
from faregate.rules.catalog import Listing
from faregate.rules.clock import Clock
from faregate.rules.dependencies import Dependencies
from faregate.rules.http import INVALID_KEY, build_401
from faregate.rules.ids import build_id
from faregate.rules.payments import Ledger, LedgerPayments
from faregate.rules.records import FINAL, PENDING, Transaction
from faregate.service.database import simulated_ledger
from faregate.service.database.accounts import AccountRow
from faregate.service.database.apply import apply_account
from faregate.service.database.clock import Stamps
from faregate.service.database.keys import find_key_owner
from faregate.service.database.schema import accounts, resource_versions, resources, transactions
from faregate.service.database.sql_store import SqlStore
from faregate.service.database.store_options import Shared, StoreOptions
from faregate.service.database.transactions import StoredTransaction
from faregate.service.simulated_payments import SimulatedPayments
from faregate.system import random_challenge
from faregate.x402.tokens import TOKENS, Environment, SettlementAsset

from .sql_accounts import AccountSource, read_account, with_seller_id


class IncreasingIds:
    """Random ids that increase: a list orders what was made in one moment by id, and tests stop the clock."""

    def __init__(self) -> None:
        self._count = itertools.count()

    def __call__(self, prefix: str, moment: datetime, /) -> str:
        return build_id(prefix, moment, next(self._count) << 50 | secrets.randbits(50))


class SqlService:
    """`MerchantService` on SQL. Live keys are valid if `allow_live`, although nobody pays."""

    def __init__(
        self,
        source: AccountSource,
        account: Account | None = None,
        *,
        clock: Clock,
        ledger: Ledger | None = None,
        expose_execution_id: bool = False,
        allow_live: bool = False,
    ) -> None:
        self.account = account or builtin_account()
        self._catalog = self.account
        """The account as the seller has changed it since."""
        self._source, self._ledger, self._allow_live = source, ledger, allow_live
        self._database, self._clock = source.database, clock
        self._stamps = Stamps(self._database, clock)
        self._accounts = source.create(self.account, self._stamps)
        self._stores = Shared(
            self._database,
            self._stamps,
            IncreasingIds(),
            random_challenge,
            StoreOptions(is_simulated=True, expose_execution_id=expose_execution_id),
        )

    def serve(self) -> None:
        """Make this service's keys the valid ones."""
        self._source.serve(self._accounts, self.account.keys, self._clock())

    def respond(self, request: WireRequest) -> Response:
        response = respond(request, self)
        # Refusals write nothing.
        if not 400 <= response.status < 500:
            self._mark_used()
        return response

    def authenticate(self, secret: str) -> KeyGrant:
        owner = find_key_owner(self._database, secret)
        if owner is None:
            raise build_401(INVALID_KEY)
        if owner.account.environment == "live" and not self._allow_live:
            raise build_401("live keys are not allowed here")
        return KeyGrant(owner.capabilities, self._get_backend(owner.account))

    # The seller's catalog

    def revision_id(self, key: str, environment: Environment = "test") -> str:
        return self._find_listing(key, environment).active.id

    def resource_id(self, key: str, environment: Environment = "test") -> str:
        return self._find_listing(key, environment).id

    def require_payment(self, key: str, required: bool = True) -> None:
        self._change(key, lambda resource: resource.model_copy(update={"require_payment": required}))

    def edit_resource(
        self,
        key: str,
        *,
        name: str | None = None,
        description: str | None = None,
        image_url: str | None = None,
    ) -> None:
        fields = {"name": name, "description": description, "image_url": image_url}
        update = {field: value for field, value in fields.items() if value is not None}
        self._change(key, lambda resource: resource.with_appearance(**update))

    def archive(self, key: str) -> None:
        self._change(key, lambda resource: resource.model_copy(update={"archived": True}))

    def publish(self, key: str, revision: Revision) -> None:
        def add(resource: Resource) -> Resource:
            return resource.model_copy(update={"revisions": (*resource.revisions, revision)})

        self._change(key, add)

    def _change(self, key: str, change: Callable[[Resource], Resource]) -> None:
        if key not in {one.key for one in self._catalog.resources}:
            raise ConfigurationError(f"there is no resource {key!r}")
        self._mark_used()
        changed = tuple(change(one) if one.key == key else one for one in self._catalog.resources)
        self._catalog = self._catalog.model_copy(update={"resources": changed})
        with self._database.read() as connection:
            name = read_account(connection, self._accounts["test"]).seller_id
        apply_account(self._database, self._stamps, with_seller_id(self._catalog, name))

    def _find_listing(self, key: str, environment: Environment) -> Listing:
        with self._database.read() as connection:
            account = read_account(connection, self._accounts[environment])
            return (
                self._stores.open_memory(account.generation)
                .catalogs.get(connection, account)
                .catalog.listings[key]
            )

    # Simulated payments

    def balance(
        self, address: str, asset: SettlementAsset = "USDC", environment: Environment = "test"
    ) -> int:
        token = TOKENS[environment, asset]
        if isinstance(self._ledger, SimulatedLedger):
            return self._ledger.balance(token, address)
        with self._database.read() as connection:
            [found] = simulated_ledger.get_balances(connection, self._accounts[environment], token, address)
        return found

    def set_balance(
        self, address: str, balance: int, asset: SettlementAsset = "USDC", environment: Environment = "test"
    ) -> None:
        self._mark_used()
        token = TOKENS[environment, asset]
        with self._database.write() as connection:
            simulated_ledger.set_balance(connection, self._accounts[environment], token, address, balance)

    def settle_after(self, target: str, settlement_rule: SettlementRule | None) -> None:
        self._mark_used()
        if target.startswith("txn_"):
            self._set_transaction_rule(target, settlement_rule)
            return
        with self._database.write() as connection:
            for account in self._accounts.values():
                if target == "*":
                    simulated_ledger.set_rule(connection, account, simulated_ledger.DEFAULT, settlement_rule)
                elif target.startswith("0x"):
                    simulated_ledger.set_rule(connection, account, target.lower(), settlement_rule)
                else:
                    _set_resource_rule(connection, account, target, settlement_rule)

    def settle(self, transaction_id: str) -> None:
        backend, known = self._find_open(transaction_id)
        rule = known.plan if isinstance(known, StoredTransaction) else None
        deps = replace(backend, accepts_less=True)
        settling.settle(known, deps, rule or settling.IMMEDIATE, backend.store.now())

    def fail(self, transaction_id: str) -> None:
        backend, known = self._find_open(transaction_id)
        backend.store.record_failed(known, None)

    def _set_transaction_rule(self, transaction_id: str, rule: SettlementRule | None) -> None:
        backend, known = self._find_open(transaction_id)
        plan = None if rule is None else rule.model_dump_json()
        with self._database.write() as connection:
            changed = update(transactions).where(transactions.c.id == transaction_id)
            connection.execute(changed.values(plan=plan, next_attempt_at=None))
        if known.status in PENDING:
            known = backend.store.find_transaction(transaction_id) or known
            current = backend.store.find_settlement_rule(known) or settling.IMMEDIATE
            settling.schedule(known, backend, current, backend.store.now())

    def _find_open(self, transaction_id: str) -> tuple[Dependencies, Transaction]:
        """Find a transaction that has not ended, after what is due has been settled."""
        for account in self._accounts.values():
            with self._database.read() as connection:
                backend = self._get_backend(read_account(connection, account))
            settling.settle_due(backend.store.now(), backend)
            known = backend.store.find_transaction(transaction_id)
            if known is not None and known.status in FINAL:
                raise ConfigurationError(f"{transaction_id} has already {known.status}")
            if known is not None:
                return backend, known
        raise ConfigurationError(f"there is no transaction {transaction_id!r}")

    def _mark_used(self) -> None:
        self._source.mark_used(self._accounts)

    def _get_backend(self, account: AccountRow) -> Dependencies:
        own = SimulatedPayments(self._database, account.id)
        return Dependencies(
            SqlStore(self._stores, account), LedgerPayments(self._ledger) if self._ledger else own
        )


def _set_resource_rule(connection: Connection, account: int, key: str, rule: SettlementRule | None) -> None:
    """Set how payments for a resource settle from now on, without a new version of the resource."""
    of_key = select(resources.c.id).where(resources.c.account == account, resources.c.key == key)
    versions = update(resource_versions).where(
        resource_versions.c.account == account, resource_versions.c.resource.in_(of_key)
    )
    connection.execute(versions.values(settlement=None if rule is None else rule.model_dump_json()))
    changed = update(accounts).where(accounts.c.id == account)
    connection.execute(changed.values(catalog_changes=accounts.c.catalog_changes + 1))

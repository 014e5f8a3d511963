"""The store and the payments of each account, and the payments that are due in any of them."""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import replace

from faregate.rules.account import CAPABILITIES
from faregate.rules.app import KeyGrant
from faregate.rules.dependencies import AmountIssue, Dependencies, count_nothing
from faregate.rules.http import INVALID_KEY, build_401
from faregate.service.callers import describe_account
from faregate.service.database.accounts import AccountRow
from faregate.service.database.attempts import list_due_accounts
from faregate.service.database.keys import find_key_owner
from faregate.service.database.owners import Owner
from faregate.service.database.sql_store import SqlStore
from faregate.service.database.store_options import Shared, StoreOptions
from faregate.service.environment_payments import EnvironmentPayments
from faregate.service.settings import Settings
from faregate.service.settlement_workers import Job, Settlements
from faregate.service.simulated_payments import SimulatedPayments
from faregate.service.storage import Storage
from faregate.system import random_challenge, random_id, system_clock
from faregate.x402.tokens import Environment

Identify = Callable[[AccountRow, str], None]


def _ignore_owner(account: AccountRow, key_id: str) -> None:
    """Ignore whose a key is."""


class ServedAccounts:
    """The accounts of the service: `KeyAccounts` for requests, `Jobs` for the workers."""

    def __init__(
        self,
        settings: Settings,
        storage: Storage,
        payments: Mapping[Environment, EnvironmentPayments],
        settlements: Settlements,
        *,
        count_issue: Callable[[AmountIssue], None] = count_nothing,
        is_synced_by_journal: bool = False,
    ) -> None:
        self._settings, self._storage, self._payments = settings, storage, payments
        self._settlements, self._count_issue = settlements, count_issue
        options = StoreOptions(
            is_simulated=settings.payments == "simulated",
            expose_execution_id=settings.expose_execution_id,
            is_synced_by_journal=is_synced_by_journal,
        )
        self.owner = Owner(storage.database, system_clock)
        self._shared = Shared(
            storage.database, storage.stamps, random_id, random_challenge, options, lambda: self.owner.id
        )
        self._turn = itertools.count()

    def authenticate(self, secret: str, identify: Identify = _ignore_owner) -> KeyGrant:
        """Return what this API key gives access to; `HttpError` 401 if it is not valid here.

        Calls `identify` with the account and the id of the key.
        """
        owner = find_key_owner(self._storage.database, secret)
        if owner is None:
            raise build_401(INVALID_KEY)
        identify(owner.account, owner.key_id)
        store = self.open_store(owner.account)
        if store is None:
            raise build_401(f"{owner.account.environment} keys are not allowed here")
        return KeyGrant(owner.capabilities, self.build_dependencies(store))

    def open_own(self, account: AccountRow) -> KeyGrant:
        """Return what an application in this process may do: everything, for its account.

        It sells at the prices in its code, also while a newer version that runs beside it has other prices.
        """
        store = self.open_store(account)
        if store is None:
            raise build_401(f"{account.environment} payments are not served here")
        return KeyGrant(CAPABILITIES, replace(self.build_dependencies(store), sells_earlier=True))

    def open_store(self, account: AccountRow) -> SqlStore | None:
        """Open the store of this account; None if its environment is not served."""
        if account.environment not in self._settings.environments:
            return None
        return SqlStore(self._shared, account)

    def open_stores(self) -> list[SqlStore]:
        """Open the stores of all accounts in the environments that are served."""
        stores = map(self.open_store, self._storage.list_accounts())
        return [store for store in stores if store is not None]

    def build_dependencies(self, store: SqlStore) -> Dependencies:
        """Build what the rules work on for this account."""
        if self._settings.payments == "simulated":
            simulated = SimulatedPayments(self._storage.database, store.account.id)
            dependencies = Dependencies(store, simulated, self._settlements.settle_here)
        else:
            payments, settlements = self._payments[store.environment].payments, self._settlements
            dependencies = Dependencies(
                store, payments, settlements.settle, settlements.wait, settlements.has_free_thread
            )
        return replace(dependencies, count_issue=self._count_issue)

    def take(self) -> Job | None:
        """Lease a due payment of any account; each account is asked first in its turn."""
        # One query while nothing is due, however many sellers there are.
        due = list_due_accounts(self._storage.database, self._storage.stamps.read_clock())
        stores = [store for store in self.open_stores() if store.account.id in due] if due else []
        # Workers share the counter without a lock: `next` is one operation of the interpreter.
        first = next(self._turn) % max(1, len(stores))
        for store in (*stores[first:], *stores[:first]):
            for transaction, attempt in store.take_jobs(1):
                fields = describe_account(store.account)
                return Job(transaction, attempt, self.build_dependencies(store), fields)
        return None

"""One process of the service: answers requests, settles payments, and reports its state.

It keeps nothing that another process needs: everything that lasts is in the database.
"""

import logging
import math
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Final

from faregate.errors import FaregateError
from faregate.service.asgi import AppParts
from faregate.service.callers import answer
from faregate.service.chain.direct import keep_nonces_moving
from faregate.service.chain_metrics import ChainCollector
from faregate.service.console.app import Console
from faregate.service.database.gas_transfers import SqlTransfers
from faregate.service.database.generation import check_writes
from faregate.service.environment_payments import (
    EnvironmentPayments,
    GasWatch,
    build_payments,
    list_facilitators,
    list_nodes,
)
from faregate.service.liveness import Liveness
from faregate.service.metrics import ServiceMetrics
from faregate.service.operator_pages import OperatorParts, Readiness
from faregate.service.payment_chain import PaymentChain
from faregate.service.process_metrics import ProcessCollector
from faregate.service.rate_limits import RateLimits
from faregate.service.reorg_watch import ReorgWatch
from faregate.service.served_accounts import ServedAccounts
from faregate.service.settings import Settings
from faregate.service.settlement_workers import IDLE_SECONDS, CompletionWaiters, Repeater, Settlements, Worker
from faregate.service.storage import Storage, check_recipient, find_missing, open_storage
from faregate.system import system_clock
from faregate.x402.tokens import Environment

_log = logging.getLogger("faregate.service")
_GAS_SECONDS: Final = 60.0
_UPKEEP_SECONDS: Final = 5.0
_REORG_SECONDS: Final = 10.0
"""How soon the loss of a payment is noticed: an authorization is valid for a minute or so."""
_LOCK_SECONDS: Final = 0.2
"""How long the end of the process may wait for the loop that keeps its lock."""
_WRITABLE_SECONDS: Final = 5.0
"""For how long a write proves that the database takes writes."""


class Runtime:
    """The parts of one process, made from its settings."""

    def __init__(
        self,
        settings: Settings,
        storage: Storage,
        payments: Mapping[Environment, EnvironmentPayments],
        *,
        is_synced_by_journal: bool = False,
    ) -> None:
        self._settings, self.storage, self.payments = settings, storage, payments
        self._gas = GasWatch(payments)
        self._liveness = Liveness(time.monotonic)
        self.metrics = ServiceMetrics(
            clock=system_clock,
            read_pending=storage.count_pending,
            read_gas_balances=self._gas.get_balances,
            collectors=(
                ChainCollector(storage.database, system_clock),
                ProcessCollector(
                    partial(list_nodes, payments),
                    partial(list_facilitators, payments),
                    self._liveness.measure,
                ),
            ),
        )
        self._waiters = CompletionWaiters()
        self._settlements = Settlements(
            threads=settings.threads,
            complete_seconds=settings.complete_seconds,
            waiters=self._waiters,
            observe=self.metrics.count_attempt,
        )
        self.accounts = ServedAccounts(
            settings,
            storage,
            payments,
            self._settlements,
            count_issue=self.metrics.count_issue,
            is_synced_by_journal=is_synced_by_journal,
        )
        self.stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._is_current = False
        self._writable_until = -math.inf

    def build_parts(self) -> AppParts:
        """Build what the ASGI app is made of."""
        settings = self._settings
        console = Console(
            self.storage,
            self.accounts,
            is_simulated=settings.payments == "simulated",
            list_nodes=partial(list_nodes, self.payments),
        )
        return AppParts(
            respond=partial(answer, accounts=self.accounts),
            show_console=console.respond,
            rate_limits=RateLimits(settings.rate_limit, settings.anonymous_rate_limit, time.monotonic),
            operator=self.build_operator_parts(),
            threads=settings.threads,
        )

    def build_operator_parts(self) -> OperatorParts:
        """Build what the pages for operators need."""
        return OperatorParts(
            metrics=self.metrics,
            find_late=self._liveness.find_late,
            check_readiness=self.check_readiness,
            begin=self.begin,
            end=self.end,
        )

    def begin(self, *, daemon: bool = False) -> None:
        """Start the workers. With `daemon`, the caller ends them before the process ends."""
        self.accounts.owner.take_lock()
        for number, loop in enumerate(self._build_loops()):
            # Without `daemon`, the process ends only after the attempts that have begun.
            thread = threading.Thread(target=loop.run, name=f"faregate-worker-{number}", daemon=daemon)
            thread.start()
            self._threads.append(thread)

    def end(self) -> None:
        """Stop the workers; each finishes its attempt first."""
        self.stop.set()
        for thread in self._threads:
            thread.join()
        self._settlements.close()
        self.accounts.owner.release_lock()

    def abandon(self) -> None:
        """Leave what is open to the parent process, in a forked child."""
        self.accounts.owner.abandon_lock()

    def check_readiness(self) -> Readiness:
        """Check that the database answers, has the tables of this version, and takes writes."""
        try:
            # Not asked again once the tables are of this version: they are never set back.
            if not self._is_current:
                missing = find_missing(self.storage.database)
                if missing:
                    return Readiness(False, f"the database lacks migrations {', '.join(missing)}")
                self._is_current = True
            self.storage.list_accounts()
            self._check_writes()
        except FaregateError as error:
            return Readiness(False, str(error))
        return Readiness(True)

    def _check_writes(self) -> None:
        # A full disk can still be read, and each sale writes.
        if time.monotonic() >= self._writable_until:
            check_writes(self.storage.database)
            self._writable_until = time.monotonic() + _WRITABLE_SECONDS

    def check_recipients(self) -> None:
        """Refuse to take real money for a seller without an address; raises `ConfigurationError`."""
        for account in self.storage.list_accounts():
            if account.environment in self._settings.environments:
                check_recipient(self._settings, account.name, account.pay_to)

    def warn_of_unserved(self) -> None:
        """Name the open payments that this process never settles: nothing else would tell why they wait."""
        for unserved in self.storage.find_unserved(self._settings):
            _log.warning("%s. %s", unserved.text, unserved.remedy)

    def _build_loops(self) -> list[Worker | Repeater]:
        loops: list[Worker | Repeater] = [
            Worker(
                self.accounts,
                self.stop,
                waiters=self._waiters,
                observe=self.metrics.count_attempt,
                observe_round=self._liveness.watch(f"worker {number}"),
            )
            for number in range(1, self._settings.workers + 1)
        ]
        owner = self.accounts.owner
        keep = partial(owner.keep_lock, _LOCK_SECONDS)
        loops.append(self._repeat("keeping the lock that shows that this process lives", keep, 0))
        if self._settings.workers:
            loops.append(self._repeat("looking for dead processes", owner.end_leases_of_dead, IDLE_SECONDS))
        if any(
            environment_payments.gas_account is not None for environment_payments in self.payments.values()
        ):
            loops.append(self._repeat("reading the gas balance", self._gas.read, _GAS_SECONDS))
            # Without workers, this process sends nothing: others do, and keep the nonces moving.
            if self._settings.workers:
                loops.append(self._repeat("sending what waits", self._keep_up, _UPKEEP_SECONDS))
        if self._settings.workers:
            loops += [
                self._repeat(
                    f"reading {name} payments again",
                    partial(self._watch, environment_payments),
                    _REORG_SECONDS,
                )
                for name, environment_payments in self.payments.items()
            ]
        return loops

    def _repeat(self, name: str, work: Callable[[], object], seconds: float) -> Repeater:
        return Repeater(name, work, self.stop, seconds, observe_round=self._liveness.watch(name))

    def _watch(self, payments: EnvironmentPayments) -> None:
        """Read payments again until their block is safe; send again what the chain has lost."""
        chain = PaymentChain(payments, self.accounts.open_stores())
        watch = ReorgWatch(
            self.storage.database,
            self.storage.stamps,
            chain,
            lambda account: self.accounts.build_dependencies(chain.stores[account]),
            self._settings.workers,
        )
        watch.check()
        watch.send_again()

    def _keep_up(self) -> None:
        """Get the transfers that gas accounts have signed into blocks, also for payments that have ended."""
        transfers = SqlTransfers(self.storage.database)
        for environment_payments in self.payments.values():
            if environment_payments.gas_account is not None:
                keep_nonces_moving(environment_payments.gas_account, transfers)


@contextmanager
def open_runtime(
    settings: Settings, *, pool_size: int = 2, is_synced_by_journal: bool = False
) -> Generator[Runtime]:
    """Make a runtime, and open what it needs while the block runs; its workers are not started.

    `is_synced_by_journal` is described in `StoreOptions`. Raises `ConfigurationError` if the settings
    cannot work, or the tables are not current.
    """
    payments = build_payments(settings)
    try:
        with open_storage(settings, pool_size=pool_size) as storage:
            yield Runtime(settings, storage, payments, is_synced_by_journal=is_synced_by_journal)
    finally:
        for environment_payments in payments.values():
            environment_payments.close()

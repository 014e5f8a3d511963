"""The service inside an application's process: a transport of the merchant client without HTTP.

`FAREGATE_BASE_URL=service:` loads it. No port is opened, and no API key exists: who has the process has the
account. Everything that lasts is in one database, so that another worker, or `faregate service work` on the
same database, goes on when this process ends.
"""

import asyncio
import atexit
import json
import logging
import os
import threading
import weakref
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Final

import anyio
import anyio.to_thread
from anyio.lowlevel import RunVar

from faregate.core.models import Headers, Response, WireRequest
from faregate.errors import ConfigurationError, FaregateError, JournalUnreadable, NoAnswer
from faregate.journals.sqlite import SqliteJournal
from faregate.journals.sqlite.database import SqliteDatabase
from faregate.journals.urls import SERVERS
from faregate.merchant.requests import PRICES, concerns_transaction
from faregate.rules.account import Seller
from faregate.rules.app import KeyGrant, respond
from faregate.rules.builtin_account import builtin_account
from faregate.rules.catalog import describe_published
from faregate.rules.http import json_value_response
from faregate.rules.store import StoreUnavailable
from faregate.service.chain.deadline import limit_time
from faregate.service.commands.doctor import Level, check_payments
from faregate.service.commands.setup import apply_catalog, refuse_at_start
from faregate.service.database.accounts import (
    AccountRow,
    ensure_account,
    find_account,
    list_accounts,
    read_account,
    update_account,
)
from faregate.service.database.clock import LOCK_ALL
from faregate.service.database.engine import Database, DatabaseError
from faregate.service.database.publish import publish_prices
from faregate.service.database.simulated_ledger import set_up_ledger
from faregate.service.database.upgrade import upgrade
from faregate.service.runtime import Runtime, open_runtime
from faregate.service.settings import (
    Settings,
    find_in_process_database,
    read_in_process_settings,
    read_reader_settings,
    spell_variables,
)
from faregate.service.storage import EXAMPLE_PAY_TO, Storage, check_recipient
from faregate.x402.declared_prices import read_declared_price
from faregate.x402.tokens import Environment

SELLER_ID: Final = "in-process"
"""The id of the seller whom the settings name. A catalog may name another one."""
_THREADS: Final = 40
"""How many calls from event loops run at the same time.

Calls that concern a transaction have as many threads of their own.
"""
_log = logging.getLogger("faregate.service")
find_database = find_in_process_database
_keeps_address = ContextVar("keeps_address", default=False)


class _OwnAccounts:
    """The `Accounts` of calls from this process: whatever key they carry, they are the seller's own."""

    def __init__(self, runtime: Runtime, account: AccountRow) -> None:
        self._runtime, self.account = runtime, account
        self._granted: tuple[AccountRow, KeyGrant] | None = None

    def authenticate(self, secret: str) -> KeyGrant:
        """Read the account as it is now: another process may have published a price."""
        database = self._runtime.storage.database
        current = read_account(database, self.account.org, self.account.environment) or self.account
        granted = self._granted
        if granted is None or granted[0] != current:
            self._granted = granted = current, self._runtime.accounts.open_own(current)
        return granted[1]

    def get_last_grant(self) -> KeyGrant:
        """Return what `authenticate` returned last: enough to complete a payment, whatever its price."""
        granted = self._granted
        return self.authenticate("") if granted is None else granted[1]


class _AccountsWithoutRead:
    """The `Accounts` of calls about one transaction: like `_OwnAccounts`, without a read of the account."""

    def __init__(self, own: _OwnAccounts) -> None:
        self._own = own

    def authenticate(self, secret: str) -> KeyGrant:
        return self._own.get_last_grant()


@dataclass(frozen=True, slots=True)
class _Running:
    """The service as this process has opened it."""

    runtime: Runtime
    own: _OwnAccounts
    own_without_read: _AccountsWithoutRead
    close: Callable[[], None]


class InProcessService:
    """The service in this process, for one environment. Thread-safe; nothing is opened before the first call.

    After a fork, each process opens its own. With `is_reader` it makes no tables, no account and no workers:
    for a command beside the application. `has_journal`: its database is that of the callers' journal, too.
    """

    is_replaced: ClassVar = False
    """The emulator's transport has this, too: a test can replace an emulator, but not a service."""

    def __init__(
        self,
        settings: Settings,
        environment: Environment,
        *,
        is_reader: bool = False,
        has_journal: bool = False,
    ) -> None:
        self._settings = settings
        self._is_reader, self._has_journal = is_reader, has_journal
        self._environment: Final[Environment] = environment
        self._pools = _make_pools()
        self._limiters = tuple(RunVar[anyio.CapacityLimiter](f"faregate.service.{n}") for n in range(2))
        self._lock = threading.RLock()
        self._running: _Running | None = None
        self._has_workers = False
        self._is_address_set = False
        self._pid = 0
        self._journal: SqliteDatabase | None = None
        _services.add(self)

    def share_journal(self, journal: object) -> None:
        """Let the writer of this journal also write for the service, if the two have one SQLite file.

        This needs `has_journal`, and takes effect at the next opening. Only the first journal counts.
        """
        if self._has_journal and isinstance(journal, SqliteJournal):
            file = journal.share_file()
            self._journal = self._journal or file

    # The transport

    def send(self, method: str, url: str, headers: Headers, body: bytes | None, seconds: float) -> Response:
        """Answer one call in this thread. Raises `NoAnswer` while the database is away."""
        path = "/" + url.split("/", 3)[3]
        try:
            with limit_time(seconds):
                if path == PRICES:
                    return json_value_response(self._publish(json.loads(body or b"{}")))
                running = self._open()
                self._start_workers(running)
                accounts = running.own_without_read if concerns_transaction(url) else running.own
                return respond(WireRequest(method, path, headers, body), accounts)
        except (DatabaseError, StoreUnavailable) as error:
            raise NoAnswer(f"the service's database is away: {error}") from error

    async def asend(
        self, method: str, url: str, headers: Headers, body: bytes | None, seconds: float
    ) -> Response:
        """Answer one call in another thread: it may wait for the database and for a node."""
        # Access waits for facilitators and nodes. However slow they are, what was sold must be completed.
        kind = int(concerns_transaction(url))
        send = partial(self.send, method, url, headers, body, seconds)
        call = partial(copy_context().run, send)
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # trio
            return await anyio.to_thread.run_sync(call, limiter=self._get_limiter(kind))
        return await loop.run_in_executor(self._pools[kind], call)

    def close(self) -> None:
        """Stop the workers, and close the database. A later call opens it again."""
        with self._lock:
            running, self._running = self._running, None
            had_workers, self._has_workers = self._has_workers, False
            self._is_address_set = False
            is_own = self._pid == os.getpid()
        if running is None or not is_own:
            return
        if had_workers:
            running.runtime.end()
        running.close()

    async def aclose(self) -> None:
        """Do what `close` does, without blocking the event loop."""
        await anyio.to_thread.run_sync(self.close)

    def _get_limiter(self, kind: int) -> anyio.CapacityLimiter:
        try:
            return self._limiters[kind].get()
        except LookupError:
            limiter = anyio.CapacityLimiter(_THREADS)
            self._limiters[kind].set(limiter)
            return limiter

    # The service

    def start(self) -> None:
        """Open the database, set the address that is paid, and start the workers.

        Raises `ConfigurationError`.
        """
        try:
            self._start_workers(self._open_for_sale())
        except (DatabaseError, StoreUnavailable) as error:
            raise ConfigurationError(f"The service in this process cannot start: {error}") from error

    def find_faults(self) -> list[str]:
        """Ask the nodes and the facilitators; say what keeps payments from being taken. Blocking."""
        findings = check_payments(self._settings)
        faults = (
            f"{finding.subject}: {finding.text} {finding.remedy}"
            for finding in findings
            if finding.level is Level.ERROR
        )
        return [spell_variables(fault) for fault in faults]

    def _open(self) -> _Running:
        running = self._running
        if running is not None and self._pid == os.getpid():
            return running
        with self._lock:
            if self._running is None or self._pid != os.getpid():
                self._running, self._has_workers = self._open_anew(), False
                self._pid = os.getpid()
            return self._running

    def _open_for_sale(self) -> _Running:
        """Open the database, and set the address that is paid. A sweep does not set the address."""
        running = self._open()
        if self._is_address_set or self._is_reader or _keeps_address.get():
            return running
        with self._lock:
            _set_address(running, self._settings)
            self._is_address_set = True
        return running

    def _open_anew(self) -> _Running:
        if self._is_reader:
            return _open_to_read(self._settings, self._environment)
        if self._journal is not None:
            _check_version(self._journal)
        running = _open(self._settings, self._environment, self._has_journal)
        if self._journal is not None:
            running.runtime.storage.database.write_with(self._journal)
        return running

    def _start_workers(self, running: _Running) -> None:
        if self._has_workers or self._is_reader:
            return
        with self._lock:
            if not self._has_workers and self._running is running:
                running.runtime.begin(daemon=True)
                self._has_workers = True

    def _publish(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        running = self._open_for_sale()
        storage = running.runtime.storage
        prices = {key: read_declared_price(fields) for key, fields in wanted.items()}
        published = publish_prices(storage.database, storage.stamps, running.own.account, prices)
        return {key: describe_published(revision) for key, revision in published.items()}

    # Forks

    def close_idle(self) -> None:
        """Before a fork, close the connections that are not in use."""
        running = self._running
        if running is not None and self._pid == os.getpid():
            running.runtime.storage.database.close_idle()

    def forget(self) -> None:
        """For a child after a fork: leave what is open to the parent, and open anew."""
        if self._running is not None:
            self._running.runtime.abandon()
            _abandoned.append(self._running)  # closing it would end locks and sessions of the parent
        self._lock = threading.RLock()
        self._pools = _make_pools()  # the threads are the parent's
        self._running, self._has_workers, self._is_address_set = None, False, False


def _make_pools() -> tuple[ThreadPoolExecutor, ...]:
    """Make the threads of calls from event loops, and those of calls about one transaction."""
    return tuple(ThreadPoolExecutor(_THREADS, "faregate-service") for _ in range(2))


def _open(settings: Settings, environment: Environment, has_journal: bool) -> _Running:
    """Open the database, with its tables and the seller's account. Raises `ConfigurationError`."""
    with ExitStack() as stack:
        _prepare_tables(settings)
        opened = open_runtime(settings, pool_size=settings.pool_size, is_synced_by_journal=has_journal)
        runtime = stack.enter_context(opened)
        account = _ensure_account(runtime.storage, settings, environment)
        check_recipient(settings, account.name, account.pay_to)
        runtime.warn_of_unserved()
        return _make_running(runtime, account, stack)


def _open_to_read(settings: Settings, environment: Environment) -> _Running:
    """Open what an application has written. Raises `ConfigurationError`."""
    with ExitStack() as stack:
        runtime = stack.enter_context(open_runtime(settings))
        account = runtime.storage.find_account(environment, None)
        return _make_running(runtime, account, stack)


def _make_running(runtime: Runtime, account: AccountRow, stack: ExitStack) -> _Running:
    own = _OwnAccounts(runtime, account)
    return _Running(runtime, own, _AccountsWithoutRead(own), stack.pop_all().close)


def _check_version(journal: SqliteDatabase) -> None:
    """Raise `ConfigurationError` before the tables change, if this version cannot read the journal in them.

    Otherwise neither this version could start, nor the one that can finish what is open.
    """
    try:
        journal.check_version()
    except JournalUnreadable as error:
        raise ConfigurationError(f"The service in this process cannot start: {error}") from None


def _prepare_tables(settings: Settings) -> None:
    """Create the tables, or bring them to this version: one of many workers does it, the others wait."""
    upgrade(settings.database)


def _ensure_account(storage: Storage, settings: Settings, environment: Environment) -> AccountRow:
    """Return the account of this environment; make the one that the settings name.

    Raises `ConfigurationError`.
    """
    if settings.catalog is not None:
        apply_catalog(storage, settings, settings.catalog, review=refuse_at_start(settings.catalog))
    with storage.database.write() as connection:
        if not storage.database.is_sqlite:
            connection.execute(LOCK_ALL)
        accounts = [account for account in list_accounts(connection) if account.environment == environment]
        if len(accounts) > 1:
            names = ", ".join(sorted(account.seller_id or account.name for account in accounts))
            raise ConfigurationError(
                f"The database {storage.database.name} has several sellers ({names}), and an application is "
                "one of them: give it a database of its own."
            )
        if accounts and accounts[0].seller_id != SELLER_ID:
            return _check_seller(accounts[0], settings)
        seller = Seller(id=SELLER_ID, name="Seller", pay_to=settings.pay_to or EXAMPLE_PAY_TO)
        account, _ = ensure_account(connection, seller, environment, storage.stamps.now())
        storage.stamps.take_alone(connection, account.id)
        if account.pay_to == EXAMPLE_PAY_TO:  # has no owner: no application has set an address yet
            update_account(connection, account, seller)
        if settings.payments == "simulated":
            set_up_ledger(connection, account, builtin_account())
        return find_account(connection, account.org, environment) or account


def _set_address(running: _Running, settings: Settings) -> None:
    """Let payments go to the address that the settings name, unless a catalog names it."""
    storage, account = running.runtime.storage, running.own.account
    if account.seller_id != SELLER_ID:
        return
    seller = Seller(id=SELLER_ID, name=account.name, pay_to=settings.pay_to or EXAMPLE_PAY_TO)
    with storage.database.read() as connection:
        latest = find_account(connection, account.org, account.environment) or account
    if latest.pay_to == seller.pay_to:
        return
    with storage.database.write() as connection:
        if not storage.database.is_sqlite:
            connection.execute(LOCK_ALL)
        latest = find_account(connection, account.org, account.environment) or account
        storage.stamps.take_alone(connection, account.id)
        if update_account(connection, latest, seller):
            _log.warning("payments go to %s from now on, instead of %s", seller.pay_to, latest.pay_to)


def _check_seller(account: AccountRow, settings: Settings) -> AccountRow:
    """Return the account of a catalog. Raises `ConfigurationError` if the settings name another address."""
    if settings.pay_to is not None and settings.pay_to.lower() != account.pay_to.lower():
        raise ConfigurationError(
            f"FAREGATE_SERVICE_PAY_TO is {settings.pay_to}, and the catalog of the database pays "
            f"{account.pay_to}: make both say the same, or leave one out."
        )
    return account


def check_exists(url: str) -> None:
    """Raise `ConfigurationError` if no application has made this database yet."""
    with closing(Database(url, pool_size=1)) as database:
        if database.is_absent:
            raise ConfigurationError(
                f"{database.name} does not exist: start the application, which makes it."
            )


@contextmanager
def keeping_address() -> Generator[None]:
    """Publish prices in this block without a change of the address that is paid: for a check."""
    token = _keeps_address.set(True)
    try:
        yield
    finally:
        _keeps_address.reset(token)


# One service for each process and settings

_opened: dict[tuple[Settings, Environment, bool], InProcessService] = {}
_opening = threading.Lock()
_services: "weakref.WeakSet[InProcessService]" = weakref.WeakSet()
_abandoned: list[_Running] = []


def open_in_process(
    environment: Environment, environ: Mapping[str, str], lacking: Mapping[str, str], journal: str = ""
) -> InProcessService:
    """Return the service of this process; nothing is opened yet. Raises `ConfigurationError`.

    Paywalls with the same settings share it. `lacking` are settings of the paywall that are missing.
    `journal` is the URL of its journal; empty for an object of the seller's.
    """
    settings = read_in_process_settings(environment, environ, lacking)
    key = settings, environment, journal == settings.database
    with _opening:
        service = _opened.get(key)
        if service is None:
            _warn_of_own_books(settings.database, journal)
            service = _opened[key] = InProcessService(settings, environment, has_journal=key[2])
        return service


def _warn_of_own_books(database: str, journal: str) -> None:
    """Warn if machines that share the journal would each have a database of the service."""
    if database.startswith("sqlite:") and journal.partition(":")[0] in SERVERS:
        _log.warning(
            "The journal is on a server, and FAREGATE_SERVICE_DATABASE is a file of this machine. If other "
            "machines share the journal, each has books of its own, and one payment may buy at several "
            "of them at once: name one database for all."
        )


def open_reader(environment: Environment, environ: Mapping[str, str]) -> InProcessService:
    """Return a transport that reads what the application in another process has written.

    Raises `ConfigurationError`.
    """
    return InProcessService(read_reader_settings(environment, environ), environment, is_reader=True)


@atexit.register
def _close_all() -> None:
    for service in list(_services):
        try:
            service.close()
        except FaregateError as error:
            _log.warning("the service did not close: %s", error)


def _close_idle() -> None:
    for service in list(_services):
        service.close_idle()


def _forget_all() -> None:
    global _opening
    _opening = threading.Lock()
    for service in list(_services):
        service.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_close_idle, after_in_child=_forget_all)

"""The three services that hear the story, as they are served, with a clock that the story moves."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import httpx

from faregate.emulator import Emulator, ManualClock, Revision
from faregate.emulator.server import serve
from faregate.rules.builtin_account import builtin_account
from faregate.service.asgi import ServiceApp
from faregate.service.commands.serve import build_server
from faregate.service.commands.setup import apply_seller
from faregate.service.database.clock import Stamps
from faregate.service.database.engine import Database
from faregate.service.database.keys import create_key
from faregate.service.runtime import Runtime
from faregate.service.settings import Settings
from faregate.service.storage import Storage
from faregate.system import get_url, open_listener
from tests.service.databases import new_database
from tests.support.waiting import eventually

from .seller import Catalog, Seller


class AppliedCatalog:
    """The built-in account, changed by applying it again, as an operator does."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._account = builtin_account()
        apply_seller(storage, self._account)

    def publish(self, key: str, revision: Revision) -> None:
        known = next(one.revisions for one in self._account.resources if one.key == key)
        self._change(key, revisions=(*known, revision))

    def archive(self, key: str) -> None:
        self._change(key, archived=True)

    def edit_resource(self, key: str, *, name: str) -> None:
        self._change(key, name=name)

    def _change(self, key: str, **update: object) -> None:
        changed = tuple(
            one.model_copy(update=update) if one.key == key else one for one in self._account.resources
        )
        self._account = self._account.model_copy(update={"resources": changed})
        apply_seller(self._storage, self._account)


@contextmanager
def serve_emulator() -> Iterator[Seller]:
    clock = ManualClock()
    emulator = Emulator(clock=clock, expose_execution_id=True)
    with serve(emulator) as url, open_seller(url, clock, emulator) as seller:
        yield seller


@contextmanager
def serve_service(kind: str, folder: Path) -> Iterator[Seller]:
    """`faregate service serve` with simulated payments, in a thread."""
    clock = ManualClock()
    with new_database(kind, folder) as url:
        database = Database(url)
        storage = Storage(database, Stamps(database, clock))
        catalog = AppliedCatalog(storage)
        _create_keys(storage, clock)
        settings = Settings(payments="simulated", expose_execution_id=True, workers=0, rate_limit=0)
        runtime = Runtime(settings, storage, {})
        try:
            app = ServiceApp(runtime.build_parts())
            with _serve(app) as address, open_seller(address, clock, catalog) as seller:
                yield seller
        finally:
            runtime.end()
            database.close()


def _create_keys(storage: Storage, clock: ManualClock) -> None:
    with storage.database.write() as connection:
        for key in builtin_account().keys:
            account = storage.find_account(key.environment, None)
            create_key(connection, account, clock(), capabilities=key.capabilities, secret=key.key)


@contextmanager
def _serve(app: ServiceApp) -> Iterator[str]:
    with open_listener() as listener:
        server = build_server(app, complete_seconds=1)
        thread = Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            assert eventually(lambda: server.started)
            yield get_url(listener)
        finally:
            server.should_exit = True
            thread.join()


@contextmanager
def open_seller(url: str, clock: ManualClock, catalog: Catalog) -> Iterator[Seller]:
    with httpx.Client(base_url=url, trust_env=False, timeout=30) as client:
        yield Seller(client, clock, catalog)

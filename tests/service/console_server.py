"""The service in a thread of the test, over a real socket, with two sellers whose payments nobody settles."""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import httpx

from faregate.rules.account import CAPABILITIES, Account, Capability
from faregate.service.asgi import ServiceApp
from faregate.service.commands.serve import build_server
from faregate.service.commands.setup import apply_seller
from faregate.service.database.accounts import AccountRow
from faregate.service.database.keys import NewKey, create_key, revoke_key
from faregate.service.database.sql_store import SqlStore
from faregate.service.database.store_options import Shared
from faregate.service.runtime import Runtime
from faregate.service.settings import Settings
from faregate.service.storage import Storage, open_storage
from faregate.system import get_url, open_listener, random_challenge, random_id, system_clock
from tests.support.waiting import eventually

HOSTILE: Final = "<script>document.title='taken'</script>\"'&"
MINE: Final = "Bread & Books"
CATALOG: Final = """\
[seller]
id = "{id}"
name = "{seller}"
pay_to = "0x1111111111111111111111111111111111111111"

[[resources]]
key = "daily_report"
name = '''{name}'''
revisions = [{{amount = 50000}}]
"""


@dataclass
class ConsoleServer:
    """A running service. Stores write real payments into its books, as other processes would."""

    url: str
    storage: Storage

    def make_key(self, seller: str = MINE, capabilities: tuple[Capability, ...] = CAPABILITIES) -> NewKey:
        account = self.find_account(seller)
        with self.storage.database.write() as connection:
            return create_key(connection, account, system_clock(), capabilities=capabilities)

    def revoke(self, key: NewKey, seller: str = MINE) -> None:
        account = self.find_account(seller)
        with self.storage.database.write() as connection:
            assert revoke_key(connection, account.id, key.stored.id, system_clock())

    def find_account(self, seller: str = MINE) -> AccountRow:
        return self.storage.find_account("test", seller)

    def open_store(self, seller: str = MINE) -> SqlStore:
        shared = Shared(self.storage.database, self.storage.stamps, random_id, random_challenge)
        return SqlStore(shared, self.find_account(seller))

    def open_client(self) -> httpx.Client:
        return httpx.Client(base_url=self.url, trust_env=False, timeout=30)

    @contextmanager
    def logged_in(
        self, seller: str = MINE, capabilities: tuple[Capability, ...] = CAPABILITIES
    ) -> Generator[httpx.Client]:
        with self.open_client() as client:
            secret = self.make_key(seller, capabilities).secret
            assert client.post("/console/login", data={"key": secret}).status_code == 303
            yield client


@contextmanager
def serving_console(database: str) -> Generator[ConsoleServer]:
    """Serve this database, which has its tables, with simulated payments and no worker."""
    settings = Settings(database=database, workers=0, threads=4)
    with open_storage(settings, pool_size=6) as storage:
        for number, (seller, name) in enumerate(((MINE, HOSTILE), ("Somebody else", "Other"))):
            text = CATALOG.format(id=f"seller{number}", seller=seller, name=name)
            account, _ = Account.from_catalog(text, "test")
            apply_seller(storage, account)
        parts = Runtime(settings, storage, {}).build_parts()
        with open_listener() as listener:
            server = build_server(ServiceApp(parts), complete_seconds=1)
            thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
            thread.start()
            try:
                assert eventually(lambda: server.started)
                yield ConsoleServer(get_url(listener), storage)
            finally:
                server.should_exit = True
                thread.join()

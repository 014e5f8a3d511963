"""Where cases are played: sellers' adapters and services, all on real sockets, and payers."""

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpcore

from faregate.emulator import TEST_KEY
from faregate.journals.durations import JournalPolicy
from faregate.journals.memory import MemoryJournal
from faregate.journals.persistent import PersistentJournal
from faregate.journals.sqlite.database import SqliteDatabase
from faregate.journals.sqlite.store import SqliteStore
from faregate.paywall import Paywall
from tests.hostile.case import Case, Seen
from tests.hostile.sellers import NAMED, SellerApp
from tests.hostile.service import CaseServices
from tests.journals.stores import KEY
from tests.servers.http import serving, serving_wsgi
from tests.support.raw_server import serving_by_hand

PATIENCE = 5.0
"""Seconds that a seller waits for a service that says something."""


@dataclass(frozen=True)
class Stack:
    """Which adapter and journal the sellers have."""

    adapter: str
    journal: str

    def __str__(self) -> str:
        return f"{self.adapter}-{self.journal}"


STACKS = (Stack("asgi", "memory"), Stack("asgi", "sqlite"), Stack("wsgi", "sqlite"), Stack("wsgi", "memory"))


@dataclass
class Harness:
    """The servers of a session."""

    services: CaseServices
    seller: SellerApp
    urls: dict[str, str]
    file: SqliteDatabase

    def open(self, case: Case, stack: Stack) -> str:
        """Give a case its seller; gives the name under which it is known."""
        name = self.services.open(case.service)
        case.journal = self._journal(name, case, stack)
        case.paywall = self._paywall(name, case, stack, case.patience if case.fault.mute else PATIENCE)
        self.seller.customers[name] = case
        return name

    async def mend(self, name: str, case: Case, stack: Stack) -> None:
        """The service is as it should be, and its seller waits for it long enough."""
        case.service.healed = True
        if case.fault.mute:
            await case.paywall.aclose()
            case.paywall = self._paywall(name, case, stack, PATIENCE)

    async def close(self, name: str, case: Case, stack: Stack) -> None:
        await case.paywall.aclose()
        del case.paywall
        del self.seller.customers[name]
        self.services.close(name)

    def _journal(self, name: str, case: Case, stack: Stack) -> MemoryJournal | PersistentJournal:
        terms = JournalPolicy.for_calls_of(PATIENCE)
        if stack.journal == "memory":
            return MemoryJournal(policy=terms, clock=case.clock)
        shelf = SqliteStore(self.file, name)
        return PersistentJournal(shelf, keys=[KEY], policy=terms, clock=case.clock)

    def _paywall(self, name: str, case: Case, stack: Stack, timeout: float) -> Paywall:
        return Paywall(
            api_key=TEST_KEY,
            base_url=self.services.address(name),
            public_url="https://seller.example",
            journal=case.journal,
            environ={},
            settle_wait=0,
            payment_identifier="optional" if case.call.path == NAMED else None,
            on_event=case.ear.hear,
            timeout=timeout,
        )


@contextmanager
def open_harness(folder: Path) -> Generator[Harness]:
    """The servers, while the block runs."""
    services, seller = CaseServices(), SellerApp()
    with (
        serving_by_hand(services.answer) as services.port,
        serving(seller.asgi, lifespan="off", interface="asgi3") as asgi,
        serving_wsgi(seller.wsgi) as wsgi,
    ):
        file = SqliteDatabase(folder / "journal.db", 20)
        yield Harness(services, seller, {"asgi": asgi, "wsgi": wsgi}, file)
        file.disconnect()


class Payers:
    """Whoever pays: one HTTP client for all."""

    def __init__(self, pool: httpcore.AsyncConnectionPool, urls: dict[str, str]) -> None:
        self._pool = pool
        self._urls = urls

    async def ask(self, stack: Stack, name: str, path: str, proof: str | None) -> Seen:
        headers = [("host", "seller.example"), ("x-case", name)]
        headers += [("payment-signature", proof)] if proof is not None else []
        try:
            async with asyncio.timeout(30):
                reply = await self._pool.request("GET", self._urls[stack.adapter] + path, headers=headers)
        except (TimeoutError, httpcore.ProtocolError, httpcore.NetworkError):
            return Seen(0)
        pairs = ((key.decode("latin-1"), value.decode("latin-1")) for key, value in reply.headers)
        return Seen(reply.status, tuple(pairs), reply.content)


@asynccontextmanager
async def payers(urls: dict[str, str]) -> AsyncGenerator[Payers]:
    limits: dict[str, Any] = {"max_connections": 64, "keepalive_expiry": 2.0, "retries": 1}
    async with httpcore.AsyncConnectionPool(**limits) as pool:
        yield Payers(pool, urls)


async def swept(case: Case, stack: Stack) -> None:
    if stack.adapter == "asgi":
        await case.paywall.asweep()
    else:
        await asyncio.to_thread(case.paywall.sweep)

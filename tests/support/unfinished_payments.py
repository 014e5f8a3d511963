"""A seller with a journal on the disk, a served service that can misbehave, and sales that were left open."""

import asyncio
import base64
import json
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from faregate.asgi import PaywallMiddleware
from faregate.emulator import TEST_KEY, Emulator, SettlementRule, Wallet
from faregate.journals.sqlite import SqliteJournal
from faregate.journals.urls import JournalContext
from faregate.merchant.client import MerchantClient
from faregate.merchant.models import SucceededCompleteRequest
from faregate.paywall import Paywall
from tests.adapters.asgi import Plain, ask, header
from tests.support.faulty_service import Call, FaultyService, answers, changes
from tests.support.processes import environment
from tests.support.raw_server import Connection
from tests.support.replies import with_status

KEY = bytes(range(32))
UNKNOWN = answers(404, {"code": "transaction_not_found", "message": "There is no such transaction."})
DUE, DAY = 45.0, 86_400.0
"""Seconds. `DUE` is after the first pause of a held row, and before a claim of then has expired."""


@dataclass(frozen=True)
class Sale:
    """A payment, and the app on which its payer comes back with the proof."""

    app: PaywallMiddleware
    plain: Plain
    proof: str
    id: str

    def comes_back(self) -> list[Any]:
        """What the payer is sent then."""
        return ask(self.app, "/", self.proof)

    @property
    def paywall(self) -> Paywall:
        return self.app.paywall


@dataclass
class Seller:
    """`environ` is what its processes are started with. All of them share the journal and the service."""

    service: FaultyService
    journal: Path
    environ: dict[str, str]
    sales: list[Sale] = field(default_factory=list)

    def paywall(self, *, ago: float = 0.0, **options: Any) -> Paywall:
        """For one whose clock is behind by `ago`: what it leaves open is due at once for the others."""

        def journal(context: JournalContext) -> SqliteJournal:
            return SqliteJournal(
                self.journal,
                keys=[KEY],
                namespace=context.namespace,
                seller=context.seller,
                policy=context.policy,
                clock=lambda: time.time() - ago,
            )

        return Paywall(journal=journal, environ=self.environ, **options)

    def held(self, *, ago: float = DUE) -> Sale:
        """A result whose payment still settles. The next look at it finds it settled."""
        return self._left_open(ago=ago, sells="slow_settlement")

    def _left_open(self, ago: float, sells: str) -> Sale:
        plain = Plain()
        app = PaywallMiddleware(plain, self.paywall(ago=ago), offers={"/": sells})
        instructions = header(ask(app, "/"), b"payment-required")
        proof = Wallet().pay(instructions)
        answer = ask(app, "/", proof)
        assert answer[0]["status"] == 202
        new = json.loads(answer[1]["body"])["transaction_id"]
        again = PaywallMiddleware(plain, self.paywall(), offers={"/": sells})
        self.sales.append(Sale(again, plain, proof, new))
        return self.sales[-1]

    def stuck(self, *, ago: float = DUE) -> Sale:
        """Held, and then the service did not know it any more. From now on it does."""
        sale = self.held(ago=ago)
        self.service.fails("transaction", UNKNOWN)
        self.service.fails("complete", UNKNOWN)
        assert sale.paywall.sweep().looked_at == 1
        assert self.state(sale) == "stuck"
        return sale

    def waiting(self) -> Sale:
        """Access said that the payment still settles: nothing was done for it."""
        unpaid = changes(lambda reply: reply)
        self.service.fails("access", unpaid, changes(with_status(202)))
        return self._left_open(ago=0, sells="daily_report")

    def settles(self, sale: Sale) -> None:
        """Another seller's process had it completed, and its journal is lost."""
        revision = next(one.revision_id for one in self.holdings() if one.transaction_id == sale.id)
        done = SucceededCompleteRequest(revision_id=revision, values={})
        with MerchantClient(TEST_KEY, self.environ["FAREGATE_BASE_URL"]) as client:
            assert client.complete_transaction(sale.id, done, sale.proof).result.status == "succeeded"

    def holdings(self) -> list[Any]:
        journal: Any = self.paywall().journal
        return list(journal.list_holds(100))

    def state(self, sale: Sale) -> str | None:
        """That of what is owed; None when nothing is."""
        return {one.transaction_id: one.state for one in self.holdings()}.get(sale.id)

    def statuses(self) -> dict[str, str]:
        with MerchantClient(TEST_KEY, self.environ["FAREGATE_BASE_URL"]) as client:
            return {one.id: one.status or "" for one in client.iter_transactions()}

    def run(self, *words: str, **environ: str) -> "subprocess.Popen[str]":
        """`faregate`, as a process of its own."""
        return subprocess.Popen(
            [sys.executable, "-m", "faregate", *words],
            env=environment(**{**self.environ, **environ}),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


@contextmanager
def selling(folder: Path) -> Generator[Seller]:
    """What sells slowly settles at the first look."""
    emulator = Emulator()
    emulator.settle_after("slow_settlement", SettlementRule(after_reads=1))
    service = FaultyService(emulator)
    with service.serving() as url:
        environ = {
            "FAREGATE_SETTLE_WAIT": "0",
            "FAREGATE_API_KEY": TEST_KEY,
            "FAREGATE_BASE_URL": url,
            "FAREGATE_JOURNAL": f"sqlite:///{folder / 'journal.db'}",
            "FAREGATE_JOURNAL_KEY": base64.b64encode(KEY).decode(),
        }
        yield Seller(service, folder / "journal.db", environ)


class HangingCall:
    """A call to the service that hangs until the test lets it go on."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.goes_on = threading.Event()

    async def __call__(self, connection: Connection, call: Call) -> None:
        self.reached.set()
        await asyncio.to_thread(self.goes_on.wait, 30)
        await connection.answer(call.act())

"""One seller with its service, its buyers, lost answers and a killer; and what its books say afterwards."""

import asyncio
import contextlib
import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from faregate.emulator import TEST_KEY, Account, Emulator, Key, Resource, Revision, SettlementRule
from faregate.emulator.server import listen
from faregate.emulator.server import run as run_emulator
from faregate.merchant.client import MerchantClient
from faregate.system import get_url
from tests.crash.clients import facilitator
from tests.crash.clients.buyers import Order, buy_with_python, buy_with_typescript
from tests.crash.clients.proxy import LossyProxy
from tests.crash.clients.seller import APPLICATION, DELAYS, EXECUTIONS, PAY_TO, SERVICE
from tests.crash.sellers import serve_seller
from tests.crash.workers.killer import Killer
from tests.support.lines import read_lines
from tests.support.processes import fork, serving

WEIGHTS = (50, 25, 15, 10)
"""How many of a hundred orders have each delay."""
PATIENCE = 240.0
"""Seconds after which the last buyer gives up."""
LOST = "lost"
"""The log of the answers that were lost."""
OPEN = ("authorized", "settling", "reconciling")
_PAY_TO = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"


@dataclass(frozen=True)
class Campaign:
    """`lose` is how many of a hundred answers are lost; `at_once` how many buyers each client has.

    `kill_every` is in seconds; 0 lets the workers live.
    """

    application: str
    purchases: int
    seed: int
    lose: int
    at_once: int
    delays: Sequence[int] = DELAYS
    kill_every: float = 5.0
    loses_results: bool = False


def run(campaign: Campaign, show: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    """Play the campaign and return its figures. Raises `RuntimeError` if the seller does not start."""
    folder = Path(tempfile.mkdtemp(prefix="faregate-clients-"))
    try:
        with (
            _serve(campaign.application, folder) as url,
            _sell(campaign.application, url, folder) as (seller, pid),
            _lose_answers(campaign, seller, folder) as port,
        ):
            orders = _make_orders(campaign)
            killer = asyncio.run(_play(campaign, orders, port, pid, show))
            charges = _read_charges(campaign.application, url, folder)
        executions = len(read_lines(folder / "executions"))
        return {
            "application": campaign.application,
            "kills": len(killer.deaths),
            "lost_answers": len(read_lines(folder / LOST)),
            **judge(orders, charges, executions),
        }
    finally:
        shutil.rmtree(folder)


def judge(orders: Iterable[Order], charges: Counter[str], executions: int) -> dict[str, Any]:
    """Compare what buyers got with what was charged and what was executed."""
    orders = list(orders)
    return {
        "purchases": len(orders),
        "delivered": sum(order.delivered for order in orders),
        "tries": sum(order.tries for order in orders),
        "charges": charges.total(),
        "charged_again": sum(charges[order.payer] > 1 for order in orders),
        "charged_without_result": sum(charges[order.payer] > 0 and not order.delivered for order in orders),
        "delivered_without_charge": sum(order.delivered and not charges[order.payer] for order in orders),
        "executions": executions,
    }


def _make_orders(campaign: Campaign) -> list[Order]:
    chance = random.Random(campaign.seed)
    weights = [weight for delay, weight in zip(DELAYS, WEIGHTS, strict=True) if delay in campaign.delays]
    delays = chance.choices(campaign.delays, weights, k=campaign.purchases)
    return [Order(number, delay) for number, delay in enumerate(delays)]


async def _play(
    campaign: Campaign, orders: list[Order], port: int, pid: int, show: Callable[[str], None]
) -> Killer:
    url = f"http://127.0.0.1:{port}"
    end = time.monotonic() + PATIENCE
    killer = Killer(pid, campaign.seed, end, campaign.kill_every)
    killing = asyncio.create_task(killer.run()) if campaign.kill_every else None
    showing = asyncio.create_task(_show(orders, killer, show))
    half = len(orders) // 2
    try:
        await asyncio.gather(
            buy_with_python(url, orders[:half], campaign.at_once, end),
            buy_with_typescript(url, orders[half:], campaign.at_once, end),
        )
    finally:
        for task in (killing, showing):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
    return killer


async def _show(orders: Sequence[Order], killer: Killer, show: Callable[[str], None]) -> None:
    while True:
        await asyncio.sleep(1.0)
        delivered = sum(order.delivered for order in orders)
        show(f"{delivered} of {len(orders)} delivered, {len(killer.deaths)} kills")


@contextmanager
def _serve(application: str, folder: Path) -> Generator[str]:
    """The emulator for this project's paywall; a facilitator for the x402 middleware."""
    listener = listen()
    serve = (
        partial(run_emulator, Emulator(_make_account()), listener, control=False)
        if application == "faregate"
        else partial(facilitator.run, listener, folder / "charges")
    )
    process = fork(serve)
    url = get_url(listener)
    listener.close()
    try:
        yield url
    finally:
        process.kill()


def _make_account() -> Account:
    resources = [
        Resource(
            key=f"after_{delay}",
            name=f"Settles after {delay} s",
            revisions=(Revision(amount=10_000),),
            max_timeout_seconds=300,
            settlement=SettlementRule(after_seconds=delay),
        )
        for delay in DELAYS
    ]
    return Account(keys=(Key(key=TEST_KEY),), resources=tuple(resources))


@contextmanager
def _sell(application: str, service: str, folder: Path) -> Generator[tuple[int, int]]:
    """The seller's port, and the process that starts its workers."""
    settings = {
        "FAREGATE_API_KEY": TEST_KEY,
        "FAREGATE_BASE_URL": service,
        "FAREGATE_PUBLIC_URL": "https://seller.example",
        "FAREGATE_JOURNAL": f"sqlite:///{folder}/journal.db",
        APPLICATION: application,
        EXECUTIONS: str(folder / "executions"),
        SERVICE: service,
        PAY_TO: _PAY_TO,
    }
    with serve_seller("tests.crash.clients.seller", "/orders/0/0", settings, folder) as served:
        yield served


@contextmanager
def _lose_answers(campaign: Campaign, seller: int, folder: Path) -> Generator[int]:
    """The port of a proxy before the seller's."""
    chance = random.Random(f"{campaign.seed} lost")
    lost = folder / LOST
    proxy = LossyProxy(seller, chance, campaign.lose, lost, loses_results=campaign.loses_results)
    process = serving(proxy.run)
    try:
        yield process.port
    finally:
        process.kill()


def _read_charges(application: str, service: str, folder: Path) -> Counter[str]:
    """How often each payer was charged, when every payment has ended."""
    if application == "x402":
        return Counter(line["payer"] for line in read_lines(folder / "charges"))
    end = time.monotonic() + 2 * max(DELAYS)
    with MerchantClient(TEST_KEY, service) as client:
        while True:
            transactions = list(client.iter_transactions())
            if time.monotonic() > end or not any(each.status in OPEN for each in transactions):
                paid = (each.payer or "" for each in transactions if each.status == "succeeded")
                return Counter(payer.lower() for payer in paid)
            time.sleep(1.0)

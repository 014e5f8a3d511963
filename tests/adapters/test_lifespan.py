"""What a paywall does from an application's startup to its shutdown, on real servers."""

import asyncio
import contextlib
import math
import signal
import threading
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.middleware import Middleware

import faregate.fastapi
import faregate.starlette
from faregate.asgi import PaywallMiddleware
from faregate.checkout.shielding import run_shielded, wait_shielded
from faregate.core.claim_types import PendingPayment
from faregate.emulator import Emulator, SettlementRule, Wallet
from faregate.errors import ConfigurationError, JournalError
from faregate.journals.memory import MemoryJournal
from faregate.paywall import Paywall
from tests.adapters.asgi import CONTENT, Plain, a_paywall, ask, header
from tests.adapters.stoppable_seller import Process, heard, serving_shop
from tests.servers.http import serving, serving_on_trio
from tests.support.unfinished_payments import HangingCall, Seller, selling
from tests.support.waiting import eventually


@pytest.fixture
def seller(tmp_path: Path) -> Generator[Seller]:
    with selling(tmp_path) as seller:
        yield seller


# The sweep

APPS: dict[str, Callable[..., Any]] = {
    "no lifespan": lambda paywall, **options: PaywallMiddleware(Plain(), paywall, **options),
    "starlette": lambda paywall, **options: Starlette(
        middleware=[Middleware(faregate.starlette.PaywallMiddleware, paywall, **options)]
    ),
    "fastapi": lambda paywall, **options: fastapi_with(paywall, **options),
}


def fastapi_with(paywall: Paywall, **options: Any) -> FastAPI:
    app = FastAPI()
    app.add_middleware(faregate.fastapi.PaywallMiddleware, paywall=paywall, **options)
    return app


SERVERS: dict[str, Callable[[Any], Any]] = {
    "uvicorn": lambda app: serving(app, lifespan="on"),
    "hypercorn on trio": serving_on_trio,
}


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("app", APPS)
def test_what_is_left_open_is_finished_while_the_app_lives(seller: Seller, app: str, server: str) -> None:
    before = seller.held()
    with SERVERS[server](APPS[app](seller.paywall(), sweep_every=0.05)):
        assert eventually(lambda: seller.state(before) is None, 20)
        after = seller.held()
        assert eventually(lambda: seller.state(after) is None, 20)
    left = seller.held()
    assert seller.statuses() == {before.id: "succeeded", after.id: "succeeded", left.id: "settling"}
    assert after.comes_back()[1]["body"] == CONTENT.encode()


def test_nothing_is_swept_unless_it_is_asked_for(seller: Seller) -> None:
    sale = seller.held()
    with serving(APPS["starlette"](seller.paywall()), lifespan="on") as url:
        assert httpx.get(f"{url}/").status_code == 404
    assert seller.state(sale) == "ok"


def test_servers_that_share_a_journal_share_the_work_and_no_sale(seller: Seller) -> None:
    sales = [seller.held() for _ in range(4)]
    completed = seller.service.count("complete")
    one, other = (APPS["no lifespan"](seller.paywall(), sweep_every=0.05) for _ in range(2))
    with serving(one, lifespan="on"), serving_on_trio(other):
        assert eventually(lambda: not seller.holdings(), 20)
    assert seller.service.count("complete") - completed == len(sales)


@pytest.mark.parametrize("server", SERVERS)
def test_the_memory_of_this_process_is_swept(server: str) -> None:
    emulator = Emulator()
    emulator.settle_after("slow_settlement", SettlementRule(after_reads=1))
    paywall = a_paywall(emulator, journal=MemoryJournal())
    app = PaywallMiddleware(Plain(), paywall, offers={"/": "slow_settlement"}, sweep_every=0.05)
    proof = Wallet().pay(header(ask(app, "/"), b"payment-required"))
    assert ask(app, "/", proof)[0]["status"] == 202
    journal: Any = paywall.journal
    clock = journal._clock
    journal._clock = lambda: clock() + 3600
    with SERVERS[server](app):
        assert eventually(lambda: not journal.list_holds(1))


class Failing(MemoryJournal):
    """Fails twice, in two ways, and then works."""

    walks = 0

    def lease_next(self) -> PendingPayment | None:
        self.walks += 1
        if self.walks == 1:
            raise JournalError("locked for too long")
        if self.walks == 2:
            raise ZeroDivisionError("a journal of the seller's own")
        return super().lease_next()


def test_a_journal_that_fails_for_a_moment_does_not_end_the_sweep(caplog: pytest.LogCaptureFixture) -> None:
    journal = Failing()
    app = PaywallMiddleware(Plain(), a_paywall(journal=journal), sweep_every=0.01)
    with serving(app, lifespan="on"):
        assert eventually(lambda: journal.walks >= 5)
    told = [record.getMessage() for record in caplog.records if record.name == "faregate.sweep"]
    assert told == ["the sweep will try again: locked for too long", "the sweep will try again"]


class Cancelled(MemoryJournal):
    """Is cancelled, as by a pool of the seller's own: once of its own accord, then when it is waited for."""

    walks = 0

    def lease_next(self) -> Any:
        self.walks += 1
        return self.cancelled() if self.walks == 1 else self.waited_for()

    async def cancelled(self) -> PendingPayment | None:
        raise asyncio.CancelledError

    async def waited_for(self) -> PendingPayment | None:
        ended = False
        try:
            await anyio.sleep_forever()
        except asyncio.CancelledError:
            ended = True
        if ended:
            raise asyncio.CancelledError
        return None


@pytest.mark.parametrize("lifespan", ["its own", "none"])
def test_a_sweep_that_is_cancelled_ends_neither_itself_nor_the_shutdown_of_the_app(lifespan: str) -> None:
    journal, done = Cancelled(), list[str]()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if lifespan == "none":
            raise ValueError("only http")
        await ends_after_a_while(receive, send, done)

    async def live() -> list[str]:
        server = Server()
        paywall = a_paywall(journal=journal)
        front = PaywallMiddleware(app, paywall, sweep_every=0.01, drain_seconds=0.05)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(front, {"type": "lifespan"}, server.receive, server.send)
            with anyio.fail_after(20):
                while journal.walks < 2:
                    await anyio.lowlevel.checkpoint()
            server.shutdown.set()
        return server.said

    assert anyio.run(live) == COMPLETE
    assert done == ([] if lifespan == "none" else ["committed", "closed"])


async def ends_after_a_while(receive: Any, send: Any, done: list[str]) -> None:
    await receive()
    await send({"type": "lifespan.startup.complete"})
    await receive()
    async with asyncio.timeout(20):
        await asyncio.sleep(0.02)
    done.append("committed")
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(asyncio.sleep(0.02))
    done.append("closed")
    await send({"type": "lifespan.shutdown.complete"})


def test_a_drain_that_is_over_does_not_cancel_the_shutdown_of_the_app() -> None:
    done: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await ends_after_a_while(receive, send, done)

    async def live() -> list[str]:
        go_on = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run_shielded, go_on.wait)
            await anyio.wait_all_tasks_blocked()
            said = await lived(app, drain_seconds=0.05)
            go_on.set()
        return said

    assert anyio.run(live) == COMPLETE
    assert done == ["committed", "closed"]


def test_a_walk_ends_between_two_sales_when_the_app_ends(seller: Seller) -> None:
    sales, hanging = [seller.held(), seller.held()], HangingCall()
    seller.service.fails("complete", hanging)
    with serving(APPS["starlette"](seller.paywall(), sweep_every=0.05), lifespan="on"):
        assert hanging.reached.wait(20)
        threading.Timer(0.3, hanging.goes_on.set).start()
    assert sorted(filter(None, map(seller.state, sales))) == ["ok"]
    assert sorted(seller.statuses().values()) == ["settling", "succeeded"]


# The protocol


class Server:
    """The server's side of a lifespan, held in the hand."""

    def __init__(self) -> None:
        self.said: list[Any] = []
        self.told: list[str] = []
        self.shutdown = anyio.Event()

    async def receive(self) -> Any:
        kind = "startup" if "lifespan.startup" not in self.told else "shutdown"
        if kind == "shutdown":
            await self.shutdown.wait()
        self.told.append(f"lifespan.{kind}")
        return {"type": f"lifespan.{kind}"}

    async def send(self, message: Any) -> None:
        self.said.append(message["type"].removeprefix("lifespan."))


async def lived(app: Any, during: Callable[[], Any] | None = None, **options: Any) -> list[str]:
    """What an app behind the paywall told its server, in a whole life."""
    server = Server()
    front = PaywallMiddleware(app, options.pop("paywall", None) or a_paywall(), **options)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(front, {"type": "lifespan", "asgi": {"version": "3.0"}}, server.receive, server.send)
        await anyio.wait_all_tasks_blocked()
        if during is not None:
            during()
        server.shutdown.set()
    return server.said


COMPLETE = ["startup.complete", "shutdown.complete"]


@pytest.fixture(params=["asyncio", "trio"], name="run")
def _run(request: pytest.FixtureRequest) -> Callable[..., Any]:
    return lambda call: anyio.run(call, backend=request.param)


async def raises_at_once(scope: Any, receive: Any, send: Any) -> None:
    raise ValueError("only http")


async def returns_at_once(scope: Any, receive: Any, send: Any) -> None:
    return


async def answers_everything(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})


async def leaves_after_its_startup(scope: Any, receive: Any, send: Any) -> None:
    await receive()
    await send({"type": "lifespan.startup.complete"})


async def leaves_before_its_end(scope: Any, receive: Any, send: Any) -> None:
    await leaves_after_its_startup(scope, receive, send)
    await receive()


async def ends_well(scope: Any, receive: Any, send: Any) -> None:
    await leaves_before_its_end(scope, receive, send)
    await send({"type": "lifespan.shutdown.complete"})


@pytest.mark.parametrize(
    "app",
    [
        raises_at_once,
        returns_at_once,
        answers_everything,
        leaves_after_its_startup,
        leaves_before_its_end,
        ends_well,
    ],
)
def test_every_app_has_a_whole_life(app: Any, run: Callable[..., Any]) -> None:
    journal = Failing()
    journal.walks = 2

    async def live() -> list[str]:
        paywall = a_paywall(journal=journal)
        return await lived(app, lambda: walks.append(journal.walks), paywall=paywall, sweep_every=3600)

    walks: list[int] = []
    assert run(live) == COMPLETE
    assert walks == [3]


async def fails_to_start(scope: Any, receive: Any, send: Any) -> None:
    await receive()
    raise ZeroDivisionError


async def says_that_it_failed(scope: Any, receive: Any, send: Any) -> None:
    await receive()
    await send({"type": "lifespan.startup.failed", "message": "no database"})


def test_an_app_that_fails_to_start_fails_as_it_would_alone(run: Callable[..., Any]) -> None:
    async def failing() -> None:
        await PaywallMiddleware(fails_to_start, a_paywall(), sweep_every=3600)(
            {"type": "lifespan"}, Server().receive, Server().send
        )

    with pytest.raises(ZeroDivisionError):
        run(failing)

    async def failed() -> list[str]:
        return await lived(says_that_it_failed, sweep_every=3600)

    assert run(failed) == ["startup.failed"]


def test_the_sweep_waits_for_the_startup_and_ends_before_the_shutdown(run: Callable[..., Any]) -> None:
    journal, walks = Failing(), list[int]()
    journal.walks = 2

    async def app(scope: Any, receive: Any, send: Any) -> None:
        for message in ("startup", "shutdown"):
            await receive()
            before = journal.walks
            await turns()
            walks.append(journal.walks - before)
            await send({"type": f"lifespan.{message}.complete"})
            await turns()

    async def turns() -> None:
        """Enough for many walks, if there were any."""
        for _ in range(50):
            await anyio.lowlevel.checkpoint()

    async def live() -> list[str]:
        server = Server()
        server.shutdown.set()
        front = PaywallMiddleware(app, a_paywall(journal=journal), sweep_every=1e-9)
        await front({"type": "lifespan"}, server.receive, server.send)
        return server.said

    assert run(live) == COMPLETE
    assert walks == [0, 0]
    assert journal.walks > 3


@pytest.mark.parametrize(
    "wrong",
    [{"sweep_every": 0}, {"sweep_every": math.inf}, {"drain_seconds": -1}, {"drain_seconds": math.nan}],
)
def test_times_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    options: Any = wrong
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        PaywallMiddleware(Plain(), a_paywall(), **options)
    assert "sweep" in str(faregate.starlette.PaywallMiddleware(Plain(), sweep_every=0).mistake)


# The shutdown waits


def test_what_was_begun_is_waited_for_though_nobody_else_waits(run: Callable[..., Any]) -> None:
    ended: list[str] = []

    async def waiting() -> None:
        go_on, begun = anyio.Event(), anyio.Event()

        async def work() -> None:
            begun.set()
            await go_on.wait()
            ended.append("the work")

        async def drained() -> None:
            await wait_shielded()
            ended.append("the waiting")

        async with anyio.create_task_group() as tasks:
            with anyio.CancelScope() as payer:
                tasks.start_soon(run_shielded, work)
                await begun.wait()
                payer.cancel()
            tasks.start_soon(drained)
            await anyio.wait_all_tasks_blocked()
            assert ended == []
            go_on.set()
        await wait_shielded()

    run(waiting)
    assert ended == ["the work", "the waiting"]


SHOP = """
from faregate.asgi import PaywallMiddleware

async def report(scope, receive, send):
    assert scope["type"] == "http"
    with open("runs", "a") as runs:
        runs.write("once\\n")
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"paid content"})

app = PaywallMiddleware(report, offers={"/": "daily_report"}, drain_seconds=DRAIN)
"""


@contextlib.contextmanager
def shop(seller: Seller, folder: Path, drain: float) -> Generator[tuple[Process, str]]:
    """It waits a second for its requests, then cancels them."""
    with serving_shop(SHOP.replace("DRAIN", str(drain)), seller, folder, grace=1) as (server, url):
        yield server, f"{url}/"


def ended_while_completing(server: Process, url: str, hanging: HangingCall) -> str:
    """The proof of a request whose completion hangs until the server has given it up."""
    proof = Wallet().pay(httpx.get(url).headers["payment-required"])

    def pay() -> None:
        with contextlib.suppress(httpx.TransportError):
            httpx.get(url, headers={"PAYMENT-SIGNATURE": proof}, timeout=30)

    threading.Thread(target=pay).start()
    assert hanging.reached.wait(20)
    server.send_signal(signal.SIGTERM)
    heard(server, "timeout graceful shutdown exceeded")
    return proof


def served_by_another(seller: Seller, proof: str) -> tuple[int, bytes, int]:
    plain = Plain()
    paywall = seller.paywall(public_url="https://seller.example")
    sent = ask(PaywallMiddleware(plain, paywall, offers={"/": "daily_report"}), "/", proof)
    return sent[0]["status"], sent[1]["body"], plain.runs


def test_a_completion_that_hangs_is_ended_before_the_process(seller: Seller, tmp_path: Path) -> None:
    hanging = HangingCall()
    seller.service.fails("complete", hanging)
    with shop(seller, tmp_path, drain=20) as (server, url):
        proof = ended_while_completing(server, url, hanging)
        heard(server, "Waiting for application shutdown")
        assert server.poll() is None
        hanging.goes_on.set()
        assert server.wait(20) == -signal.SIGTERM  # uvicorn ends well, and then by the signal it got
    assert list(seller.statuses().values()) == ["succeeded"]
    assert seller.holdings() == []
    assert served_by_another(seller, proof) == (200, b"paid content", 0)
    assert (tmp_path / "runs").read_text() == "once\n"


def test_what_hangs_for_too_long_is_left_to_a_sweep(seller: Seller, tmp_path: Path) -> None:
    hanging = HangingCall()
    seller.service.fails("complete", hanging)
    with shop(seller, tmp_path, drain=0.2) as (server, url):
        proof = ended_while_completing(server, url, hanging)
        heard(server, "requests that still run are left to the sweep")
        assert server.wait(20) == -signal.SIGTERM  # uvicorn ends well, and then by the signal it got
    hanging.goes_on.set()
    assert [one.state for one in seller.holdings()] == ["ok"]
    assert seller.paywall(ago=-3600).sweep().looked_at == 1
    assert seller.holdings() == []
    assert served_by_another(seller, proof) == (200, b"paid content", 0)
    assert (tmp_path / "runs").read_text() == "once\n"

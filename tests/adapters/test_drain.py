"""A server that is told to end while paid work runs for longer than it waits."""

import contextlib
import signal
import threading
import time
from collections.abc import Generator
from pathlib import Path

import httpx
import pytest

from faregate.asgi import PaywallMiddleware
from faregate.emulator import Wallet
from tests.adapters.asgi import Plain, ask
from tests.adapters.stoppable_seller import serving_shop
from tests.support.unfinished_payments import Seller, selling
from tests.support.waiting import eventually

DRAIN, WORK, SOON = 0.4, 50.0, 15.0
"""Seconds. `SOON` is far from both, for machines that are busy."""

SHOP = f"""
import time
from pathlib import Path

import anyio
from faregate.asgi import PaywallMiddleware

async def report(scope, receive, send):
    assert scope["type"] == "http"
    Path(f"begun-{{scope['path'][1:]}}").touch()
    if scope["path"] == "/awaiting":
        await anyio.sleep({WORK})
    else:
        await anyio.to_thread.run_sync(time.sleep, {WORK})
    await send({{"type": "http.response.start", "status": 200, "headers": []}})
    await send({{"type": "http.response.body", "body": b"paid content"}})

app = PaywallMiddleware(report, offers={{"/": "daily_report"}}, drain_seconds={DRAIN})
"""


WAITING_SHOP = """
from pathlib import Path

import anyio
from faregate.asgi import PaywallMiddleware

async def report(scope, receive, send):
    if scope["type"] != "http":
        return
    Path("begun-report").touch()
    while not Path("may-end").exists():
        await anyio.sleep(0.01)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"paid content"})

app = PaywallMiddleware(report, offers={"/": "daily_report"})
"""


@pytest.fixture
def seller(tmp_path: Path) -> Generator[Seller]:
    with selling(tmp_path) as seller:
        yield seller


def test_work_that_outlasts_the_drain_is_left_behind(seller: Seller, tmp_path: Path) -> None:
    with serving_shop(SHOP, seller, tmp_path, grace=0) as (server, url):
        proofs = {path: begun(tmp_path, url, path) for path in ("/awaiting", "/in-a-thread")}
        told_at = time.monotonic()
        server.send_signal(signal.SIGTERM)
        assert server.wait(SOON) == -signal.SIGTERM  # uvicorn ends well, and then by the signal it got
        assert time.monotonic() - told_at >= DRAIN
    assert (statuses(seller), states(seller)) == (["authorized"] * 2, ["running"] * 2)
    assert seller.paywall().sweep().looked_at == 2  # their process has ended, as its lock shows
    assert (statuses(seller), states(seller)) == (["failed"] * 2, [])
    assert [comes_back(seller, *sale) for sale in proofs.items()] == [(402, b"nothing was charged")] * 2


def test_work_that_outlasts_the_server_is_paid_and_waits_for_its_payer(
    seller: Seller, tmp_path: Path
) -> None:
    """The server answers by itself: what is owed is not sent to a request that is over."""
    answers: list[httpx.Response] = []
    with serving_shop(WAITING_SHOP, seller, tmp_path, grace=1) as (server, url):
        proof = begun(tmp_path, url, "/report", answers)
        server.send_signal(signal.SIGTERM)
        assert eventually(lambda: bool(answers), SOON)
        (tmp_path / "may-end").touch()
        assert server.wait(SOON) == -signal.SIGTERM
        assert server.stderr is not None
        log = server.stderr.read()
    assert [answer.status_code for answer in answers] == [500]
    assert "never retrieved" not in log
    assert (statuses(seller), states(seller)) == (["succeeded"], [])
    paywall, plain = seller.paywall(public_url="https://seller.example"), Plain()
    start, body = ask(PaywallMiddleware(plain, paywall, offers={"/": "daily_report"}), "/report", proof)
    assert (start["status"], body["body"], plain.runs) == (200, b"paid content", 0)


def begun(folder: Path, url: str, path: str, answers: list[httpx.Response] | None = None) -> str:
    """The proof of a request whose work runs; its answer is added to `answers`."""
    proof = Wallet().pay(httpx.get(f"{url}{path}").headers["payment-required"])
    threading.Thread(target=pay, args=(url + path, proof, [] if answers is None else answers)).start()
    assert eventually(lambda: (folder / f"begun-{path[1:]}").exists(), SOON)
    return proof


def pay(url: str, proof: str, answers: list[httpx.Response]) -> None:
    with contextlib.suppress(httpx.TransportError):
        answers.append(httpx.get(url, headers={"PAYMENT-SIGNATURE": proof}, timeout=WORK))


def statuses(seller: Seller) -> list[str]:
    return list(seller.statuses().values())


def states(seller: Seller) -> list[str]:
    return [one.state for one in seller.holdings()]


def comes_back(seller: Seller, path: str, proof: str) -> tuple[int, bytes]:
    """The status at another process, and what its body says; nothing is run there."""
    plain = Plain()
    paywall = seller.paywall(public_url="https://seller.example")
    start, body = ask(PaywallMiddleware(plain, paywall, offers={"/": "daily_report"}), path, proof)
    assert plain.runs == 0
    said = (b"payment_in_progress", b"nothing was charged")
    return start["status"], next(words for words in said if words in body["body"])

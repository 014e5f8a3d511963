"""Four workers of a preforking server, one file between them: they are one seller."""

import os
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from faregate.emulator import TEST_KEY, Emulator, Wallet
from faregate.emulator.server import serve

SHOP = """
import os, time
from faregate.wsgi import PaywallMiddleware

def shop(environ, start_response):
    with open("runs", "a") as runs:
        runs.write(f"{os.getpid()}\\n")
    time.sleep(0.05)
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [f"made by {os.getpid()}".encode()]

app = PaywallMiddleware(shop, offers={"/reports": "daily_report"})
"""


@pytest.fixture
def seller(tmp_path: Path) -> Generator[httpx.Client]:
    (tmp_path / "shop.py").write_text(SHOP)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = f"-m gunicorn -w 4 --threads 2 --preload --log-level error -b {address} shop:app"
    with serve(Emulator()) as service, httpx.Client(base_url=f"http://{address}", timeout=30) as http:
        environment = {
            **os.environ,
            "FAREGATE_BASE_URL": service,
            "FAREGATE_API_KEY": TEST_KEY,
            "FAREGATE_PUBLIC_URL": "https://seller.example",
            "FAREGATE_JOURNAL": "sqlite:///journal.db",
        }
        server = subprocess.Popen([sys.executable, *command.split()], cwd=tmp_path, env=environment)
        try:
            yield wait_for(http)
        finally:
            server.terminate()
            assert server.wait(timeout=30) == 0


def wait_for(http: httpx.Client) -> httpx.Client:
    end = time.monotonic() + 30
    while True:
        try:
            assert http.get("/reports/today").status_code == 402
            return http
        except httpx.TransportError:
            assert time.monotonic() < end
            time.sleep(0.05)


def pay(seller: httpx.Client, proof: str) -> httpx.Response:
    return seller.get("/reports/today", headers={"PAYMENT-SIGNATURE": proof})


def test_four_workers_do_the_work_of_a_payment_once(seller: httpx.Client, tmp_path: Path) -> None:
    bodies: list[set[bytes]] = []
    statuses: Counter[int] = Counter()
    for _ in range(6):
        proof = Wallet().pay(seller.get("/reports/today").headers["payment-required"])
        with ThreadPoolExecutor(8) as payers:
            answers = list(payers.map(pay, [seller] * 8, [proof] * 8))
        statuses.update(answer.status_code for answer in answers)
        bodies.append({answer.content for answer in answers if answer.status_code == 200})
    assert set(statuses) == {200, 409}
    assert [len(each) for each in bodies] == [1] * 6
    assert len((tmp_path / "runs").read_text().splitlines()) == 6

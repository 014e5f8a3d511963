"""`faregate.pay` against real sellers: settled late, killed, and bought from by a buyer that is killed.

Whatever happens, one purchase is one charge, and its result arrives.
"""

import os
import socket
import subprocess
import sys
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import anyio
import httpx
import pytest
from eth_account import Account
from x402 import x402Client, x402ClientSync
from x402.mechanisms.evm.exact import ExactEvmScheme

from faregate.emulator import TEST_KEY, Emulator
from faregate.emulator.server import serve
from faregate.pay import PayingTransport, PaymentPending, open_client
from faregate.rules.published_payers import TEST_PAYERS
from tests.e2e.example_seller import Market
from tests.support.preloaded import ROOT, run_preloaded
from tests.support.waiting import PATIENCE, eventually

REPORT = {"report": "Sunny, with a chance of receipts."}
SELLER = """
import socket, sys
import uvicorn
sys.path.insert(0, "examples/fastapi")
from app import app
listener = socket.socket(fileno=int(sys.argv[1]))
uvicorn.Server(uvicorn.Config(app, log_level="critical")).run([listener])
"""
BUYER = """
import os, sys
import httpx
from eth_account import Account
from x402 import x402ClientSync
from x402.mechanisms.evm.exact import ExactEvmScheme
from faregate.pay import PayingTransport
from faregate.pay.payment_file import PaymentFile

url, payments, key, point = sys.argv[1:]

def die(*_):
    os._exit(9)

class Dying(httpx.HTTPTransport):
    def handle_request(self, request):
        is_paying = "payment-signature" in request.headers
        if is_paying and point == "before sending":
            die()
        response = super().handle_request(request)
        if is_paying and point == "after the head":
            die()
        if is_paying and point == "after the response":
            response.read()
            die()
        return response

if point == "before saving":
    PaymentFile.save = die
if point == "before deleting":
    PaymentFile.delete = die
payer = x402ClientSync().register("eip155:*", ExactEvmScheme(Account.from_key(key)))
with httpx.Client(transport=PayingTransport(payer, payments, transport=Dying()), timeout=60) as client:
    print(client.get(url).text)
"""
POINTS = ("before saving", "before sending", "after the head", "after the response", "before deleting")


def build_payer(name: str = "good") -> x402ClientSync:
    account = Account.from_key(TEST_PAYERS[name].private_key)
    return x402ClientSync().register("eip155:*", ExactEvmScheme(account))


def list_statuses(seller: Market) -> list[str | None]:
    return [one.status for one in seller.transactions()]


@pytest.mark.parametrize("payer", ["good", "slow", "reads", "reconciles"])
@pytest.mark.parametrize("seller", ["asyncio"], indirect=True)
def test_a_payment_is_charged_once_however_late_it_settles(
    seller: Market, payer: str, tmp_path: Path
) -> None:
    with open_client(build_payer(payer), tmp_path) as client:
        response = client.get(f"{seller.seller}/report")

    assert response.json() == REPORT
    assert list_statuses(seller) == ["succeeded"]
    assert seller.runs("report") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("seller", ["asyncio", "trio"], indirect=True)
def test_many_calls_at_once_are_charged_once_each(seller: Market, tmp_path: Path) -> None:
    payer = x402Client().register(
        "eip155:*", ExactEvmScheme(Account.from_key(TEST_PAYERS["reads"].private_key))
    )
    answers = list[dict[str, str]]()

    async def buy_all() -> None:
        async def buy(client: httpx.AsyncClient, number: int) -> None:
            answers.append((await client.get(f"{seller.seller}/report?number={number}")).json())

        async with open_client(payer, tmp_path) as client, anyio.create_task_group() as group:
            for number in range(8):
                group.start_soon(buy, client, number)

    anyio.run(buy_all)

    assert answers == [REPORT] * 8
    assert list_statuses(seller) == ["succeeded"] * 8
    assert seller.runs("report") == 8


@pytest.mark.parametrize("payer", ["rejected", "reconciles-fails"])
@pytest.mark.parametrize("seller", ["asyncio"], indirect=True)
def test_a_payment_that_fails_may_be_replaced_at_once(seller: Market, payer: str, tmp_path: Path) -> None:
    with open_client(build_payer(payer), tmp_path) as client:
        statuses = [client.get(f"{seller.seller}/report").status_code for _ in range(2)]

    assert statuses == [402, 402]
    assert list_statuses(seller) == ["failed", "failed"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("seller", ["asyncio"], indirect=True)
def test_failed_work_is_not_charged_and_the_next_call_signs_anew(seller: Market, tmp_path: Path) -> None:
    with open_client(build_payer(), tmp_path) as client:
        statuses = [client.get(f"{seller.seller}/broken").status_code for _ in range(2)]

    assert statuses == [503, 503]
    assert list_statuses(seller) == ["failed", "failed"]


@pytest.mark.parametrize("seller", ["asyncio"], indirect=True)
def test_lost_responses_are_fetched_again(seller: Market, tmp_path: Path) -> None:
    class Losing(httpx.HTTPTransport):
        lost = 0

        def handle_request(self, request: httpx.Request) -> httpx.Response:
            response = super().handle_request(request)
            if "payment-signature" in request.headers and self.lost < 2:
                self.lost += 1
                response.read()
                response.close()
                raise httpx.ReadTimeout("lost")
            return response

    paying = PayingTransport(build_payer(), tmp_path, transport=Losing())
    with httpx.Client(transport=paying, timeout=60) as client:
        response = client.get(f"{seller.seller}/report")

    assert response.json() == REPORT
    assert list_statuses(seller) == ["succeeded"]
    assert seller.runs("report") == 1


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("seller", ["asyncio"], indirect=True)
def test_a_buyer_that_is_killed_pays_once(seller: Market, point: str, tmp_path: Path) -> None:
    url, key = f"{seller.seller}/report", TEST_PAYERS["good"].private_key
    words = ["-c", BUYER, url, str(tmp_path / "payments"), key]

    killed = run_preloaded([*words, point], dict(os.environ), ROOT)
    assert killed.returncode == 9, killed.stderr
    survived = run_preloaded([*words, "never"], dict(os.environ), ROOT)

    assert survived.returncode == 0, survived.stderr
    assert "Sunny" in survived.stdout
    assert list_statuses(seller) == ["succeeded"]
    assert seller.runs("report") == 1
    assert list((tmp_path / "payments").glob("*.json")) == []


@contextmanager
def listening() -> Iterator[socket.socket]:
    """A port that stays open while its seller is killed and started again."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


@pytest.fixture
def listener() -> Generator[socket.socket]:
    with listening() as found:
        yield found


@contextmanager
def run_seller(listener: socket.socket, environ: dict[str, str]) -> Generator["subprocess.Popen[bytes]"]:
    words = [sys.executable, "-c", SELLER, str(listener.fileno())]
    process = subprocess.Popen(words, cwd=ROOT, env={**os.environ, **environ}, pass_fds=[listener.fileno()])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_a_seller_that_is_killed_while_a_payment_settles_is_paid_once(
    listener: socket.socket, tmp_path: Path
) -> None:
    emulator = Emulator()
    with serve(emulator) as service, ThreadPoolExecutor(1) as pool:
        environ = {
            "FAREGATE_API_KEY": TEST_KEY,
            "FAREGATE_BASE_URL": service,
            "FAREGATE_JOURNAL": f"sqlite:///{tmp_path}/journal.db",
        }
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/report"

        def buy() -> httpx.Response:
            with open_client(build_payer("slow"), tmp_path / "payments", wait=PATIENCE) as client:
                return client.get(url)

        with run_seller(listener, environ) as process:
            bought = pool.submit(buy)
            assert eventually(lambda: len(emulator.calls("complete")) > 0)
            process.kill()
            process.wait()
        with run_seller(listener, environ):
            assert bought.result().json() == REPORT

        assert list_statuses(Market(url, service, emulator, None)) == ["succeeded"]


def test_a_seller_that_forgets_a_payment_is_not_paid_again(listener: socket.socket, tmp_path: Path) -> None:
    """Its journal is in memory. After a restart it asks for a payment, although the first was charged."""
    emulator = Emulator()
    with serve(emulator) as service:
        environ = {"FAREGATE_API_KEY": TEST_KEY, "FAREGATE_BASE_URL": service}
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/report"

        class Losing(httpx.HTTPTransport):
            def handle_request(self, request: httpx.Request) -> httpx.Response:
                response = super().handle_request(request)
                if "payment-signature" in request.headers:
                    response.read()
                    response.close()
                    raise httpx.ReadTimeout("lost")
                return response

        paying = PayingTransport(build_payer(), tmp_path / "payments", wait=0, transport=Losing())
        with (
            run_seller(listener, environ),
            httpx.Client(transport=paying, timeout=60) as client,
            pytest.raises(PaymentPending),
        ):
            client.get(url)
        with run_seller(listener, environ), open_client(build_payer(), tmp_path / "payments") as client:
            for _ in range(2):
                with pytest.raises(PaymentPending, match="asks for a new payment"):
                    client.get(url)

        assert list_statuses(Market(url, service, emulator, None)) == ["succeeded"]

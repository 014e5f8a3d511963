"""What a sale with the service inside costs, beside the least that it could.

    .venv-faregate/bin/python benchmarks/sale_floor.py  # one payer, about two minutes
    .venv-faregate/bin/python benchmarks/sale_floor.py --payers 16 64 --only floor-fastapi fastapi x402
    .venv-faregate/bin/python benchmarks/sale_floor.py --only fastapi flask --against ../old  # in turns

    floor          the calls and the commits of a sale, one after the other, and nothing else
    floor-fastapi  an application of FastAPI that makes them, and checks the signature, in a thread
    fastapi, flask the same applications with faregate, all in SQLite
    x402           FastAPI with the middleware of the package `x402`, which has no books

A facilitator and a node (`chain.py`) are called six times in a sale, and a row of SQLite is written eight
times, two of them synced; x402 calls the facilitator twice. There is no server: applications are called in
their process. Each has a process of its own, and they take turns. Median of the rounds; the Python calls of
all threads are counted in another process.
"""

import argparse
import asyncio
import base64
import json
import os
import secrets
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from statistics import median
from typing import Any, Final

import uvloop
from in_process import make_environ, make_receive, make_scope

HERE: Final = Path(__file__).resolve()
NETWORK: Final = "eip155:84532"
PAY_TO: Final = "0x" + "2" * 40
PAYERS: Final = 256
"""More than buy at once, so that none buys the same thing twice at the same moment."""
REPORT: Final = {"report": "Sunny, with a chance of receipts."}
_JSON: Final = (("Content-Type", "application/json"),)
_ASIDE: Final = ("faregate-worker", "faregate leases")
"""The names of threads that make no sale."""
_USED, _BALANCE = "0xe94a0102", "0x70a08231"


class Floor:
    """The calls and the commits of sales. Thread-safe: one thread writes at a time."""

    def __init__(self, url: str, folder: str) -> None:
        from faregate.transports.http1 import Http1Transport

        self._url, self._transport = url, Http1Transport()
        self._writing = threading.Lock()
        self._database = sqlite3.connect(f"{folder}/floor.db", isolation_level=None, check_same_thread=False)
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute("CREATE TABLE IF NOT EXISTS sales (nonce TEXT PRIMARY KEY, row TEXT)")

    def sell(self) -> None:
        nonce = f"0x{secrets.token_hex(32)}"
        authorization = {"from": f"0x{1:040x}", "to": f"0x{2:040x}", "value": "10000", "nonce": nonce}
        payload = {"payload": {"authorization": authorization, "signature": "0x" + "5a" * 65}}
        self.begin(payload, nonce)
        self.end(payload, nonce)

    def begin(self, payload: Any, nonce: str) -> None:
        """Before the work."""
        self._write("INSERT INTO sales (row, nonce) VALUES (?, ?)", nonce)  # the claim
        self._ask("eth_call", {"data": f"{_USED}{0:064x}{nonce[2:]}"}, "latest")
        self._ask("eth_call", {"data": _BALANCE}, "latest")
        self._call("/verify", {"paymentPayload": payload})
        self._update(nonce)  # the authorization
        self._update(nonce, is_synced=True)  # the transaction's id, before work begins

    def end(self, payload: Any, nonce: str) -> None:
        """After the work."""
        self._update(nonce)  # the outcome, before the completion
        self._update(nonce, is_synced=True)  # the outcome and the attempt, before something is sent
        self._call("/settle", {"paymentPayload": payload})
        self._update(nonce)  # the answer
        receipt = self._ask("eth_getTransactionReceipt", nonce)
        self._ask("eth_getBlockByNumber", receipt["blockNumber"], False)
        self._update(nonce)  # the receipt
        self._update(nonce)  # the settlement

    def _call(self, path: str, body: Any) -> Any:
        given = json.dumps(body).encode()
        return json.loads(self._transport.send("POST", self._url + path, _JSON, given, 5).body)

    def _ask(self, method: str, *params: Any) -> Any:
        return self._call("/rpc", {"jsonrpc": "2.0", "id": 1, "method": method, "params": params})["result"]

    def _update(self, nonce: str, *, is_synced: bool = False) -> None:
        self._write("UPDATE sales SET row = ? WHERE nonce = ?", nonce, is_synced=is_synced)

    def _write(self, statement: str, nonce: str, *, is_synced: bool = False) -> None:
        with self._writing:
            self._database.execute(f"PRAGMA synchronous = {'FULL' if is_synced else 'NORMAL'}")
            self._database.execute(statement, (secrets.token_hex(300), nonce))


# Applications. Each sells /report.


def make_floor_app(url: str, folder: str) -> Any:
    from fastapi import FastAPI, Request, Response

    from faregate.x402.eip712 import recover_signer
    from faregate.x402.headers import build_payment_required, parse_payment
    from faregate.x402.models import Terms
    from faregate.x402.tokens import TOKENS

    floor, token = Floor(url, folder), TOKENS["test", "USDC"]
    terms, app = Terms(token, 10_000, PAY_TO, 300), FastAPI()

    class Resource:
        url, description, mime_type = "http://127.0.0.1/report", "", "application/json"

    def begin(proof: str) -> tuple[Any, str]:
        payment = parse_payment(proof)
        if (recover_signer(payment, token) or "").lower() != payment.payer:
            raise ValueError("the signature is not the payer's")
        payload = json.loads(base64.b64decode(proof))
        floor.begin(payload, payment.nonce)
        return payload, payment.nonce

    @app.get("/report")
    async def report(request: Request, response: Response) -> Any:
        proof = request.headers.get("payment-signature")
        if proof is None:
            asked = build_payment_required(terms, Resource(), "pay", secrets.token_hex(32))
            return Response(status_code=402, headers={"PAYMENT-REQUIRED": asked})
        loop = asyncio.get_running_loop()
        payload, nonce = await loop.run_in_executor(None, begin, proof)
        result = dict(REPORT)
        await loop.run_in_executor(None, floor.end, payload, nonce)
        response.headers["PAYMENT-RESPONSE"] = base64.b64encode(nonce.encode()).decode()
        return result

    return app


def make_paywall(url: str, folder: str) -> Any:
    from faregate.paywall import Paywall

    settings = {
        "FAREGATE_BASE_URL": "service:",
        "FAREGATE_SERVICE_DATABASE": f"sqlite:///{folder}/sales.db",
        "FAREGATE_SERVICE_PAY_TO": PAY_TO,
        "FAREGATE_SERVICE_FACILITATOR_TEST": url,
        "FAREGATE_SERVICE_RPC_TEST": f"{url}/rpc",
    }
    return Paywall(environ=settings)


def make_fastapi(url: str, folder: str) -> Any:
    from fastapi import Depends, FastAPI

    from faregate.fastapi import PaywallMiddleware, paid

    app = FastAPI()

    @app.get("/report", dependencies=[Depends(paid("report", price="0.01 USDC"))])
    async def report() -> dict[str, str]:
        return REPORT

    app.add_middleware(PaywallMiddleware, paywall=make_paywall(url, folder))
    return app


def make_flask(url: str, folder: str) -> Any:
    from flask import Flask

    from faregate.flask import Faregate

    app, extension = Flask("benchmark"), Faregate()
    app.add_url_rule("/report", view_func=extension.paid("report", price="0.01 USDC")(lambda: REPORT))
    extension.init_app(app, make_paywall(url, folder))
    return app


def make_x402(url: str, folder: str) -> Any:
    from fastapi import FastAPI
    from x402 import x402ResourceServer
    from x402.http import FacilitatorConfig, HTTPFacilitatorClient
    from x402.http.middleware.fastapi import PaymentMiddlewareASGI
    from x402.http.types import PaymentOption, RouteConfig
    from x402.mechanisms.evm.exact.server import ExactEvmScheme

    server = x402ResourceServer(HTTPFacilitatorClient(FacilitatorConfig(url=url)))
    server.register(NETWORK, ExactEvmScheme())  # type: ignore[no-untyped-call,arg-type]  # as its README does
    price = PaymentOption(scheme="exact", network=NETWORK, price="$0.01", pay_to=PAY_TO)
    app = FastAPI()

    @app.get("/report")
    async def report() -> dict[str, str]:
        return REPORT

    routes = {"GET /report": RouteConfig(accepts=price)}
    app.add_middleware(PaymentMiddlewareASGI, routes=routes, server=server)
    return app


ASGI: Final[dict[str, Callable[[str, str], Any]]] = {
    "floor-fastapi": make_floor_app,
    "fastapi": make_fastapi,
    "x402": make_x402,
}
NAMES: Final = ("floor", "floor-fastapi", "fastapi", "flask", "x402")


# Sales by so many payers at once


async def ask_asgi(app: Any, proof: str | None) -> tuple[int, dict[str, str]]:
    started: list[Any] = []

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            started.append(message)

    await app(make_scope("/report", proof), make_receive(), send)
    headers = {name.decode().lower(): value.decode() for name, value in started[0]["headers"]}
    return started[0]["status"], headers


def ask_wsgi(app: Any, proof: str | None) -> tuple[int, dict[str, str]]:
    started: list[Any] = []
    chunks = app(make_environ("/report", proof), lambda *said: started.append(said))
    b"".join(chunks)
    if hasattr(chunks, "close"):
        chunks.close()
    status, headers = started[0][:2]
    return int(status[:3]), {name.lower(): value for name, value in headers}


class Seller:
    """One application, or the floor, in this process."""

    def __init__(self, name: str, url: str, folder: str, payers: int) -> None:
        from faregate.emulator.wallet import Wallet

        self._payers = payers
        self._loop = uvloop.new_event_loop()
        self._wallets = cycle([Wallet() for _ in range(PAYERS)])
        self._floor = Floor(url, folder) if name == "floor" else None
        self._is_asgi = name in ASGI
        self._app = None
        if self._floor is None:
            self._app = ASGI[name](url, folder) if self._is_asgi else make_flask(url, folder)
            self._instructions = self._ask(None)[1]["payment-required"]

    def _ask(self, proof: str | None) -> tuple[int, dict[str, str]]:
        if self._is_asgi:
            return self._loop.run_until_complete(ask_asgi(self._app, proof))
        return ask_wsgi(self._app, proof)

    def sign(self, number: int) -> list[str]:
        """Sign so many payments, by each payer in its turn."""
        if self._floor is not None:
            return [""] * number
        return [next(self._wallets).pay(self._instructions) for _ in range(number)]

    def sell(self, signed: list[str]) -> tuple[float, float]:
        """Sell for these payments; return the seconds and those of the processor that it took."""
        proofs = iter(signed)
        cpu, began = time.process_time(), time.perf_counter()
        if self._is_asgi:
            self._loop.run_until_complete(self._sell_async(proofs))
        else:
            self._sell_in_threads(proofs)
        return time.perf_counter() - began, time.process_time() - cpu

    async def _sell_async(self, proofs: Iterator[str]) -> None:
        async def pay() -> None:
            for proof in proofs:
                self._check(*await ask_asgi(self._app, proof))

        await asyncio.gather(*(pay() for _ in range(self._payers)))

    def _sell_in_threads(self, proofs: Iterator[str]) -> None:
        taking = threading.Lock()

        def pay() -> None:
            while True:
                with taking:
                    proof = next(proofs, None)
                if proof is None:
                    return
                if self._floor is not None:
                    self._floor.sell()
                else:
                    self._check(*ask_wsgi(self._app, proof))

        threads = [threading.Thread(target=pay) for _ in range(self._payers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    @staticmethod
    def _check(status: int, headers: dict[str, str]) -> None:
        if status != 200 or "payment-response" not in headers:
            print(f"a sale was answered {status}", file=sys.stderr, flush=True)
            os._exit(1)  # also from a thread


def work(name: str, url: str, payers: int, counts: bool) -> None:
    """A worker: reads numbers of sales from standard input, and says what they took."""
    made = 0
    is_counted: dict[int, bool] = {}

    def count(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal made
        thread = threading.get_ident()
        if thread not in is_counted:
            # These look for work at times, however many sales there are.
            is_counted[thread] = not threading.current_thread().name.startswith(_ASIDE)
        made += event == "call" and is_counted[thread]

    if counts:
        threading.setprofile(count)
        sys.setprofile(count)
    with tempfile.TemporaryDirectory() as folder:
        seller = Seller(name, url, folder, payers)
        for line in sys.stdin:
            signed = seller.sign(int(line))
            before = made
            took, cpu = seller.sell(signed)
            print(json.dumps([took, cpu, made - before]), flush=True)
    os._exit(0)  # threads of the service need not end


class Worker:
    """A process that sells, with the faregate of a checkout."""

    def __init__(self, checkout: Path, name: str, url: str, payers: int, *, counts: bool = False) -> None:
        command = [sys.executable, str(HERE), "--work", name, "--url", url, "--payers", str(payers)]
        environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
        self._process = subprocess.Popen(
            [*command, *(["--count"] if counts else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def sell(self, number: int) -> tuple[float, float, int]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(number, file=self._process.stdin, flush=True)
        took, cpu, calls = json.loads(self._process.stdout.readline())
        return took / number, cpu / number, calls // number

    def stop(self) -> None:
        self._process.communicate()


@contextmanager
def run_chain() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    chain = subprocess.Popen([sys.executable, str(HERE.with_name("chain.py")), str(port)])
    try:
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
            except OSError:
                time.sleep(0.05)
            else:
                break
        else:
            raise SystemExit("chain.py did not start")
        yield f"http://127.0.0.1:{port}"
    finally:
        chain.terminate()
        chain.wait()


def count_calls(checkout: Path, name: str, url: str, payers: int) -> int:
    counter = Worker(checkout, name, url, payers, counts=True)
    counter.sell(2 * PAYERS)  # each payer has paid before: what a second sale takes is counted
    calls = counter.sell(2 * PAYERS)[2]
    counter.stop()
    return calls


def compare(checkouts: list[Path], names: list[str], payers: int, rounds: int, number: int, url: str) -> None:
    """Print a row for each application; those of faregate are measured in each checkout."""
    print(
        f"\n{payers} payers at once\n\n"
        "| | sales per second | ms | CPU us | x first | Python calls |\n|---|---:|---:|---:|---:|---:|"
    )
    subjects = [
        (f"{name}, {one.name}" if len(checkouts) > 1 and name in ("fastapi", "flask") else name, name, one)
        for name in names
        for one in (checkouts if name in ("fastapi", "flask") else checkouts[:1])
    ]
    workers = {title: Worker(one, name, url, payers) for title, name, one in subjects}
    for worker in workers.values():
        worker.sell(200)  # the first ones load and prepare
    results: dict[str, list[tuple[float, float, int]]] = {title: [] for title in workers}
    for _ in range(rounds):
        for title, worker in workers.items():
            results[title].append(worker.sell(number))
    for worker in workers.values():
        worker.stop()
    first = [cpu for _, cpu, _ in next(iter(results.values()))]
    for title, name, one in subjects:
        calls = count_calls(one, name, url, payers)
        took = median(seconds for seconds, _, _ in results[title])
        cpu = median(seconds for _, seconds, _ in results[title])
        ratio = median(mine / other for (_, mine, _), other in zip(results[title], first, strict=True))
        print(
            f"| {title} | {1 / took:,.0f} | {payers * took * 1000:.2f} | {cpu * 1e6:,.0f} | {ratio:.2f} "
            f"| {calls:,} |",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--payers", type=int, nargs="*", default=[1])
    parser.add_argument("--only", nargs="*", choices=NAMES, default=[], help="all if none is named")
    parser.add_argument("--against", type=Path, nargs="*", default=[], help="other checkouts of faregate")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sales", type=int, default=300, help="of each round")
    parser.add_argument("--calls", action="store_true", help="the figures of tests/test_request_cost.py")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    parser.add_argument("--count", action="store_true", help=argparse.SUPPRESS)
    said = parser.parse_args()
    if said.work:
        work(said.work, said.url, said.payers[0], said.count)
        return
    checkouts = [HERE.parents[1], *(one.resolve() for one in said.against)]
    with run_chain() as url:
        if said.calls:
            counted = {name: count_calls(checkouts[0], name, url, 1) for name in said.only or NAMES}
            print(json.dumps(counted))
            return
        for payers in said.payers:
            compare(checkouts, said.only or list(NAMES), payers, said.rounds, said.sales, url)


if __name__ == "__main__":
    main()

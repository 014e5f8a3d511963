"""What a sale with the service inside costs in the process, beside its floor and x402. There is no server.

    .venv-faregate/bin/python benchmarks/service_inside.py  # one payer, about two minutes
    .venv-faregate/bin/python benchmarks/service_inside.py --payers 16 64 --only by-hand fastapi x402
    .venv-faregate/bin/python benchmarks/service_inside.py --only fastapi flask --against ../old  # in turns

    by-hand, flask-by-hand  the calls and the writes of a sale, and nothing else (`apps/whole_sales.py`)
    fastapi, flask          the same applications with faregate, all in SQLite
    x402                    FastAPI with the middleware of the package `x402`, which has no books

They are those of the case `one-process` of `benchmarks/run`, called in their process, with a facilitator and
a node beside it (`chain.py`). Each has a process of its own, and they take turns. Median of the rounds; the
Python calls of all threads are counted in another process.
"""

import argparse
import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from itertools import cycle
from pathlib import Path
from statistics import median
from typing import Any, Final

import uvloop
from in_process import make_environ, make_receive, make_scope

HERE: Final = Path(__file__).resolve()
PAYERS: Final = 256
"""More than buy at once, so that none buys the same thing twice at the same moment."""
_SIGNED_AT_ONCE: Final = 64
_ASIDE: Final = ("faregate-worker", "faregate leases")
"""The names of threads that make no sale."""
ASGI: Final = {"by-hand": "inside_by_hand", "fastapi": "inside", "x402": "x402"}
"""The names of contestants, and of their functions in `apps/fastapi_app.py`."""
WSGI: Final = {"flask-by-hand": "inside_by_hand", "flask": "inside"}
"""The same in `apps/flask_app.py`."""
NAMES: Final = (*ASGI, *WSGI)
_OURS: Final = ("fastapi", "flask")


def make_app(name: str, url: str, folder: str) -> Any:
    """Make an application of `apps/`, which reads from the environment what is asked for."""
    os.environ |= {
        "BENCH_SERVICE": url,
        "BENCH_JOURNAL": f"sqlite:///{folder}/sales.db",
        "BENCH_WINDOW": "600",
    }
    sys.path.insert(0, str(HERE.with_name("apps")))
    if name in ASGI:
        return getattr(import_module("fastapi_app"), ASGI[name])()
    return getattr(import_module("flask_app"), WSGI[name])()


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
    """One application in this process."""

    def __init__(self, name: str, url: str, folder: str, payers: int) -> None:
        from faregate.emulator.wallet import Wallet

        self._payers = payers
        self._loop = uvloop.new_event_loop()
        self._wallets = cycle([Wallet() for _ in range(PAYERS)])
        self._is_asgi = name in ASGI
        self._app = make_app(name, url, folder)
        self._instructions = self._ask(None)[1]["payment-required"]

    def _ask(self, proof: str | None) -> tuple[int, dict[str, str]]:
        if self._is_asgi:
            return self._loop.run_until_complete(ask_asgi(self._app, proof))
        return ask_wsgi(self._app, proof)

    def sign(self, number: int) -> list[str]:
        """Sign so many payments, by each payer in its turn."""
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
    # Counting is slow, and a payment is valid for a minute from its signature on: few are signed at once.
    portions = PAYERS // _SIGNED_AT_ONCE
    for _ in range(portions):
        counter.sell(_SIGNED_AT_ONCE)
    # Each payer has paid before: what a second sale takes is counted.
    calls = sum(counter.sell(_SIGNED_AT_ONCE)[2] for _ in range(portions)) // portions
    counter.stop()
    return calls


def compare(checkouts: list[Path], names: list[str], payers: int, rounds: int, number: int, url: str) -> None:
    """Print a row for each application; those of faregate are measured in each checkout."""
    print(
        f"\n{payers} payers at once\n\n"
        "| | sales per second | ms | CPU us | x first | Python calls |\n|---|---:|---:|---:|---:|---:|"
    )
    subjects = [
        (f"{name}, {checkout.name}" if len(checkouts) > 1 and name in _OURS else name, name, checkout)
        for name in names
        for checkout in (checkouts if name in _OURS else checkouts[:1])
    ]
    workers = {title: Worker(checkout, name, url, payers) for title, name, checkout in subjects}
    for worker in workers.values():
        worker.sell(200)  # the first ones load and prepare
    results: dict[str, list[tuple[float, float, int]]] = {title: [] for title in workers}
    for _ in range(rounds):
        for title, worker in workers.items():
            results[title].append(worker.sell(number))
    for worker in workers.values():
        worker.stop()
    first = [cpu for _, cpu, _ in next(iter(results.values()))]
    for title, name, checkout in subjects:
        calls = count_calls(checkout, name, url, payers)
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

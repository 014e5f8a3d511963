"""What one paid request costs inside the process: no sockets, a service that answers at once, memory journal.

    .venv-faregate/bin/python benchmarks/in_process.py  # this checkout
    .venv-faregate/bin/python benchmarks/in_process.py --against ../old  # beside another one, in turns
    .venv-faregate/bin/python benchmarks/in_process.py --profile fastapi  # where the time goes
    .venv-faregate/bin/python benchmarks/in_process.py --case free  # an unpaid route, with and without

For each adapter: microseconds of processor time, Python calls, calls of builtins, turns of the event loop,
and objects in cycles, which only the garbage collector frees. Each checkout runs in a process of its own,
and they take turns, so that a ratio is that of one moment. Medians of the rounds.
"""

import argparse
import asyncio
import base64
import cProfile
import gc
import io
import json
import os
import pstats
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median
from typing import Any

from harness.proof_template import INSTRUCTIONS as INSTRUCTIONS_OF_PROOF
from harness.proof_template import SERIAL_LENGTH, build_template, fill

HERE = Path(__file__).resolve()
REVISION = "acr_000000000000700080000000000000a1"
INSTRUCTIONS = base64.b64encode(json.dumps({"x402Version": 2, "accepts": [{"scheme": "exact"}]}).encode())
SETTLED = "eyJzdWNjZXNzIjp0cnVlLCJ0cmFuc2FjdGlvbiI6IjB4YWIiLCJuZXR3b3JrIjoiZWlwMTU1Ojg0NTMyIn0="
CONTRACTS = json.loads(
    next(
        line.split("return 200 '")[1].rpartition("';")[0]
        for line in (HERE.parent / "nginx.conf").read_text().splitlines()
        if "components" in line
    )
)
RECEIPT = json.loads(
    next(
        line.split("return 200 '")[1].rpartition("';")[0].replace("$paid", "TXN")
        for line in (HERE.parent / "nginx.conf").read_text().splitlines()
        if "succeeded" in line
    )
)
COMPLETED = json.dumps(RECEIPT, separators=(",", ":")).encode()
COMMON = (
    ("Server", "nginx"),
    ("Date", "Sun, 22 Nov 2026 12:00:00 GMT"),
    ("Content-Type", "application/json"),
    ("Connection", "keep-alive"),
)
PAID = (*COMMON, ("PAYMENT-RESPONSE", SETTLED))
PROOF = build_template(INSTRUCTIONS_OF_PROOF, "http://127.0.0.1/report")
REPORT = {"report": "Sunny, with a chance of receipts."}


class Service:
    """A transport, sync and async, that answers at once: the seller's two calls succeed."""

    def __init__(self, response: Callable[..., Any]) -> None:
        self._response = response
        self._number = 0

    def send(self, method: str, url: str, headers: Any, body: bytes | None, seconds: float) -> Any:
        if url.endswith("/access"):
            if not any(name == "PAYMENT-SIGNATURE" for name, _ in headers):
                told = (*COMMON, ("PAYMENT-REQUIRED", INSTRUCTIONS.decode()))
                return self._response(402, told, b'{"code":"payment_required","message":"Pay first."}')
            self._number += 1
            body = b'{"transaction_id":"txn_%012x7000800000000000000a"}' % self._number
            return self._response(200, COMMON, body)
        if url.endswith("/complete"):
            body = COMPLETED.replace(b"TXN", url[-45:-9].encode())
            return self._response(200, PAID, body)
        return self._response(200, COMMON, json.dumps(CONTRACTS).encode())

    async def asend(self, method: str, url: str, headers: Any, body: bytes | None, seconds: float) -> Any:
        return self.send(method, url, headers, body, seconds)

    def close(self) -> None:
        pass

    async def aclose(self) -> None:
        pass


def make_arguments() -> dict[str, Any]:
    from faregate.core.models import Response

    return {
        "api_key": "svc_test_benchmark",
        "base_url": "http://127.0.0.1:9",
        "public_url": "https://seller.example",
        "transport": Service(Response),
        "journal": os.environ.get("BENCH_JOURNAL", "memory:"),
        "journal_key": base64.b64encode(bytes(32)).decode(),
    }


def make_paywall() -> Any:
    from faregate.paywall import Paywall

    return Paywall(environ={}, **make_arguments())


# The applications: each sells /report, and gives /free away


def make_starlette(is_sold: bool) -> Any:
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    from faregate.starlette import PaywallMiddleware, paid

    async def report(request: Any) -> Any:
        return JSONResponse(REPORT)

    async def free(request: Any) -> Any:
        return JSONResponse(REPORT)

    sold = paid("report")(report) if is_sold else report
    routes = [Route("/report", sold), Route("/free", free)]
    return Starlette(
        routes=routes, middleware=[Middleware(PaywallMiddleware, paywall=make_paywall())] if is_sold else []
    )


def make_fastapi(is_sold: bool) -> Any:
    from fastapi import Depends, FastAPI

    from faregate.fastapi import PaywallMiddleware, paid

    app = FastAPI()

    @app.get("/report", dependencies=[Depends(paid("report"))] if is_sold else [])
    async def report() -> dict[str, str]:
        return REPORT

    @app.get("/free")
    async def free() -> dict[str, str]:
        return REPORT

    if is_sold:
        app.add_middleware(PaywallMiddleware, paywall=make_paywall())
    return app


def make_asgi(is_sold: bool) -> Any:
    from faregate.asgi import PaywallMiddleware

    body = json.dumps(REPORT).encode()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return PaywallMiddleware(app, make_paywall(), offers={"/report": "report"}) if is_sold else app


def make_flask(is_sold: bool) -> Any:
    from flask import Flask

    from faregate.flask import Faregate

    app, paywall = Flask("benchmark"), Faregate()
    price = getattr(paywall, "paid", None) or getattr(paywall, "require")  # noqa: B009

    def report() -> dict[str, str]:
        return REPORT

    def free() -> dict[str, str]:
        return REPORT

    app.add_url_rule("/report", view_func=price("report")(report) if is_sold else report)
    app.add_url_rule("/free", view_func=free)
    if is_sold:
        paywall.init_app(app, make_paywall())
    return app


def make_django(is_sold: bool) -> Any:
    from django.conf import settings
    from django.core.wsgi import get_wsgi_application
    from django.http import JsonResponse
    from django.urls import path

    def report(request: Any) -> Any:
        return JsonResponse(REPORT)

    def free(request: Any) -> Any:
        return JsonResponse(REPORT)

    settings.configure(
        ALLOWED_HOSTS=["*"],
        MIDDLEWARE=["faregate.django.PaywallMiddleware"] if is_sold else [],
        INSTALLED_APPS=["faregate.django"] if is_sold else [],
        FAREGATE={name.upper(): value for name, value in make_arguments().items()},
    )
    from faregate.django import paid

    sold = paid("report")(report) if is_sold else report
    settings.ROOT_URLCONF = (path("report", sold), path("free", free))
    return get_wsgi_application()


ASGI = {"asgi": make_asgi, "starlette": make_starlette, "fastapi": make_fastapi}
WSGI = {"flask": make_flask, "django": make_django}


# One request


def make_scope(path: str, proof: str | None) -> dict[str, Any]:
    headers = [
        (b"host", b"127.0.0.1:8000"),
        (b"user-agent", b"benchmark"),
        (b"accept", b"*/*"),
        (b"accept-encoding", b"gzip"),
    ]
    if proof is not None:
        headers.append((b"payment-signature", proof.encode()))
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "server": ("127.0.0.1", 8000),
        "client": ("127.0.0.1", 40000),
        "scheme": "http",
        "method": "GET",
        "root_path": "",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": headers,
        "state": {},
    }


def make_environ(path: str, proof: str | None) -> dict[str, Any]:
    environ = {
        "REQUEST_METHOD": "GET",
        "SCRIPT_NAME": "",
        "PATH_INFO": path,
        "QUERY_STRING": "",
        "SERVER_NAME": "127.0.0.1",
        "SERVER_PORT": "8000",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": "127.0.0.1",
        "HTTP_HOST": "127.0.0.1:8000",
        "HTTP_USER_AGENT": "benchmark",
        "HTTP_ACCEPT": "*/*",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    if proof is not None:
        environ["HTTP_PAYMENT_SIGNATURE"] = proof
    return environ


class CountingLoop(asyncio.SelectorEventLoop):
    turns = 0

    def _run_once(self) -> None:
        self.turns += 1
        super()._run_once()  # type: ignore[misc]


class Subject:
    """An application in this process. `proofs` counts those that were used: each pays once."""

    def __init__(self, name: str, is_sold: bool = True) -> None:
        self.name = name
        self.proofs = 0
        self._loop = CountingLoop()
        self.app = {**ASGI, **WSGI}[name](is_sold)

    def ask(self, number: int, path: str, expected: int, has_proof: bool, *, profiler: Any = None) -> float:
        """Send so many requests, one after the other. Return the seconds of processor time."""
        make = make_environ if self.name in WSGI else make_scope
        proofs = self.make_proofs(number) if has_proof else [None] * number
        requests = [make(path, proof) for proof in proofs]
        statuses: list[Any] = []
        gc.collect()
        asyncio.set_event_loop(self._loop)
        if profiler is not None:
            sys.setprofile(profiler)
        began = time.process_time()
        if self.name in WSGI:
            self._ask_wsgi(requests, statuses)
        else:
            self._loop.run_until_complete(self._ask_asgi(requests, statuses))
        seconds = time.process_time() - began
        if profiler is not None:
            sys.setprofile(None)
        if any(int(str(status)[:3]) != expected for status in statuses) or len(statuses) != number:
            raise SystemExit(f"{self.name}: {statuses[-1:]} for {path}")
        return seconds

    def make_proofs(self, number: int) -> list[str]:
        first, self.proofs = self.proofs + 1, self.proofs + number
        return [fill(PROOF, f"{proof:0{SERIAL_LENGTH}}") for proof in range(first, self.proofs + 1)]

    async def _ask_asgi(self, requests: list[Any], statuses: list[Any]) -> None:
        async def send(message: Any) -> None:
            if "status" in message:
                statuses.append(message["status"])

        app: Callable[[Any, Any, Any], Awaitable[None]] = self.app
        for scope in requests:
            await app(scope, make_receive(), send)

    def _ask_wsgi(self, requests: list[Any], statuses: list[Any]) -> None:
        for environ in requests:
            chunks = self.app(environ, lambda status, *_: statuses.append(status))
            for _ in chunks:
                pass
            if hasattr(chunks, "close"):
                chunks.close()

    def measure_cpu(self, number: int, *request: Any) -> float:
        return self.ask(number, *request) / number * 1e6

    def count_turns(self, *request: Any) -> int:
        before = self._loop.turns
        self.ask(10, *request)
        return round((self._loop.turns - before) / 10)

    def count_calls(self, *request: Any) -> dict[str, int]:
        """Count the calls of functions in Python, and of those in C."""
        events = Counter[str]()

        def count(_frame: Any, event: str, _argument: Any) -> None:
            events[event] += 1

        self.ask(20, *request, profiler=count)
        return {"calls": events["call"] // 20, "builtins": events["c_call"] // 20}

    def count_cyclic(self, *request: Any) -> int:
        """Count the objects that a request leaves to the garbage collector."""
        gc.disable()
        self.ask(20, *request)
        found = gc.collect() // 20
        gc.enable()
        return found


def make_receive() -> Callable[[], Awaitable[dict[str, Any]]]:
    """Make what gives the end of a body, and then waits as servers do: the client stays."""
    messages = asyncio.Queue[dict[str, Any]]()
    messages.put_nowait({"type": "http.request", "body": b"", "more_body": False})
    return messages.get


CASES: dict[str, tuple[tuple[str, int, bool], bool]] = {
    "paid": (("/report", 200, True), True),
    "unpaid": (("/report", 402, False), True),
    "free": (("/free", 200, False), True),
    "bare": (("/report", 200, False), False),
}
"""What is asked: path, status, with a proof or not; and whether the application has a paywall."""


def work(name: str, case: str) -> None:
    """A worker: reads a number of requests from standard input, and says what they cost."""
    request, is_sold = CASES[case]
    subject = Subject(name, is_sold)
    subject.ask(50, *request)
    counts = {
        **subject.count_calls(*request),
        "turns": subject.count_turns(*request),
        "cyclic": subject.count_cyclic(*request),
    }
    print(json.dumps(counts), flush=True)
    for line in sys.stdin:
        print(json.dumps(subject.measure_cpu(int(line), *request)), flush=True)


def count(name: str) -> dict[str, int]:
    """Count what one paid request takes beyond the bare application's own."""
    if name == "sqlite":
        return count_statements()
    sold, bare = (Worker(HERE.parents[1], name, case) for case in ("paid", "bare"))
    for worker in (sold, bare):
        worker.stop()
    return {one: sold.counts[one] - bare.counts[one] for one in sold.counts}


def count_statements() -> dict[str, int]:
    """Count what one sale has SQLite do. A commit is synced unless SQLite was told that it need not be."""
    said: list[str] = []
    connect = sqlite3.connect

    def connect_traced(*arguments: Any, **named: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*arguments, **named)
        connection.set_trace_callback(said.append)
        return connection

    vars(sqlite3)["connect"] = connect_traced
    with tempfile.TemporaryDirectory() as folder:
        os.environ["BENCH_JOURNAL"] = f"sqlite:///{folder}/journal.db"
        subject, (request, _) = Subject("flask"), CASES["paid"]
        del os.environ["BENCH_JOURNAL"]
        subject.ask(20, *request)
        said.clear()
        subject.ask(100, *request)
        # SQLite tells of a statement again for each trigger that it may fire.
        statements = [one for one, before in zip(said, ["", *said], strict=False) if one != before]
    synced, is_synced, is_open = 0, True, False
    for statement in statements:
        if statement.startswith("PRAGMA synchronous"):
            is_synced = "FULL" in statement
        is_open = (is_open and statement != "COMMIT") or statement.startswith("BEGIN")
        commits = statement.startswith(("COMMIT", "INSERT", "UPDATE", "DELETE")) and not is_open
        synced += is_synced and commits
    return {"statements": len(statements) // 100, "commits": synced // 100}


class Worker:
    def __init__(self, checkout: Path, name: str, case: str) -> None:
        command = [sys.executable, str(HERE), "--work", name, "--case", case]
        environment = {**os.environ, "PYTHONPATH": str(checkout / "src"), "PYTHONHASHSEED": "0"}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self.counts: dict[str, int] = self._read()

    def measure(self, number: int) -> float:
        assert self._process.stdin is not None
        print(number, file=self._process.stdin, flush=True)
        return float(self._read())

    def _read(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def stop(self) -> None:
        self._process.communicate()


def profile(name: str, case: str, number: int) -> None:
    request, is_sold = CASES[case]
    subject = Subject(name, is_sold)
    subject.ask(200, *request)
    profiler = cProfile.Profile()
    profiler.enable()
    subject.ask(number, *request)
    profiler.disable()
    pstats.Stats(profiler).sort_stats("tottime").print_stats(60)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--against", type=Path, nargs="*", default=[], help="other checkouts of faregate")
    parser.add_argument("--only", nargs="*", default=[], help="adapters; all if none is named")
    parser.add_argument("--case", choices=CASES, default="paid")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--requests", type=int, default=300, help="of each round")
    parser.add_argument("--profile", metavar="ADAPTER")
    parser.add_argument("--count", action="store_true", help="the figures of tests/test_request_cost.py")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    said = parser.parse_args()
    if said.work:
        work(said.work, said.case)
    elif said.profile:
        profile(said.profile, said.case, said.requests)
    elif said.count:
        print(json.dumps({name: count(name) for name in said.only or [*ASGI, *WSGI, "sqlite"]}))
    else:
        compare(
            [HERE.parents[1], *said.against],
            said.only or [*ASGI, *WSGI],
            said.case,
            said.rounds,
            said.requests,
        )


def compare(checkouts: list[Path], names: list[str], case: str, rounds: int, number: int) -> None:
    """Print a row for each adapter and checkout. The last worker has no paywall at all."""
    print(
        "| adapter | checkout | CPU us | x first | Python calls | builtins | loop turns | cyclic objects |\n"
        "|---|---|---:|---:|---:|---:|---:|---:|"
    )
    for name in names:
        workers = {str(one): Worker(one.resolve(), name, case) for one in checkouts}
        workers["(bare)"] = Worker(HERE.parents[1], name, "bare")
        costs: dict[str, list[float]] = {one: [] for one in workers}
        for _ in range(rounds):
            for one, worker in workers.items():
                costs[one].append(worker.measure(number))
        first = costs[str(checkouts[0])]
        for one, worker in workers.items():
            ratio = median(mine / other for mine, other in zip(costs[one], first, strict=True))
            cost = median(costs[one])
            counts = " | ".join(map(str, worker.counts.values()))
            print(f"| {name} | {Path(one).name} | {cost:.0f} | {ratio:.2f} | {counts} |")
            worker.stop()


if __name__ == "__main__":
    main()

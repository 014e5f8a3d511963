"""How fast the self-hosted service is, and whether it stays so with many transactions.

    .venv-faregate/bin/python benchmarks/service.py  # about eight minutes; results/service-<time>.json
    .venv-faregate/bin/python benchmarks/service.py --quick  # one minute: does it run?
    .venv-faregate/bin/python benchmarks/service.py --docs  # writes it into docs/ as well
    .venv-faregate/bin/python benchmarks/service.py --skip growth --databases postgres
    .venv-faregate/bin/python benchmarks/service.py --skip growth --databases postgres --apart

Sales: `faregate service serve` in one process and in two, on SQLite and on PostgreSQL, over real HTTP. A sale
is access with a proof and complete; its payment is verified and settled at once (`settled_service.py`), so
what is measured is the service. Every write is forced to the disk. Beside it is a program by hand that writes
as much, and does nothing else (`service_by_hand.py`). The database holds some thousand
transactions already: PostgreSQL plans badly for a table that was empty when it last looked, which is within
the last minute. Service, database and load share the machine: so processor time is given for each. On a
machine that others use too, look at nothing else. `--apart` gives one process of the service a core of its
own, and the database another one: sales per second times the milliseconds of each say how busy its core is.

Growth: the same database with 1,000 and with 200,000 transactions (`service_data.py`). Memory of the service
after the same sales and lists, and the time of list pages, ten transactions each: the first request of a new
list, which also fixes its moment and counts it, and the later pages of the same list, as a client turns them.
"""

import argparse
import json
import os
import platform
import re
import secrets
import selectors
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from service_data import PAYERS, find_revision, prepare
from tests.emulator.load import access_body, complete_body, unsigned_proof
from tests.emulator.seller import ROOT
from tests.servers import POSTGRES_MISSING
from tests.servers.postgres import PostgresServer

from emulator import Caller

HERE = Path(__file__).resolve().parent
DATABASES = ("sqlite", *(() if POSTGRES_MISSING else ("postgres",)))
PAGES = tuple(HERE.parent / "docs" / name for name in ("performance.md", "contributing/figures.md"))
WARM_UP_SALES = 200
SOLD_BEFORE = 5000
"""Transactions in the database before sales are measured."""
LISTS = {
    "all": "order=newest",
    "succeeded": "order=newest&status=succeeded",
    "failed (1 in 100)": "order=newest&status=failed",
    "of one payer (half of all)": "order=newest&payer_id={payer}",
}


@dataclass(frozen=True, slots=True)
class Sales:
    """One measurement. Times in ms; processor time is user and system time for one sale."""

    database: str
    processes: int
    round: int
    callers: int
    per_second: float
    p50: float
    p99: float
    service_cpu: float
    database_cpu: float
    client_cpu: float


@dataclass(frozen=True, slots=True)
class Growth:
    """One database of one size: memory of the service in MiB, and ms of each request."""

    database: str
    transactions: int
    memory_at_start: float
    memory: float
    sale: float
    pages: dict[str, float] = field(default_factory=dict)


# The processes


@dataclass(slots=True)
class Place:
    """A database that nobody has used, and the processes that serve it (none for SQLite)."""

    kind: str
    url: str
    server: PostgresServer | None

    def get_spent(self) -> float:
        return 0.0 if self.server is None else sum(map(get_spent, self.server.pids()))


@contextmanager
def open_place(kind: str) -> Iterator[Place]:
    if kind == "sqlite":
        with tempfile.TemporaryDirectory() as folder:
            yield Place(kind, f"sqlite:///{folder}/service.db", None)
        return
    server = PostgresServer({"shared_buffers": "256MB", "max_wal_size": "2GB"})
    with server.serving() as url:
        yield Place(kind, url, server)


@dataclass(slots=True)
class Service:
    pid: int
    port: int

    @property
    def memory(self) -> float:
        """Return the resident memory, in MiB."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


@contextmanager
def run_service(url: str, *prefix: str, program: str = "settled_service.py") -> Iterator[Service]:
    command = [*prefix, sys.executable, str(HERE / program), url]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=HERE)
    try:
        assert process.stdout is not None
        said = process.stdout.readline()
        yield Service(process.pid, int(json.loads(said)["url"].rpartition(":")[2]))
    finally:
        process.terminate()
        process.wait(40)


def get_spent(pid: int) -> float:
    """Return user and system time of a process, in seconds; 0 if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# Sales


@dataclass(slots=True)
class Seller:
    """What a caller needs to sell. `took` are the times of sales, in seconds."""

    key: str
    revision_id: str
    took: list[float] = field(default_factory=list)

    def sell_until(self, end: float) -> Generator[bytes, bytes, None]:
        """Sell until the time is over. Every payment must succeed."""
        while time.perf_counter() < end:
            yield from self.sell()

    def sell_many(self, count: int) -> Generator[bytes, bytes, None]:
        for _ in range(count):
            yield from self.sell()

    def sell(self) -> Generator[bytes, bytes, None]:
        began = time.perf_counter()
        proof = unsigned_proof(secrets.randbits(256), secrets.randbelow(PAYERS))
        answer = yield self.build("/access", access_body(self.revision_id), proof)
        assert answer.startswith(b"HTTP/1.1 200 "), answer
        identifier = json.loads(answer.partition(b"\r\n\r\n")[2])["transaction_id"]
        path = f"/transactions/{identifier}/complete"
        answer = yield self.build(path, complete_body(self.revision_id), proof)
        assert answer.startswith(b"HTTP/1.1 200 "), answer
        assert b"payment-response: " in answer.lower(), answer
        self.took.append(time.perf_counter() - began)

    def build(self, path: str, body: object, proof: str) -> bytes:
        content = json.dumps(body).encode()
        head = [f"POST {ROOT}{path} HTTP/1.1", "Host: service", f"Authorization: Bearer {self.key}"]
        head += ["Content-Type: application/json", f"Content-Length: {len(content)}"]
        head += [f"PAYMENT-SIGNATURE: {proof}"]
        return "\r\n".join(head).encode() + b"\r\n\r\n" + content


def talk_to(services: Sequence[Service], talks: Sequence[Any]) -> float:
    """Hold all talks at once, in turn with each of the services; return how many seconds they took."""
    ready = selectors.DefaultSelector()
    began = time.perf_counter()
    for number, talk in enumerate(talks):
        wire = socket.create_connection(("127.0.0.1", services[number % len(services)].port))
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        caller = Caller(wire, talk)
        ready.register(wire, selectors.EVENT_READ, caller)
        caller.begin()
    while ready.get_map():
        for key, _ in ready.select():
            if not key.data.hear():
                ready.unregister(key.data.wire)
                key.data.wire.close()
    return time.perf_counter() - began


def measure_sales(
    kind: str,
    processes: int,
    callers: int,
    seconds: float,
    number: int,
    *,
    apart: bool = False,
    on_one_processor: bool = False,
    by_hand: bool = False,
) -> Sales:
    """Measure sales in a database of its own.

    `apart`: the service on core 0, PostgreSQL on core 1. `on_one_processor`: the service on core 0.
    """
    with open_place(kind) as place, ExitStack() as stack:
        key = prepare(place.url, SOLD_BEFORE)
        for pid in place.server.pids() if apart and place.server is not None else ():
            os.sched_setaffinity(pid, {1})  # connections inherit it
        prefix = ("taskset", "-c", "0") if apart or on_one_processor else ()
        program = "service_by_hand.py" if by_hand else "settled_service.py"
        services = [
            stack.enter_context(run_service(place.url, *prefix, program=program)) for _ in range(processes)
        ]
        seller = Seller(key, find_revision(place.url))
        talk_to(services, [seller.sell_many(WARM_UP_SALES // callers + 1) for _ in range(callers)])
        seller.took.clear()
        before = _get_all_spent(services, place)
        end = time.perf_counter() + seconds
        took = talk_to(services, [seller.sell_until(end) for _ in range(callers)])
        spent = [now - then for now, then in zip(_get_all_spent(services, place), before, strict=True)]
        sold = len(seller.took)
        percentiles = quantiles(seller.took, n=100)
        cpu = [one / sold * 1000 for one in spent]
        p50, p99 = percentiles[49] * 1000, percentiles[98] * 1000
        variant = ": writes by hand" if by_hand else ", on one processor" if on_one_processor else ""
        return Sales(kind + variant, processes, number, callers, sold / took, p50, p99, *cpu)


def _get_all_spent(services: Sequence[Service], place: Place) -> tuple[float, float, float]:
    """Return the seconds of processor time of the service, the database and this process."""
    return sum(get_spent(one.pid) for one in services), place.get_spent(), time.process_time()


# Growth


def measure_growth(kind: str, size: int, repeats: int) -> Growth:
    with open_place(kind) as place:
        key = prepare(place.url, size)
        with run_service(place.url) as service:
            memory_at_start = service.memory
            seller = Seller(key, find_revision(place.url))
            pages = _measure_pages(Reader(service, key), size, repeats)
            talk_to([service], [seller.sell_many(WARM_UP_SALES) for _ in range(4)])
            seller.took.clear()
            talk_to([service], [seller.sell_many(WARM_UP_SALES)])
            sale = median(seller.took) * 1000
            return Growth(kind, size, memory_at_start, service.memory, sale, pages)


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads lists over HTTP."""

    service: Service
    key: str

    def read(self, path: str) -> Any:
        url = f"http://127.0.0.1:{self.service.port}{ROOT}{path}"
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {self.key}"})
        with urllib.request.urlopen(request, timeout=60) as reply:
            return json.loads(reply.read())


def _measure_pages(reader: Reader, size: int, repeats: int) -> dict[str, float]:
    payer = reader.read("/payers?order=oldest")["items"][0]["id"]
    found: dict[str, float] = {}
    for name, query in LISTS.items():
        path = f"/transactions?page_size=10&{query.format(payer=payer)}"
        first = reader.read(path)
        as_of = urllib.parse.quote(first["as_of"])
        last = -(-first["count"] // 10)
        found[f"{name}: new list"] = _time(reader, path, repeats)
        for place, page in (("first", 1), ("middle", max(1, last // 2)), ("last", last)):
            found[f"{name}: {place} page"] = _time(reader, f"{path}&as_of={as_of}&page={page}", repeats)
    found["payers: new list"] = _time(reader, "/payers?page_size=10", repeats)
    return found


def _time(reader: Reader, path: str, repeats: int) -> float:
    """Return the ms of the quickest of these requests."""
    took: list[float] = []
    for _ in range(repeats):
        began = time.perf_counter()
        reader.read(path)
        took.append(time.perf_counter() - began)
    return min(took) * 1000


# Tables


def build_sales_table(found: Sequence[Sales]) -> str:
    lines = [
        "| database | service processes | sales per second | x one process | p50 ms | p99 ms"
        " | CPU ms a sale: service | database | client |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for kind, processes in sorted({(one.database, one.processes) for one in found}):
        own = [one for one in found if (one.database, one.processes) == (kind, processes)]
        single = {one.round: one for one in found if (one.database, one.processes) == (kind, 1)}
        ratios = [one.per_second / single[one.round].per_second for one in own if one.round in single]
        names = ("p50", "p99", "service_cpu", "database_cpu", "client_cpu")
        cells = [median(getattr(one, name) for one in own) for name in names]
        rate = median(one.per_second for one in own)
        head = f"| {kind} | {processes} | {rate:,.0f} | {median(ratios):.2f} |"
        lines.append(head + " {:.1f} | {:.1f} | {:.2f} | {:.2f} | {:.2f} |".format(*cells))
    return "\n".join(lines)


def build_growth_table(found: Sequence[Growth]) -> str:
    columns = [(one.database, one) for one in sorted(found, key=lambda one: (one.database, one.transactions))]
    head = "".join(f" {kind}, {one.transactions:,} |" for kind, one in columns)
    lines = [f"| |{head}", "|---|" + "---:|" * len(columns)]
    rows = {name: [one.pages[name] for _, one in columns] for name in found[0].pages}
    rows = {f"{name}, ms": cells for name, cells in rows.items()}
    rows["one sale after the other, ms"] = [one.sale for _, one in columns]
    rows["memory of the service at its start, MiB"] = [one.memory_at_start for _, one in columns]
    rows["memory after all lists and 1,000 sales, MiB"] = [one.memory for _, one in columns]
    for name, cells in rows.items():
        lines.append(f"| {name} |" + "".join(f" {cell:,.1f} |" for cell in cells))
    return "\n".join(lines)


def _fill(table: str, place: re.Match[str]) -> str:
    return f"{place[1]}\n{table}\n\n{place[2]}"


def write_docs(tables: dict[str, str]) -> None:
    """Put each table between its markers."""
    for page in PAGES:
        whole = page.read_text()
        for name, table in tables.items():
            marked = re.compile(rf"(<!-- results: {name} -->\n).*?(<!-- end -->)", re.DOTALL)
            whole = marked.sub(partial(_fill, table), whole)
        page.write_text(whole)


# The command


def main() -> None:
    plan = read_plan()
    at = datetime.now(UTC).isoformat(timespec="seconds")
    sales: list[Sales] = []
    growth: list[Growth] = []
    if plan.skip != "sales":
        for number in range(plan.rounds):
            for kind in plan.databases:
                measure = partial(
                    measure_sales, kind, callers=plan.callers, seconds=plan.seconds, number=number
                )
                for processes in (1,) if plan.apart else (1, 2):
                    sales.append(measure(processes, apart=plan.apart))
                    print(sales[-1], file=sys.stderr)
                if not plan.apart:
                    sales.append(measure(1, on_one_processor=True))
                    print(sales[-1], file=sys.stderr)
                sales.append(measure(1, apart=plan.apart, by_hand=True))
                print(sales[-1], file=sys.stderr)
    if plan.skip != "growth":
        for kind in plan.databases:
            for size in plan.sizes:
                growth.append(measure_growth(kind, size, plan.repeats))
                print(growth[-1], file=sys.stderr)
    tables: dict[str, str] = {}
    if sales:
        tables["servicesales"] = (
            f"Measured on {at[:10]}, {describe_machine()}: medians of {plan.rounds} rounds of"
        )
        tables["servicesales"] += f" {plan.seconds:g} seconds, {plan.callers} callers at once.\n\n"
        tables["servicesales"] += build_sales_table(sales)
    if growth:
        tables["servicegrowth"] = build_growth_table(growth)
    document = {
        "at": at,
        "machine": describe_machine(),
        "sales": [asdict(one) for one in sales],
        "growth": [asdict(one) for one in growth],
    }
    name = f"service-{at[:16].replace(':', '')}{'-quick' if plan.quick else ''}.json"
    path = plan.output or HERE / "results" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n")
    print("\n\n".join(tables.values()))
    print(f"\nwritten to {path}", file=sys.stderr)
    if plan.docs:
        write_docs(tables)


def read_plan() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="How fast the self-hosted service is.")
    parser.add_argument("--quick", action="store_true", help="a minute: small and not to be believed")
    parser.add_argument("--docs", action="store_true", help="write the tables into docs/")
    parser.add_argument("--skip", choices=["sales", "growth"])
    parser.add_argument("--apart", action="store_true", help="service and PostgreSQL on a core each")
    parser.add_argument("--databases", nargs="+", choices=DATABASES, default=DATABASES)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--callers", type=int, default=16)
    parser.add_argument("--sizes", nargs="+", type=int, default=[1_000, 200_000])
    parser.add_argument("--repeats", type=int, default=21)
    parser.add_argument("--output", type=Path, help="where the JSON results go")
    plan = parser.parse_args()
    if plan.apart and plan.docs:
        parser.error("--apart measures nothing that is in the docs")
    if plan.quick:
        plan.rounds, plan.seconds, plan.sizes, plan.repeats = 1, 2.0, [1_000, 5_000], 5
    return plan


def describe_machine() -> str:
    return f"{os.cpu_count()} cores ({platform.machine()}, Python {platform.python_version()})"


if __name__ == "__main__":
    main()

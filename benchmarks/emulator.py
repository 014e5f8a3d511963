"""How fast the emulator is, and whether it stays so: calls per second, and growth to 100,000 transactions.

    .venv-faregate/bin/python benchmarks/emulator.py  # both: about three minutes
    .venv-faregate/bin/python benchmarks/emulator.py --rounds 3 --seconds 3 --skip growth
    .venv-faregate/bin/python benchmarks/emulator.py --sizes 1000 10000 --skip load

The load: the emulator as `faregate.emulator.server` serves it, and a bare Starlette endpoint that reads a
POST and answers a fixed 402 under the same uvicorn settings. The server has one core and the client another.
They take turns within each round; medians, and ratios taken within a round. A payment is access with a proof
and complete, verified and settled; the client signs the proofs beforehand, outside of the measured time.
On a machine that others use too, look at the processor: it is what the server itself spent.

The growth: one tenant in this process, without HTTP. Its payments are believed unseen, so that only the
emulator's own memory grows. The quickest of many calls, in microseconds; full pages of ten. The pauses are
garbage collections, which are as in the served emulator, in processor time.
"""

import argparse
import gc
import json
import os
import resource
import selectors
import socket
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.emulator.load import Seller, access_body, complete_body
from tests.emulator.seller import ROOT

from faregate.emulator import TEST_KEY, Emulator, Wallet
from faregate.emulator.server import short_collections

CORES = sorted(os.sched_getaffinity(0))


# The load


def serve(kind: str) -> None:
    """In a process of its own: says where, then serves until it is ended."""
    from faregate.emulator import server
    from faregate.system import get_url

    listener = server.listen()
    print(get_url(listener), flush=True)
    if kind == "bare":
        vars(server)["app"] = lambda *_, **__: bare()
    server.run(Emulator(), listener)


def bare() -> Any:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    headers = {"PAYMENT-REQUIRED": "x" * 700}

    async def access(request: Request) -> Response:
        await request.body()
        return Response(b'{"code":"payment_required"}', 402, headers, "application/json")

    return Starlette(routes=[Route(f"{ROOT}/access", access, methods=["POST"])])


@dataclass(slots=True)
class Server:
    """`spent` is user and system time of the whole process, in seconds."""

    port: int
    process: "subprocess.Popen[str]"

    def spent(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def running(kind: str) -> Iterator[Server]:
    command = ["taskset", "-c", str(CORES[0]), sys.executable, __file__, "--serve", kind]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield Server(int(process.stdout.readline().rpartition(":")[2]), process)
    finally:
        process.terminate()
        process.wait(20)


def post(path: str, body: object, proof: str = "") -> bytes:
    content = json.dumps(body).encode()
    head = [f"POST {ROOT}{path} HTTP/1.1", "Host: emulator", f"Authorization: Bearer {TEST_KEY}"]
    head += ["Content-Type: application/json", f"Content-Length: {len(content)}"]
    head += [f"PAYMENT-SIGNATURE: {proof}"] if proof else []
    return "\r\n".join(head).encode() + b"\r\n\r\n" + content


@dataclass(slots=True)
class Caller:
    """One connection, and the talk over it: each answer gives the next request."""

    wire: socket.socket
    talk: Any
    heard: bytes = b""

    def begin(self) -> None:
        self.wire.sendall(next(self.talk))

    def hear(self) -> bool:
        """Reads what is there; False when the talk is over."""
        self.heard += self.wire.recv(65_536)
        head, found, body = self.heard.partition(b"\r\n\r\n")
        if not found or len(body) < int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]):
            return True
        whole, self.heard = self.heard, b""
        try:
            self.wire.sendall(self.talk.send(whole))
        except StopIteration:
            return False
        return True


def load(port: int, talks: list[Any]) -> float:
    """Seconds until all talks are over."""
    ready = selectors.DefaultSelector()
    callers = [Caller(socket.create_connection(("127.0.0.1", port)), talk) for talk in talks]
    began = time.perf_counter()
    for caller in callers:
        caller.wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        ready.register(caller.wire, selectors.EVENT_READ, caller)
        caller.begin()
    while ready.get_map():
        for key, _ in ready.select():
            if not key.data.hear():
                ready.unregister(key.data.wire)
    seconds = time.perf_counter() - began
    for caller in callers:
        caller.wire.close()
    return seconds


def asking(request: bytes, seconds: float, done: list[int]) -> Any:
    """The same request until the time is over; each answer must be 402."""
    end, number = time.perf_counter() + seconds, 0
    while time.perf_counter() < end:
        answer = yield request
        assert answer.startswith(b"HTTP/1.1 402 "), answer
        number += 1
    done.append(number)


def paying(revision_id: str, proofs: list[str], done: list[int]) -> Any:
    """Access with a proof, then complete, until the proofs are used up. Every payment must succeed."""
    for proof in proofs:
        answer = yield post("/access", access_body(revision_id), proof)
        assert answer.startswith(b"HTTP/1.1 200 "), answer
        identifier = json.loads(answer.partition(b"\r\n\r\n")[2])["transaction_id"]
        answer = yield post(f"/transactions/{identifier}/complete", complete_body(revision_id), proof)
        assert answer.startswith(b"HTTP/1.1 200 "), answer
        assert b"payment-response: " in answer.lower(), answer
    done.append(len(proofs))


@dataclass(frozen=True, slots=True)
class Rate:
    per_second: float
    spent: float
    """Microseconds of the server's processor per request or payment."""


def measured(server: Server, talks: list[Any], done: list[int]) -> Rate:
    spent = server.spent()
    seconds = load(server.port, talks)
    return Rate(sum(done) / seconds, (server.spent() - spent) / sum(done) * 1e6)


def unpaid(kind: str, callers: int, seconds: float, revision_id: str) -> Rate:
    request = post("/access", access_body(revision_id))
    with running(kind) as server:
        load(server.port, [asking(request, 0.5, []) for _ in range(callers)])
        done: list[int] = []
        return measured(server, [asking(request, seconds, done) for _ in range(callers)], done)


def paid(callers: int, seconds: float, revision_id: str, instructions: str) -> Rate:
    wallets = [Wallet() for _ in range(callers)]
    # Signed before the measured time: as many as a server would need that is twice as fast as any seen.
    each = max(1, int(seconds * 2_000 / callers))
    signed = [[wallet.pay(instructions) for _ in range(each)] for wallet in wallets]
    with running("emulator") as server:
        done: list[int] = []
        return measured(server, [paying(revision_id, proofs, done) for proofs in signed], done)


def load_table(rounds: int, callers: int, seconds: float) -> str:
    emulator = Emulator()
    seller = Seller(emulator)
    revision_id, instructions = seller.revision_id, seller.instructions()
    rates: dict[str, list[Rate]] = defaultdict(list)
    for number in range(rounds):
        rates["bare Starlette POST"].append(unpaid("bare", callers, seconds, revision_id))
        rates["access without proof"].append(unpaid("emulator", callers, seconds, revision_id))
        rates["payment (access and complete)"].append(paid(callers, seconds, revision_id, instructions))
        print(f"round {number + 1} of {rounds}", file=sys.stderr)
    head = f"| {callers} at once | per second | x bare | per second of the server's processor | x bare |"
    lines = [head, "|---|---:|---:|---:|---:|"]
    for name, own in rates.items():
        rounds_of_both = list(zip(own, rates["bare Starlette POST"], strict=True))
        cells = [
            median(one.per_second for one in own),
            median(one.per_second / base.per_second for one, base in rounds_of_both),
            median(1e6 / one.spent for one in own),
            median(base.spent / one.spent for one, base in rounds_of_both),
        ]
        lines.append(f"| {name} | {{:,.0f}} | {{:.2f}} | {{:,.0f}} | {{:.2f}} |".format(*cells))
    return "\n".join(lines)


# The growth


def growth(sizes: list[int], repeats: int) -> str:
    seller = Seller.trusted(fails_every=100)
    columns: dict[str, list[float]] = defaultdict(list)
    memory: list[float] = []
    pauses: list[float] = []
    started = resident_mib()
    for size in sizes:
        with measured_pauses() as found:
            while seller.sold < size:
                seller.story()
        pauses.append(max(found, default=0.0))
        memory.append(resident_mib() - started)
        for name, call in calls(seller).items():
            columns[name].append(min(timed(call) for _ in range(repeats)))
        print(f"{size:,} transactions", file=sys.stderr)
    head = "".join(f" {size:,} |" for size in sizes)
    lines = [f"| transactions |{head} last / first |", "|---|" + "---:|" * (len(sizes) + 1)]
    for name, times in columns.items():
        cells = "".join(f" {one * 1e6:,.0f} |" for one in times)
        lines.append(f"| {name} |{cells} {times[-1] / times[0]:.2f} |")
    cells = "".join(f" {one:,.0f} |" for one in memory)
    lines.append(f"| memory, MiB |{cells} |")
    cells = "".join(f" {one * 1e3:,.0f} |" for one in pauses)
    return "\n".join([*lines, f"| longest pause on the way, ms |{cells} |"])


@contextmanager
def measured_pauses() -> Iterator[list[float]]:
    """Yields the seconds of every garbage collection of this thread in the block, as they come."""
    found: list[float] = []
    began = 0.0

    def watch(phase: str, info: object) -> None:
        nonlocal began
        if phase == "start":
            began = time.thread_time()
        else:
            found.append(time.thread_time() - began)

    gc.callbacks.append(watch)
    try:
        yield found
    finally:
        gc.callbacks.remove(watch)


def calls(seller: Seller) -> dict[str, Callable[[], object]]:
    """What is timed at each size. The past moment is when half of the transactions were made."""
    past = seller.listed(f"/transactions?page_size=1&page={seller.sold // 2}")["items"][0]["created_at"]
    payer = seller.listed("/payers?order=oldest")["items"][0]["id"]
    lists = {
        "all": "order=newest",
        "succeeded": "status=succeeded",
        "failed (1 in 100)": "status=failed",
        "authorized at a past moment": f"status=authorized&as_of={past}",
        "of a payer": f"payer_id={payer}",
        "of a payer, succeeded, at a past moment": f"payer_id={payer}&status=succeeded&as_of={past}",
    }
    found: dict[str, Callable[[], object]] = {}
    for name, query in lists.items():
        pages = seller.listed(f"/transactions?{query}")["count"] // 10
        for place, page in (("first", 1), ("middle", pages // 2), ("last", pages)):
            path = f"/transactions?{query}&page_size=10&page={max(1, page)}"
            found[f"list {name}, {place} page"] = partial(seller.listed, path)
    found["list payers at a past moment"] = lambda: seller.listed(f"/payers?as_of={past}")
    found["access and complete"] = seller.sell
    return found


def timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def resident_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description="How fast the emulator is, and whether it stays so.")
    parser.add_argument("--serve", choices=["bare", "emulator"], help=argparse.SUPPRESS)
    parser.add_argument("--skip", choices=["load", "growth"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--callers", type=int, default=16)
    parser.add_argument("--sizes", nargs="+", type=int, default=[1_000, 10_000, 100_000])
    parser.add_argument("--repeats", type=int, default=51)
    plan = parser.parse_args()
    if plan.serve:
        serve(plan.serve)
        return
    os.sched_setaffinity(0, {CORES[-1]})
    if plan.skip != "load":
        print(load_table(plan.rounds, plan.callers, plan.seconds), end="\n\n")
    if plan.skip != "growth":
        with short_collections():
            print(growth(plan.sizes, plan.repeats))


if __name__ == "__main__":
    main()

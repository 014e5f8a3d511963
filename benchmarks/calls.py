"""What a call to the service costs over each transport, and what a flood of calls does to an event loop.

    .venv-faregate/bin/python benchmarks/calls.py  # about two minutes
    .venv-faregate/bin/python benchmarks/calls.py --rounds 1 --calls 300  # it works; its figures mean nothing

The first table is processor time of one `access` in microseconds, client and threads together: the median
of the rounds, in which all take turns. The second is many calls at once to a service that takes a second
for each: how many it answered, how many were refused, and the longest time in which the loop did not turn.
Everything stays on 127.0.0.1.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from statistics import median
from typing import Any

import httpx

from faregate.errors import NoAnswer, TooManyCalls
from faregate.merchant import wire
from faregate.merchant.client import AsyncMerchantClient, MerchantClient
from faregate.merchant.models import AccessRequest, AccessResource

KEY = "svc_test_benchmark"
REPLY = b'{"transaction_id":null}'
ACCESS = AccessRequest(
    revision_id="acr_0123456789ab7cde89abcdef01234567",
    resource=AccessResource(url="https://seller.example/report", mime_type="application/json"),
    settlement_asset="USDC",
)
CALL = wire.access(ACCESS)
OURS = ("faregate",)
BARE = "bare httpx client"
AT_ONCE = (1, 16, 64)


async def serve(seconds: float) -> None:
    """A service that gives everything away, after so many seconds. Says its port first."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(REPLY)
        try:
            while True:
                request = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = request.partition(b"content-length:")[2].partition(b"\r\n")[0]
                await reader.readexactly(int(length or 0))
                await asyncio.sleep(seconds)
                writer.write(head + REPLY)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextmanager
def service(seconds: float) -> Iterator[str]:
    command = [sys.executable, __file__, "--serve", str(seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.kill()


def bare_arguments(url: str) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    return {"url": url + CALL.request.path, "headers": headers, "content": CALL.request.body}


@contextmanager
def blocking(name: str, url: str) -> Iterator[Callable[[], Any]]:
    if name == BARE:
        with httpx.Client() as bare:
            arguments = bare_arguments(url)
            yield lambda: json.loads(bare.post(**arguments).content)
    else:
        with MerchantClient(KEY, url) as client:
            yield lambda: client.send(CALL)


@asynccontextmanager
async def awaiting(name: str, url: str) -> Any:
    if name == BARE:
        async with httpx.AsyncClient() as bare:
            arguments = bare_arguments(url)
            yield lambda: bare.post(**arguments)
    else:
        async with AsyncMerchantClient(KEY, url) as client:
            yield lambda: client.send(CALL)


def cost_blocking(name: str, url: str, calls: int) -> float:
    with blocking(name, url) as call:
        for _ in range(20):
            call()
        began = time.process_time()
        for _ in range(calls):
            call()
        return (time.process_time() - began) / calls


async def cost_awaiting(name: str, url: str, at_once: int, calls: int) -> float:
    async def several(call: Callable[[], Awaitable[Any]], number: int) -> None:
        for _ in range(number):
            await call()

    async with awaiting(name, url) as call:
        await asyncio.gather(*[several(call, 3) for _ in range(at_once)])
        began = time.process_time()
        await asyncio.gather(*[several(call, calls // at_once) for _ in range(at_once)])
        return (time.process_time() - began) / (calls // at_once * at_once)


async def flood(name: str, url: str, number: int) -> tuple[Counter[str], float, float]:
    """What became of the calls, the seconds for all, and the longest hold of the loop."""
    became: Counter[str] = Counter()
    longest, over = 0.0, False

    async def watch() -> None:
        nonlocal longest
        while not over:
            began = time.perf_counter()
            await asyncio.sleep(0.002)
            longest = max(longest, time.perf_counter() - began - 0.002)

    async with awaiting(name, url) as call:

        async def one() -> None:
            try:
                await call()
                became["answered"] += 1
            except TooManyCalls:
                became["refused"] += 1
            except (NoAnswer, httpx.HTTPError):
                became["no answer"] += 1

        watching = asyncio.ensure_future(watch())
        began = time.perf_counter()
        await asyncio.gather(*[one() for _ in range(number)])
        seconds = time.perf_counter() - began
        over = True
        await watching
    return became, seconds, longest


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calls", type=int, default=1000, help="calls of each measurement")
    parser.add_argument("--flood", type=int, nargs="*", default=[1000, 2000], help="calls at once")
    parser.add_argument("--serve", type=float, help=argparse.SUPPRESS)
    said = parser.parse_args()
    if said.serve is not None:
        asyncio.run(serve(said.serve))
        return
    names = (*OURS, BARE)
    costs: dict[tuple[str, str], list[float]] = defaultdict(list)
    with service(0) as url:
        for _ in range(said.rounds):
            for name in names:
                costs["1, blocking", name].append(cost_blocking(name, url, said.calls))
                for at_once in AT_ONCE:
                    cost = asyncio.run(cost_awaiting(name, url, at_once, said.calls))
                    costs[str(at_once), name].append(cost)
    print("| calls at a time |", " | ".join(names), "|\n|---|" + "---:|" * len(names))
    for row in ("1, blocking", *map(str, AT_ONCE)):
        print("|", row, *(f"| {median(costs[row, name]) * 1e6:,.0f}" for name in names), "|")
    print("\n| calls at once, of a second each | answered | refused | no answer | seconds | loop held, s |")
    print("|---|---:|---:|---:|---:|---:|")
    with service(1) as url:
        for number in said.flood:
            for name in OURS:
                became, seconds, longest = asyncio.run(flood(name, url, number))
                counts = " | ".join(str(became[what]) for what in ("answered", "refused", "no answer"))
                print(f"| {number:,}, {name} | {counts} | {seconds:.1f} | {longest:.2f} |")


if __name__ == "__main__":
    main()

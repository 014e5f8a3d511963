"""Buyers with the official clients, as their READMEs use them: each asks for its order until it has it.

An answer that is no result is asked for again, without any memory of the payment before: what the client
does about a 402 is its own affair.
"""

import asyncio
import contextlib
import json
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
from eth_account import Account
from examples.chain.typescript_payer import install_client
from x402 import x402Client
from x402.http.clients import wrapHttpxWithPayment
from x402.http.clients.httpx import PaymentError
from x402.mechanisms.evm.exact import ExactEvmScheme

PATIENCE = 30.0
"""Seconds that a client waits for an answer."""
LONGEST_PAUSE = 2.0
_LONGEST_CUT = 3.0
"""Seconds after a request within which its connection is cut, if it is."""
_SCRIPT = Path(__file__).with_name("buy.mjs")


@dataclass
class Order:
    """What one buyer wants. `payer` is an address that pays for nothing else."""

    number: int
    delay: int
    payer: str = ""
    tries: int = 0
    delivered: bool = False

    @property
    def path(self) -> str:
        return f"/orders/{self.delay}/{self.number}"


async def buy_with_python(url: str, orders: Sequence[Order], at_once: int, end: float) -> None:
    waiting = iter(orders)

    async def buy_in_turn() -> None:
        for order in waiting:
            await _buy(url, order, end)

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(buy_in_turn())


async def _buy(url: str, order: Order, end: float) -> None:
    account = Account.create()
    order.payer = account.address.lower()
    client = x402Client().register("eip155:*", ExactEvmScheme(account))
    async with wrapHttpxWithPayment(client, timeout=PATIENCE, trust_env=False) as http:
        while time.monotonic() < end and not order.delivered:
            order.tries += 1
            pause = 0.2
            try:
                answer = await http.get(f"{url}{order.path}")
            except (httpx.HTTPError, PaymentError):
                pass
            else:
                order.delivered = answer.status_code == 200
                said = answer.headers.get("retry-after", "")
                pause = min(float(said), LONGEST_PAUSE) if said.isdigit() else pause
            if not order.delivered:
                await asyncio.sleep(pause)


async def buy_with_typescript(url: str, orders: Sequence[Order], at_once: int, end: float) -> None:
    """Raises `NoTypeScript` where the client cannot be had."""
    wanted = {"url": url, "atOnce": at_once, "seconds": end - time.monotonic(), "longestPause": LONGEST_PAUSE}
    folder = await asyncio.to_thread(install_client)
    node = await asyncio.create_subprocess_exec(
        "node", "--input-type=module", "--eval", _SCRIPT.read_text(),
        cwd=folder, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert node.stdin is not None
    assert node.stdout is not None
    paths = {order.path: order for order in orders}
    node.stdin.write(json.dumps({**wanted, "paths": list(paths)}).encode())
    node.stdin.close()
    async for line in node.stdout:
        bought = json.loads(line)
        order = paths[bought["path"]]
        order.payer, order.tries, order.delivered = (
            bought["payer"].lower(),
            bought["tries"],
            bought["delivered"],
        )
    if await node.wait():
        raise RuntimeError("the TypeScript buyers failed; see above")


class LossyProxy:
    """Forwards connections to a seller, and cuts some of them while the answer to a request is awaited.

    With `loses_results` paid results are lost instead, when the seller has sent them whole: it cannot know.
    """

    def __init__(self, port: int, chance: random.Random, percent: int, *, loses_results: bool) -> None:
        self._port, self._chance, self._percent = port, chance, percent
        self._loses_results = loses_results
        self._connections: set[asyncio.Task[None]] = set()
        self.lost = 0

    def accept(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(client, to_client))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def close(self) -> None:
        for task in (connections := list(self._connections)):
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    async def _serve(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        try:
            seller, to_seller = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:
            to_client.close()
            return
        with contextlib.suppress(OSError, TimeoutError):
            while request := await client.read(65536):
                to_seller.write(request)
                await self._answer(seller, to_client)
        for writer in (to_seller, to_client):
            writer.close()

    async def _answer(self, seller: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        """Forward one answer: requests have no bodies, and an answer comes with the length of its own."""
        is_lost = self._chance.random() * 100 < self._percent
        patience = self._chance.uniform(0, _LONGEST_CUT) if is_lost and not self._loses_results else None
        try:
            async with asyncio.timeout(patience):
                head = await seller.readuntil(b"\r\n\r\n")
        except TimeoutError:
            self.lost += 1
            raise
        except asyncio.IncompleteReadError:
            raise ConnectionError("the seller was killed") from None
        length = next(
            (
                int(line.partition(b":")[2])
                for line in head.split(b"\r\n")
                if line.lower().startswith(b"content-length:")
            ),
            0,
        )
        try:
            body = await seller.readexactly(length)
        except asyncio.IncompleteReadError:
            raise ConnectionError("the seller was killed") from None
        if is_lost and self._loses_results and head.startswith(b"HTTP/1.1 200"):
            self.lost += 1
            raise ConnectionError("lost")
        to_client.write(head + body)
        await to_client.drain()

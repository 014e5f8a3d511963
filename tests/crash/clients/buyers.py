"""Buyers with the official clients, as their READMEs use them: each asks for its order until it has it.

An answer that is no result is asked for again, without any memory of the payment before: what the client
does about a 402 is its own affair.
"""

import asyncio
import json
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

"""The scenario on a chain: real transfers, two official clients, a facilitator that dies, and the books."""

import asyncio
import os
import signal
import time
from typing import Any

import httpx

from examples.chain.payer import ChainPayer
from examples.chain.typescript_payer import pay
from faregate.merchant.client import AsyncMerchantClient
from faregate.x402.eip712 import compute_domain_separator

from .chain_books import compare_books, find_transfers
from .chain_servers import ChainServers
from .payer import Answer, Payer
from .reporter import Reporter, money, short
from .scenario import Scenario

FUNDS = 1_000_000
PRICE = 50_000
PATIENCE = 90
_COME_BACK = {202, 409, 503}


async def play_on_chain(tell: Reporter, where: ChainServers) -> None:
    """The whole scenario. Raises `Untrue` at the first thing that is not as printed."""
    async with where.open_books() as books:
        await ChainStory(tell, where, books).play()


class ChainStory:
    """Who plays: two payers with money on the chain, one without, and the seller's books."""

    def __init__(self, tell: Reporter, where: ChainServers, books: AsyncMerchantClient) -> None:
        self._tell = tell
        self._where = where
        self._books = books
        self._key = ChainPayer()
        self._typescript_key = ChainPayer()
        self._spent: dict[str, int] = {}

    async def play(self) -> None:
        self.chain()
        async with Payer(self._where.seller) as poor:
            await self.poor(poor)
        async with Payer(self._where.seller, self._key.private_key) as payer:
            scenario = Scenario(self._tell, payer, self._books)
            await scenario.unpaid()
            await scenario.paid()
            self._check_balance(payer)
            await scenario.failing()
            self._check_balance(payer)
            if self._where.can_be_stuck:
                await self.stuck(payer)
                if self._where.has_workers:
                    await self.killed(payer)
            self._spent |= payer.receipts
        await self.typescript()
        await self.books()

    def chain(self) -> None:
        tell, chain, token = self._tell, self._where.chain, self._where.token
        tell.step("The chain is real, and so is the token", "An EVM with EIP-3009 code at USDC's address.")
        for who in (self._key, self._typescript_key):
            chain.mint(token, who.address, FUNDS)
        tell.facts(
            [
                ("chain id", str(int(chain.call("eth_chainId"), 16))),
                ("token", f"{token.symbol} at {token.address}"),
                ("payers", f"two keys, {money(FUNDS)} each, no ether"),
                ("seller", self._where.pay_to),
            ]
        )
        tell.claim("it has Base Sepolia's id", int(chain.call("eth_chainId"), 16), token.chain)
        separator = compute_domain_separator(token)
        tell.claim("the token signs as USDC does there", chain.get_domain_separator(token), separator)
        tell.claim("the seller has nothing yet", chain.get_balance(token, self._where.pay_to), 0)

    async def poor(self, poor: Payer) -> None:
        tell = self._tell
        tell.step("Somebody signs without having the money", "A signature alone buys nothing.")
        tell.sent("GET /report", "PAYMENT-SIGNATURE by x402")
        head = self._where.chain.head
        answer = await poor.pay("/report")
        tell.came(answer)
        tell.claim("the answer is 402", answer.status, 402)
        tell.claim("nothing was sent to the chain", self._where.chain.head, head)

    async def stuck(self, payer: Payer) -> None:
        """A settlement that waits for a block; who sent it dies, and forgets it."""
        tell, chain = self._tell, self._where.chain
        tell.step(
            "No block comes, and whoever sent the payment dies"
            if self._where.facilitator
            else "No block comes",
            "Only the chain says how a payment ends. Until then the payer waits, and pays once.",
        )
        chain.set_automine(False)
        proof = await payer.sign(await payer.ask("/patient"), "/patient")
        tell.sent("GET /patient", "no block is made")
        answer = await payer.show("/patient", proof)
        tell.came(answer)
        tell.claim("not delivered yet: 202", answer.status, 202)
        tell.claim("no result, no receipt", ("result" in answer.data, answer.paid), (False, None))
        before = chain.get_balance(self._where.token, self._where.pay_to)
        if self._where.facilitator:
            await asyncio.to_thread(self._where.facilitator.restart)
            tell.say("The facilitator is killed and starts anew. It has forgotten what it sent.")
        chain.mine()
        chain.set_automine(True)
        tell.say("Blocks come again.")
        await self._return(payer, proof)
        after = chain.get_balance(self._where.token, self._where.pay_to)
        tell.claim("the money moved once", after - before, PRICE)

    async def killed(self, payer: Payer) -> None:
        """A worker dies while it settles a payment; another one goes on with it."""
        tell, chain = self._tell, self._where.chain
        tell.step(
            "A worker is killed while it settles",
            "What it knew is in the database. Another worker goes on with the payment.",
        )
        before = chain.get_balance(self._where.token, self._where.pay_to)
        runs = await self._count_runs(payer)
        proof = await payer.sign(await payer.ask("/patient"), "/patient")
        chain.set_automine(False)
        tell.sent("GET /patient", "no block is made")
        answering = asyncio.create_task(payer.show("/patient", proof))
        while not answering.done() and int(chain.call("txpool_status")["pending"], 16) == 0:
            await asyncio.sleep(0.05)
        worker = int((await payer.ask("/health")).data["last_process"])
        os.kill(worker, signal.SIGKILL)
        tell.say("The transfer is sent, and the worker that did the work is killed.")
        [answer] = await asyncio.gather(answering, return_exceptions=True)
        tell.claim("the payer gets no answer", isinstance(answer, httpx.TransportError), True)
        chain.mine()
        chain.set_automine(True)
        tell.say("Blocks come again.")
        await self._return(payer, proof)
        tell.claim("the work ran once", await self._count_runs(payer) - runs, 1)
        after = chain.get_balance(self._where.token, self._where.pay_to)
        tell.claim("the money moved once", after - before, PRICE)

    async def _return(self, payer: Payer, proof: dict[str, str]) -> None:
        """Send the same proof, as a payer without a result must, until the result comes."""
        began = time.monotonic()
        answer = await payer.show("/patient", proof)
        for _ in range(PATIENCE):
            if answer.status not in _COME_BACK:
                break
            await asyncio.sleep(float(answer.headers.get("Retry-After", "1")))
            answer = await payer.show("/patient", proof)
        tell = self._tell
        tell.sent("GET /patient", f"the same proof again, for {time.monotonic() - began:.0f} s")
        tell.came(answer)
        tell.claim("delivered", (answer.status, answer.data.get("result")), (200, "done once"))
        tell.claim("with its receipt", _is_paid(answer), True)

    async def _count_runs(self, payer: Payer) -> int:
        return int((await payer.ask("/health")).data["worked"].get("patient", 0))

    async def typescript(self) -> None:
        folder, tell = self._where.typescript, self._tell
        if folder is None:
            tell.step("The TypeScript client does not play", "There is no node or no npm on this machine.")
            return
        tell.step("The official TypeScript client pays", "@x402/fetch with viem, run by node.")
        tell.sent("GET /report", "PAYMENT-SIGNATURE by @x402/evm")
        key, url = self._typescript_key, f"{self._where.seller}/report"
        told: dict[str, Any] = await asyncio.to_thread(pay, folder, "GET", url, private_key=key.private_key)
        tell.claim("the answer is 200", told.get("status", told), 200)
        tell.claim("it is the report", list(told["body"]), ["report"])
        paid = told["paid"]
        tell.facts([("payer", paid["payer"]), ("transaction", short(paid["transaction"]))])
        moved = {
            one.transaction_hash: one.amount
            for one in find_transfers(self._where.chain, self._where.token, self._where.pay_to)
        }
        tell.claim("its receipt is a transfer on the chain", moved.get(paid["transaction"]), PRICE)
        self._spent[paid["transaction"]] = PRICE

    async def books(self) -> None:
        tell = self._tell
        tell.step("Chain, books and receipts are compared", "Through eth_getLogs, and faregate.merchant.")
        transactions = [
            await self._books.get_transaction(one.id)
            async for one in self._books.iter_transactions(order="oldest")
        ]
        open_ones = [one.status for one in transactions if one.status not in {"succeeded", "failed"}]
        tell.claim("no payment is open", open_ones, [])
        compare_books(
            tell, self._where.chain, self._where.token, self._where.pay_to, transactions, self._spent
        )

    def _check_balance(self, payer: Payer) -> None:
        balance = self._where.chain.get_balance(self._where.token, payer.address)
        self._tell.facts([("the payer has, on the chain", money(balance))])
        spent = sum(payer.receipts.values())
        self._tell.claim("the payer's money went where its receipts say", balance, FUNDS - spent)


def _is_paid(answer: Answer) -> bool:
    return answer.paid is not None and answer.paid.success

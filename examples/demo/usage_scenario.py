"""The scenario of a price that follows the use, on a chain: what is used is paid, and nothing else."""

import asyncio
import os
import signal
from typing import Any, Final

import httpx

from examples.chain.payer import ChainPayer
from examples.chain.permit2 import deploy_upto
from examples.chain.typescript_payer import pay
from faregate.merchant.client import AsyncMerchantClient
from faregate.x402.permit2 import PERMIT2

from .chain_books import compare_books, find_transfers
from .chain_servers import ChainServers
from .payer import Answer, Payer
from .reporter import Reporter, money, short

FUNDS: Final = 2_000_000
MAXIMUM: Final = 500_000
USED: Final = 12_300
ANSWER: Final = "/chat?tokens=1230"
"""An answer of 1,230 tokens, each for 0.00001 USDC."""
BEYOND: Final = "/chat?tokens=60000"
PATIENCE: Final = 90
_TRIES: Final = 8
_COME_BACK: Final = {202, 409, 503}


async def play_by_use(tell: Reporter, where: ChainServers) -> None:
    """The whole scenario. Raises `Untrue` at the first thing that is not as printed."""
    async with where.open_books() as books:
        await UsageStory(tell, where, books).play()


class UsageStory:
    """Two payers who have approved Permit2, the seller with the service inside, and its books."""

    def __init__(self, tell: Reporter, where: ChainServers, books: AsyncMerchantClient) -> None:
        self._tell, self._where, self._books = tell, where, books
        self._key, self._typescript_key = ChainPayer(), ChainPayer()
        self._spent: dict[str, int] = {}

    async def play(self) -> None:
        self.chain()
        async with Payer(self._where.seller, self._key.private_key) as payer:
            await self.used(payer)
            await self.failing(payer)
            await self.beyond(payer)
            if self._where.can_be_stuck:
                await self.killed(payer)
            self._spent |= payer.receipts
        await self.typescript()
        await self.books()

    def chain(self) -> None:
        tell, chain, token = self._tell, self._where.chain, self._where.token
        tell.step(
            "Permit2 is the real one", "Its code comes from npm. The proxy of `upto` follows its interface."
        )
        deploy_upto(chain)
        for who in (self._key, self._typescript_key):
            chain.mint(token, who.address, FUNDS)
            chain.fund(who.address)
            who.approve_permit2(chain, token)
        tell.facts(
            [
                ("Permit2", PERMIT2),
                ("payers", f"two keys, {money(FUNDS)} each, which have approved Permit2 once"),
                ("seller", self._where.pay_to),
            ]
        )
        tell.claim("the seller has nothing yet", self._received, 0)

    async def used(self, payer: Payer) -> None:
        tell = self._tell
        tell.step("A payer authorizes 0.50 and uses 0.0123", "The price follows the tokens of the answer.")
        asked = await payer.ask(ANSWER)
        assert asked.asked is not None
        [terms] = asked.asked.accepts
        tell.claim("the 402 asks for at most 0.50", (terms.scheme, terms.amount), ("upto", str(MAXIMUM)))
        tell.sent(f"GET {ANSWER}", "PAYMENT-SIGNATURE by x402, for up to 0.50")
        answer = await payer.pay(ANSWER)
        tell.came(answer)
        tell.claim("the result came, with its receipt", (answer.status, _get_paid(answer)), (200, USED))
        tell.claim("the seller has 0.0123", self._received, USED)
        self._check_balance(payer)

    async def failing(self, payer: Payer) -> None:
        tell = self._tell
        tell.step("Work that fails costs nothing", "The authorization expires unused.")
        tell.sent("GET /chat", "PAYMENT-SIGNATURE by x402")
        head = self._where.chain.head
        answer = await payer.pay("/chat")
        tell.came(answer)
        tell.claim("the seller's own error", (answer.status, answer.paid), (503, None))
        tell.claim("nothing was sent to the chain", self._where.chain.head, head)
        self._check_balance(payer)

    async def beyond(self, payer: Payer) -> None:
        tell = self._tell
        tell.step("What goes above the maximum costs the maximum", "60,000 tokens would be 0.60.")
        tell.sent(f"GET {BEYOND}", "PAYMENT-SIGNATURE by x402")
        before = self._received
        answer = await payer.pay(BEYOND)
        tell.came(answer)
        tell.claim("the result came, for 0.50", (answer.status, _get_paid(answer)), (200, MAXIMUM))
        tell.claim("the seller has 0.50 more", self._received - before, MAXIMUM)
        self._check_balance(payer)

    async def killed(self, payer: Payer) -> None:
        """Seller and service die (kill -9) while a payment settles, and so does the facilitator."""
        tell, chain = self._tell, self._where.chain
        tell.step(
            "Seller and service are killed while it settles",
            "How much was used is in the database, and no process asks for another amount.",
        )
        before, runs = self._received, await self._count_runs(payer)
        proof = await payer.sign(await payer.ask(ANSWER), ANSWER)
        chain.set_automine(False)
        tell.sent(f"GET {ANSWER}", "no block is made")
        answering = asyncio.create_task(payer.show(ANSWER, proof))
        while not answering.done() and int(chain.call("txpool_status")["pending"], 16) == 0:
            await asyncio.sleep(0.05)
        worker = int((await payer.ask("/health")).data["last_process"])
        os.kill(worker, signal.SIGKILL)
        tell.say("The transfer is sent, and the process that did the work is killed.")
        if self._where.facilitator:
            await asyncio.to_thread(self._where.facilitator.restart)
            tell.say("The facilitator is killed, too, and has forgotten what it sent.")
        [answer] = await asyncio.gather(answering, return_exceptions=True)
        tell.claim("the payer gets no answer", isinstance(answer, httpx.TransportError), True)
        chain.mine()
        chain.set_automine(True)
        tell.say("Blocks come again.")
        found = await self._return(payer, proof)
        tell.claim("delivered, with its receipt", (found.status, _get_paid(found)), (200, USED))
        tell.claim("the work ran once", await self._count_runs(payer) - runs, 1)
        tell.claim("what was used was paid once", self._received - before, USED)
        self._check_balance(payer)

    async def typescript(self) -> None:
        folder, tell = self._where.typescript, self._tell
        if folder is None:
            tell.step("The TypeScript client does not play", "There is no node or no npm on this machine.")
            return
        tell.step("The official TypeScript client pays", "@x402/fetch with viem, run by node.")
        tell.sent(f"GET {ANSWER}", "PAYMENT-SIGNATURE by @x402/evm")
        key, url = self._typescript_key, f"{self._where.seller}{ANSWER}"
        bought: dict[str, Any] = {}
        for _ in range(_TRIES):
            bought = await asyncio.to_thread(pay, folder, "GET", url, private_key=key.private_key)
            # A worker that asked the facilitator while that was started again asks anew after five seconds.
            if bought.get("status") != 503:
                break
            await asyncio.sleep(1.0)
        tell.claim("the answer is 200", bought.get("status", bought), 200)
        paid = bought["paid"]
        tell.facts([("payer", paid["payer"]), ("transaction", short(paid["transaction"]))])
        moved = {
            one.transaction_hash: one.amount
            for one in find_transfers(self._where.chain, self._where.token, self._where.pay_to)
        }
        tell.claim("its receipt is a transfer of 0.0123", moved.get(paid["transaction"]), USED)
        self._spent[paid["transaction"]] = USED

    async def books(self) -> None:
        tell = self._tell
        tell.step("Chain, books and receipts are compared", "Through eth_getLogs, and faregate.merchant.")
        transactions = [
            await self._books.get_transaction(one.id)
            async for one in self._books.iter_transactions(order="oldest")
        ]
        open_ones = [one.status for one in transactions if one.status not in {"succeeded", "failed"}]
        tell.claim("no payment is open", open_ones, [])
        maxima = {one.authorized_atomic for one in transactions}
        tell.claim("each authorized 0.50, whatever it used", maxima, {MAXIMUM})
        where = self._where
        compare_books(tell, where.chain, where.token, where.pay_to, transactions, self._spent)

    @property
    def _received(self) -> int:
        return self._where.chain.get_balance(self._where.token, self._where.pay_to)

    async def _return(self, payer: Payer, proof: dict[str, str]) -> Answer:
        """Send the same proof, as a payer without a result must, until the result comes."""
        answer = await payer.show(ANSWER, proof)
        for _ in range(PATIENCE):
            if answer.status not in _COME_BACK:
                break
            await asyncio.sleep(float(answer.headers.get("Retry-After", "1")))
            answer = await payer.show(ANSWER, proof)
        self._tell.sent(f"GET {ANSWER}", "the same proof again")
        self._tell.came(answer)
        return answer

    async def _count_runs(self, payer: Payer) -> int:
        return int((await payer.ask("/health")).data["worked"].get("chat", 0))

    def _check_balance(self, payer: Payer) -> None:
        balance = self._where.chain.get_balance(self._where.token, payer.address)
        spent = sum(payer.receipts.values())
        self._tell.claim("the payer's money went where its receipts say", balance, FUNDS - spent)


def _get_paid(answer: Answer) -> int | None:
    """Return what the receipt says was paid."""
    return int(answer.paid.amount or 0) if answer.paid is not None and answer.paid.success else None

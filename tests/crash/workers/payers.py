"""Honest payers: each comes back with the same payment until it has the result, or is asked to pay again."""

import asyncio
import random
import time
from collections import Counter
from dataclasses import dataclass, field

import httpx

from faregate.emulator import Wallet
from tests.crash.workers.seller import CONTENT, SOLD

PATIENCE = 4.0
"""Seconds that a payer waits for an answer, before it tries again."""
LONGEST_PAUSE = 1.0
TRANSPORT = "no answer"


@dataclass
class Payment:
    """One proof. `address` is its payer's: nobody else pays from there. Times are in seconds.

    `interruptions` counts the answers that were lost or did not come in time, and `interrupted_at` says how
    long after the first use of the proof the payer saw the last of these losses. `ended` is how it went out:
    "delivered", "pay again", or another answer that a payer cannot go on from.
    """

    address: str
    began: float
    interruptions: int = 0
    interrupted_at: float = 0.0
    ended: str = ""
    seconds: float = 0.0
    transaction: str = ""
    has_receipt: bool = False
    answers: list[tuple[float, str]] = field(default_factory=list[tuple[float, str]])
    """Each answer, and how many seconds after the first use of the proof it came."""

    @property
    def returned_after(self) -> float:
        """From the moment at which the payer saw that an answer was lost until the end."""
        return self.seconds - self.interrupted_at


@dataclass
class Purchase:
    path: str
    payments: list[Payment] = field(default_factory=list)
    leaks: int = 0
    """Answers that were no delivery, and had the content in them."""


class Payers:
    """`until` is when the last purchase may begin, `end` when everybody goes home."""

    def __init__(self, url: str, number: int, seed: int, until: float, end: float) -> None:
        self._url = url
        self._number = number
        self._seed = seed
        self._until, self._end = until, end
        self.purchases: list[Purchase] = []
        self.answers: Counter[str] = Counter()

    async def run(self) -> None:
        await asyncio.gather(
            *(self._buy(random.Random(f"{self._seed} {one}")) for one in range(self._number))
        )

    @property
    def payments(self) -> list[Payment]:
        return [payment for purchase in self.purchases for payment in purchase.payments]

    async def _buy(self, chance: random.Random) -> None:
        limits = httpx.Limits(max_keepalive_connections=0)
        options = {"base_url": self._url, "timeout": PATIENCE, "trust_env": False}
        async with httpx.AsyncClient(limits=limits, **options) as client:  # type: ignore[arg-type]
            while time.monotonic() < self._until:
                purchase = Purchase(chance.choices(list(SOLD), [5, 1])[0])
                self.purchases.append(purchase)
                while not purchase.payments or purchase.payments[-1].ended == "pay again":
                    instructions = await self._instructions(client, purchase)
                    if not instructions:
                        break
                    await self._pay(client, purchase, instructions)

    async def _instructions(self, client: httpx.AsyncClient, purchase: Purchase) -> str:
        """Empty if time is up."""
        while time.monotonic() < self._end:
            answer = await self._ask(client, purchase, None)
            if answer is not None and answer.status_code == 402:
                return answer.headers["payment-required"]
            await asyncio.sleep(_pause(answer))
        return ""

    async def _pay(self, client: httpx.AsyncClient, purchase: Purchase, instructions: str) -> None:
        wallet = Wallet()
        proof = wallet.pay(instructions)
        payment = Payment(wallet.address.lower(), time.monotonic())
        purchase.payments.append(payment)
        while time.monotonic() < self._end and not payment.ended:
            answer = await self._ask(client, purchase, proof)
            payment.seconds = time.monotonic() - payment.began
            named = TRANSPORT if answer is None else _named(answer)
            payment.answers.append((round(payment.seconds, 2), named))
            if answer is None:
                payment.interruptions += 1
                payment.interrupted_at = payment.seconds
            else:
                payment.ended = _end(answer)
            if payment.ended == "delivered" and answer is not None:
                payment.transaction = answer.json()["transaction"]
                payment.has_receipt = bool(answer.headers.get("payment-response"))
            elif not payment.ended:
                await asyncio.sleep(_pause(answer))

    async def _ask(
        self, client: httpx.AsyncClient, purchase: Purchase, proof: str | None
    ) -> httpx.Response | None:
        headers = {"Connection": "close", **({"PAYMENT-SIGNATURE": proof} if proof else {})}
        try:
            answer = await client.get(purchase.path, headers=headers)
        except httpx.TransportError:
            self.answers[TRANSPORT] += 1
            return None
        self.answers[_named(answer)] += 1
        if CONTENT in answer.text and not (proof and answer.status_code == 200):
            purchase.leaks += 1
        return answer


def _end(answer: httpx.Response) -> str:
    """Empty while the payer may come back with the same payment."""
    if answer.status_code == 200:
        return "delivered"
    if answer.status_code == 402:
        return "pay again"
    named = _named(answer)
    if answer.status_code == 202 or answer.status_code >= 500 or named == "409 payment_in_progress":
        return ""
    return named


def _named(answer: httpx.Response) -> str:
    """Its status, and its code if it has one."""
    try:
        said = answer.json()
    except ValueError:
        said = None
    code = said.get("code", "") if isinstance(said, dict) else ""
    return f"{answer.status_code} {code}".strip()


def _pause(answer: httpx.Response | None) -> float:
    said = "" if answer is None else answer.headers.get("retry-after", "")
    return min(float(said), LONGEST_PAUSE) if said.isdigit() else 0.1

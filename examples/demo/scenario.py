"""The scenario, step by step. Each statement is a claim that is checked against what came."""

import asyncio
from collections import Counter
from typing import Any, cast

from x402 import PaymentRequired

from faregate.merchant.client import AsyncMerchantClient
from faregate.merchant.models import Transaction

from .payer import Answer, Payer
from .reporter import Reporter, Untrue, money, short

AT_ONCE = 10
PATIENCE = 10


class Scenario:
    """Who plays: a payer, the service's books as the seller reads them, and who tells it."""

    def __init__(self, teller: Reporter, payer: Payer, books: AsyncMerchantClient) -> None:
        self._teller = teller
        self._payer = payer
        self._books = books

    async def play(self) -> None:
        await self.unpaid()
        await self.paid()
        await self.failing()
        await self.late()
        await self.at_once()

    async def unpaid(self) -> None:
        tell = self._teller
        tell.step(
            "Somebody asks, and does not pay", "The service says what to pay; the paywall passes it on."
        )
        tell.sent("GET /report")
        answer = await self._payer.ask("/report")
        tell.came(answer)
        tell.claim("the answer is 402", answer.status, 402)
        terms = _instructions(answer)
        tell.facts(_terms(terms), "PAYMENT-REQUIRED, decoded:")
        tell.claim("there is one way to pay: scheme exact", [one.scheme for one in terms.accepts], ["exact"])
        amount = int(terms.accepts[0].amount)
        tell.claim("the price is one a stock client signs unasked, 1 dollar at most", amount <= 10**6, True)
        tell.claim("nothing of the report is in the answer", set(answer.data), {"code", "message"})
        tell.claim("the work did not run", await self._runs("report"), 0)

    async def paid(self) -> None:
        tell = self._teller
        tell.step(
            "The official x402 client pays",
            "It signs what was asked and repeats the request. Nothing is special.",
        )
        tell.sent("GET /report", "PAYMENT-SIGNATURE by x402")
        answer = await self._payer.pay("/report")
        tell.came(answer)
        tell.claim("the answer is 200", answer.status, 200)
        tell.claim("it is the report", list(answer.data), ["report"])
        tell.facts(_receipt(answer), "PAYMENT-RESPONSE, decoded:")
        tell.claim("the receipt is for this payer", answer.paid and answer.paid.payer, self._payer.address)
        tell.claim("the work ran once", await self._runs("report"), 1)
        tell.sent('POST /summary {"text": "..."}', "a paid POST")
        answer = await self._payer.pay("/summary", {"text": "a text of six words, to sum up"})
        tell.came(answer)
        tell.claim("paid, with a receipt", (answer.status, _is_paid(answer)), (200, True))

    async def failing(self) -> None:
        tell = self._teller
        tell.step(
            "The seller's work fails", "The payment was signed, but is not taken for work that gave nothing."
        )
        tell.sent("GET /broken", "PAYMENT-SIGNATURE by x402")
        answer = await self._payer.pay("/broken")
        tell.came(answer, str(answer.data.get("detail", "")))
        tell.claim("the payer sees the handler's own error", answer.status, 503)
        tell.claim("it has no receipt", _is_paid(answer), False)
        transaction = await self._latest()
        tell.claim("the service says the transaction failed", transaction.status, "failed")
        tell.claim("nothing was charged", transaction.settled_atomic, None)

    async def late(self) -> None:
        tell = self._teller
        tell.step(
            "The payment settles late",
            "The work is done, but not proven paid. The payer comes back, and pays once.",
        )
        proof = await self._sign("/slow")
        answer = await self._show("/slow", proof)
        tell.claim("not delivered yet: 202", answer.status, 202)
        tell.claim("no result, no receipt", ("result" in answer.data, _is_paid(answer)), (False, False))
        waiting = str(answer.data.get("transaction_id"))
        tell.facts([("transaction", waiting)])
        for _ in range(PATIENCE):
            if answer.status != 202:
                break
            answer = await self._show("/slow", proof, "the same proof again")
        tell.claim("delivered", (answer.status, "result" in answer.data), (200, True))
        tell.claim("with its receipt", _is_paid(answer), True)
        tell.claim("the work ran once", await self._runs("slow"), 1)
        tell.claim("it is the same transaction", (await self._latest()).id, waiting)

    async def at_once(self) -> None:
        tell = self._teller
        tell.step(
            f"The same proof, {AT_ONCE} times at once",
            "One payment buys one run of the work, however often it is sent.",
        )
        proof = await self._sign("/patient")
        tell.sent(f"GET /patient  × {AT_ONCE}", "one PAYMENT-SIGNATURE")
        answers = await asyncio.gather(*(self._payer.show("/patient", proof) for _ in range(AT_ONCE)))
        outcomes = Counter((answer.status, str(answer.data.get("code", "delivered"))) for answer in answers)
        tell.table(
            ["answers", "status", "what it says"],
            [[str(count), str(status), code] for (status, code), count in outcomes.most_common()],
        )
        refused = {(200, "delivered"): 1, (409, "payment_in_progress"): AT_ONCE - 1}
        tell.claim("one is served, nine are told to wait", dict(outcomes), refused)
        tell.claim("the work ran once", await self._runs("patient"), 1)
        served = next(answer for answer in answers if answer.status == 200)
        again = await self._show("/patient", proof, "the same proof, afterwards")
        tell.claim("the same result again, byte for byte", again.body, served.body)
        tell.claim("with the same receipt", *(one.headers.get("PAYMENT-RESPONSE") for one in (again, served)))
        tell.claim("and the work still ran once", await self._runs("patient"), 1)

    async def _sign(self, path: str) -> dict[str, str]:
        """A proof that stays in the payer's hand."""
        unpaid = await self._payer.ask(path)
        _instructions(unpaid)
        return await self._payer.sign(unpaid, path)

    async def _show(
        self, path: str, proof: dict[str, str], note: str = "PAYMENT-SIGNATURE by x402"
    ) -> Answer:
        self._teller.sent(f"GET {path}", note)
        answer = await self._payer.show(path, proof)
        self._teller.came(answer)
        return answer

    async def _runs(self, route: str) -> int:
        """How often the seller's work was done, as the seller itself counts."""
        counted = (await self._payer.ask("/health")).data.get("worked")
        if not isinstance(counted, dict):
            raise Untrue("the seller counts its work, and tells at /health")
        return int(cast(dict[str, Any], counted).get(route, 0))

    async def _latest(self) -> Transaction:
        page = await self._books.list_transactions(page_size=1)
        return page.items[0]


def _instructions(answer: Answer) -> PaymentRequired:
    if answer.asked is None:
        raise Untrue("a 402 says what to pay, in PAYMENT-REQUIRED")
    return answer.asked


def _terms(required: PaymentRequired) -> list[tuple[str, str]]:
    terms = required.accepts[0]
    return [
        ("amount", f"{terms.amount} units = {money(int(terms.amount), terms.extra['name'])}"),
        ("network", terms.network),
        ("asset", terms.asset),
        ("payTo", terms.pay_to),
        ("maxTimeoutSeconds", str(terms.max_timeout_seconds)),
        ("resource", required.resource.url if required.resource else "-"),
    ]


def _receipt(answer: Answer) -> list[tuple[str, str]]:
    if answer.paid is None:
        raise Untrue("a paid result comes with PAYMENT-RESPONSE")
    paid = answer.paid
    return [
        ("success", str(paid.success).lower()),
        ("amount", f"{paid.amount} units = {money(int(paid.amount or 0))}"),
        ("payer", paid.payer or "-"),
        ("transaction", short(paid.transaction)),
    ]


def _is_paid(answer: Answer) -> bool:
    return answer.paid is not None and answer.paid.success

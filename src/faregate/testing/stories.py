"""How a payer buys, told once for both colours: what it sends, and what it makes of the answers. Pure."""

import base64
import json
from collections.abc import Callable, Generator
from dataclasses import dataclass

from faregate.core.models import Response
from faregate.testing.answers import Answer, Errand

Sign = Callable[[str], str]
"""Makes a proof of the instructions in `PAYMENT-REQUIRED`."""


@dataclass(frozen=True, slots=True)
class Sending:
    """One request of a story."""

    errand: Errand
    proof: str | None
    purchase: int
    priced: bool


Story = Generator[Sending, Answer, Answer]


def ask(errand: Errand, purchase: int) -> Story:
    """Without a payment."""
    return (yield Sending(errand, None, purchase, priced=False))


def buy(errand: Errand, purchase: int, sign: Sign) -> Story:
    """Asks; if that is 402, signs one payment and asks again with it."""
    first = yield from ask(errand, purchase)
    instructions = _instructions(first.response)
    if instructions is None:
        return first
    return (yield Sending(errand, sign(instructions), purchase, priced=True))


def resend(answer: Answer) -> Story:
    """The same request with the same payment."""
    return (yield Sending(answer.errand, answer.proof, answer.purchase, answer.priced))


def replay(answer: Answer, errand: Errand, purchase: int) -> Story:
    """The payment of another purchase."""
    first = yield from ask(errand, purchase)
    priced = _instructions(first.response) is not None
    return (yield Sending(errand, answer.proof, purchase, priced))


def forged(sign: Sign) -> Sign:
    """A payment that somebody else signed."""

    def make(instructions: str) -> str:
        proof = json.loads(base64.b64decode(sign(instructions)))
        signature: str = proof["payload"]["signature"]
        last_of_r = 65
        other = "0" if signature[last_of_r] != "0" else "1"
        proof["payload"]["signature"] = signature[:last_of_r] + other + signature[last_of_r + 1 :]
        return base64.b64encode(json.dumps(proof).encode()).decode("ascii")

    return make


def underpaid(sign: Sign) -> Sign:
    """A payment of one atomic unit less than was asked."""

    def make(instructions: str) -> str:
        said = json.loads(base64.b64decode(instructions))
        terms = said["accepts"][0]
        terms["amount"] = str(int(terms["amount"]) - 1)
        return sign(base64.b64encode(json.dumps(said).encode()).decode("ascii"))

    return make


def _instructions(response: Response) -> str | None:
    return response.first("payment-required") if response.status == 402 else None

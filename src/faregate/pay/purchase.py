"""The errand: ask, pay once, come back with the same payment until it is known how it ended.

Rules
1. One errand signs one payment at most. A second 402 ends it.
2. While the payment may yet settle (202, 503, 409, no answer) the same one is sent again.
3. It waits as long as the seller says, and no longer in all than it was told to.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum
from typing import Protocol

from faregate.core.models import Response
from faregate.pay.answers import Meaning, meaning, pause, told
from faregate.pay.output import Ended, Resumed, Waiting
from faregate.pay.payment_file import Keeper
from faregate.pay.requirements import Unsigned
from faregate.pay.talk import Talk
from faregate.pay.wallet import Purse


class Exit(IntEnum):
    """How the command ends; 1 and 2 are those of every command."""

    RESULT = 0
    NOT_SIGNED = 3
    REFUSED = 4
    OPEN = 5
    ERROR = 6


class Clock(Protocol):
    """Time, handed in."""

    def monotonic(self) -> float: ...

    def now(self) -> datetime: ...

    def sleep(self, seconds: float) -> None: ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """`answer` is the last one; None if none came, or if nothing but the price was asked for."""

    exit: Exit
    answer: Response | None = None


@dataclass(slots=True)
class Errand:
    """`wait` is in seconds, for all pauses together."""

    talk: Talk
    purse: Purse
    keeper: Keeper
    clock: Clock
    wait: float

    def price(self) -> Outcome:
        """Ask without paying. Nothing is signed."""
        first = self.talk.ask()
        if first.status != 402:
            return self._plain(first)
        try:
            self.purse.fitting(self.talk.required(first))
        except Unsigned as error:
            return self._end(Exit.NOT_SIGNED, f"this would not be signed: {error}", first)
        return self._end(Exit.RESULT, "nothing was signed", None)

    def buy(self) -> Outcome:
        """Ask, and pay if that is what it takes. Raises `Unanswered` only if nothing was paid."""
        proof = self.keeper.resume()
        if proof is not None:
            self.talk.tell(Resumed(self.keeper.path or ""))
            return self._redeem(proof)
        first = self.talk.ask()
        if first.status != 402:
            return self._plain(first)
        try:
            payment = self.purse.sign(self.talk.required(first))
        except Unsigned as error:
            return self._end(Exit.NOT_SIGNED, f"nothing was signed: {error}", first)
        self.talk.tell(payment.signed)
        self.keeper.keep(payment.proof)
        return self._redeem(payment.proof)

    def _redeem(self, proof: str) -> Outcome:
        try:
            return self._come_back(proof)
        except KeyboardInterrupt:
            return self._open("interrupted", None)
        except BaseException:  # whatever it was: without the payment its payer would pay again
            self.keeper.keep_open()
            raise

    def _come_back(self, proof: str) -> Outcome:
        """With this payment, until its end is known or the time is over."""
        end = self.clock.monotonic() + self.wait
        while True:
            answer = self.talk.pay(proof)
            if answer is not None and (outcome := self._settled(answer)) is not None:
                return outcome
            seconds = pause(answer.headers if answer else (), self.clock.now())
            if self.clock.monotonic() + seconds > end:
                return self._open(f"it may still settle after the {self.wait:g} s of --wait", answer)
            self.talk.tell(Waiting(seconds, "the payment is open"))
            self.clock.sleep(seconds)

    def _settled(self, answer: Response) -> Outcome | None:
        """How an answer ends the errand; None while the payment is open."""
        match meaning(answer, settled=self.talk.payment(answer)):
            case Meaning.RESULT:
                return self._end(Exit.RESULT, "the result is here", answer)
            case Meaning.REFUSED:
                why = f"402 again: this payment buys nothing. The seller says: {self.talk.reason(answer)}"
                return self._end(Exit.REFUSED, why, answer)
            case Meaning.ERROR:
                why = (
                    told(answer).message or "the seller answered with an error, and with no payment response"
                )
                return self._end(Exit.ERROR, f"no result: {why}", answer)
            case Meaning.OPEN:
                return None

    def _plain(self, answer: Response) -> Outcome:
        """An answer to a request without a payment that asks for none."""
        if answer.status < 400:
            return self._end(Exit.RESULT, "the result is here; there was nothing to pay", answer)
        return self._end(Exit.ERROR, "the seller answered with an error, and asked for no payment", answer)

    def _open(self, why: str, answer: Response | None) -> Outcome:
        path = self.keeper.keep_open()
        return self._end(
            Exit.OPEN,
            f"the payment is open: {why}. Nothing else was signed. Come back with it: --proof {path}",
            answer,
        )

    def _end(self, code: Exit, why: str, answer: Response | None) -> Outcome:
        self.talk.tell(Ended(int(code), why))
        return Outcome(code, answer)

"""Payers for a seller's tests: `Payer` blocks, `AsyncPayer` awaits. They pay with the emulator's money."""

from abc import ABC, abstractmethod
from collections.abc import Coroutine
from typing import Any, Generic, Self, TypeVar

from faregate.emulator.wallet import Wallet
from faregate.errors import ConfigurationError
from faregate.testing import stories
from faregate.testing.answers import Answer, Errand
from faregate.testing.clients import read, send
from faregate.testing.session import Till
from faregate.testing.stories import Sending, Sign, Story

R = TypeVar("R")


class AnyPayer(ABC, Generic[R]):
    """What both payers can do. `client` is your framework's test client; other arguments go to its method.

    Every answer is kept in `answers`, those of the payers made from this one too.
    """

    def __init__(self, till: Till, wallet: Wallet | None = None) -> None:
        self._till = till
        self._wallet = wallet or Wallet(clock=till.clock)

    @property
    def address(self) -> str:
        return self._wallet.address

    @property
    def answers(self) -> list[Answer]:
        """All that came, oldest first, the first 402 of each purchase included."""
        return self._till.answers

    def named(self, name: str) -> Self:
        """A test payer, such as `slow`; `ConfigurationError` if there is none of this name."""
        return type(self)(self._till, Wallet.test(name, clock=self._till.clock))

    __call__ = named

    def another(self) -> Self:
        """A payer whom nobody has seen yet."""
        return type(self)(self._till)

    def get(self, client: Any, path: str, **options: Any) -> R:
        """Asks; if that is 402, signs one payment and asks again with it. The last answer."""
        return self.request(client, "GET", path, **options)

    def post(self, client: Any, path: str, **options: Any) -> R:
        return self.request(client, "POST", path, **options)

    def put(self, client: Any, path: str, **options: Any) -> R:
        return self.request(client, "PUT", path, **options)

    def patch(self, client: Any, path: str, **options: Any) -> R:
        return self.request(client, "PATCH", path, **options)

    def delete(self, client: Any, path: str, **options: Any) -> R:
        return self.request(client, "DELETE", path, **options)

    def request(self, client: Any, method: str, path: str, **options: Any) -> R:
        """`get` with any method. The request is sent twice: give its body as bytes or a value, not a file."""
        return self._buy(Errand(client, method.upper(), path, options), self._wallet.pay)

    def ask(self, client: Any, path: str, method: str = "GET", **options: Any) -> R:
        """Only asks, without a payment: 402 if it has a price."""
        errand = Errand(client, method.upper(), path, options)
        return self._tell(stories.ask(errand, self._till.next_purchase()))

    def again(self, answer: Answer) -> R:
        """The same request with the same payment, as a payer does whose answer was lost or late."""
        if answer.proof is None:
            raise ConfigurationError(f"nothing was paid for {answer!r}: there is no payment to send again")
        return self._tell(stories.resend(answer))

    def anew(self, answer: Answer) -> R:
        """Asks for the same thing again and signs another payment if that is 402, as the impatient do.

        It stays one purchase: whoever is charged for both has paid twice.
        """
        return self._tell(stories.buy(answer.errand, answer.purchase, self._wallet.pay))

    def replay(self, answer: Answer, path: str, method: str = "GET", **options: Any) -> R:
        """Asks for something else with the payment of this answer."""
        errand = Errand(answer.errand.client, method.upper(), path, options)
        return self._tell(stories.replay(answer, errand, self._till.next_purchase()))

    def forged(self, client: Any, path: str, method: str = "GET", **options: Any) -> R:
        """Pays with a signature that is not the payer's."""
        return self._buy(Errand(client, method.upper(), path, options), stories.forged(self._wallet.pay))

    def underpaid(self, client: Any, path: str, method: str = "GET", **options: Any) -> R:
        """Pays one atomic unit less than is asked."""
        return self._buy(Errand(client, method.upper(), path, options), stories.underpaid(self._wallet.pay))

    def _buy(self, errand: Errand, sign: Sign) -> R:
        return self._tell(stories.buy(errand, self._till.next_purchase(), sign))

    @abstractmethod
    def _tell(self, story: Story) -> R: ...


class Payer(AnyPayer[Answer]):
    """Pays through a blocking client: httpx.Client, or that of Starlette, FastAPI, Flask or Django."""

    def _tell(self, story: Story) -> Answer:
        sending = next(story)
        while True:
            try:
                sending = story.send(self._sent(sending))
            except StopIteration as end:
                answer: Answer = end.value
                return answer

    def _sent(self, sending: Sending) -> Answer:
        one = sending.errand
        response = send(one.client, one.method, one.path, self._till.options(sending))
        return self._till.received(sending, read(response))


class AsyncPayer(AnyPayer[Coroutine[Any, Any, Answer]]):
    """Pays through an awaiting client, under asyncio or trio: httpx.AsyncClient, or Django's AsyncClient."""

    async def _tell(self, story: Story) -> Answer:
        sending = next(story)
        while True:
            answer = await self._sent(sending)
            try:
                sending = story.send(answer)
            except StopIteration as end:
                last: Answer = end.value
                return last

    async def _sent(self, sending: Sending) -> Answer:
        one = sending.errand
        response = await send(one.client, one.method, one.path, self._till.options(sending))
        return self._till.received(sending, read(response))

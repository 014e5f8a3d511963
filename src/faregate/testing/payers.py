"""Payers for a seller's tests: `Payer` blocks, `AsyncPayer` awaits. They pay with the emulator's money.

A purchase is a generator: it yields each request, gets the answer, and returns the last answer. So the same
code serves both payers; only how a request is sent differs.
"""

import base64
import itertools
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Generator, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Self, TypeVar

from faregate.core.models import Headers, Response, header_values
from faregate.emulator.calls import decode_header
from faregate.emulator.clock import EmulatorClock
from faregate.emulator.emulator import Emulator
from faregate.emulator.wallet import Wallet
from faregate.errors import ConfigurationError

PROOF = "PAYMENT-SIGNATURE"
R = TypeVar("R")
Sign = Callable[[str], str]
"""Makes a proof from the instructions in `PAYMENT-REQUIRED`."""


@dataclass(frozen=True, slots=True)
class PayerRequest:
    """A request of a payer; `options` are keyword arguments of the test client's method.

    All requests of one purchase have the same number, `purchase`. `priced` says
    that this request was answered 402 before.
    """

    client: Any
    method: str
    path: str
    options: dict[str, Any]
    purchase: int
    proof: str | None = field(default=None, repr=False)
    priced: bool = False


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class PaidResponse:
    """A response to a payer. `calls` is how many calls the service had had by then."""

    response: Response
    request: PayerRequest
    calls: int
    find_transaction: Callable[[str], str | None]

    def __repr__(self) -> str:
        """Show the beginning of the body but never the proof, because failing tests print this."""
        paid = ", paid" if self.paid else ""
        return f"<{self.status} {self.request.method} {self.request.path}{paid}: {self.body[:200]!r}>"

    @property
    def proof(self) -> str | None:
        """The payment that was sent; None without one."""
        return self.request.proof

    @property
    def purchase(self) -> int:
        return self.request.purchase

    @property
    def priced(self) -> bool:
        return self.request.priced

    @property
    def status(self) -> int:
        return self.response.status

    @property
    def headers(self) -> Headers:
        """Pairs of name and value; `header` looks one up."""
        return self.response.headers

    @property
    def body(self) -> bytes:
        return self.response.body

    def header(self, name: str) -> str | None:
        """Return the value of a header, in any case; None if it is absent or occurs more than once."""
        return self.response.first(name.lower())

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        """The decoded JSON body. Raises `ValueError`."""
        return json.loads(self.body)

    @property
    def instructions(self) -> dict[str, Any] | None:
        """`PAYMENT-REQUIRED`, decoded."""
        return decode_header(self.headers, "payment-required")

    @property
    def payment(self) -> dict[str, Any] | None:
        """`PAYMENT-RESPONSE`, decoded: `success`, `transaction` (its hash), `network`, `payer`, `amount`."""
        return decode_header(self.headers, "payment-response")

    @property
    def paid(self) -> bool:
        """Whether the answer proves that the payment is settled."""
        return self.payment is not None and self.payment.get("success") is True

    @property
    def transaction(self) -> str | None:
        """The `txn_` id of this proof at the service; None if there is none."""
        return None if self.proof is None else self.find_transaction(self.proof)


Flow = Generator[PayerRequest, PaidResponse, PaidResponse]


class PayerSession:
    """State shared by the payers of one test: the emulator, and every answer they got."""

    def __init__(self, emulator: Emulator) -> None:
        self.answers: list[PaidResponse] = []
        self._emulator = emulator
        self._purchases = itertools.count(1)

    @property
    def clock(self) -> EmulatorClock:
        """The emulator's clock, by which the validity of a payment is judged."""
        return self._emulator.clock

    def next_purchase(self) -> int:
        return next(self._purchases)

    def record_answer(self, request: PayerRequest, response: Response) -> PaidResponse:
        # The invariants compare each answer with the calls that the service had had when it came.
        calls: int = self._emulator.read_state(lambda _, log: log.count)
        answer = PaidResponse(response, request, calls, self._find_transaction)
        self.answers.append(answer)
        return answer

    def check(self) -> None:
        """Check the invariants. A payment may still be pending: a test may well end before it settles."""
        self._emulator.assert_no_double_charge(self.answers)
        self._emulator.assert_released_only_if_completed(self.answers)

    def _find_transaction(self, proof: str) -> str | None:
        ids = (
            call.transaction
            for call in self._emulator.calls()
            if header_values(call.request.headers, PROOF.lower()) == [proof]
        )
        return next((id for id in ids if id is not None), None)


class AnyPayer(ABC, Generic[R]):
    """The methods of both payers. `client` is your framework's test client; options go to its method.

    Every answer is kept in `answers`, those of the payers made from this one too.
    """

    def __init__(self, session: PayerSession, wallet: Wallet | None = None) -> None:
        self._session = session
        # By the emulator's clock, which judges payments and may be frozen or run fast.
        self._wallet = wallet or Wallet(clock=session.clock)

    @property
    def address(self) -> str:
        return self._wallet.address

    @property
    def answers(self) -> list[PaidResponse]:
        """All answers, oldest first, including the first 402 of each purchase."""
        return self._session.answers

    def named(self, name: str) -> Self:
        """Return a test payer, such as `slow`. Raises `ConfigurationError` if there is none of this name."""
        return type(self)(self._session, Wallet.test(name, clock=self._session.clock))

    __call__ = named

    def another(self) -> Self:
        """Return a new payer, unknown to the service."""
        return type(self)(self._session)

    def get(self, client: Any, path: str, **options: Any) -> R:
        """Request; on a 402, sign one payment and request again with it. Return the last answer."""
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
        return self._run(_buy(self._build_request(client, method, path, options), self._wallet.pay))

    def ask(self, client: Any, path: str, method: str = "GET", **options: Any) -> R:
        """Request without a payment: 402 if it has a price."""
        return self._run(_ask(self._build_request(client, method, path, options)))

    def again(self, answer: PaidResponse) -> R:
        """Repeat the request with the same payment, as after a lost or late answer."""
        if answer.proof is None:
            raise ConfigurationError(f"nothing was paid for {answer!r}: there is no payment to send again")
        return self._run(_ask(answer.request))

    def anew(self, answer: PaidResponse) -> R:
        """Request the same thing without the payment, and sign another if that is 402.

        It stays one purchase: a seller that charges for both payments has charged twice.
        """
        return self._run(_buy(replace(answer.request, proof=None, priced=False), self._wallet.pay))

    def replay(self, answer: PaidResponse, path: str, method: str = "GET", **options: Any) -> R:
        """Request something else with the payment of this answer."""
        request = self._build_request(answer.request.client, method, path, options)
        return self._run(_replay(request, answer.proof))

    def forged(self, client: Any, path: str, method: str = "GET", **options: Any) -> R:
        """Pay with a signature that is not the payer's."""
        return self._run(_buy(self._build_request(client, method, path, options), self._sign_forged))

    def underpaid(self, client: Any, path: str, method: str = "GET", **options: Any) -> R:
        """Pay one atomic unit less than the price."""
        return self._run(_buy(self._build_request(client, method, path, options), self._sign_too_little))

    def _build_request(self, client: Any, method: str, path: str, options: dict[str, Any]) -> PayerRequest:
        return PayerRequest(client, method.upper(), path, options, self._session.next_purchase())

    def _sign_forged(self, instructions: str) -> str:
        proof = _decode(self._wallet.pay(instructions))
        signature: str = proof["payload"]["signature"]
        # Another last digit of r: still a well-formed signature, but of another key.
        last_of_r = 65
        other = "0" if signature[last_of_r] != "0" else "1"
        proof["payload"]["signature"] = signature[:last_of_r] + other + signature[last_of_r + 1 :]
        return _encode(proof)

    def _sign_too_little(self, instructions: str) -> str:
        required = _decode(instructions)
        requirements = required["accepts"][0]
        requirements["amount"] = str(int(requirements["amount"]) - 1)
        return self._wallet.pay(_encode(required))

    @abstractmethod
    def _run(self, flow: Flow) -> R: ...


class Payer(AnyPayer[PaidResponse]):
    """Pays through a blocking client: httpx.Client, or that of Starlette, FastAPI, Flask or Django."""

    def _run(self, flow: Flow) -> PaidResponse:
        request = next(flow)
        while True:
            response = _send(request)
            answer = self._session.record_answer(request, _read(response))
            try:
                request = flow.send(answer)
            except StopIteration as end:
                last: PaidResponse = end.value
                return last


class AsyncPayer(AnyPayer[Coroutine[Any, Any, PaidResponse]]):
    """Pays through an async client, under asyncio or trio: httpx.AsyncClient, or Django's AsyncClient."""

    async def _run(self, flow: Flow) -> PaidResponse:
        request = next(flow)
        while True:
            response = await _send(request)
            answer = self._session.record_answer(request, _read(response))
            try:
                request = flow.send(answer)
            except StopIteration as end:
                last: PaidResponse = end.value
                return last


def _ask(request: PayerRequest) -> Flow:
    return (yield request)


def _buy(request: PayerRequest, sign: Sign) -> Flow:
    """Request; on a 402, sign one payment and request again with it."""
    answer = yield request
    instructions = _get_instructions(answer.response)
    if instructions is None:
        return answer
    return (yield replace(request, proof=sign(instructions), priced=True))


def _replay(request: PayerRequest, proof: str | None) -> Flow:
    """Request, and request again with the payment of another purchase."""
    answer = yield request
    priced = _get_instructions(answer.response) is not None
    return (yield replace(request, proof=proof, priced=priced))


def _get_instructions(response: Response) -> str | None:
    return response.first("payment-required") if response.status == 402 else None


def _send(request: PayerRequest) -> Any:
    """Call the test client, with the payment beside the test's own headers; an async client's is awaited."""
    options = request.options
    if request.proof is not None:
        # A copy: the test may use its options again.
        options = {**options, "headers": {**options.get("headers", {}), PROOF: request.proof}}
    return getattr(request.client, request.method.lower())(request.path, **options)


def _read(response: Any) -> Response:
    """Convert the response of any client: of httpx, Starlette, FastAPI, Flask or Django."""
    return Response(response.status_code, _read_headers(response.headers), _read_body(response))


def _read_headers(headers: Any) -> Headers:
    # httpx folds repeated headers in `items`; `multi_items` keeps them apart.
    pairs: Iterable[tuple[str, str]] = getattr(headers, "multi_items", headers.items)()
    return tuple((str(name), str(value)) for name, value in pairs)


def _read_body(response: Any) -> bytes:
    for name in ("content", "data"):  # Flask's is `data`
        if hasattr(response, name):
            return bytes(getattr(response, name))
    return bytes(response.getvalue())  # Django's streaming response


def _decode(header: str) -> Any:
    return json.loads(base64.b64decode(header))


def _encode(value: Any) -> str:
    return base64.b64encode(json.dumps(value).encode()).decode("ascii")

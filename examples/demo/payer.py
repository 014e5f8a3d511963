"""Somebody who pays, with the official x402 client and a key. Nothing of faregate is in here."""

import time
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self

import httpx
from eth_account import Account
from x402 import PaymentRequired, SettleResponse, x402Client
from x402.http import x402HTTPClient
from x402.http.clients import wrapHttpxWithPayment
from x402.http.utils import decode_payment_required_header, decode_payment_response_header
from x402.mechanisms.evm.exact import ExactEvmScheme  # pyright: ignore[reportMissingTypeStubs]
from x402.mechanisms.evm.upto.client import UptoEvmScheme  # pyright: ignore[reportMissingTypeStubs]

_SECONDS: Final = 60.0
"""A settlement is waited for, and the machine may be busy: httpx would give up after 5 seconds."""


@dataclass(frozen=True)
class Answer:
    """What came back: `paid` is the decoded `PAYMENT-RESPONSE`, `asked` the decoded `PAYMENT-REQUIRED`."""

    status: int
    headers: httpx.Headers
    body: bytes
    seconds: float
    data: dict[str, Any] = field(default_factory=dict[str, Any])
    asked: PaymentRequired | None = None
    paid: SettleResponse | None = None


class Payer:
    """Asks without paying (`ask`), pays as it comes (`pay`), or keeps the proof in hand (`sign`, `show`).

    `receipts` is what it has been given as paid: settlement and amount.
    """

    def __init__(self, seller: str, private_key: str = "") -> None:
        account = Account.from_key(private_key) if private_key else Account.create()
        self.address: str = account.address
        self.receipts: dict[str, int] = {}
        self._x402 = x402Client().register("eip155:*", ExactEvmScheme(account))
        self._x402.register("eip155:*", UptoEvmScheme(account))
        self._paying = wrapHttpxWithPayment(self._x402, base_url=seller, timeout=_SECONDS)
        self._plain = httpx.AsyncClient(base_url=seller, timeout=_SECONDS)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._paying.aclose()
        await self._plain.aclose()

    async def ask(self, path: str) -> Answer:
        """A request as any stranger sends it."""
        return await self._send(self._plain, "GET", path)

    async def pay(self, path: str, body: dict[str, str] | None = None) -> Answer:
        """One call of the wrapped client: it gets the 402, signs, and asks again."""
        return await self._send(self._paying, "POST" if body else "GET", path, json=body)

    async def sign(self, unpaid: Answer, path: str) -> dict[str, str]:
        """The `PAYMENT-SIGNATURE` header for this 402, to be sent by hand, as often as needed."""
        headers, _ = await x402HTTPClient(self._x402).handle_402_response(
            dict(unpaid.headers), unpaid.body, str(self._plain.base_url.join(path))
        )
        return headers

    async def show(self, path: str, proof: dict[str, str]) -> Answer:
        """The same request with a proof that was signed before."""
        return await self._send(self._plain, "GET", path, headers=proof)

    async def _send(self, client: httpx.AsyncClient, method: str, path: str, **more: Any) -> Answer:
        began = time.monotonic()
        response = await client.request(method, path, **more)
        answer = _answer(response, time.monotonic() - began)
        if answer.paid is not None and answer.paid.success:
            self.receipts[answer.paid.transaction] = int(answer.paid.amount or 0)
        return answer


def _answer(response: httpx.Response, seconds: float) -> Answer:
    asked = response.headers.get("PAYMENT-REQUIRED")
    paid = response.headers.get("PAYMENT-RESPONSE")
    return Answer(
        response.status_code,
        response.headers,
        response.content,
        seconds,
        _data(response),
        _instructions(asked) if asked else None,
        decode_payment_response_header(paid) if paid else None,
    )


def _data(response: httpx.Response) -> dict[str, Any]:
    is_json = response.headers.get("content-type", "").startswith("application/json")
    return response.json() if is_json else {}


def _instructions(header: str) -> PaymentRequired:
    decoded = decode_payment_required_header(header)
    if not isinstance(decoded, PaymentRequired):
        raise TypeError("the instructions are not those of x402 version 2")
    return decoded

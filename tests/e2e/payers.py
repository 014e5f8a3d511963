"""The official x402 client in its two dresses, with one face: httpx (async) and requests (blocking)."""

import asyncio
from typing import Any, Protocol

import httpx
import requests
from eth_account import Account
from x402 import x402Client, x402ClientSync
from x402.http import x402HTTPClientSync
from x402.http.clients import wrapHttpxWithPayment, wrapRequestsWithPayment
from x402.http.clients.httpx import PaymentError as HttpxPaymentError
from x402.http.clients.requests import PaymentError as RequestsPaymentError
from x402.mechanisms.evm.exact import ExactEvmScheme

Refused = (HttpxPaymentError, RequestsPaymentError)
"""What the clients raise when they will not sign."""


PATIENCE = 30.0
"""Seconds for an answer: a worker that is only just starting on a busy machine is no failure."""


class Answer(Protocol):
    """What both libraries' responses have in common."""

    status_code: int

    @property
    def headers(self) -> Any: ...

    @property
    def content(self) -> Any: ...

    def json(self) -> Any: ...


class Payer(Protocol):
    address: str

    def allow(self, controls: Any) -> None:
        """The owner's spend controls."""

    def call(self, method: str, url: str, body: Any = None) -> Answer:
        """One paid call as the library's own user makes it."""


class HttpxPayer:
    def __init__(self) -> None:
        account = Account.create()
        self.address = account.address
        self._x402 = x402Client().register("eip155:*", ExactEvmScheme(account))

    def allow(self, controls: Any) -> None:
        self._x402.set_spend_controls(controls)

    def call(self, method: str, url: str, body: Any = None) -> Answer:
        return asyncio.run(self._call(method, url, body))

    async def _call(self, method: str, url: str, body: Any) -> httpx.Response:
        async with wrapHttpxWithPayment(self._x402, timeout=PATIENCE) as client:
            response: httpx.Response = await client.request(method, url, json=body)
            return response


class RequestsPayer:
    def __init__(self) -> None:
        account = Account.create()
        self.address = account.address
        self._x402 = x402ClientSync().register("eip155:*", ExactEvmScheme(account))

    def allow(self, controls: Any) -> None:
        self._x402.set_spend_controls(controls)

    def call(self, method: str, url: str, body: Any = None) -> Answer:
        with wrapRequestsWithPayment(requests.Session(), self._x402) as session:
            answer: Answer = session.request(method, url, json=body, timeout=PATIENCE)
            return answer


PAYERS: dict[str, type[HttpxPayer] | type[RequestsPayer]] = {"httpx": HttpxPayer, "requests": RequestsPayer}


def proof_for(url: str) -> dict[str, str]:
    """The `PAYMENT-SIGNATURE` header for a URL, signed by the official client, to be sent by hand."""
    x402 = x402ClientSync().register("eip155:*", ExactEvmScheme(Account.create()))
    unpaid = httpx.get(url, timeout=PATIENCE)
    headers, _ = x402HTTPClientSync(x402).handle_402_response(dict(unpaid.headers), unpaid.content, url)
    return headers

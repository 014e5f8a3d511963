"""A WSGI application that sells, and requests to it."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from werkzeug.test import Client, TestResponse

from faregate.core.models import Offer
from faregate.emulator import TEST_KEY, Emulator, Wallet
from faregate.emulator.transports import EmbeddedTransport
from faregate.events import Event
from faregate.merchant.client import MerchantClient
from faregate.offers import offer
from faregate.paywall import Paywall
from faregate.wsgi import PaywallMiddleware, require_payment

CONTENT = b"paid content"
SOLD = offer("daily_report")


PLAIN = [("Content-Type", "text/plain")]


Start = Callable[..., Callable[[bytes], object]]


class Seller:
    """A WSGI app behind the paywall, called as a server does; `emulator` is the service."""

    def __init__(self, app: Any, times: Any = None, **settings: Any) -> None:
        self.emulator = Emulator()
        transport: Any = EmbeddedTransport(self.emulator)
        service: Any = {"base_url": "http://service.example", "api_key": TEST_KEY, "transport": transport}
        self.service = MerchantClient(**service)
        self.heard: list[Event] = []
        paywall = Paywall(
            public_url="https://seller.example",
            environ={},
            on_event=self.heard.append,
            **service,
            **(times or {}),
        )
        self.client = Client(PaywallMiddleware(app, paywall, **settings))

    def ask(self, path: str = "/", proof: str | None = None, method: str = "GET") -> TestResponse:
        headers = {} if proof is None else {"PAYMENT-SIGNATURE": proof}
        overrides = {"PATH_INFO": path}  # the test client would take `//x` for a host
        return self.client.open(method=method, headers=headers, environ_overrides=overrides, buffered=True)

    def proof(self, path: str = "/") -> str:
        unpaid = self.ask(path)
        assert unpaid.status_code == 402, unpaid.text
        return Wallet().pay(unpaid.headers["PAYMENT-REQUIRED"])

    def buy(self, path: str = "/") -> TestResponse:
        return self.ask(path, self.proof(path))

    @property
    def statuses(self) -> list[str]:
        return [transaction.status or "" for transaction in self.service.iter_transactions()]

    @property
    def completions(self) -> int:
        return sum(call.path.endswith("/complete") for call in self.emulator.calls())


def selling(handler: Callable[[Any, Start], Iterable[bytes]], sold: Offer = SOLD) -> Any:
    def app(environ: Any, start_response: Start) -> Iterable[bytes]:
        require_payment(environ, sold)
        return handler(environ, start_response)

    return app


class Body:
    """An iterable that knows whether it was closed, and when."""

    def __init__(self, *chunks: bytes, error: Exception | None = None, closing: Any = None) -> None:
        self.chunks, self.error, self.closing, self.closed = chunks, error, closing, 0

    def __iter__(self) -> Iterator[bytes]:
        yield from self.chunks
        if self.error is not None:
            raise self.error

    def close(self) -> None:
        self.closed += 1
        if self.closing is not None:
            self.closing()


def answering(body: Iterable[bytes], status: str = "200 OK") -> Any:
    def handler(_environ: Any, start_response: Start) -> Iterable[bytes]:
        start_response(status, PLAIN)
        return body

    return selling(handler)


def anything(_environ: Any, start_response: Start) -> Iterable[bytes]:
    start_response("200 OK", [*PLAIN, ("Access-Control-Allow-Origin", "*")])
    return [CONTENT]

"""The emulator as a transport without HTTP: for the merchant client, and for httpx.

An answer that does not arrive is the exception that the client has for it.
"""

import json
import time
from functools import cache
from typing import Any
from weakref import WeakSet

import anyio
import httpx

from faregate.core.models import Headers, Response, WireRequest
from faregate.emulator.delivery import Delivery
from faregate.emulator.emulator import Emulator
from faregate.emulator.tenants import Tenants
from faregate.errors import BadAnswer, NoAnswer
from faregate.merchant.requests import PRICES
from faregate.rules.asgi import decode_headers
from faregate.rules.catalog import describe_published
from faregate.rules.http import json_value_response
from faregate.x402.declared_prices import read_declared_price


class EmbeddedTransport:
    """A transport of the merchant client, blocking and async, for any origin."""

    def __init__(self, emulator: Emulator) -> None:
        self.emulator = self._own = emulator
        self.paywalls: WeakSet[Any] = WeakSet()
        """Those that sell with it, which start again when a test puts another emulator in its place."""

    @property
    def is_replaced(self) -> bool:
        """Whether a test has put its own emulator in place of the first one."""
        return self.emulator is not self._own

    def send(self, method: str, url: str, headers: Headers, body: bytes | None, seconds: float) -> Response:
        if url.endswith(PRICES):
            return self._publish(body or b"{}")
        delivery = self._deliver(method, url, headers, body)
        time.sleep(_get_delay(delivery, seconds))
        return _receive(delivery)

    async def asend(
        self, method: str, url: str, headers: Headers, body: bytes | None, seconds: float
    ) -> Response:
        if url.endswith(PRICES):
            return self._publish(body or b"{}")
        delivery = self._deliver(method, url, headers, body)
        await anyio.sleep(_get_delay(delivery, seconds))
        return _receive(delivery)

    def close(self) -> None:
        """Do nothing: the emulator lives as long as its process."""

    async def aclose(self) -> None:
        """Do nothing, like `close`."""

    def _publish(self, body: bytes) -> Response:
        """Have the emulator ask the prices of the code; they are not calls of the Merchant API."""
        prices = {key: read_declared_price(fields) for key, fields in json.loads(body).items()}
        published = self.emulator.publish_prices(prices)
        return json_value_response({key: describe_published(revision) for key, revision in published.items()})

    def _deliver(self, method: str, url: str, headers: Headers, body: bytes | None) -> Delivery:
        path = "/" + url.split("/", 3)[3]
        return self.emulator.deliver(WireRequest(method, path, headers, body))


def _get_delay(delivery: Delivery, seconds: float) -> float:
    """Return the seconds to wait; `NoAnswer` at once if the client would not wait that long."""
    if delivery.delay >= seconds:
        raise NoAnswer("the emulator answered too late")
    return delivery.delay


def _receive(delivery: Delivery) -> Response:
    match delivery.ending:
        case "silence" | "reset":
            raise NoAnswer("the emulator did not answer")
        case "cut":
            raise BadAnswer("the emulator broke off in the middle")
        case "whole":
            return delivery.response


@cache
def get_embedded_transport() -> EmbeddedTransport:
    """Return the transport of this process's own emulator: the built-in account, test keys only."""
    return EmbeddedTransport(Emulator(allow_live=False))


class EmulatorTransport(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """A transport for `httpx.Client` and `httpx.AsyncClient`."""

    def __init__(self, emulator: Emulator | Tenants) -> None:
        self._emulator = emulator

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        delivery = self._deliver(request, request.read())
        time.sleep(_get_httpx_delay(delivery, request))
        return _receive_httpx(delivery, request)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        delivery = self._deliver(request, await request.aread())
        await anyio.sleep(_get_httpx_delay(delivery, request))
        return _receive_httpx(delivery, request)

    def _deliver(self, request: httpx.Request, body: bytes) -> Delivery:
        path = request.url.raw_path.decode("ascii")
        return self._emulator.deliver(
            WireRequest(request.method, path, decode_headers(request.headers.raw), body)
        )


def transport(emulator: Emulator | Tenants) -> EmulatorTransport:
    """Build an httpx transport, blocking and async: no port, no thread."""
    return EmulatorTransport(emulator)


def _get_httpx_delay(delivery: Delivery, request: httpx.Request) -> float:
    """Return the seconds to wait; `ReadTimeout` at once if the client would not wait that long."""
    patience: float | None = request.extensions.get("timeout", {}).get("read")
    if patience is not None and delivery.delay >= patience:
        raise httpx.ReadTimeout("the emulator answered too late", request=request)
    return delivery.delay


def _receive_httpx(delivery: Delivery, request: httpx.Request) -> httpx.Response:
    match delivery.ending:
        case "silence":
            raise httpx.ReadTimeout("the emulator did not answer", request=request)
        case "reset":
            raise httpx.ReadError("the emulator reset the connection", request=request)
        case "cut":
            raise httpx.RemoteProtocolError("the emulator broke off in the middle", request=request)
        case "whole":
            reply = delivery.response
            return httpx.Response(
                reply.status, headers=list(reply.headers), content=reply.body, request=request
            )

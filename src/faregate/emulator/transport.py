"""The emulator as an httpx transport. An answer that does not arrive is the exception httpx has for it."""

import time

import anyio
import httpx

from faregate.core.models import Headers, WireRequest
from faregate.emulator.delivery import Delivery
from faregate.emulator.emulator import Emulator
from faregate.emulator.tenants import Worlds


class EmulatorTransport(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """For `httpx.Client(transport=...)` and `httpx.AsyncClient(transport=...)` alike."""

    def __init__(self, emulator: Emulator | Worlds) -> None:
        self._emulator = emulator

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        delivery = self._deliver(request, request.read())
        time.sleep(_delay(delivery, request))
        return _arrived(delivery, request)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        delivery = self._deliver(request, await request.aread())
        await anyio.sleep(_delay(delivery, request))
        return _arrived(delivery, request)

    def _deliver(self, request: httpx.Request, body: bytes) -> Delivery:
        path = request.url.raw_path.decode("ascii")
        return self._emulator.deliver(WireRequest(request.method, path, _text(request.headers.raw), body))


def transport(emulator: Emulator | Worlds) -> EmulatorTransport:
    """An httpx transport, blocking and async: no port, no thread."""
    return EmulatorTransport(emulator)


def _delay(delivery: Delivery, request: httpx.Request) -> float:
    """The seconds to wait; one that the client would not wait for is not waited for either."""
    patience: float | None = request.extensions.get("timeout", {}).get("read")
    if patience is not None and delivery.delay >= patience:
        raise httpx.ReadTimeout("the emulator answered too late", request=request)
    return delivery.delay


def _arrived(delivery: Delivery, request: httpx.Request) -> httpx.Response:
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


def _text(headers: list[tuple[bytes, bytes]]) -> Headers:
    return tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in headers)

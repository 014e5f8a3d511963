"""Select the transport of a client: the given one, else the fastest that runs here."""

import sys
import threading
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from faregate.core.models import Headers, Response
from faregate.errors import ConfigurationError
from faregate.merchant.transports.base import AsyncTransport, CannotRunHere, Transport
from faregate.merchant.transports.limits import DualTransport, LimitedTransport

if TYPE_CHECKING:
    import httpx

Name: TypeAlias = Literal["h11", "pyreqwest"]
Choice: TypeAlias = "Name | Transport | httpx.BaseTransport | None"
AsyncChoice: TypeAlias = "Name | AsyncTransport | httpx.AsyncBaseTransport | None"


def make_sync(choice: Choice) -> Transport:
    """Make the transport of a `MerchantClient`. Raises `ConfigurationError`."""
    ours: Transport = _select(choice)
    return ours


def make_async(choice: AsyncChoice) -> AsyncTransport:
    """Make the transport of an `AsyncMerchantClient`. Raises `ConfigurationError`."""
    ours: AsyncTransport = _select(choice)
    return ours


def _select(choice: Any) -> Any:
    if choice is None:
        return _make_default()
    if choice == "h11":
        return _make_h11()
    if choice == "pyreqwest":
        return _make_pyreqwest()
    if hasattr(choice, "handle_request") or hasattr(choice, "handle_async_request"):
        from faregate.merchant.transports.httpx import MAX_CALLS, HttpxTransport

        return LimitedTransport(HttpxTransport(choice), MAX_CALLS)
    if hasattr(choice, "send") or hasattr(choice, "asend"):
        return choice
    raise ConfigurationError(
        "transport must be 'h11', 'pyreqwest', an httpx transport, or an object with send or asend."
    )


def _make_default() -> DualTransport:
    if find_spec("pyreqwest") and _may_load_pyreqwest():
        return DefaultTransport(_make_pyreqwest(), _make_h11())
    return _make_h11()


def _make_h11() -> DualTransport:
    from faregate.merchant.transports.h11 import H11Transport

    return LimitedTransport(H11Transport())


def _may_load_pyreqwest() -> bool:
    # Its allocator takes the thread that loads it for the main one; when that thread ends, others crash.
    return "pyreqwest" in sys.modules or threading.current_thread() is threading.main_thread()


def _make_pyreqwest() -> DualTransport:
    if not _may_load_pyreqwest():
        raise CannotRunHere(
            "pyreqwest must be loaded by the main thread: import it or make the client there, leave the "
            "transport out, or say h11."
        )
    try:
        from faregate.merchant.transports.pyreqwest import PyreqwestTransport
    except ModuleNotFoundError:
        raise ConfigurationError(
            "transport='pyreqwest' needs its package: pip install 'faregate[fast]'"
        ) from None
    return LimitedTransport(PyreqwestTransport())


class DefaultTransport:
    """Use the fast transport, or the plain one where the fast one cannot run (trio, some forked children)."""

    def __init__(self, fast: DualTransport, plain: DualTransport) -> None:
        self._fast = fast
        self._plain = plain

    def send(self, method: str, url: str, headers: Headers, body: bytes | None, seconds: float) -> Response:
        try:
            return self._fast.send(method, url, headers, body, seconds)
        except CannotRunHere:
            pass
        return self._plain.send(method, url, headers, body, seconds)

    async def asend(
        self, method: str, url: str, headers: Headers, body: bytes | None, seconds: float
    ) -> Response:
        try:
            return await self._fast.asend(method, url, headers, body, seconds)
        except CannotRunHere:
            pass
        return await self._plain.asend(method, url, headers, body, seconds)

    def close(self) -> None:
        self._fast.close()
        self._plain.close()

    async def aclose(self) -> None:
        await self._fast.aclose()
        await self._plain.aclose()

"""The HTTP clients under the Merchant API client: one built in, httpx, or your own (docs/client.md).

`make_sync` and `make_async` select one of them.
"""

from typing import TYPE_CHECKING, Any, TypeAlias

from faregate.errors import ConfigurationError
from faregate.merchant.transports.base import MAX_REPLY_BYTES, AsyncTransport, Transport
from faregate.merchant.transports.limits import LimitedTransport

__all__ = [
    "MAX_REPLY_BYTES",
    "AsyncChoice",
    "AsyncTransport",
    "Choice",
    "Transport",
    "make_async",
    "make_sync",
]

if TYPE_CHECKING:
    import httpx

Choice: TypeAlias = "Transport | httpx.BaseTransport | None"
"""What a blocking client takes as `transport`; `None` is the built-in one."""
AsyncChoice: TypeAlias = "AsyncTransport | httpx.AsyncBaseTransport | None"
"""What an async client takes as `transport`; `None` is the built-in one."""


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
        # Import each where it is chosen: httpx is optional, and a seller's own transport needs no parser.
        from faregate.merchant.transports.http1 import Http1Transport

        return LimitedTransport(Http1Transport())
    if hasattr(choice, "handle_request") or hasattr(choice, "handle_async_request"):
        from faregate.merchant.transports.httpx import MAX_CALLS, HttpxTransport

        return LimitedTransport(HttpxTransport(choice), MAX_CALLS)
    if hasattr(choice, "send") or hasattr(choice, "asend"):
        return choice
    raise ConfigurationError("transport must be an httpx transport, or an object with send or asend.")

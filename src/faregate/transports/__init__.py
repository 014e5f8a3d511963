"""The HTTP clients under the Merchant API client: one built in, httpx, or your own (docs/client.md).

`make_sync` and `make_async` select one of them.
"""

from typing import TYPE_CHECKING, Any, TypeAlias

from faregate.errors import ConfigurationError
from faregate.transports.base import MAX_REPLY_BYTES, AsyncTransport, ReplyTooLarge, Transport
from faregate.transports.limits import HasPriority, LimitedTransport, has_no_priority

__all__ = [
    "MAX_REPLY_BYTES",
    "AsyncChoice",
    "AsyncTransport",
    "Choice",
    "ReplyTooLarge",
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


def make_sync(
    choice: Choice, max_reply_bytes: int = MAX_REPLY_BYTES, has_priority: HasPriority = has_no_priority
) -> Transport:
    """Make a blocking transport, such as that of a `MerchantClient`. Raises `ConfigurationError`.

    `max_reply_bytes` and `has_priority` (see `limits`) do not apply to an object with `send`, which has
    limits of its own.
    """
    ours: Transport = _select(choice, max_reply_bytes, has_priority)
    return ours


def make_async(choice: AsyncChoice, has_priority: HasPriority = has_no_priority) -> AsyncTransport:
    """Make the transport of an `AsyncMerchantClient`. Raises `ConfigurationError`."""
    ours: AsyncTransport = _select(choice, MAX_REPLY_BYTES, has_priority)
    return ours


def _select(choice: Any, max_reply_bytes: int, has_priority: HasPriority) -> Any:
    if choice is None:
        # Import each where it is chosen: httpx is optional, and a seller's own transport needs no parser.
        from faregate.transports.http1 import Http1Transport

        return LimitedTransport(Http1Transport(max_reply_bytes), has_priority=has_priority)
    if hasattr(choice, "handle_request") or hasattr(choice, "handle_async_request"):
        from faregate.transports.httpx import MAX_CALLS, HttpxTransport

        inner = HttpxTransport(choice, max_reply_bytes)
        return LimitedTransport(inner, MAX_CALLS, has_priority=has_priority)
    if hasattr(choice, "send") or hasattr(choice, "asend"):
        return choice
    raise ConfigurationError("transport must be an httpx transport, or an object with send or asend.")

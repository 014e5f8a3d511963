"""The HTTP clients under the Merchant API client: one built in, httpx, or your own (docs/client.md)."""

from faregate.merchant.transports.base import MAX_REPLY_BYTES, AsyncTransport, Transport
from faregate.merchant.transports.choice import AsyncChoice, Choice, make_async, make_sync

__all__ = [
    "MAX_REPLY_BYTES",
    "AsyncChoice",
    "AsyncTransport",
    "Choice",
    "Transport",
    "make_async",
    "make_sync",
]

"""The HTTP clients under the Merchant API client: two transports, one small protocol (docs/client.md)."""

from faregate.merchant.transports.base import MAX_REPLY_BYTES, AsyncTransport, CannotRunHere, Transport
from faregate.merchant.transports.choice import AsyncChoice, Choice, make_async, make_sync

__all__ = [
    "MAX_REPLY_BYTES",
    "AsyncChoice",
    "AsyncTransport",
    "CannotRunHere",
    "Choice",
    "Transport",
    "make_async",
    "make_sync",
]

"""The sockets under the client: two transports, one small protocol (docs/client.md)."""

from faregate.merchant.transports.base import MAX_REPLY_BYTES, AsyncTransport, CannotRunHere, Transport
from faregate.merchant.transports.select import AsyncChoice, Choice, awaiting, blocking

__all__ = [
    "MAX_REPLY_BYTES",
    "AsyncChoice",
    "AsyncTransport",
    "CannotRunHere",
    "Choice",
    "Transport",
    "awaiting",
    "blocking",
]

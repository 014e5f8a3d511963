"""faregate: charge for an HTTP resource.

A seller puts `faregate.fastapi`, `faregate.starlette` or `faregate.asgi` in front of a handler; tools
talk to the service with `MerchantClient` or `AsyncMerchantClient`; `faregate.emulator` is the whole
service on one machine. Importing this package loads no framework.
"""

from faregate.errors import (
    ApiError,
    BadAnswer,
    FaregateError,
    JournalError,
    Misconfigured,
    NoAnswer,
    ServiceError,
    UsageError,
)
from faregate.journals.memory import MemoryJournal
from faregate.merchant.client import AsyncMerchantClient, MerchantClient
from faregate.model import Offer
from faregate.payment import Payment
from faregate.paywall import Paywall

__all__ = [
    "ApiError",
    "AsyncMerchantClient",
    "BadAnswer",
    "FaregateError",
    "JournalError",
    "MemoryJournal",
    "MerchantClient",
    "Misconfigured",
    "NoAnswer",
    "Offer",
    "Payment",
    "Paywall",
    "ServiceError",
    "UsageError",
]

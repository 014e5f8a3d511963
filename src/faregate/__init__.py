"""faregate: charge for an HTTP resource.

A seller puts `faregate.fastapi`, `faregate.starlette` or `faregate.asgi` in front of a handler; tools
talk to the service with `MerchantClient` or `AsyncMerchantClient`; `faregate.emulator` is the whole
service on one machine. Importing this package loads no framework, and each name only when it is asked
for: pytest imports it at every start, for its plugin.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from faregate.core.models import Offer
    from faregate.core.recovery import SweepReport
    from faregate.core.reported_values import Payment
    from faregate.core.terms import PaymentTerms, Price
    from faregate.errors import (
        ApiError,
        BadAnswer,
        ConfigurationError,
        FaregateError,
        InvalidUsage,
        JournalError,
        NoAnswer,
        ServiceError,
    )
    from faregate.journals.memory import MemoryJournal
    from faregate.merchant.client import AsyncMerchantClient, MerchantClient
    from faregate.pages.payment import PaymentPage
    from faregate.paywall import Paywall
    from faregate.routes.llms import build_llms_text
    from faregate.routes.openapi import build_openapi
    from faregate.x402.usage_prices import Usage

__all__ = [
    "ApiError",
    "AsyncMerchantClient",
    "BadAnswer",
    "ConfigurationError",
    "FaregateError",
    "InvalidUsage",
    "JournalError",
    "MemoryJournal",
    "MerchantClient",
    "NoAnswer",
    "Offer",
    "Payment",
    "PaymentPage",
    "PaymentTerms",
    "Paywall",
    "Price",
    "ServiceError",
    "SweepReport",
    "Usage",
    "build_llms_text",
    "build_openapi",
]

_ELSEWHERE = {
    "AsyncMerchantClient": "merchant.client",
    "MemoryJournal": "journals.memory",
    "MerchantClient": "merchant.client",
    "Offer": "core.models",
    "Payment": "core.reported_values",
    "PaymentPage": "pages.payment",
    "PaymentTerms": "core.terms",
    "Paywall": "paywall",
    "Price": "core.terms",
    "SweepReport": "core.recovery",
    "Usage": "x402.usage_prices",
    "build_llms_text": "routes.llms",
    "build_openapi": "routes.openapi",
}
"""Where names are; the others are errors."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_ELSEWHERE.get(name, 'errors')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

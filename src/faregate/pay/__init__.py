"""Buy from any seller that speaks x402, with the official x402 client, and never pay twice.

`open_client` opens an httpx client that pays. `faregate pay` is the command. Names are imported when they
are asked for: the help of the command works without the packages of the `pay` extra.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from faregate.pay.requirements import NotSigned
    from faregate.pay.transports import (
        AlreadyDelivered,
        AsyncPayingTransport,
        PayingTransport,
        PaymentPending,
        open_client,
    )

__all__ = [
    "AlreadyDelivered",
    "AsyncPayingTransport",
    "NotSigned",
    "PayingTransport",
    "PaymentPending",
    "open_client",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "requirements" if name == "NotSigned" else "transports"
    try:
        value = getattr(import_module(f"{__name__}.{module}"), name)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"faregate.pay needs {error.name}: pip install 'faregate[pay]'", name=error.name
        ) from error
    globals()[name] = value
    return value

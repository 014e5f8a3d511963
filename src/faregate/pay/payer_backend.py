"""What a purchase asks for, blocking or awaiting.

`Purchase` calls a backend and yields what it gives, an answer or an awaitable of it; the drivers of the core
send the answer back in (`core.driver`). So the rules of a purchase are written once.
"""

from collections.abc import Awaitable, Callable, Generator
from typing import Any, Protocol, TypeAlias, TypeVar

from x402.schemas import PaymentRequired

from faregate.core.models import Response
from faregate.pay.payment_file import SavedPayment
from faregate.pay.wallet import PaymentProof

T = TypeVar("T")
Flow: TypeAlias = Generator[Any, Any, T]


class PayerBackend(Protocol):
    """Sends, signs, waits, and uses the file of the payment."""

    def send(self, payment: SavedPayment | None) -> Response | Awaitable[Response]:
        """Send the request with the payment or without one. Raises `NoResponse`."""
        ...

    def sign(self, required: PaymentRequired) -> PaymentProof | Awaitable[PaymentProof]:
        """Sign one payment. Raises `NotSigned`."""
        ...

    def sleep(self, seconds: float) -> Awaitable[None] | None: ...

    def call(self, action: Callable[[], T]) -> T | Awaitable[T]:
        """Call `action`, which reads or writes the file of the payment."""
        ...

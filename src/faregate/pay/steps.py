"""The steps of a purchase, as values: `Purchase` yields them, and a backend performs them.

`core.driver` drives them, blocking or awaiting. So the rules of a purchase are written once.
"""

from collections.abc import Awaitable, Callable, Generator
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from x402.schemas import PaymentRequired

from faregate.core.models import Response
from faregate.pay.payment_file import SignedPayment
from faregate.pay.wallet import PaymentProof

T = TypeVar("T")


class PayerBackend(Protocol):
    """Performs the steps, blocking or awaiting."""

    def send(self, payment: SignedPayment | None) -> Response | Awaitable[Response]: ...

    def sign(self, required: PaymentRequired) -> PaymentProof | Awaitable[PaymentProof]: ...

    def sleep(self, seconds: float) -> Awaitable[None] | None: ...

    def call(self, action: Callable[[], T]) -> T | Awaitable[T]: ...


class Send(NamedTuple):
    """Gives the response to the request, sent with the payment or without one. Raises `NoResponse`."""

    payment: SignedPayment | None

    def perform(self, backend: PayerBackend) -> Any:
        return backend.send(self.payment)


class Sign(NamedTuple):
    """Gives one signed payment. Raises `NotSigned`."""

    required: PaymentRequired

    def perform(self, backend: PayerBackend) -> Any:
        return backend.sign(self.required)


class Sleep(NamedTuple):
    """Waits."""

    seconds: float

    def perform(self, backend: PayerBackend) -> Any:
        return backend.sleep(self.seconds)


class UseFile(NamedTuple):
    """Gives what `action` returns, which reads or writes the file of the payment."""

    action: Callable[[], Any]

    def perform(self, backend: PayerBackend) -> Any:
        return backend.call(self.action)


Flow: TypeAlias = Generator[Send | Sign | Sleep | UseFile, Any, T]

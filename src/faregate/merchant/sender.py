"""Send calls to the service, blocking or awaiting: the key, the address and the deadline of a call.

The paywall needs no more than this; `client` has the eight operations above it.
"""

import math
from abc import ABC, abstractmethod
from typing import Generic, Self, TypeVar

from faregate.core.models import Headers, WireRequest
from faregate.errors import ConfigurationError, NoAnswer, TooManyCalls
from faregate.merchant.address import BaseURL
from faregate.merchant.api_key import ApiKey, RedactedHeaders, merge_headers
from faregate.merchant.calls import Call, finishes_payment
from faregate.transports import AsyncChoice, AsyncTransport, Choice, Transport, make_async, make_sync
from faregate.x402.tokens import Environment

T = TypeVar("T")
C = TypeVar("C")
X = TypeVar("X")


class _Sender(ABC, Generic[C, X]):
    """The key, the address and the deadline of a call.

    `C` is the type of the choice of a transport, `X` that of the transport. `setting` is the seller's name
    for `base_url`; messages about a call without an answer name it.
    """

    def __init__(
        self,
        api_key: str | ApiKey,
        base_url: str,
        *,
        transport: C | None = None,
        timeout: float = 10.0,
        setting: str = "",
    ) -> None:
        try:
            key = api_key if isinstance(api_key, ApiKey) else ApiKey(api_key)
        finally:
            # Tracebacks with locals show the arguments of a frame.
            api_key = ""
        if not (math.isfinite(timeout) and timeout > 0):
            raise ConfigurationError("timeout must be a number of seconds above 0.")
        self.environment: Environment = key.environment
        self._address = BaseURL(base_url, key.environment, setting or "base_url")
        self._setting = setting
        self._headers = RedactedHeaders(
            (
                ("Authorization", key.reveal()),
                ("Accept", "application/json"),
                ("Accept-Encoding", "identity"),
                ("User-Agent", "faregate"),
            )
        )
        self._timeout = timeout
        self._transport = self._make_transport(transport)

    @abstractmethod
    def _make_transport(self, choice: C | None) -> X:
        """Make the transport of this choice."""

    def _build_arguments(self, request: WireRequest) -> tuple[str, str, Headers, bytes | None, float]:
        """Build the arguments of a transport's `send`."""
        return (
            request.method,
            self._address.url(request.path),
            merge_headers(self._headers, request.headers),
            request.body,
            self._timeout,
        )

    def _add_advice(self, error: NoAnswer) -> None:
        """Add to the message of an error what the seller should check."""
        # `TooManyCalls` means that the call was not sent: the address may be right.
        if self._setting and not isinstance(error, TooManyCalls):
            error.args = (f"{error}. Check {self._setting}, and that the service is running",)

    def __repr__(self) -> str:
        # A traceback may show a client that is only half made.
        attributes = vars(self)
        return f"<{type(self).__name__} {attributes.get('environment')} {attributes.get('_address')}>"


class Sender(_Sender[Choice, Transport]):
    """Sends calls, and blocks. Any number of threads may share a sender, and it survives a fork.

    `timeout` is in seconds and holds for a whole call. `transport` is an httpx transport, or an object with
    `send`; left out, it is the built-in one.
    """

    def _make_transport(self, choice: Choice) -> Transport:
        return make_sync(choice, has_priority=finishes_payment)

    def send(self, call: Call[T]) -> T:
        """Make one call of `wire`. Raises `NoAnswer`, `BadAnswer`, and what the call's `read` raises."""
        try:
            reply = self._transport.send(*self._build_arguments(call.request))
        except NoAnswer as error:
            self._add_advice(error)
            raise
        return call.read(reply)

    def close(self) -> None:
        """Close the connections of this process. A later call opens new ones."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncSender(_Sender[AsyncChoice, AsyncTransport]):
    """Sends calls, and awaits, on asyncio and trio. Any number of event loops may share it. See `Sender`."""

    def _make_transport(self, choice: AsyncChoice) -> AsyncTransport:
        return make_async(choice, finishes_payment)

    async def send(self, call: Call[T]) -> T:
        """Make one call of `wire`. Raises `NoAnswer`, `BadAnswer`, and what the call's `read` raises."""
        try:
            reply = await self._transport.asend(*self._build_arguments(call.request))
        except NoAnswer as error:
            self._add_advice(error)
            raise
        return call.read(reply)

    async def aclose(self) -> None:
        """Close the connections of this process and event loop. A later call opens new ones."""
        await self._transport.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

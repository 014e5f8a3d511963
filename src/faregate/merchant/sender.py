"""Send calls to the service, blocking or awaiting: its address, the headers with the key, and the deadline.

Calls go to the origin of the address only. The paywall needs no more than this; `client` has the eight
operations above it.
"""

import math
import re
from abc import ABC, abstractmethod
from typing import Any, Generic, NoReturn, Self, TypeVar
from urllib.parse import SplitResult, urlsplit

from faregate.core.models import Header, Headers, WireRequest, is_printable
from faregate.errors import BadAnswer, ConfigurationError, NoAnswer, TooManyCalls
from faregate.merchant.address import is_loopback
from faregate.merchant.api_key import ApiKey
from faregate.merchant.requests import JSON_HEADER, ROOT, Call, concerns_transaction
from faregate.transports import AsyncChoice, AsyncTransport, Choice, Transport, make_async, make_sync
from faregate.x402.tokens import Environment

T = TypeVar("T")
C = TypeVar("C")
X = TypeVar("X")

_BASE = re.compile(r"https?://[!-~]+", re.ASCII | re.IGNORECASE)
# A path and query: `//` would name another host, `\` is read as `/` by some, `#` never travels.
_PATH = re.compile(r"/(?!/)[!-\"$-\[\]-~]*", re.ASCII)


class BaseURL:
    """A checked `base_url`. Raises `ConfigurationError`, which does not repeat it: it may hold a password.

    `setting` is what the seller calls it.
    """

    __slots__ = ("_base", "_origin", "_own_root")

    def __init__(self, base_url: str, environment: Environment, setting: str = "base_url") -> None:
        parts = _split(base_url, setting)
        self._origin = f"{parts.scheme}://{parts.netloc}"
        prefix = parts.path.rstrip("/")
        self._base = self._origin + prefix
        self._own_root = f"{prefix}{ROOT}/" if prefix else None
        if environment == "live" and parts.scheme == "http" and not is_loopback(parts.hostname or ""):
            raise ConfigurationError(f"A live key is sent over https only: give an https {setting}.")

    def url(self, path: str) -> str:
        """The full URL of a path with query, unchanged, on this host. Raises `BadAnswer` for another host.

        All paths are relative to `base_url`, a `next` too. With a path in `base_url`, a `next` that
        already starts with it is taken from the root of the host instead: services behind a prefix do both.
        """
        if not _PATH.fullmatch(path):
            raise BadAnswer("the service gave a next page that is not a path on its own host")
        if self._own_root is not None and path.startswith(self._own_root):
            return self._origin + path
        return self._base + path

    def __repr__(self) -> str:
        return self._base


def _split(base_url: object, setting: str) -> SplitResult:
    how = f"{setting} is the http(s) address of the service, such as https://api.example.com,"
    if not isinstance(base_url, str) or not _BASE.fullmatch(base_url):
        raise ConfigurationError(f"{how} in plain ASCII.")
    if any(char in base_url for char in "?#@\\"):
        raise ConfigurationError(f"{how} without user, password, query or fragment.")
    parts = urlsplit(base_url)
    try:
        named = bool(parts.hostname) and parts.port != 0
    except ValueError:
        named = False
    if not named:
        raise ConfigurationError(f"{how} with a host and, if any, a port from 1 to 65535.")
    return parts


class RedactedHeaders(tuple[Header, ...]):
    """Header pairs whose repr gives the names only, so that no traceback shows the key."""

    __slots__ = ()

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("headers with an API key cannot be serialized")

    def __repr__(self) -> str:
        return f"<headers {', '.join(name for name, _ in self)}>"

    __str__ = __repr__


def merge_headers(constant: Headers, more: Headers) -> RedactedHeaders:
    """Join both. The values of `more` are printable ASCII without spaces around them, and not empty.

    Raises `ValueError`, which does not repeat the value.
    """
    for header in more:
        if header is JSON_HEADER:
            continue
        name, value = header
        if not (value and value == value.strip() and is_printable(value)):
            value = ""
            raise ValueError(
                f"{name}: a header value is printable ASCII without spaces around it, and not empty"
            )
    return RedactedHeaders((*constant, *more))


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
        return make_sync(choice, has_priority=concerns_transaction)

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
        return make_async(choice, concerns_transaction)

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

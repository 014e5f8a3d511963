"""Call a chain's nodes: JSON-RPC 2.0 over HTTP. Any number of threads may share a client.

The address of a node often holds a key, in its path or query. So errors, logs and reprs name its host only.
"""

import itertools
import logging
import math
import re
from base64 import b64encode
from collections.abc import Callable, Sequence
from threading import Lock
from time import monotonic
from typing import Any, Final, TypeVar, cast
from urllib.parse import SplitResult, unquote, urlsplit

from faregate.core.models import Headers, Response
from faregate.errors import ConfigurationError, ServiceError
from faregate.logs import log
from faregate.merchant.json_text import from_json, to_json
from faregate.service.chain.deadline import get_time_left
from faregate.service.chain.node_order import Rest, take_turns
from faregate.transports import Choice, ReplyTooLarge, Transport, make_sync

CALL_SECONDS: Final = 5.0
MAX_NODE_REPLY_BYTES: Final = 32 * 1024 * 1024
"""The largest reply of a node that is read.

A transaction of 2^24 units of gas, the most that a chain of Ethereum's rules allows (EIP-7825), can log so
much that its receipt has about 20 MB.
"""
_NO_CODE: Final = -1
"""Stands in where an error object has no code, or a reply is too large: None is no answer at all."""
_REVERTED: Final = 3
"""The code of geth for a call that the contract refused. Others have the word in their message only."""
_BUSY: Final = (429, 502, 503, 504)
"""Status codes with which a node, or a proxy in front of it, refuses every call."""
_MAX_MESSAGE: Final = 300
"""Characters of a node's message that are kept."""
_HEADERS: Final[Headers] = (
    ("Content-Type", "application/json"),
    ("Accept", "application/json"),
    ("Accept-Encoding", "identity"),
    ("User-Agent", "faregate"),
)
_URL: Final = re.compile(r"https?://[!-~]+", re.ASCII | re.IGNORECASE)
_HOW: Final = "an RPC URL is the http(s) address of a node, such as https://sepolia.base.org"
_SEPARATORS: Final = re.compile(r"[/?&=;:@]+")
_SHORTEST_SECRET: Final = 6
"""Characters. Shorter parts of a URL, such as `v2`, are no keys, and stand in other words."""
T = TypeVar("T")


class RpcError(Exception):
    """A node gave an error, or no usable answer. The message names its host, and shows no key.

    `code` is the JSON-RPC code of the node's error; None if it gave none, as when it could not be reached.
    """

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code

    @property
    def is_revert(self) -> bool:
        """Whether a contract refused the call."""
        return self.code == _REVERTED or (self.code is not None and "revert" in str(self).lower())


class RpcUrl:
    """A checked RPC URL. Raises `ConfigurationError`, which does not repeat it.

    A user and password before the host are sent as HTTP Basic, in `headers`.
    """

    __slots__ = ("_secrets", "_url", "headers", "host")

    def __init__(self, url: str) -> None:
        parts = _split(url)
        user, has_user, address = parts.netloc.rpartition("@")
        self.host: Final = address
        self.headers: Final = _build_basic(user) if has_user else ()
        self._url = f"{parts.scheme}://{address}{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
        self._secrets = _find_secrets(user, parts)

    def reveal(self) -> str:
        """Return the URL to send to: do not show it."""
        return self._url

    def redact(self, text: str) -> str:
        """Return a text of others without this URL and its keys: a node may repeat what it was sent."""
        text = text.replace(self._url, self.host)
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text

    def __repr__(self) -> str:
        return f"<RpcUrl {self.host}>"


def _split(url: str) -> SplitResult:
    if not _URL.fullmatch(url) or "#" in url or "\\" in url:
        raise ConfigurationError(f"{_HOW}, in plain ASCII and without a fragment.")
    try:
        parts = urlsplit(url)
        if parts.hostname and parts.port != 0:  # `port` raises for one that is not a number, or too large
            return parts
    except ValueError:
        pass
    raise ConfigurationError(f"{_HOW}, with a host and, if any, a port from 1 to 65535.")


def _build_basic(user: str) -> Headers:
    return (("Authorization", "Basic " + b64encode(unquote(user).encode()).decode("ascii")),)


def _find_secrets(user: str, parts: SplitResult) -> tuple[str, ...]:
    """Find every part that may be a key, the longest first."""
    forms = {
        form
        for text in (user, parts.path, parts.query)
        for part in _SEPARATORS.split(text)
        for form in (part, unquote(part))
        if len(form) >= _SHORTEST_SECRET
    }
    return tuple(sorted(forms, key=len, reverse=True))


class RpcNode:
    """One node. `seconds` is the most that a call may take.

    It rests after a call without a usable answer. What it refuses is an answer.
    """

    def __init__(self, url: str, transport: Transport, seconds: float = CALL_SECONDS) -> None:
        self._url = RpcUrl(url)
        self._transport = transport
        self._seconds = seconds
        self._ids = itertools.count(1)
        self._counting = Lock()
        self.rest: Final = Rest()
        self.requests = self.failures = 0
        """Calls since the start, and how many of them had no usable answer."""
        self.disagreements = 0
        """How often it contradicted other nodes about a settlement."""
        self.seconds = 0.0
        """What all of them took."""

    @property
    def host(self) -> str:
        return self._url.host

    def is_resting(self) -> bool:
        """Return whether it is asked after the other nodes."""
        return self.rest.is_resting(monotonic())

    def call(self, method: str, *params: object) -> Any:
        """Return the result of a call, before the deadline (`limit_time`). Raises `RpcError`."""
        seconds = get_time_left(self._seconds)
        if seconds <= 0:
            raise self._build_error(method, "not asked: the time is over")
        number = next(self._ids)
        request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        with self._counting:
            self.requests += 1
        try:
            result = self._read(method, number, self._send(method, to_json(request), seconds))
        except RpcError as error:
            # A node that was given a part of its time only need not be slow.
            if error.code is None and seconds >= self._seconds / 2:
                self.record_failure()
            raise
        self.rest.record_success()
        return result

    def record_failure(self) -> None:
        """Count a call without a usable answer, and let the node rest."""
        with self._counting:
            self.failures += 1
        self.rest.record_failure(monotonic())

    def count_disagreement(self) -> None:
        """Count that it contradicted other nodes about a settlement."""
        with self._counting:
            self.disagreements += 1

    def _send(self, method: str, body: bytes, seconds: float) -> Response:
        headers, began = (*_HEADERS, *self._url.headers), monotonic()
        try:
            return self._transport.send("POST", self._url.reveal(), headers, body, seconds)
        except ServiceError as error:
            code = _NO_CODE if isinstance(error, ReplyTooLarge) else None
            failure = self._build_error(method, self._url.redact(str(error)), code)
        finally:
            with self._counting:
                self.seconds += monotonic() - began
        # Out here the error has no context: the frames inside hold the URL in plain sight.
        raise failure

    def _read(self, method: str, number: int, response: Response) -> Any:
        """Read the answer to call `number`. Nodes also give errors with a status other than 200."""
        try:
            answer: Any = from_json(response.body)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise self._build_error(method, f"HTTP {response.status} without a JSON object")
        reply = cast("dict[str, Any]", answer)
        if reply.get("error") is not None:
            if response.status in _BUSY:
                self.record_failure()
            raise self._build_refusal(method, reply["error"])
        if response.status != 200 or "result" not in reply:
            raise self._build_error(method, f"HTTP {response.status} without a result")
        # `True` equals 1, and so does 1.0.
        if type(reply.get("id")) is not int or reply["id"] != number:
            raise self._build_error(method, "the answer is to another call")
        return reply["result"]

    def _build_refusal(self, method: str, error: Any) -> RpcError:
        """Build the error of an error object. Its id is not checked: a node may not have read ours."""
        fields = cast("dict[str, Any]", error) if isinstance(error, dict) else {"message": error}
        code = fields.get("code")
        message = self._url.redact(" ".join(str(fields.get("message")).split()))
        return self._build_error(method, f"error {code}: {message}", code if type(code) is int else _NO_CODE)

    def _build_error(self, method: str, reason: str, code: int | None = None) -> RpcError:
        return RpcError(f"RPC node {self.host}, {method}: {reason:.{_MAX_MESSAGE}}", code)

    def __repr__(self) -> str:
        return f"<RpcNode {self.host}>"


class RpcClient:
    """The nodes of one chain, asked in order, those that rest last.

    `seconds` is the most that a call may take; with more than one node, half of that.

    Raises `ConfigurationError` for a URL that cannot be one.
    """

    def __init__(
        self, urls: Sequence[str], *, transport: Choice = None, seconds: float = CALL_SECONDS
    ) -> None:
        if not urls:
            raise ConfigurationError("there is no RPC URL: give at least one of the chain's nodes")
        self._transport = make_sync(transport, MAX_NODE_REPLY_BYTES)
        # Where there is another node, one that hangs must leave time for it.
        each = seconds if len(urls) == 1 else seconds / 2
        self.nodes: Final = tuple(RpcNode(url, self._transport, each) for url in urls)

    def call(self, method: str, *params: object) -> Any:
        """Call the first node that answers. Raises the last `RpcError` if none does."""
        return self.ask(lambda node: node.call(method, *params))

    def ask(self, question: Callable[[RpcNode], T]) -> T:
        """Put a question to the first node that answers, all of it to the same one.

        Raises the last `RpcError` if none does.
        """
        failure: RpcError | None = None
        for node, _ in take_turns(self.nodes, monotonic()):
            if failure is not None:
                if get_time_left(math.inf) <= 0:
                    break
                log("service", logging.WARNING, "%s; the next node is asked", failure)
            try:
                return question(node)
            except RpcError as error:
                failure = error
        raise cast(RpcError, failure)

    def close(self) -> None:
        """Close the connections of this process. A later call opens new ones."""
        self._transport.close()

    def __repr__(self) -> str:
        return f"<RpcClient {', '.join(node.host for node in self.nodes)}>"

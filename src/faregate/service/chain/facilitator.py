"""A client for any x402 v2 facilitator: `POST /verify`, `POST /settle`, `GET /supported`.

A body is read at any status: some facilitators answer a settlement that is still pending with HTTP 500, and
with the hash of its transaction. Blocking; any number of threads may share a client.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from threading import Lock
from time import monotonic
from typing import Any, Final, TypeGuard, cast
from urllib.parse import urlsplit

from eth_utils.address import to_checksum_address

from faregate.core.models import Headers, Response
from faregate.errors import ConfigurationError, ServiceError
from faregate.merchant.json_text import from_json, to_json
from faregate.merchant.sender import BaseURL, RedactedHeaders, merge_headers
from faregate.rules.payments import PaymentSent
from faregate.service.chain.deadline import get_time_left
from faregate.service.chain.node_order import Rest
from faregate.service.chain.safe_text import clean_text
from faregate.transports import Choice, make_sync
from faregate.x402.headers import build_requirements
from faregate.x402.models import X402_VERSION, SignedPayment, Terms
from faregate.x402.permit2 import UPTO_PROXY

Authenticate = Callable[[str, str], Mapping[str, str]]
"""Makes the headers that sign one call, such as a JWT, from its method and URL."""

_ADDRESS: Final = re.compile(r"0x[0-9a-fA-F]{40}", re.ASCII)
_HASH: Final = re.compile(r"0x[0-9a-fA-F]{64}", re.ASCII)
_REASONS: Final = (
    *("invalidReason", "invalidMessage", "errorReason"),
    *("errorType", "error", "code", "message", "errorMessage"),
)
"""Where a reason may stand: in x402's fields, or in those that hosted facilitators have for refused calls."""
_NOT_THE_PAYMENT: Final = (
    *("unexpected_verify_error", "unsupported_scheme"),
    *("invalid_scheme", "invalid_network", "invalid_x402_version"),
)
"""Reasons of x402 that are the facilitator's own: it failed, or does not do our kind of payment at all.

A payer who read so would sign a new payment, in vain.
"""
_CONSTANT: Final = (
    ("Accept", "application/json"),
    ("Accept-Encoding", "identity"),
    ("Content-Type", "application/json"),
    ("User-Agent", "faregate"),
)


# Four times in a sale: the recipient is always the same, and a payer buys more than once.
_format_address: Final = lru_cache(maxsize=1024)(to_checksum_address)


class FacilitatorUnavailable(Exception):
    """This facilitator decided nothing; the text names it, and is fit for a log."""


@dataclass(frozen=True, slots=True)
class FacilitatorSettings:
    """Where a facilitator is, and how to ask it.

    `headers` go with every call, such as an API key; `authenticate` makes more for each. Times are in
    seconds, each for a whole call.
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    authenticate: Authenticate | None = field(default=None, repr=False)
    verify_seconds: float = 4.0
    settle_seconds: float = 8.0
    supported_seconds: float = 8.0


@dataclass(frozen=True, slots=True)
class VerifyResult:
    """What a facilitator says about a payment. `reason` is fit for the payer, empty for a valid payment."""

    is_valid: bool
    reason: str = ""


class FacilitatorClient:
    """One facilitator. Raises `ConfigurationError` for settings that cannot work.

    `transport` is an httpx transport, or an object with `send`; left out, it is the built-in one.
    """

    def __init__(self, settings: FacilitatorSettings, *, transport: Choice = None) -> None:
        times = (settings.verify_seconds, settings.settle_seconds, settings.supported_seconds)
        if not all(math.isfinite(seconds) and seconds > 0 for seconds in times):
            raise ConfigurationError("The time limits of a facilitator must be numbers of seconds above 0.")
        # Plain http is good enough inside a private network, but not for a key.
        sends_key = bool(settings.headers) or settings.authenticate is not None
        self._address = BaseURL(settings.url, "live" if sends_key else "test", "facilitator URL")
        self._headers = _check_headers(settings.headers)
        self._settings = settings
        self._transport = make_sync(transport)
        self.name = urlsplit(settings.url).netloc
        """Its host, as logs name it. The path of a URL may contain a key."""
        self._counting = Lock()
        self.requests = self.failures = 0
        """Calls since the start, and how many of them had no usable answer."""
        self.seconds = 0.0
        """What all of them took."""
        self.rest: Final = Rest()
        """Whether it is asked for a verdict after the others."""

    def verify(self, payment: SignedPayment, terms: Terms) -> VerifyResult:
        """Ask whether the payment is good. Raises `FacilitatorUnavailable` if that stays unknown."""
        request = _build_request(payment, terms, terms.amount)
        try:
            response = self._call("POST", "/verify", request, self._settings.verify_seconds)
        except _CallFailed as error:
            raise FacilitatorUnavailable(f"{self.name}: {error}") from None
        body = _read_object(response.body)
        is_valid = body.get("isValid")
        # Compared by identity: 1 is not a verdict, nor is "true".
        if is_valid is True and response.status == 200:
            return VerifyResult(True)
        # A server in trouble says no to everything. With 4xx the verdict in the body is meant.
        if is_valid is False and response.status < 500 and body.get("invalidReason") not in _NOT_THE_PAYMENT:
            return VerifyResult(False, clean_text(body.get("invalidReason")) or "the payment was refused")
        self._count_failure()
        raise FacilitatorUnavailable(f"{self.name}: {_describe(response.status, body)}")

    def settle(self, payment: SignedPayment, terms: Terms, amount: int | None = None) -> PaymentSent:
        """Ask to settle the price, or this amount of the authorization.

        The money may move whatever the answer is, and also without one. Raises nothing: an error does not
        prove that nothing was sent.
        """
        request = _build_request(payment, terms, terms.amount if amount is None else amount)
        try:
            response = self._call("POST", "/settle", request, self._settings.settle_seconds)
        except _CallFailed as error:
            return PaymentSent(None, f"{self.name}: {error}")
        body = _read_object(response.body)
        note, transaction_hash = (
            f"{self.name}: {_describe(response.status, body)}",
            _find_hash(body.get("transaction")),
        )
        # A refusal is an answer. Trouble is one if it names a transaction, as a pending settlement does.
        if transaction_hash is None and (response.status >= 500 or not isinstance(body.get("success"), bool)):
            self._count_failure()
        return PaymentSent(transaction_hash, note)

    def list_networks(self) -> frozenset[str]:
        """List the networks on which it settles fixed prices. Raises `FacilitatorUnavailable`."""
        kinds = self._read_kinds(self._ask_supported())
        ours = (kind for kind in kinds if kind.get("scheme") == "exact")
        return frozenset(network for kind in ours if isinstance(network := kind.get("network"), str))

    def list_addresses(self, network: str) -> tuple[str, ...]:
        """List the addresses from which it settles a part of an authorization, the one it offers first.

        In lower case; empty if it does not know the scheme `upto` on this network. Raises
        `FacilitatorUnavailable`.
        """
        supported = self._ask_supported()
        kinds = [kind for kind in self._read_kinds(supported) if kind.get("scheme") == "upto"]
        offered = [
            _as_object(kind.get("extra")).get("facilitatorAddress")
            for kind in kinds
            if kind.get("network") == network
        ]
        if not offered:
            return ()
        # One with several addresses offers them by turns, and settles from the one that the payer has signed.
        signers = _as_object(supported.get("signers"))
        family = f"{network.partition(':')[0]}:*"
        lists = (signers.get(name) for name in (network, family))
        others = (
            address
            for listed in lists
            if isinstance(listed, list)
            for address in cast("list[object]", listed)
        )
        return tuple(
            dict.fromkeys(address.lower() for address in (*offered, *others) if _is_address(address))
        )

    def _ask_supported(self) -> Mapping[str, object]:
        try:
            response = self._call("GET", "/supported", None, self._settings.supported_seconds)
        except _CallFailed as error:
            raise FacilitatorUnavailable(f"{self.name}: {error}") from None
        body = _read_object(response.body)
        if response.status == 200 and isinstance(body.get("kinds"), list):
            return body
        self._count_failure()
        if response.status == 404:
            # Its URL is not repeated: it may hold a key.
            raise FacilitatorUnavailable(f"{self.name}: it has no /supported (HTTP 404): is its path right?")
        raise FacilitatorUnavailable(f"{self.name}: {_describe(response.status, body)}; no list of kinds")

    def _read_kinds(self, supported: Mapping[str, object]) -> list[Mapping[str, object]]:
        kinds = map(_as_object, cast("list[object]", supported["kinds"]))
        return [kind for kind in kinds if kind.get("x402Version") == X402_VERSION]

    def close(self) -> None:
        """Close the connections of this process. A later call opens new ones."""
        self._transport.close()

    def _call(self, method: str, path: str, body: Mapping[str, Any] | None, seconds: float) -> Response:
        """Make one call. Raises `_CallFailed`, without context: frames inside hold keys and signatures."""
        url = self._address.url(path)
        seconds = get_time_left(seconds)
        if seconds <= 0:
            raise _CallFailed("not asked: the time is over")
        began = monotonic()
        try:
            headers = self._build_headers(method, url)
            return self._transport.send(method, url, headers, to_json(body) if body else None, seconds)
        except ServiceError as error:
            failure = _CallFailed(clean_text(str(error).replace(f"{method} {url}: ", "")))
        except _CallFailed as error:
            failure = error
        except Exception as error:  # of a transport that was given; what it says may contain anything
            failure = _CallFailed(f"no answer: {type(error).__name__}")
        finally:
            with self._counting:
                self.requests += 1
                self.seconds += monotonic() - began
        self._count_failure()
        raise failure from None

    def _count_failure(self) -> None:
        with self._counting:
            self.failures += 1

    def _build_headers(self, method: str, url: str) -> Headers:
        if self._settings.authenticate is None:
            return self._headers
        try:
            return merge_headers(self._headers, tuple(self._settings.authenticate(method, url).items()))
        except Exception as error:
            raise _CallFailed(f"not asked: the call could not be signed: {type(error).__name__}") from None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"


class _CallFailed(Exception):
    """There is no response; the text is fit for a log."""


def _build_request(payment: SignedPayment, terms: Terms, amount: int) -> dict[str, Any]:
    """Build the body of `/verify` and `/settle` from the fields of the payment; its header is not needed.

    `amount` is what is verified or settled; the payer has accepted that of the terms.
    """
    # `accepted` is what is required, not what the payer wrote: facilitators compare the two, and the
    # challenge that the payer wrote must stay private.
    accepted = build_requirements(_offer(terms, payment))
    payload = {
        "x402Version": X402_VERSION,
        "accepted": accepted,
        "payload": {"signature": payment.signature, **_build_signed(payment, terms)},
        **payment.echoed,
    }
    return {
        "x402Version": X402_VERSION,
        "paymentPayload": payload,
        "paymentRequirements": {**accepted, "amount": str(amount)},
    }


def _offer(terms: Terms, payment: SignedPayment) -> Terms:
    """Return the terms as they were offered to this payer: of several facilitators, with its own."""
    if payment.facilitator is None:
        return terms
    return replace(terms, facilitators=(_format_address(payment.facilitator),))


def _build_signed(payment: SignedPayment, terms: Terms) -> dict[str, Any]:
    """Build what the payer signed, in the form of its scheme."""
    payer, to = _format_address(payment.payer), _format_address(payment.to)
    valid_after = str(payment.valid_after)
    if payment.facilitator is None:
        authorization = {
            "from": payer,
            "to": to,
            "value": str(payment.value),
            "validAfter": valid_after,
            "validBefore": str(payment.valid_before),
            "nonce": payment.nonce,
        }
        return {"authorization": authorization}
    facilitator = _format_address(payment.facilitator)
    permit = {
        "from": payer,
        "permitted": {"token": terms.token.address, "amount": str(payment.value)},
        "spender": UPTO_PROXY,
        "nonce": payment.nonce,
        "deadline": str(payment.deadline),
        "witness": {"to": to, "facilitator": facilitator, "validAfter": valid_after},
    }
    return {"permit2Authorization": permit}


def _check_headers(headers: Mapping[str, str]) -> RedactedHeaders:
    try:
        return merge_headers(_CONSTANT, tuple(headers.items()))
    except ValueError as error:
        fault = str(error)
    raise ConfigurationError(f"The facilitator's headers cannot be sent: {fault}.")


def _read_object(body: bytes) -> Mapping[str, object]:
    try:
        return _as_object(from_json(body))
    except ValueError:
        return {}


def _as_object(value: object) -> Mapping[str, object]:
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


def _is_address(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and _ADDRESS.fullmatch(value) is not None


def _find_hash(transaction: object) -> str | None:
    is_hash = isinstance(transaction, str) and _HASH.fullmatch(transaction) is not None
    return str(transaction).lower() if is_hash else None


def _describe(status: int, body: Mapping[str, object]) -> str:
    """Describe an answer in a line for the operator, such as `HTTP 500 settlement_pending`."""
    if body.get("success") is True:
        return f"HTTP {status} success"
    texts = dict.fromkeys(filter(None, (clean_text(body.get(name)) for name in _REASONS)))
    return f"HTTP {status} {clean_text('; '.join(texts)) or 'without a reason'}"

"""Values of the core: requests, responses, offers, outcomes. Frozen; headers are pairs, money is int."""

import json
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import field
from functools import lru_cache
from typing import Any, Final, Protocol, cast

from faregate.errors import ConfigurationError, nearest_name
from faregate.events import UNKNOWN_SALE, Sale
from faregate.frozen import frozen
from faregate.x402.declared_prices import DeclaredPrice, Requirement, check_reported_values
from faregate.x402.json_schema import inline_references
from faregate.x402.payment_identifier import IdentifierUse
from faregate.x402.prices import AssetAmount, parse_price
from faregate.x402.usage_prices import Usage

Header = tuple[str, str]
Headers = tuple[Header, ...]
"""Name and value pairs in order; names in any case, values as latin-1 text. Never folded into a dict."""

SUCCESSES = frozenset(range(200, 300))
"""The statuses that are billable by default below a prefix, where a redirect may be a login's."""
BILLABLE = SUCCESSES | {301, 302, 303, 307, 308}
"""The statuses that are billable by default where a handler asks for the payment (docs/flow.md)."""


_PRINTABLE = bytes(range(0x20, 0x7F))


def header_values(headers: Headers, name: str) -> list[str]:
    """All values of the header `name` (given in lower case), in order."""
    return [value for key, value in headers if key == name or key.lower() == name]


# The flow asks this of a proof of a kilobyte, and then each call that sends it.
@lru_cache(maxsize=256)
def is_printable(value: str) -> bool:
    """Whether a value is printable ASCII, spaces among it."""
    # On a kilobyte, to delete what is allowed is five times as fast as `isprintable` or a pattern.
    return value.isascii() and not value.encode().translate(None, _PRINTABLE)


# HTTP messages


@frozen
class Request:
    """A payer's request as the flow sees it.

    `url` is the path with its query, as the payer sent it. `headers` need only hold those about payment
    (`core.request_headers.PAYMENT_HEADERS`) and credentials (`core.request_headers.CREDENTIAL_HEADERS`).
    `body_digest` is the SHA-256 of the body in hexadecimal; empty where the body is not at hand before the
    handler reads it.
    """

    method: str
    url: str
    headers: Headers = field(default=(), repr=False)
    body_digest: str = ""


@frozen
class Response:
    """A whole HTTP response: one for a payer, or one from the service.

    `released` marks the handler's own result, paid for or free: only with it may leave, or be stored, what
    the handler did beside it (sessions, cookies, background tasks). `code` is that of what the paywall says
    itself, or relays from the service: people may be shown a page instead (`pages.payment`).
    """

    status: int
    headers: Headers = ()
    body: bytes = b""
    released: bool = field(default=False, compare=False)
    code: str = field(default="", compare=False)

    def plus(self, *headers: Header) -> "Response":
        return Response(self.status, (*self.headers, *headers), self.body, self.released, self.code)

    def first(self, name: str) -> str | None:
        """The only value of header `name` (lower case); None if absent or ambiguous."""
        values = header_values(self.headers, name)
        return values[0] if len(values) == 1 else None


@frozen
class WireRequest:
    """One call to the service; `path` starts with `/` and carries the query."""

    method: str
    path: str
    headers: Headers = ()
    body: bytes | None = None


# Offers

DEFAULT_MIME_TYPE = "application/json"


class WrittenPrice(Protocol):
    """A price as `find_price` of a paywall returns it: `"0.05"` of `"USDC"`."""

    @property
    def amount(self) -> str: ...
    @property
    def asset(self) -> str: ...


@frozen
class Offer:
    """The offer of one handler.

    `sells` is an integration key or an `acr_` revision id. `asset` None takes the revision's own.
    `max_result_bytes` and `max_work_seconds` None take the paywall's. With `replay` False, a result that was
    delivered once is never handed out again. `mime_type` None takes that of the route, or else JSON;
    `description` None the handler's docstring. `price`, such as `"0.05 USDC"` or a `Usage`, is for a service
    inside this process; None takes that of the seller's account or catalog. `values` beside it are what the
    handler reports, each `"required"` or `"optional"`; they are kept as pairs. `billable` are the statuses
    that are sold; None takes 2xx and redirects, or below a path prefix 2xx only. `openapi` documents the
    request and its result as an OpenAPI operation does, for catalogues and OpenAPI documents; it is kept as
    JSON.
    With `resume_open_payments` False, each of a payer's payments for one request is sold, also while another
    is open. Raises `ConfigurationError`.
    """

    sells: str
    asset: str | None = None
    mime_type: str | None = None
    description: str | None = None
    billable: frozenset[int] | None = None
    max_result_bytes: int | None = None
    max_work_seconds: float | None = None
    replay: bool = True
    price: "str | WrittenPrice | Usage | None" = None
    openapi: "Mapping[str, Any] | str | None" = field(default=None, repr=False)
    resume_open_payments: bool = True
    values: "Mapping[str, Requirement] | tuple[tuple[str, Requirement], ...] | None" = None

    def __post_init__(self) -> None:
        _check_offer(self)

    def __hash__(self) -> int:
        return hash(self.sells)  # each sale looks its offer up, and few offers have one name

    @property
    def declared_price(self) -> DeclaredPrice | None:
        """What was written beside the offer; None if its price is set elsewhere."""
        price = self.price if isinstance(self.price, Usage) else self.amount
        return None if price is None else DeclaredPrice(price, tuple(self.reported_values.items()))

    @property
    def reported_values(self) -> "dict[str, Requirement]":
        """The values that were declared beside the price."""
        return {} if self.values is None else dict(self.values)

    @property
    def amount(self) -> AssetAmount | None:
        """The price that was written beside the offer, or its maximum; None if its price is set elsewhere."""
        if isinstance(self.price, Usage):
            return self.price.maximum
        return None if self.price is None else parse_price(str(self.price))

    @property
    def operation(self) -> Mapping[str, Any]:
        """The OpenAPI operation that was written beside the offer; empty without one."""
        operation: Mapping[str, Any] = {} if self.openapi is None else json.loads(str(self.openapi))
        return operation

    @property
    def alternatives(self) -> "tuple[Offer, ...]":
        """List the offers that a request may be sold as: this one, unless the request chooses."""
        return (self,)


def _check_offer(offer: Any) -> None:
    """Check what the service cannot. Raises `ConfigurationError`."""
    if not isinstance(offer.sells, str) or not offer.sells:
        raise ConfigurationError("Say what is sold: paid('text_summary') or paid('acr_...').")
    if offer.billable is not None:
        if not _are_statuses(offer.billable):
            raise ConfigurationError(f"billable={offer.billable!r}: give a set of statuses, such as {{200}}.")
        offer.billable = frozenset(offer.billable)
    limits = (offer.max_result_bytes, offer.max_work_seconds)
    if not all(most is None or (is_number(most) and 0 < most < math.inf) for most in limits):
        raise ConfigurationError("max_result_bytes and max_work_seconds must be numbers above 0.")
    if offer.price is not None:
        _check_price(offer)
    if offer.values is not None:
        _check_values(offer)
    if offer.asset not in (None, "EURC", "USDC"):
        raise ConfigurationError(f"asset={offer.asset!r}: the service settles in EURC or USDC.")
    for name in ("replay", "resume_open_payments"):
        if not isinstance(getattr(offer, name), bool):
            raise ConfigurationError(f"{name}={getattr(offer, name)!r}: it is True or False.")
    if offer.openapi is not None:
        _check_openapi(offer)


_OPERATION: Final = (
    *("summary", "description", "parameters", "requestBody", "responses", "tags", "operationId"),
    *("deprecated", "externalDocs", "security", "servers", "callbacks"),
)


def _check_openapi(offer: Any) -> None:
    """Keep the operation as JSON without references. Raises `ConfigurationError`."""
    try:
        given: Any = json.loads(offer.openapi) if isinstance(offer.openapi, str) else offer.openapi
        if not isinstance(given, Mapping):
            raise ValueError("it is no object")
        written = json.dumps(inline_references(dict(cast("Mapping[str, Any]", given))), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"{offer.sells!r} has an openapi= that is no JSON: {error}.") from None
    operation = json.loads(written)
    for name in operation:
        if name not in _OPERATION and not name.startswith("x-"):
            raise ConfigurationError(
                f"{offer.sells!r} has {name!r} in its openapi=, which no OpenAPI operation has."
                f"{nearest_name(name, _OPERATION)} Write it as in {{'parameters': [...]}}."
            )
    parameters, responses = operation.get("parameters", []), operation.get("responses", {})
    if (
        not isinstance(parameters, list)
        or not isinstance(responses, dict)
        or not _are_objects(
            *cast("list[object]", parameters),
            *cast("dict[str, object]", responses).values(),
            operation.get("requestBody", {}),
        )
    ):
        raise ConfigurationError(
            f"{offer.sells!r} has an openapi= that is no operation of OpenAPI: parameters are a list of "
            "objects, requestBody is an object, and responses are objects by status."
        )
    offer.openapi = written


def _are_objects(*values: object) -> bool:
    return all(isinstance(value, dict) for value in values)


def _check_price(offer: Any) -> None:
    """Keep a fixed price as text in one spelling. Raises `ConfigurationError`."""
    price = offer.price
    amount = price.maximum if isinstance(price, Usage) else _parse_written(offer.sells, price)
    if offer.asset not in (None, amount.asset):
        raise ConfigurationError(
            f"{offer.sells!r} has asset={offer.asset!r} and price={price!r}: leave the asset out."
        )
    if offer.sells.startswith("acr_"):
        raise ConfigurationError(
            f"{offer.sells!r} is a published revision, which has a price: name a key, or leave price= out."
        )
    if not isinstance(price, Usage):
        offer.price = str(amount)


def _check_values(offer: Any) -> None:
    """Keep the values as pairs, so that the offer has a hash. Raises `ConfigurationError`."""
    if offer.price is None:
        raise ConfigurationError(
            f"{offer.sells!r} has values= without price=: where the price is set elsewhere, the values that "
            "are reported are set there, too."
        )
    values: Any = offer.values
    try:
        rated = offer.price.rates if isinstance(offer.price, Usage) else ()
        # An offer that is copied has the pairs already.
        pairs = cast("tuple[tuple[str, str], ...]", values)
        offer.values = check_reported_values(dict(pairs) if isinstance(values, tuple) else values, rated)
    except ValueError as error:
        raise ConfigurationError(f"{offer.sells!r} has values={values!r}: {error}.") from None


def _parse_written(sells: str, given: Any) -> AssetAmount:
    # A `Price`, such as `find_price` returns, has both as text.
    text = given if isinstance(given, str) else f"{given.amount} {given.asset}" if _is_price(given) else None
    try:
        if text is None:
            raise ValueError("write it as text, such as '0.05 USDC': numbers of other kinds are rounded")
        if getattr(given, "scheme", "exact") != "exact":
            raise ValueError("it is the maximum of a price that follows the use: write a Usage")
        return parse_price(text)
    except ValueError as error:
        raise ConfigurationError(f"{sells!r} has price={given!r}: {error}.") from None


def _is_price(value: Any) -> bool:
    return all(isinstance(getattr(value, name, None), str) for name in ("amount", "asset"))


def _are_statuses(values: Any) -> bool:
    given: object = values
    if not isinstance(given, Iterable):
        return False
    statuses = list[Any](values)
    # `type(one) is int`, because True is an `int` too.
    return bool(statuses) and all(type(status) is int and 200 <= status <= 599 for status in statuses)


def is_number(value: object) -> bool:
    """Whether it is a number. `True` is an int to Python, and a mistake as a number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


HasPayerLeft = Callable[[], bool | Awaitable[bool]]
"""Finds whether the payer waits no longer."""

FindOperation = Callable[[], tuple[str, Mapping[str, Any]] | None]
"""Finds the template of a path, such as `/items/{number}` or empty, and an OpenAPI operation."""

Choose = Callable[..., object]
"""Gets the request of the seller's framework, and returns what one of the alternatives `sells`."""


@frozen
class OfferChoice(Offer):
    """An offer that the request chooses among several. `sells` names them all; no service knows it."""

    choose: Choose = field(default=lambda: None)
    among: tuple[Offer, ...] = ()

    @property
    def alternatives(self) -> tuple[Offer, ...]:
        return self.among


@frozen
class OfferRevision:
    """The service's published revision of an offer: its id, asset and reportable values."""

    revision_id: str
    asset: str
    names: frozenset[str] = frozenset()
    required: frozenset[str] = frozenset()


@frozen
class PaidRequest:
    """One request on one paid handler. `resource_url` is the URL without query, as it is sent to the service.

    `work_seconds` and `result_bytes` are the offer's limits, or else the paywall's. `is_observed`: whether
    there is a listener for events. Without one, the flow of a sale that goes well makes none. `is_chosen`:
    whether the request chose the offer among several, so that the same URL may be sold as another one. `sale`
    is what is known of the sale before access is called, if there is a listener. `prefix_host` is the Host
    header of a request that is sold by its path prefix, where a router may answer too; None for any other.
    `settle_wait` is for how many seconds the payer may wait for a payment that settles; no call to the
    service begins after `last_call_at`, on the clock of `Backend.get_time`, for that. `find_operation` finds
    what a catalogue lists of the request; None unless the seller asks to be listed. `resumes_open_payments`:
    the setting by which an open payment of the same payer for the same request is resumed. `has_payer_left`
    finds whether the payer waits no longer for the result; None where that cannot be known. A sale that is
    done before `first_look_at`, on the clock of `Backend.get_time`, calls it once, just before the result
    leaves. `identifier_use`: whether payers name their purchases. `public_url` is the same as `resource_url`,
    but empty where neither `public_url` nor `trust_host` is set and the URL says only where this process
    listens.
    """

    offer: Offer
    http: Request
    resource_url: str
    work_seconds: float
    result_bytes: int
    is_observed: bool = True
    is_chosen: bool = False
    sale: Sale = UNKNOWN_SALE
    prefix_host: str | None = None
    settle_wait: float = 0.0
    last_call_at: float = math.inf
    find_operation: "FindOperation | None" = field(default=None, repr=False, compare=False)
    resumes_open_payments: bool = False
    has_payer_left: "HasPayerLeft | None" = field(default=None, repr=False, compare=False)
    identifier_use: IdentifierUse = IdentifierUse.IGNORED
    public_url: str = ""
    first_look_at: float = field(default=-math.inf, repr=False, compare=False)
    is_resumable: bool = field(init=False, repr=False)
    """Whether an open payment is resumed: the setting is on, and both bodies are known to be the same."""
    billable: frozenset[int] = field(init=False, repr=False)
    """The statuses of the handler that are sold."""

    def __post_init__(self) -> None:
        """Set what the flow reads, once: it is read from several files."""
        request: Any = self
        request.is_resumable = self.resumes_open_payments and (
            self.http.body_digest != "" or self.http.method in ("GET", "HEAD")
        )
        request.billable = (
            self.offer.billable
            if self.offer.billable is not None
            else BILLABLE
            if self.prefix_host is None
            else SUCCESSES
        )


# Results of the work


@frozen
class HandlerResult:
    """The handler's whole response, the values it reported, and how long it took.

    `is_replacement`: the handler raised, answered an error or cut its response, and this came in its place.
    `was_result`: the response may carry a result, which the handler had answered before or a cache has kept.
    """

    response: Response
    values: Mapping[str, object]
    duration_ms: int = 0
    is_replacement: bool = False
    was_result: bool = False


@frozen
class WorkSucceeded:
    """The outcome to report for good work: the result to hold, the checked values, its duration."""

    result: Response
    values: tuple[tuple[str, str], ...] = ()
    duration_ms: int = 0


@frozen
class WorkFailed:
    """The outcome to report for work that gave nothing to sell; `code` as in the spec's failure_code."""

    code: str


INTERRUPTED = "interrupted"
"""The failure code of work that was cut off, or never began, as recovery finds it."""

Outcome = WorkSucceeded | WorkFailed

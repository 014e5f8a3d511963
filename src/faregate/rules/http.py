"""Requests and responses of the Merchant API (spec: Authentication, Errors, Pagination rules, Limits).

`faregate.merchant.problems` lists the error codes.

Requests are read strictly: an unknown query parameter, a parameter sent twice and a value not written as the
spec writes it are 422. A mistyped `page_size` would otherwise go unnoticed.
"""

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl

from pydantic import BaseModel, TypeAdapter, ValidationError

from faregate.core.models import Headers, Response, header_values
from faregate.merchant.problems import FORBIDDEN, INVALID, MALFORMED, UNAUTHENTICATED, Problem
from faregate.rules.account import Capability, describe_error

JSON_TYPE = ("Content-Type", "application/json")
RETRY_SOON = ("Retry-After", "1")
INVALID_KEY: Final = "the API key is missing or not valid"


class HttpError(Exception):
    """An error response, raised anywhere below `Service.respond`; the message is for the caller."""

    def __init__(self, problem: Problem, message: str, headers: Headers = ()) -> None:
        super().__init__(f"{problem.status} {problem.code}: {message}")
        self.problem = problem
        self.message = message
        self.headers = headers

    def response(self) -> Response:
        body = {"code": self.problem.code, "message": self.message}
        return json_value_response(body, status=self.problem.status, headers=self.headers)


def invalid_request(message: str) -> HttpError:
    """Build the 422 for a parameter, header or body that breaks a rule."""
    return HttpError(INVALID, message)


def json_response(model: BaseModel, *, status: int = 200, headers: Headers = ()) -> Response:
    """Build a response with the whole model; null fields are included."""
    body = model.model_dump_json(by_alias=True).encode()
    return Response(status, (JSON_TYPE, *headers), body)


def json_value_response(value: dict[str, Any], *, status: int = 200, headers: Headers = ()) -> Response:
    """Build a response from plain JSON values."""
    body = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    return Response(status, (JSON_TYPE, *headers), body)


T = TypeVar("T")
MAX_BODY: Final = 64 * 1024
_MAX_PARAMETERS: Final = 50
_REMEMBERED_BODIES: Final = 128


@dataclass(frozen=True, slots=True)
class ParsedRequest:
    """A request to one endpoint. `identifier` is the unchecked id in the path, empty if the path has none."""

    identifier: str
    query: str
    headers: Headers
    body: bytes

    def only_header(self, name: str) -> str | None:
        """Return the header `name` (lower case), None if absent; 422 if sent twice."""
        values = header_values(self.headers, name)
        if len(values) > 1:
            raise invalid_request(f"the header {name.upper()} was sent more than once")
        return values[0] if values else None

    def parameters(self) -> dict[str, str]:
        """Decode the query; 422 if a parameter was sent twice."""
        try:
            pairs = parse_qsl(self.query, keep_blank_values=True, max_num_fields=_MAX_PARAMETERS)
        except ValueError:
            raise invalid_request("the query cannot be read") from None
        parsed = dict(pairs)
        if len(parsed) < len(pairs):
            raise invalid_request("a query parameter was sent more than once")
        return parsed

    def body_as(self, adapter: TypeAdapter[T]) -> T:
        """Validate the body: 400 if it is not JSON, 422 if it breaks a rule."""
        if len(self.body) > MAX_BODY:
            raise HttpError(MALFORMED, f"the body is longer than {MAX_BODY} bytes")
        try:
            parsed: T = _parse_body(adapter, self.body)
        except ValidationError as error:
            raise _build_body_error(error) from None
        return parsed


@lru_cache(maxsize=_REMEMBERED_BODIES)
def _parse_body(adapter: TypeAdapter[Any], body: bytes) -> Any:
    # A seller sends few different bodies, and the parsed models are frozen, so they can be shared.
    return adapter.validate_json(body)


def _build_body_error(error: ValidationError) -> HttpError:
    if error.errors(include_url=False, include_input=False)[0]["type"] == "json_invalid":
        return HttpError(MALFORMED, "the body is not JSON")
    return invalid_request(describe_error(error, "body"))


def read_bearer(headers: Headers) -> str:
    """Return the API key that was sent, or raise 401. Two `Authorization` headers count as none."""
    values = header_values(headers, "authorization")
    if len(values) != 1:
        raise build_401("send one Authorization header: Bearer <API_KEY>")
    # Schemes are case-insensitive (RFC 9110), keys are not.
    scheme, _, secret = values[0].partition(" ")
    if scheme.lower() != "bearer":
        raise build_401(INVALID_KEY)
    return secret.strip(" ")


def require_capability(capabilities: Collection[Capability], capability: Capability) -> None:
    """Raise 403 unless the key has the capability."""
    if capability not in capabilities:
        raise HttpError(FORBIDDEN, f"this key lacks the capability {capability}")


def build_401(message: str) -> HttpError:
    return HttpError(UNAUTHENTICATED, message, (("WWW-Authenticate", "Bearer"),))


DEFAULT_PAGE_SIZE: Final = 50
MAX_PAGE_SIZE: Final = 100
LIST_PARAMETERS: Final = ("as_of", "order", "page", "page_size")
LAST_PAGE: Final = 10**18
"""Beyond every list: a later page is as empty as this one."""
_NUMBER: Final = re.compile(r"[1-9][0-9]*", re.ASCII)
_FRACTION: Final = r"(?:[.,]\d{1,30})?"
_SIXTIETH: Final = r"[0-5]\d"
_MOMENT: Final = re.compile(
    r"(?P<day>\d{4}-\d\d-\d\d|\d{8})[Tt _]"
    rf"(?P<minute>\d\d(?::?\d\d)?)(?P<second>:?\d\d{_FRACTION})?"
    # Python takes an offset of 60 minutes.
    rf"(?P<zone>[Zz]|[+-]\d\d(?::{_SIXTIETH}(?::{_SIXTIETH}{_FRACTION})?"
    rf"|{_SIXTIETH}(?:{_SIXTIETH}{_FRACTION})?)?)",
    re.ASCII,
)
"""The date-times that `datetime.fromisoformat` of Python 3.11 takes, less week dates and odd separators."""
_LEAP_SECOND: Final = re.compile(r":?60", re.ASCII)


@dataclass(frozen=True, slots=True)
class ParsedListQuery:
    """The query of a list. `filters` are the endpoint's own parameters, as sent."""

    as_of: datetime
    newest_first: bool
    page: int
    page_size: int
    filters: dict[str, str]


def parse_as_of(call: ParsedRequest) -> datetime | None:
    """Return the moment that a list is asked for; None for the present."""
    as_of = call.parameters().get("as_of")
    return None if as_of is None else _parse_moment(as_of)


def parse_list_query(call: ParsedRequest, as_of: datetime, own: Sequence[str] = ()) -> ParsedListQuery:
    """Parse the query of a list with the additional parameters `own`; 422 for any other."""
    parameters = parse_query(call, (*LIST_PARAMETERS, *own))
    order = parse_choice("order", parameters.get("order", "newest"), ("newest", "oldest"))
    page = _parse_number("page", parameters.get("page", "1"), None)
    size = _parse_number("page_size", parameters.get("page_size", str(DEFAULT_PAGE_SIZE)), MAX_PAGE_SIZE)
    filters = {name: parameters[name] for name in own if name in parameters}
    return ParsedListQuery(as_of, order == "newest", page, size, filters)


def parse_query(call: ParsedRequest, names: Sequence[str]) -> dict[str, str]:
    """Return the query's parameters; 422 if it has others than `names`."""
    parameters = call.parameters()
    for name in parameters:
        if name not in names:
            raise invalid_request(f"there is no query parameter {name!r} here")
    return parameters


def parse_choice(name: str, value: str, allowed: Sequence[str]) -> str:
    if value not in allowed:
        raise invalid_request(f"{name} must be one of {', '.join(allowed)}")
    return value


def parse_flag(name: str, value: str) -> bool:
    return parse_choice(name, value, ("true", "false")) == "true"


def _parse_number(name: str, text: str, most: int | None) -> int:
    bounds = "at least 1" if most is None else f"1 to {most}"
    # Python does not read numbers of thousands of digits.
    number = LAST_PAGE if len(text) > len(str(LAST_PAGE)) else text
    if not _NUMBER.fullmatch(text) or (most is not None and int(number) > most):
        raise invalid_request(f"{name} must be an integer, {bounds}")
    return int(number)


def _parse_moment(text: str) -> datetime:
    """Parse ISO 8601 or RFC 3339 with a timezone."""
    parsed = _MOMENT.fullmatch(text)
    if parsed is None:
        raise invalid_request("as_of must be an ISO 8601 date-time with a timezone (send + as %2B)")
    second = parsed["second"] or ""
    leap = _LEAP_SECOND.match(second) is not None
    try:
        # RFC 3339 has leap seconds, Python has not: it is the end of the minute.
        plain = f"{parsed['day']}T{parsed['minute']}{'' if leap else second}{parsed['zone'].upper()}"
        moment = datetime.fromisoformat(plain).astimezone(UTC)
        return moment + timedelta(minutes=1) if leap else moment
    except (ValueError, OverflowError):
        raise invalid_request("as_of is not a date-time") from None

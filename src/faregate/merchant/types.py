"""The value types of the Merchant API (spec: Identifier format, Shared value types, Limits).

One annotated type per kind of value. Money is `int` in Python and a decimal string on the wire;
a moment is a `datetime` with a zone. Every pattern is ASCII and matches the whole value.
"""

import re
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BeforeValidator,
    Field,
    PlainSerializer,
    StringConstraints,
    WithJsonSchema,
)

ID_TAIL: Final = "[0-9a-f]{12}7[0-9a-f]{3}[89ab][0-9a-f]{15}"


def _id(prefix: str) -> StringConstraints:
    # \Z, not $: a trailing newline is not part of an id.
    return StringConstraints(strict=True, pattern=rf"^{prefix}_{ID_TAIL}\z")


TransactionId = Annotated[str, _id("txn")]
RevisionId = Annotated[str, _id("acr")]
ResourceId = Annotated[str, _id("res")]
PayerId = Annotated[str, _id("pyr")]
ResourceExecutionId = Annotated[str, _id("rex")]
PaymentRequestId = Annotated[str, _id("prq")]
ReceiptId = Annotated[str, _id("rct")]
PriceId = Annotated[str, _id("prc")]
OrganizationId = Annotated[str, _id("org")]
RevisionKey = Annotated[str, _id("rvk")]

MAX_ATOMIC: Final = 10**30 - 1


def _read_atomic(value: Any) -> Any:
    """A wire amount to `int`; an `int` (never a bool or a float) stays itself."""
    if isinstance(value, str):
        if not _is_atomic(value):
            raise ValueError("an atomic amount is a decimal string of up to 30 digits without leading zeros")
        return int(value)
    return value


def _is_atomic(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 30 and (text == "0" or text[0] != "0")


AtomicAmount = Annotated[
    int,
    BeforeValidator(_read_atomic),
    Field(strict=True, ge=0, le=MAX_ATOMIC),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "pattern": "^(?:0|[1-9][0-9]{0,29})$"}),
]
"""A non-negative `int` of atomic units (10,000 is 0.01 of a six-decimal asset); a string on the wire."""

EvmAddress = Annotated[str, StringConstraints(strict=True, pattern=r"^0x[0-9a-fA-F]{40}\z")]
NetworkIdentifier = Annotated[
    str, StringConstraints(strict=True, max_length=100, pattern=r"^[a-z0-9]+:[A-Za-z0-9_-]+\z")
]
TransactionHash = Annotated[str, StringConstraints(strict=True, pattern=r"^0x[0-9a-fA-F]+\z")]
PayerIdentifier = Annotated[str, StringConstraints(strict=True, min_length=1, max_length=255)]

ListOrder = Literal["newest", "oldest"]
ErrorCode = Literal["forbidden", "internal_error", "invalid_request", "unauthenticated"]
"""The generic error codes; some endpoints have codes of their own (spec: Errors)."""
PageNumber = Annotated[int, Field(ge=1)]
PageSize = Annotated[int, Field(ge=1, le=100)]
SnapshotTimestamp = AwareDatetime
NextPageUrl = Annotated[
    str,
    StringConstraints(strict=True, pattern=r"^/"),
    WithJsonSchema({"type": "string", "format": "uri-reference", "pattern": "^/"}),
]
PaymentResponse = Annotated[
    str,
    WithJsonSchema({"type": "string", "contentEncoding": "base64", "contentMediaType": "application/json"}),
]
Url = Annotated[str, WithJsonSchema({"type": "string", "format": "uri"})]

# For the client a status is an open set (an unknown one is pending); the service says one of these.
CompletionStatus = Annotated[
    str, WithJsonSchema({"type": "string", "enum": ["settling", "reconciling", "failed", "succeeded"]})
]
TransactionStatus = Annotated[
    str,
    WithJsonSchema(
        {"type": "string", "enum": ["authorized", "settling", "reconciling", "failed", "succeeded"]}
    ),
]


def _write_moment(moment: datetime) -> str:
    exact = "microseconds" if moment.microsecond % 1000 else "milliseconds"
    return moment.isoformat(timespec=exact).replace("+00:00", "Z")


_MOMENT: Final = {"type": "string", "format": "date-time"}
Moment = Annotated[
    AwareDatetime, PlainSerializer(_write_moment, return_type=str, when_used="json"), WithJsonSchema(_MOMENT)
]
"""A `datetime` with a zone; ISO 8601 on the wire, with milliseconds, or microseconds where it has them."""
IssuedAt = Annotated[
    AwareDatetime,
    PlainSerializer(_write_moment, return_type=str, when_used="json"),
    WithJsonSchema({**_MOMENT, "pattern": r"\.[0-9]{3}(?:Z|[+-][0-9]{2}:[0-9]{2})$"}),
]
"""The moment of a receipt: the service writes milliseconds."""

_TOP_LEVEL: Final = (
    "(?:application|audio|font|image|message|model|multipart|text|video|x-[a-z0-9][a-z0-9!#$&^_.+-]*)"
)
MimeType = Annotated[
    str,
    StringConstraints(
        strict=True, min_length=3, max_length=255, pattern=rf"^{_TOP_LEVEL}/[a-z0-9][a-z0-9!#$&^_.+-]*\z"
    ),
]


_PCT: Final = "%[0-9A-Fa-f]{2}"
_NAME: Final = r"[A-Za-z0-9._~!$&'()*+,;=-]"
"""A character of a host name: unreserved or a sub-delimiter (RFC 3986, 2.2 and 2.3)."""
_PCHAR: Final = r"[A-Za-z0-9._~!$&'()*+,;=:@-]"
_PORT: Final = r"0*(?:[0-9]{1,4}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
_OCTET: Final = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_H16: Final = "[0-9A-Fa-f]{1,4}"
_LS32: Final = rf"(?:{_H16}:{_H16}|(?:{_OCTET}\.){{3}}{_OCTET})"


def _ipv6() -> str:
    """The nine forms of RFC 3986, 3.2.2: up to `most` groups before `::`, and exactly `after` behind it."""
    before = (f"(?:(?:{_H16}:){{0,{most - 1}}}{_H16})?" if most else "" for most in range(7))
    after = (*(f"(?:{_H16}:){{{groups}}}{_LS32}" for groups in (5, 4, 3, 2, 1, 0)), _H16)
    pairs = [f"{one}::{other}" for one, other in zip(before, after, strict=True)]
    return "|".join((f"(?:{_H16}:){{6}}{_LS32}", *pairs, f"(?:(?:{_H16}:){{0,6}}{_H16})?::"))


_LITERAL: Final = rf"\[(?:{_ipv6()}|[vV][0-9A-Fa-f]+\.(?:{_NAME}|:)+)\]"
_URL_PATTERN: Final = (
    rf"[Hh][Tt][Tt][Pp][Ss]?://(?:{_LITERAL}|(?:{_NAME}|{_PCT})+)(?::(?:{_PORT})?)?"
    rf"(?:/(?:{_PCHAR}|{_PCT}|/)*)?"
)
"""A full http(s) URI of RFC 3986 with neither userinfo nor query nor fragment, and a port that TCP has."""
_URL: Final = re.compile(_URL_PATTERN, re.ASCII)
_NO_URL_CHARACTER: Final = re.compile(r"[^A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]", re.ASCII)
_NO_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})", re.ASCII)


def _resource_url(url: str) -> str:
    if (fault := find_url_fault(url)) is not None:
        raise ValueError(f"a resource url {fault}")
    return url


def find_url_fault(url: str) -> str | None:
    """Say what is wrong with a resource URL, or with the beginning of one; None if it is well-formed."""
    if _URL.fullmatch(url) is not None:
        return None
    scheme, colon, rest = url.partition("://")
    if not colon or scheme.lower() not in ("http", "https"):
        return "is a full http or https URL"
    if "?" in url or "#" in url or "@" in rest.partition("/")[0]:
        return "has no username, password, query string or fragment"
    strange = _NO_URL_CHARACTER.search(url)
    if strange is not None:
        return f"is a URI (RFC 3986): {strange[0]!a} must be percent-encoded"
    if _NO_ESCAPE.search(url) is not None:
        return "is a URI (RFC 3986): % must be followed by two hex digits"
    return "is a URI (RFC 3986): its host or port is not valid"


ResourceUrl = Annotated[
    str,
    StringConstraints(strict=True, min_length=1, max_length=2048),
    AfterValidator(_resource_url),
    WithJsonSchema(
        {"type": "string", "format": "uri", "minLength": 1, "maxLength": 2048, "pattern": f"^{_URL_PATTERN}$"}
    ),
]
Description = Annotated[str, StringConstraints(strict=True, max_length=500)]
FailureCode = Annotated[str, StringConstraints(strict=True, pattern=r"^[A-Za-z0-9._:-]{1,100}\z")]
ValueName = Annotated[
    str,
    StringConstraints(strict=True, min_length=1, max_length=100, pattern=r"^[a-z0-9]+(?:[-_][a-z0-9]+)*\z"),
]
IntegrationKey = Annotated[
    str,
    StringConstraints(strict=True, min_length=1, max_length=100, pattern=r"^[a-z][a-z0-9]*(?:_[a-z0-9]+)*\z"),
]

DECIMAL_PATTERN: Final = r"^(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,12})?$"
"""The constant `pattern` of a reportable value, as the contracts document carries it."""

DecimalValue = Annotated[
    str, StringConstraints(strict=True, pattern=r"^(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,12})?\z")
]
"""A reported value: a decimal string, 18 integer and 12 fraction digits at most."""

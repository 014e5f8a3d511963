"""The value types of the Merchant API (spec: Identifier format, Shared value types, Limits).

One annotated type per kind of value. Money is `int` in Python and a decimal string on the wire;
a moment is a `datetime` with a zone. Every pattern is ASCII and matches the whole value.
"""

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

from faregate.merchant.formats import (
    ID_TAIL,
    MAX_DESCRIPTION,
    MAX_MIME_TYPE,
    MAX_URL,
    MIME_TYPE_PATTERN,
    URL_PATTERN,
    find_url_fault,
)


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

MimeType = Annotated[
    str,
    StringConstraints(
        strict=True, min_length=3, max_length=MAX_MIME_TYPE, pattern=rf"^{MIME_TYPE_PATTERN}\z"
    ),
]


def _resource_url(url: str) -> str:
    if (fault := find_url_fault(url)) is not None:
        raise ValueError(f"a resource url {fault}")
    return url


ResourceUrl = Annotated[
    str,
    StringConstraints(strict=True, min_length=1, max_length=MAX_URL),
    AfterValidator(_resource_url),
    WithJsonSchema(
        {
            "type": "string",
            "format": "uri",
            "minLength": 1,
            "maxLength": MAX_URL,
            "pattern": f"^{URL_PATTERN}$",
        }
    ),
]


def _refuse_null(text: str) -> str:
    if "\0" in text:
        raise ValueError("must not contain the character U+0000")
    return text


WITHOUT_NULL: Final = AfterValidator(_refuse_null)
"""For text of any other characters: a database may be unable to keep this one."""
Description = Annotated[str, StringConstraints(strict=True, max_length=MAX_DESCRIPTION), WITHOUT_NULL]
ContentType = Annotated[str, StringConstraints(strict=True, max_length=255), WITHOUT_NULL]
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

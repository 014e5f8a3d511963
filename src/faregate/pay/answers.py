"""What a seller's answer means to one who paid (docs/payers.md). Pure."""

from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import Enum
from typing import Any, cast

from faregate.core.instructions import parse_json
from faregate.core.models import Headers, Response

_SHORTEST, _USUAL = 0.5, 1.0
_OPEN_CODES = frozenset(
    ("payment_in_progress", "payment_unconfirmed", "payment_service_unavailable", "completion_refused")
)


class Meaning(Enum):
    RESULT = "result"
    REFUSED = "refused"
    """402 again: this payment buys nothing."""
    OPEN = "open"
    """The payment may yet settle: come back with it, and sign no other."""
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Told:
    """What a body of the shape `{code, message}` says; None for what it does not."""

    code: str | None = None
    message: str | None = None
    transaction_id: str | None = None


def told(answer: Response) -> Told:
    """Read from any answer; nothing is told by a body of another shape."""
    try:
        body = parse_json(answer.body) if len(answer.body) < 65536 else None
    except (ValueError, RecursionError):
        return Told()
    if not isinstance(body, dict) or ("code" not in body and "transaction_id" not in body):
        return Told()
    fields = cast("dict[str, Any]", body)
    return Told(*(_text(fields.get(name)) for name in ("code", "message", "transaction_id")))


def meaning(answer: Response, *, settled: bool) -> Meaning:
    """Of an answer to a request that carried a payment; `settled`: its `PAYMENT-RESPONSE` says success."""
    if answer.status == 402:
        return Meaning.REFUSED
    if settled:
        return Meaning.RESULT
    if answer.status == 202 or _is_open(answer):
        return Meaning.OPEN
    return Meaning.RESULT if answer.status < 400 else Meaning.ERROR


def _is_open(answer: Response) -> bool:
    later = answer.status in (429, 503) and answer.first("retry-after") is not None
    return later or (answer.status >= 400 and told(answer).code in _OPEN_CODES)


def pause(headers: Headers, now: datetime) -> float:
    """Seconds until one may come back: `Retry-After` in either form, else one second."""
    value = Response(0, headers).first("retry-after") or ""
    if value.isascii() and value.isdigit():
        return max(float(value[:9]), _SHORTEST)
    try:
        moment = parsedate_to_datetime(value)
    except ValueError:
        return _USUAL
    zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max((zoned - now).total_seconds(), _SHORTEST)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None

"""Queries of the lists, read strictly (spec: Pagination rules, Limits). Pure.

A parameter the endpoint does not have, one sent twice, and any value not written as the spec writes
it are 422: a mistyped `page_size` should be heard of, not ignored.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from faregate.service.calls import Call
from faregate.service.clock import Timeline
from faregate.service.replies import invalid

DEFAULT_PAGE_SIZE: Final = 50
MAX_PAGE_SIZE: Final = 100
LIST_PARAMETERS: Final = ("as_of", "order", "page", "page_size")
LAST_PAGE: Final = 10**18
"""Beyond every list: a later page is as empty as this one."""
_NUMBER: Final = re.compile(r"[1-9][0-9]*", re.ASCII)
_FRACTION: Final = r"(?:[.,]\d{1,30})?"
_MOMENT: Final = re.compile(
    r"(?P<day>\d{4}-\d\d-\d\d|\d{8})[Tt _]"
    rf"(?P<minute>\d\d(?::?\d\d)?)(?P<second>:?\d\d{_FRACTION})?"
    rf"(?P<zone>[Zz]|[+-]\d\d(?::\d\d(?::\d\d{_FRACTION})?|\d\d(?:\d\d{_FRACTION})?)?)",
    re.ASCII,
)
"""The date-times that `datetime.fromisoformat` of Python 3.11 takes, less week dates and odd separators."""
_LEAP_SECOND: Final = re.compile(r":?60", re.ASCII)


@dataclass(frozen=True, slots=True)
class ListQuery:
    """What a list is asked for. `filters` are the endpoint's own parameters, as sent."""

    as_of: datetime
    newest_first: bool
    page: int
    page_size: int
    filters: dict[str, str]


def list_query(call: Call, timeline: Timeline, own: Sequence[str] = ()) -> ListQuery:
    """The query of a list that also takes the parameters `own`; 422 for anything else."""
    given = only(call, (*LIST_PARAMETERS, *own))
    order = one_of("order", given.get("order", "newest"), ("newest", "oldest"))
    page = _number("page", given.get("page", "1"), None)
    size = _number("page_size", given.get("page_size", str(DEFAULT_PAGE_SIZE)), MAX_PAGE_SIZE)
    as_of = timeline.snapshot(_moment(given["as_of"]) if "as_of" in given else None)
    if as_of is None:
        raise invalid("as_of is in the future")
    filters = {name: given[name] for name in own if name in given}
    return ListQuery(as_of, order == "newest", page, size, filters)


def only(call: Call, names: Sequence[str]) -> dict[str, str]:
    """The query, which has these parameters and no others."""
    given = call.parameters()
    for name in given:
        if name not in names:
            raise invalid(f"there is no query parameter {name!r} here")
    return given


def one_of(name: str, value: str, allowed: Sequence[str]) -> str:
    if value not in allowed:
        raise invalid(f"{name} must be one of {', '.join(allowed)}")
    return value


def flag(name: str, value: str) -> bool:
    return one_of(name, value, ("true", "false")) == "true"


def _number(name: str, text: str, most: int | None) -> int:
    bounds = "at least 1" if most is None else f"1 to {most}"
    # Python does not read numbers of thousands of digits.
    number = LAST_PAGE if len(text) > len(str(LAST_PAGE)) else text
    if not _NUMBER.fullmatch(text) or (most is not None and int(number) > most):
        raise invalid(f"{name} must be an integer, {bounds}")
    return int(number)


def _moment(text: str) -> datetime:
    """ISO 8601 or RFC 3339 with a zone. A `+` that was not percent-encoded is a space, hence the hint."""
    found = _MOMENT.fullmatch(text)
    if found is None:
        raise invalid("as_of must be an ISO 8601 date-time with a timezone (send + as %2B)")
    second = found["second"] or ""
    leap = _LEAP_SECOND.match(second) is not None
    try:
        # RFC 3339 has leap seconds, Python has not: it is the end of the minute.
        plain = f"{found['day']}T{found['minute']}{'' if leap else second}{found['zone'].upper()}"
        moment = datetime.fromisoformat(plain).astimezone(UTC)
        return moment + timedelta(minutes=1) if leap else moment
    except (ValueError, OverflowError):
        raise invalid("as_of is not a date-time") from None

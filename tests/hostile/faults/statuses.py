"""Statuses that are not the contract's, or not those of what is said with them."""

from faregate.core.models import Headers, Response
from tests.support.replies import JSON, Change, with_status

INNER = "inner-secret"
"""In whatever a service says that no payer should see."""

CODES = (
    201, 203, 204, 206, 226, 300, 304, 305, 400, 401, 402, 403, 404, 405, 408, 409, 410, 411, 413, 418, 421,
    422, 423, 425, 429, 451, 499, 500, 501, 502, 503, 504, 511, 599, 600, 799,
)  # fmt: skip
REDIRECTS = (301, 302, 303, 307, 308)
WAITS = ("0", "30", "-1", "99999999", "soon", "Wed, 21 Oct 2026 07:28:00 GMT", INNER)


def refusing(status: int, code: str = INNER, *headers: tuple[str, str]) -> Change:
    """An error of this status, whatever the reply was."""
    body = f'{{"code":"{code}","message":"{INNER}"}}'.encode()
    kept: Headers = (*JSON, ("X-Inner", INNER), *headers)
    return lambda _: Response(status, kept, b"" if status in (204, 304) else body)


def redirecting(status: int, to: str) -> Change:
    return lambda reply: Response(status, (*reply.headers, ("Location", to)), reply.body)


STATUSES: dict[str, Change] = {
    **{f"status {status}": refusing(status) for status in CODES},
    **{f"429 after {wait!r}": refusing(429, "slow_down", ("Retry-After", wait)) for wait in WAITS},
    "404 unknown": refusing(404, "transaction_not_found"),
    "409 mismatch": refusing(409, "revision_mismatch"),
    "409 conflict": refusing(409, "invalid_request"),
    "500 in HTML": lambda _: Response(500, (), f"<h1>{INNER}</h1>".encode()),
    "502 empty": lambda _: Response(502),
    "422 in words": lambda _: Response(422, (), INNER.encode()),
}

DISAGREEING: dict[str, Change] = {
    f"all is well, as {status}": with_status(status)
    for status in (201, 202, 203, 206, 299, 300, 400, 402, 403, 404, 409, 410, 422, 500, 503)
}
"""The right words under a status that is not theirs."""

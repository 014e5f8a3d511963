"""What may leave before a payment is proven: the one rule of all adapters. Pure.

A response of a sold handler leaves unpaid only if it certainly carries nothing of the result:

1. A status that the offer bills is the result. It leaves with a proven payment (`core.flow`).
2. An error (4xx, 5xx) that is not billed is shown, without cookies.
3. Any other response, such as a 206, a 304 or a redirect that is not billed, is withheld. The payer is not
   charged and gets an error of ours; the log says how to sell it.
4. Below a sold prefix a router may redirect to the path with or without its trailing slash. The paywall makes
   that redirect anew from the request alone.

Where no payment was asked for (`Checkout.allow_unpaid`), the same holds for what answers in a sold handler's
place: a cache, a decorator, middleware.

5. An error passes, except a 402: it may be a cached answer with old instructions.
6. A redirect passes if its maker never sees results: a decorator or a hook below the router, such as
   a login. One that carries `responses.RESULT_MARK` passed a price before, and is withheld. So is one of
   middleware between the paywall and the router, which may be a cache.
7. Everything else is withheld. Of an answer to OPTIONS the headers of CORS leave, and no content.
8. If the seller's mistake is certain, as a price that was not awaited, every status is withheld.
"""

import re
from urllib.parse import unquote, urlsplit

from faregate.core import responses
from faregate.core.models import PaidRequest, Response, header_values

_REDIRECTS = frozenset((301, 302, 303, 307, 308))
# One slash, and no second one: `//host/` would lead to another host.
_PATH = re.compile(r"/[^/\\]")


def is_error(status: int) -> bool:
    return 400 <= status <= 599


def is_redirect(status: int) -> bool:
    return status in _REDIRECTS


def may_be_result(status: int) -> bool:
    """Whether what answers in a sold handler's place with this status may be, or come of, its result."""
    return status == 402 or not is_error(status)


def build_unpaid(response: Response, request: PaidRequest) -> Response | None:
    """Build what may leave of a handler's response that is not billed; None if nothing may."""
    if is_error(response.status):
        return responses.build_unsold(response)
    target = find_slash_redirect(response, request)
    return None if target is None else responses.build_redirect(response.status, target)


def find_slash_redirect(response: Response, request: PaidRequest) -> str | None:
    """Find the request's own URL, but for its trailing slash, if a router redirects there.

    Only below a prefix: where a handler asks for the payment, the router has found the handler already.
    """
    locations = header_values(response.headers, "location")
    if request.prefix_host is None or response.status not in _REDIRECTS or len(locations) != 1:
        return None
    path, mark, query = request.http.url.partition("?")
    target = path.rstrip("/") if path.endswith("/") else f"{path}/"
    if _PATH.match(target) is None:
        return None
    try:
        location = urlsplit(locations[0])
    except ValueError:
        return None
    is_here = location.netloc in ("", request.prefix_host) and unquote(location.path) == unquote(target)
    return target + mark + query if is_here and location.query == query else None

"""What may leave before a payment is proven: the rules of all adapters. Pure.

A response of a sold handler leaves unpaid only if it certainly carries nothing of the result:

1. A status that the offer bills is the result (`core.billing`). It leaves with a proven payment
   (`core.completion`).
2. An error (4xx, 5xx) that is not billed is shown, without cookies. Of three kinds only the status leaves,
   because the body may be the result: 412 and 416, which answer conditions on it; an error that a decorator
   or middleware made of a result; an error with the body of an earlier result, as from a cache
   (`checkout.copy_detection` finds it).
3. Any other response, such as a 206, a 304 or a redirect that is not billed, is withheld. The payer is not
   charged and gets an error of ours; the log says how to sell it.
4. Below a sold prefix a router may redirect to the path with or without its trailing slash. The paywall makes
   that redirect anew from the request alone.

Where no payment was asked for (`Checkout.allow_unpaid`), the same holds for what answers in a sold handler's
place: a cache, a decorator, middleware.

5. An error that is not billed passes, except 412 and 416, and 402, which may be a cached answer with old
   instructions.
6. A redirect, as to a login, is made anew if its location tells no more than the request and the routes do:
   the requested path, or a page that is not sold and whose path has no parameters; on the requested host;
   with no query, the requested one, or the requested URL as the page to come back to.
7. Everything else is withheld. Of an answer to OPTIONS the headers of CORS leave, and no content.
8. If the seller's mistake is certain, as a price that was not awaited, every status is withheld, and rule 7
   holds for OPTIONS.

A result is marked between its handler and the paywall (`MARK`). What carries the mark where no payment was
asked for is a copy that something in between has kept, whatever its cache key. That, too, is a certain
mistake (rule 8). So is the body of a recent result in an answer for which the framework called no handler
(`checkout.copy_detection`), and any such answer with the header that a paywall adds to what it releases: a
layer outside has kept it, which may answer with a status of its own.
"""

import re
from collections.abc import Callable, Iterable
from urllib.parse import SplitResult, unquote, unquote_plus, urlsplit

from faregate.core import responses
from faregate.core.models import (
    BILLABLE,
    Header,
    Headers,
    Offer,
    PaidRequest,
    Response,
    header_values,
)
from faregate.frozen import frozen

_CONDITIONAL = (412, 416)
_REDIRECTS = frozenset((301, 302, 303, 307, 308))
_RETURN_NAMES = frozenset(
    (
        *("back", "came_from", "continue", "next", "r", "redirect", "redirect_to", "redirect_uri"),
        *("redirect_url", "return", "return_to", "return_url", "returnto", "returnurl"),
    )
)
"""The names, in lower case, of a query's parameter that says where to come back to after a login."""
_DEFAULT_PORT = re.compile(r":(?:80|443)$")
# One slash, and no second one: `//host/` would lead to another host.
_PATH = re.compile(r"/(?![/\\])")


MARK: Header = ("Faregate-Result", "unreleased")
"""A header of a result on its way to the paywall, which takes it off."""
COPIED = (
    "A cache between the paywall and a paid handler kept a result, and answered an unpaid request with it. "
    "Put the cache below the price, or have it skip responses with Cache-Control: no-store."
)
_MARK_NAME = MARK[0].lower()
_TRANSACTION_NAME = responses.TRANSACTION.lower()


@frozen
class Bypass:
    """How a sold handler was bypassed: something answered in its place, and may have its result.

    `mistake` says what the seller is to mend. `is_free_page` returns whether a decoded path is
    that of a page that is not sold, and whose path has no parameters.
    """

    mistake: str
    is_free_page: Callable[[str], bool]


def is_harmless_error(status: int) -> bool:
    """Whether this status is that of an error that carries nothing of a result; 412 and 416 may carry it."""
    return 400 <= status <= 599 and status not in _CONDITIONAL


def is_marked(headers: Headers) -> bool:
    """Whether these are the headers of a result that no paywall has released."""
    return any(name.lower() == _MARK_NAME for name, _ in headers)


def find_transaction(headers: Headers) -> str | None:
    """Find the transaction that a paywall names in the headers of an answer."""
    return next(iter(header_values(headers, _TRANSACTION_NAME)), None)


def may_be_result(status: int, offers: Iterable[Offer]) -> bool:
    """Whether an answer with this status, in place of a handler with these offers, may carry its result."""
    if status == 402 or not is_harmless_error(status):
        return True
    return any(
        status in (alternative.billable or BILLABLE) for offer in offers for alternative in offer.alternatives
    )


def build_unpaid(response: Response, request: PaidRequest, *, was_result: bool = False) -> Response | None:
    """Build what may leave of a handler's response that is not billed; None if nothing may.

    `was_result`: the response may be made of a result.
    """
    if response.status in _CONDITIONAL or (was_result and is_harmless_error(response.status)):
        return Response(response.status, (responses.NO_STORE,))
    if is_harmless_error(response.status):
        return responses.build_unsold(response)
    target = find_slash_redirect(response, request)
    return None if target is None else responses.build_redirect(response.status, target)


def find_slash_redirect(response: Response, request: PaidRequest) -> str | None:
    """Return the request's URL with its trailing slash added or removed, if the response redirects there.

    Only below a prefix: where a handler asks for the payment, the router has found the handler already.
    """
    if request.prefix_host is None or response.status not in _REDIRECTS:
        return None
    path, question_mark, query = request.http.url.partition("?")
    target = path.rstrip("/") if path.endswith("/") else f"{path}/"
    location = _find_location(response.headers, request.prefix_host)
    if location is None or _PATH.match(target) is None:
        return None
    is_target = unquote(location.path) == unquote(target) and unquote(location.query) == unquote(query)
    return target + question_mark + query if is_target else None


def build_plain_redirect(
    status: int, headers: Headers, url: str, root_path: str, host: str, is_free_page: Callable[[str], bool]
) -> Response | None:
    """Build a redirect that tells no more than the request and the routes do; None if this one may tell more.

    `url` is the path and the query of the request, below `root_path` on `host`. `is_free_page`: see `Bypass`.
    """
    location = _find_location(headers, host) if status in _REDIRECTS else None
    if location is None:
        return None
    path, _, query = url.partition("?")
    if unquote(location.path).rstrip("/") == unquote(path).rstrip("/"):
        slash = "/" if location.path.endswith("/") else ""
        location = location._replace(path=path.rstrip("/") + slash or "/")  # as the request spells it
    elif not is_free_page(unquote(location.path)):
        return None
    if _is_same_query(location.query, query):
        location = location._replace(query=query)
    elif location.query and not _leads_back(location.query, unquote(path), query, root_path, host):
        return None
    return responses.build_redirect(status, location.geturl())


def _is_same_query(given: str, requested: str) -> bool:
    return bool(given) and unquote(given) == unquote(requested)


def _leads_back(given: str, path: str, query: str, root_path: str, host: str) -> bool:
    """Whether a query is the requested URL under a name such as `next`, encoded or as it is."""
    name, _, value = given.partition("=")
    if name.lower() not in _RETURN_NAMES:
        return False
    backs = (_split_own(url, host) for url in (value, unquote_plus(value)))
    return any(
        back is not None
        and unquote(back.path) in (path, path.removeprefix(root_path))
        and unquote(back.query) in ("", unquote(query))
        for back in backs
    )


def _find_location(headers: Headers, host: str) -> SplitResult | None:
    """Find where a redirect leads, if it leads to a path on this host."""
    locations = header_values(headers, "location")
    return _split_own(locations[0], host) if len(locations) == 1 else None


def _fold_host(host: str) -> str:
    return _DEFAULT_PORT.sub("", host.lower())


def _split_own(url: str, host: str) -> SplitResult | None:
    """Split the URL of a path on this host; give None for any other."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    is_http = parts.scheme in (("", "http", "https") if parts.netloc else ("",))
    is_own = is_http and _fold_host(parts.netloc) in ("", _fold_host(host)) and not parts.fragment
    return parts if is_own and _PATH.match(parts.path) is not None else None

"""Write an application's `llms.txt`: what it sells, in words for language models (llmstxt.org)."""

from collections.abc import Iterator

from faregate.core.models import Offer
from faregate.errors import ConfigurationError
from faregate.paywall import Paywall
from faregate.routes import RouteInfo
from faregate.routes.frameworks import inspect_app, is_mcp_server

HOW_TO_PAY = """## How to pay

Each request below is paid with x402 version 2.

1. Send the request. The answer is `402`, with the price in the header `PAYMENT-REQUIRED`.
2. Sign one payment with an x402 client, and send the same request with it in `PAYMENT-SIGNATURE`.
3. After `202`, `409`, `502`, `503`, `504` or no answer, wait as `Retry-After` says, and send the same
   `PAYMENT-SIGNATURE` again. Do not sign another payment: the first one may be charged.
4. The result comes with `PAYMENT-RESPONSE`."""
_TOOL_METHOD = "tools/call"
_UNLISTED = frozenset(("HEAD", "OPTIONS"))


def build_llms_text(app: object, name: str, about: str = "") -> str:
    """Build the text to serve at `/llms.txt`: what this application sells, its prices, and how to pay.

    `name` is the seller's, `about` one sentence. Blocking: it asks the service for the price of each offer,
    once in five minutes. Raises `ConfigurationError`.
    """
    check_seller("build_llms_text", app, name, about)
    sold = [*_list_sold(inspect_app(app).routes)]
    summary = f"\n> {join_lines(about)}\n" if about else ""
    listed = "\n".join(sold) if sold else "Nothing is sold at the moment."
    return f"# {join_lines(name)}\n{summary}\n{HOW_TO_PAY}\n\n## Paid\n\n{listed}\n"


def check_seller(function: str, app: object, name: object, about: object) -> None:
    """Check the arguments of a function that documents an application. Raises `ConfigurationError`."""
    if not isinstance(name, str) or not name.strip():
        raise ConfigurationError(f"{function} needs the seller's name, such as 'Weather', not {name!r}.")
    if not isinstance(about, str):
        raise ConfigurationError(f"{function} needs text as about=, not {about!r}.")
    if not (callable(app) or is_mcp_server(app)):
        raise ConfigurationError(f"{function} needs your application, not {type(app).__name__}.")


def list_documented(routes: tuple[RouteInfo, ...]) -> list[tuple[RouteInfo, Offer]]:
    """List what is sold, with its offer, and without what the seller keeps out of documents."""
    sold = ((route, route.offer) for route in routes if route.access == "paid" and not route.is_hidden)
    return [(route, offer) for route, offer in sold if offer is not None]


def _list_sold(routes: tuple[RouteInfo, ...]) -> Iterator[str]:
    for route, sold in list_documented(routes):
        paywall = None if route.paywall is None else route.paywall()
        facts = [_describe(offer, paywall) for offer in sold.alternatives]
        yield f"- {_name(route, paywall)}: {' Or: '.join(facts)}"


def _name(route: RouteInfo, paywall: Paywall | None) -> str:
    if route.methods == (_TOOL_METHOD,):
        return f"MCP tool `{route.path.rpartition('/')[2]}`"
    methods = ", ".join(method for method in route.methods if method not in _UNLISTED) or "any method"
    public_url = "" if paywall is None else paywall.settings.public_url
    is_pattern = any(char in route.path for char in "{<*(")
    if not public_url or route.host or is_pattern:
        return f"`{methods} {route.place}`"
    return f"[{methods} {route.path}]({public_url}{route.path})"


def _describe(offer: Offer, paywall: Paywall | None) -> str:
    description = join_lines(offer.description or offer.sells).rstrip(".")
    if paywall is None:
        price = None
    else:
        paywall.refresh_price(offer)
        price = paywall.find_price(offer.sells)
    return f"{description}. Its price is in its `402`." if price is None else f"{description}. {price}."


def join_lines(text: str) -> str:
    return " ".join(text.split())

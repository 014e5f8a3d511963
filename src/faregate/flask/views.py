"""A price on a view: what runs before it, and how it is found again on whatever the router runs."""

from collections.abc import Callable
from functools import wraps
from inspect import isclass
from typing import Any, TypeVar, cast

from flask import Response, current_app, request
from flask.views import View as ClassView
from werkzeug.local import LocalProxy
from werkzeug.routing import Rule

from faregate.errors import Misconfigured
from faregate.flask.door import NAME
from faregate.gate import PaymentStop
from faregate.model import Offer
from faregate.payment import Payment
from faregate.wsgi import open_gate

View = Callable[..., Any]
V = TypeVar("V", bound=View)

OFFER = "faregate_offer"
"""On what asks for payment before it runs."""

_PRICED = "faregate_priced"
"""On what stands below its price, and must not be run by the router itself."""

_EXEMPT = "faregate_exempt"
_PAYMENT = "faregate.payment"


def _payment() -> Payment:
    # In the environ and not in `g`: a thread with a copy of the request's context has a `g` of its own.
    found = request.environ.get(_PAYMENT)
    if not isinstance(found, Payment):
        raise Misconfigured("There is no payment here: the view is not sold with require or require_all.")
    return found


payment = cast(Payment, LocalProxy(_payment))
"""The sale that the current request is. Raises `Misconfigured` where a view is not sold."""


def enter(sold: Offer) -> Response | None:
    """Open the gate for this request; if it stays shut, an answer to stop with, which nobody sees."""
    if NAME not in current_app.extensions:
        raise Misconfigured(
            f"A view sells {sold.sells!r}, but its app has no paywall: "
            "Faregate(app), or paywall.init_app(app)"
        )
    try:
        request.environ[_PAYMENT] = open_gate(request.environ, sold)
    except PaymentStop as stop:
        return current_app.response_class(status=stop.status)
    return None


def guarded(view: View, sold: Offer) -> View:
    """The view behind its price. Raises `Misconfigured`."""
    if isclass(view) or not callable(view):
        raise Misconfigured(
            "@paywall.require goes on functions. For a class-based view put it on the methods, or say "
            "decorators = [paywall.require(...)]; for a blueprint call paywall.require_all(blueprint, ...)."
        )
    if hasattr(view, _EXEMPT):
        raise Misconfigured("A view cannot be both sold and exempt. Keep one of the two.")
    own = getattr(view, OFFER, None)
    if own not in (None, sold):
        raise Misconfigured(f"A view is sold as {own.sells!r} and as {sold.sells!r}. Keep one of the two.")

    @wraps(view)
    def guard(*args: Any, **kwargs: Any) -> Any:
        stopped = enter(sold)
        return current_app.ensure_sync(view)(*args, **kwargs) if stopped is None else stopped

    guard.__dict__.pop(_PRICED, None)
    guard.__dict__[OFFER] = sold
    if own is None:
        getattr(view, "__dict__", {})[_PRICED] = True
    return guard


def selling(sold: Offer) -> Callable[[], Response | None]:
    """A `before_request` that sells whatever the router found."""

    def sell() -> Response | None:
        rule = request.url_rule
        if rule is None or _answered_by_flask(rule) or is_exempt(_view_of(rule), request.method):
            return None
        return enter(sold)

    sell.__dict__[OFFER] = sold
    return sell


def exempted(view: V) -> V:
    """The view itself, marked."""
    if isclass(view):
        raise Misconfigured("Put @paywall.exempt on the methods of a class-based view, or in its decorators.")
    if hasattr(view, OFFER):
        raise Misconfigured("A view cannot be both sold and exempt. Keep one of the two.")
    view.__dict__[_EXEMPT] = True
    return view


def not_bypassed() -> None:
    """A `before_request` that stops what the router runs without the price that was put on it."""
    rule = request.url_rule
    if rule is not None and is_bypassed(_view_of(rule)):
        raise Misconfigured(misplaced(rule.endpoint))


def misplaced(endpoint: str) -> str:
    return (
        f"The price of {endpoint!r} is not on what the router runs: "
        "put @app.route above @paywall.require. A function that is sold cannot be given away as well."
    )


def is_bypassed(view: View | None) -> bool:
    return hasattr(view, _PRICED)


def is_exempt(view: View | None, method: str) -> bool:
    return any(hasattr(one, _EXEMPT) for one in _what_runs(view, method))


def offer_of(view: View | None, method: str) -> Offer | None:
    """What a view sells to requests with this method, by a price of its own."""
    offers = (getattr(one, OFFER, None) for one in _what_runs(view, method))
    return next((sold for sold in offers if isinstance(sold, Offer)), None)


def _what_runs(view: View | None, method: str) -> tuple[Any, ...]:
    """The view; of a class-based one also what it calls for a method."""
    kind = getattr(view, "view_class", None)
    if not (isclass(kind) and issubclass(kind, ClassView)):
        return (view,)
    called = getattr(kind, method.lower(), None)
    if called is None and method == "HEAD":
        called = getattr(kind, "get", None)
    return (view, kind.dispatch_request, called)


def _view_of(rule: Rule) -> View | None:
    return current_app.view_functions.get(rule.endpoint)


def _answered_by_flask(rule: Rule) -> bool:
    return request.method == "OPTIONS" and bool(getattr(rule, "provide_automatic_options", False))

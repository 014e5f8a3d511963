"""Find the price that a view asks for where nothing else of its app would run or answer first.

As `faregate.routes.first_prices` for Starlette and FastAPI: a request without a payment is then answered
before Flask makes its context and routes, with the very same answer. If the app would run anything else for
the request, it is left to the app: functions before and after it, receivers of signals, a class of the
seller's.
"""

from collections.abc import Callable
from functools import partial
from operator import attrgetter
from types import FunctionType
from typing import Any, cast

from flask import Flask, Request, signals
from flask.sessions import SecureCookieSessionInterface
from werkzeug.exceptions import SecurityError
from werkzeug.routing import Rule
from werkzeug.wsgi import get_host

from faregate.checkout.handlers import OFFER, is_price
from faregate.core.models import Offer, OfferChoice
from faregate.flask.decorators import check_request, check_response
from faregate.flask.price_placement import count_rules, list_shadow_mistakes, list_stack_mistakes, recall_rule
from faregate.wsgi import Environ

_METHODS = ("wsgi_app", "full_dispatch_request", "preprocess_request", "dispatch_request", "request_context")
"""What Flask runs for a request. Some replace one of an app, and tracers those of the class."""
_REPLACED = _METHODS[1:]
"""Those that an app has by itself if something has replaced them; the paywall replaces the first."""
_SIGNALS = (
    signals.appcontext_pushed,
    signals.appcontext_popped,
    signals.appcontext_tearing_down,
    signals.request_started,
    signals.request_finished,
    signals.request_tearing_down,
)
_get_receivers = attrgetter("receivers")


class FlaskFirstPrices:
    """The prices of one app by method and path, of rules without parameters."""

    def __init__(self, app: Flask) -> None:
        self._app = app
        self._wraps_flask_directly = getattr(app.wsgi_app, "__func__", None) is Flask.wsgi_app
        """Whether the paywall calls the app itself, and not what a middleware has put around it."""
        self._rules: tuple[int, dict[tuple[str, str], Rule]] = (-1, {})
        """How many rules the app had when they were read, and those of one path each."""

    def find(self, environ: Environ) -> tuple[Offer, Rule] | None:
        """Find the price of a request, and its rule. None if something else may answer first."""
        app = self._app
        # The first request is the app's: from then on it takes no more functions, and says so.
        if not self._wraps_flask_directly or not cast(Any, app)._got_first_request:  # noqa: SLF001
            return None
        rule_count, rules = self._rules
        if rule_count != count_rules(app):
            rules = _read_rules(app) if all(map(_is_flasks_own, _METHODS)) else {}
            self._rules = count_rules(app), rules
        rule = rules.get((environ["REQUEST_METHOD"], environ.get("PATH_INFO", "")))
        if rule is None or not _is_bare(app) or not _is_ordinary(environ):
            return None
        view: Any = app.view_functions.get(rule.endpoint)
        if not (isinstance(view, FunctionType) and is_price(view)):
            return None
        offer = view.__dict__[OFFER]
        placement = recall_rule(app, rule, environ["REQUEST_METHOD"])
        is_only = placement.offers == (offer,) and not placement.mistakes
        has_mistakes = list_stack_mistakes(app) or list_shadow_mistakes(app)
        return (offer, rule) if is_only and not has_mistakes and not isinstance(offer, OfferChoice) else None


def _read_rules(app: Flask) -> dict[tuple[str, str], Rule]:
    """Read the rules that take one path each. Two rules for one request are left to the app."""
    rules: dict[tuple[str, str], Rule] = {}
    repeated: set[tuple[str, str]] = set()
    for rule in app.url_map.iter_rules():
        has_parameters = bool(cast(Any, rule).arguments)
        of_one_path = not (has_parameters or rule.defaults or rule.redirect_to or rule.alias)
        if not of_one_path or rule.websocket or rule.build_only or rule.host or rule.subdomain:
            continue
        for method in (rule.methods or set()) - {"OPTIONS"}:
            key = method, rule.rule
            if key in rules:
                repeated.add(key)
            rules[key] = rule
    return {key: rule for key, rule in rules.items() if key not in repeated and rule.rule.isascii()}


def _is_flasks_own(name: str) -> bool:
    # By its code: `functools.wraps` copies names.
    method = vars(Flask).get(name)
    return isinstance(method, FunctionType) and method.__code__.co_qualname == f"Flask.{name}"


def _is_bare(app: Flask) -> bool:
    """Whether an app runs nothing of the seller's for a request but the view."""
    if type(app) is not Flask or app.request_class is not Request:
        return False
    if type(app.session_interface) is not SecureCookieSessionInterface:
        return False
    if not app.__dict__.keys().isdisjoint(_REPLACED):
        return False
    config, url_map = app.config, app.url_map
    if config["SERVER_NAME"] or config["TRUSTED_HOSTS"] or app.subdomain_matching or url_map.host_matching:
        return False
    if any(app.before_request_funcs.values()) or any(app.teardown_request_funcs.values()):
        return False
    if not _has_only(app.url_value_preprocessors, _is_check) or not _has_only(
        app.after_request_funcs, lambda function: function is check_response
    ):
        return False
    # Mostly none has: then nothing is asked in Python.
    received = [*filter(_get_receivers, _SIGNALS)]
    return not any(signal.has_receivers_for(app) for signal in received)


def _has_only(functions: Any, is_own: Callable[[object], bool]) -> bool:
    """Whether the paywall's own function is the only one of an app and its blueprints."""
    added = [function for group in functions.values() for function in group]
    return len(added) == 1 and is_own(added[0])


def _is_check(function: object) -> bool:
    return isinstance(function, partial) and function.func is check_request


def _is_ordinary(environ: Environ) -> bool:
    """Whether the app would not refuse the request by its headers, or keep its context."""
    if "HTTP_UPGRADE" in environ or "werkzeug.debug.preserve_context" in environ:
        return False
    try:
        get_host(environ)
    except SecurityError:
        return False
    return True

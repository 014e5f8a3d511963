"""A price on a view, and what a request is checked for before its view runs and after it answered."""

from collections.abc import Callable
from functools import wraps
from importlib.util import find_spec
from inspect import isclass, iscoroutinefunction
from typing import Any, TypeVar, cast

from flask import Flask, Request, Response, current_app, request, session
from werkzeug.exceptions import Forbidden
from werkzeug.local import LocalProxy
from werkzeug.routing import Rule
from werkzeug.wrappers import Response as BaseResponse

from faregate.checkout.argument_checks import check_blocking, check_choose
from faregate.checkout.checkout import SkipHandler
from faregate.checkout.copy_detection import RESULTS
from faregate.checkout.handlers import OFFER, find_offers, mark_price
from faregate.checkout.states import AUTHORIZED, DECIDED, NEW
from faregate.checkout.wrapped_callables import is_async
from faregate.checkout.wsgi_environ import find_path, list_path_headers
from faregate.core.models import Choose, Offer
from faregate.core.reported_values import Payment
from faregate.core.responses import NO_STORE, build_preflight
from faregate.core.withholding import MARK, is_harmless_error, may_be_result
from faregate.errors import ConfigurationError
from faregate.flask.memos import check_memo
from faregate.flask.middleware import ENTERED, NAME, DeferredSave, defer_session_writes
from faregate.flask.price_placement import (
    EXEMPT,
    find_bypass,
    find_login,
    is_sold_without_options,
    list_shadow_mistakes,
    list_stack_mistakes,
    mark_sold,
    recall_rule,
)
from faregate.wsgi import ask_payment, find_checkout

View = Callable[..., Any]
V = TypeVar("V", bound=View)

_PAYMENT = "faregate.payment"
_OFFER = "faregate.offer"
"""In the environ: what a request is sold as, once its view may run."""
_SESSION = "faregate.flask.session"
"""In the environ: the session of a request, if it is not kept in a cookie."""
_GROUPS = "faregate.flask.groups"
"""In the environ: what the groups of a view are sold as, until they are paid for."""
_SELLS = "faregate_sells"
"""On an app's `dispatch_request` that `_price_dispatch` has replaced."""
_NO_PAYWALL = (
    "A view sells {sells!r}, but its app has no paywall: call Faregate(app) or paywall.init_app(app)"
)
_CACHING = "faregate_caching"
"""On a response: what its view said about caching."""
_SOLD = "faregate_sold"
"""On a response that a sold view made. It stays there, also on one that something keeps."""


# The objects behind the proxies: each access to an attribute of a proxy looks up the context again.
_get_app = cast(Callable[[], Flask], cast(Any, current_app)._get_current_object)  # noqa: SLF001
_get_session = cast(Callable[[], Any], cast(Any, session)._get_current_object)  # noqa: SLF001
_get_request = cast(Callable[[], Request], cast(Any, request)._get_current_object)  # noqa: SLF001


def _payment() -> Payment:
    # In the environ and not in `g`: a thread with a copy of the request's context has a `g` of its own.
    payment = request.environ.get(_PAYMENT)
    if not isinstance(payment, Payment):
        raise ConfigurationError("There is no payment here: the view is not sold with paid or paid_all.")
    return cast(Payment, payment)


payment = cast(Payment, LocalProxy(_payment))
"""The sale that the current request is. Raises `ConfigurationError` where a view is not sold."""


def authorize(sold: Offer, prices_inside: int | None = None) -> Response | None:
    """Ask whether the view may run; if not, return a response that stops the call and is not sent.

    `prices_inside`: see `Checkout.start_work`; None before the view.
    """
    current_request = _get_request()
    environ = current_request.environ
    if (checkout := find_checkout(environ)) is not None:
        checkout.check_path(find_path(environ)[0])
        checkout.begin_call(current_request)
    app = _get_app()
    if NAME not in app.extensions:
        raise ConfigurationError(_NO_PAYWALL.format(sells=sold.sells))
    if isinstance(app.session_interface.save_session, DeferredSave):
        # An interface may give out the very object that it stores: it is put back with the environ.
        environ[_SESSION] = _get_session()
    try:
        environ[_PAYMENT] = ask_payment(environ, sold, _ask_with_request, prices_inside)
    except SkipHandler as stop:
        return app.response_class(status=stop.status, headers=[NO_STORE])
    environ[_OFFER] = sold
    return None


def _ask_with_request(choose: Choose) -> object:
    return (_get_app().ensure_sync(choose) if is_async(choose) else choose)(_get_request())


def check_flask_choose(sold: Offer) -> None:
    """Check that Flask can call a function that chooses. Raises `ConfigurationError`."""
    check_choose(sold)
    if find_spec("asgiref") is None:  # what Flask awaits async functions with
        check_blocking(sold)


def wrap_view(view: View, sold: Offer) -> View:
    """The view behind its price. Raises `ConfigurationError`."""
    if isclass(view) or not callable(view):
        raise ConfigurationError(
            "@paywall.paid decorates functions. For a class-based view put it on the methods, or say "
            "decorators = [paywall.paid(...)]; for a blueprint call paywall.paid_all(blueprint, ...)."
        )
    if hasattr(view, EXEMPT):
        raise ConfigurationError("A view cannot be both sold and exempt. Keep one of the two.")
    other = next((own for own in find_offers(view) if own != sold), None)
    if other is not None:
        raise ConfigurationError(
            f"A view is sold as {other.sells!r} and as {sold.sells!r}. Keep one of the two."
        )
    if (mistake := find_login(view)) is not None:
        raise ConfigurationError(mistake)

    is_coroutine = iscoroutinefunction(view)  # looked up once, not for each request
    prices_inside = len(find_offers(view))
    is_checked = False

    @wraps(view)
    def guard(*args: Any, **kwargs: Any) -> Any:
        nonlocal is_checked
        if not is_checked:
            check_memo(guard)
            is_checked = True
        stopped = authorize(sold, prices_inside)
        if stopped is not None:
            return stopped
        run = current_app.ensure_sync(view) if is_coroutine else view
        answer = run(*args, **kwargs)
        _note_status(answer)
        return _forbid_storing(answer, sold) if isinstance(answer, BaseResponse) else answer

    mark_sold(view)
    mark_price(guard, sold)
    return guard


def _note_status(answer: Any) -> None:
    """Note the status of what a view returns, before a decorator above its price changes it."""
    status = _find_status(answer)
    if status is not None and (checkout := find_checkout(_get_request().environ)) is not None:
        checkout.note_status(status)


def _find_status(answer: Any) -> int | None:
    """Find the status of what a view returns, as Flask reads it. None for another WSGI application."""
    if isinstance(answer, BaseResponse):
        return answer.status_code
    if isinstance(answer, tuple):
        parts = cast("tuple[object, ...]", answer)
        # The second one may be a number, or the text of a status line.
        status = str((*parts, "", "")[1])[:3]
        return int(status) if status.isdecimal() else _find_status((*parts, "")[0])
    return None if callable(answer) else 200


def _forbid_storing(response: BaseResponse, sold: Offer) -> BaseResponse:
    """Mark what a view answers, so that a cache above its price leaves it alone, or is found."""
    # Attributes are read and set by name: the `__dict__` of an object makes Python slower with all of them.
    if hasattr(response, _CACHING):
        return response
    headers = response.headers
    directives = [value for name, value in headers if name.lower() == "cache-control"]
    setattr(response, _CACHING, directives)
    setattr(response, _SOLD, True)
    if may_be_result(response.status_code, (sold,)):
        headers.add(*MARK)
    if directives:
        headers.remove("Cache-Control")
    headers.add("Cache-Control", NO_STORE[1])
    return response


def mark_results(app: Flask) -> None:
    """Have the app mark each result before a function after the request sees it, which may be a cache.

    A view may return a text or a dict, and only here is it a response.
    """
    process = app.process_response

    def process_marked(*arguments: Any) -> Response:
        environ, response = _get_request().environ, arguments[-1]
        sold = environ.get(_OFFER)
        if sold is not None:
            _forbid_storing(response, sold)
        checkout = find_checkout(environ)
        if checkout is not None and checkout.state is AUTHORIZED:
            checkout.note_status(response.status_code)
        if checkout is not None and response.is_sequence:
            # Functions after the request may compress or change what the cache keeps as it is here.
            if checkout.state is AUTHORIZED and not is_harmless_error(response.status_code):
                chunks: Any = response.response
                is_one = len(chunks) == 1 and type(chunks[0]) is bytes  # as Flask makes them
                checkout.recorded = chunks[0] if is_one else response.get_data()
                RESULTS.add(checkout.recorded)
            elif checkout.state is NEW:
                checkout.check_body(response.iter_encoded())
                if RESULTS.longest:
                    own = response.get_data()
                    processed = process(*arguments)
                    if processed.is_sequence:
                        checkout.check_replaced(own, processed.get_data())
                    return processed
        return process(*arguments)

    cast(Any, app).process_response = process_marked


def _allow_storing(response: Response) -> Response:
    """Restore what the view said of caching: what a cache outside may do is decided with the payment."""
    directives = getattr(response, _CACHING, None)
    if directives is None:
        return response
    delattr(response, _CACHING)
    if response.headers.getlist("Cache-Control") == [NO_STORE[1]]:
        response.headers.setlist("Cache-Control", directives)
    return response


def make_before_request(sold: Offer) -> Callable[[], None]:
    """Make a `before_request` that sells what the router found, and that runs after all other such functions.

    One of them may be the login of a blueprint inside the one that is sold. It must answer before the price.
    """

    def sell() -> None:
        app, current_request = _get_app(), _get_request()
        rule = current_request.url_rule
        if rule is None or _is_answered_by_flask(rule, current_request.method):
            return
        if NAME not in app.extensions:
            raise ConfigurationError(_NO_PAYWALL.format(sells=sold.sells))
        if recall_rule(app, rule, current_request.method).is_exempt:
            return
        if not hasattr(app.dispatch_request, _SELLS):
            _price_dispatch(app)
        current_request.environ.setdefault(_GROUPS, []).append(sold)

    sell.__dict__[OFFER] = sold
    return sell


def _price_dispatch(app: Flask) -> None:
    """Have the app ask for the payment of a group when all functions before the request have run."""
    dispatch = app.dispatch_request

    def dispatch_paid(*arguments: Any) -> Any:
        for sold in _get_request().environ.pop(_GROUPS, ()):
            if (stopped := authorize(sold)) is not None:
                return stopped
        return dispatch(*arguments)

    dispatch_paid.__dict__[_SELLS] = True
    cast(Any, app).dispatch_request = dispatch_paid


def mark_exempt(view: V) -> V:
    """The view itself, marked."""
    if isclass(view):
        raise ConfigurationError(
            "Put @paywall.exempt on the methods of a class-based view, or in its decorators."
        )
    if not callable(cast(Any, view)):
        raise ConfigurationError(f"@paywall.exempt goes on a view, and {view!r} is none.")
    if find_offers(view):
        raise ConfigurationError("A view cannot be both sold and exempt. Keep one of the two.")
    view.__dict__[EXEMPT] = True
    return view


def check_request(app: Flask, _endpoint: str | None, _view_args: object) -> None:
    """Stop what would be given away, and what is refused.

    It is a `url_value_preprocessor`: Flask calls these before any `before_request`, and looks at none
    whether it is async. Raises `ConfigurationError`.
    """
    current_request = _get_request()
    mistakes = list_stack_mistakes(app) or list_shadow_mistakes(app)
    if mistakes:
        raise ConfigurationError(mistakes[0])
    _check_entrance(app, current_request.environ)
    defer_session_writes(app)
    rule = current_request.url_rule
    if rule is None:
        return
    placement = recall_rule(app, rule, current_request.method)
    for mistake in placement.mistakes:
        raise ConfigurationError(mistake)
    checkout = find_checkout(current_request.environ)
    if checkout is not None:
        checkout.begin_prefix_call()
    if checkout is None or not checkout.path_match.refused:
        return
    if not (checkout.path_match.offer or placement.offers):
        checkout.refuse_unsold()
        raise Forbidden


def _check_entrance(app: Flask, environ: dict[str, Any]) -> None:
    """Check that the paywall of this app saw the path that the router reads. Raises `ConfigurationError`.

    A view with its own price checks the path itself (`authorize`).
    """
    entered, paths = environ.get(ENTERED), (environ.get("SCRIPT_NAME", ""), environ.get("PATH_INFO", ""))
    if entered == (app.extensions[NAME], *paths):
        return
    path, root_path, _ = find_path(environ)
    path_rules = app.extensions[NAME].path_rules
    if not (routed := path_rules.match(path, root_path)).protected:
        return
    if entered is None or entered[0] is not app.extensions[NAME]:
        raise ConfigurationError(
            f"A request came past the paywall, and {path} is sold or refused: what is served is the "
            "app.wsgi_app of before Faregate(app). Put middleware around app.wsgi_app after that, or serve "
            "the app itself."
        )
    seen_path, seen_root, _ = find_path({"SCRIPT_NAME": entered[1], "PATH_INFO": entered[2]})
    seen = path_rules.match(seen_path, seen_root, list_path_headers(environ))
    if not seen.protected or seen.offer != routed.offer:
        raise ConfigurationError(
            f"Middleware behind the paywall changed the path {seen_path} to {path}, which is sold or "
            "refused. Put it around app.wsgi_app after Faregate(app)."
        )


def check_response(response: Response) -> Response:
    """An `after_request` that withholds what came in a paid view's place. Raises `ConfigurationError`."""
    current_request = _get_request()
    checkout = find_checkout(current_request.environ)
    if checkout is None:
        return response
    checkout.checked_status = response.status_code
    if checkout.state is DECIDED:
        return response
    if checkout.payment is not None:
        directives = getattr(response, _CACHING, None)
        # For caches between the app and the paywall. A function after the request may have made another one.
        if directives is None and not is_harmless_error(response.status_code):
            response.headers[MARK[0]] = MARK[1]
        # A paid result that said nothing gets the very same header with its payment.
        return response if directives == [] and checkout.payment.transaction_id else _allow_storing(response)
    app, status = _get_app(), response.status_code
    if hasattr(response, _SOLD):
        # An error that was kept, which may leave: Flask has put the session of another sale on the object.
        del response.headers["Set-Cookie"]
    if current_request.method == "OPTIONS" and is_sold_without_options(
        app, current_request.environ, status, current_request.url_rule
    ):
        # Flask's own answer is an empty 200. A cache that ignores the method may have answered with a result.
        is_own = status == 200 and response.calculate_content_length() == 0
        preflight = build_preflight(tuple(response.headers))
        return app.response_class(b"", 200 if is_own else 204, list(preflight.headers))
    bypass = find_bypass(app, current_request.environ, status, current_request.url_rule)
    if bypass is None:
        return response
    answer = checkout.build_plain(status, tuple(response.headers), bypass)
    if answer is None:
        checkout.withhold(bypass.mistake)
    # Flask adds the session, in which a login says what it came from.
    return app.response_class(answer.body, answer.status, list(answer.headers))


def _is_answered_by_flask(rule: Rule, method: str) -> bool:
    return method == "OPTIONS" and bool(getattr(rule, "provide_automatic_options", False))

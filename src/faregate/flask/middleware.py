"""The WSGI middleware around a Flask app, and what Flask and its extensions write beside a response.

CORS extensions work inside the app, on responses that the paywall may throw away. The `402` that is sent in
their place gets their CORS headers, and nothing else of them, so that a script in a browser can read it.

Flask saves a session before the response leaves, and so before the payment is known. Its own interface saves
into a cookie, which is buffered with the response. Others save into a store: they save once the result is
released.
"""

from collections.abc import Callable, Iterable, Mapping
from contextvars import copy_context
from functools import wraps
from typing import Any, cast

from flask import Flask, Request, Response, has_request_context, request
from flask.sessions import SecureCookieSessionInterface, SessionMixin
from werkzeug.routing import Rule

from faregate.checkout.descriptions import HandlerInfo
from faregate.checkout.handlers import pick_method
from faregate.checkout.states import AUTHORIZED
from faregate.core.models import Headers, Offer
from faregate.core.models import Response as Result
from faregate.core.withholding import Bypass, is_harmless_error
from faregate.errors import ConfigurationError
from faregate.routes import RouteTable
from faregate.wsgi import (
    Environ,
    PaywallMiddleware,
    StartResponse,
    WSGIApp,
    WSGICheckout,
    find_checkout,
    on_release,
)

NAME = "faregate"
"""Of the middleware in `app.extensions`."""

ENTERED = "faregate.flask.middleware"
"""In the environ: the last of these middlewares that a request went through, and the two paths there, raw."""

_RULE = "faregate.flask.rule"
"""In the environ: the rule of a request whose price is asked for before Flask routes it."""
_ALLOWED = "faregate.cors"
_NOTES = "faregate_notes"
"""On the function of an app that answers exceptions, if it tells the checkout."""


class FlaskPaywallMiddleware(PaywallMiddleware):
    """`faregate.wsgi.PaywallMiddleware` around `app.wsgi_app`."""

    is_opaque = False  # the extension knows what the view of a request sells

    def __init__(self, app: WSGIApp, *arguments: Any, **named: Any) -> None:
        super().__init__(_record_cors(app), *arguments, **named)
        self.stack_mistakes: tuple[str, ...] | None = None
        self.shadow_mistakes: tuple[int, tuple[str, ...]] | None = None  # for this number of rules
        self.first_prices: Callable[[Environ], tuple[Offer, Rule] | None] | None = None
        self.find_bypassed: Callable[[Environ, int], Bypass | None] | None = None
        self.prepare: Callable[[], None] | None = None
        self.list_routes: Callable[[], RouteTable] | None = None
        self.views: Mapping[str, object] = {}
        self.placements: dict[tuple[object, ...], Any] = {}

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        prepare = self.prepare  # read once: another thread may serve the first request too
        if prepare is not None:
            prepare()
            self.prepare = None  # from its first request on, an app is set up
        environ[ENTERED] = (self, environ.get("SCRIPT_NAME", ""), environ.get("PATH_INFO", ""))
        if "HTTP_ORIGIN" in environ:
            start_response = _apply_cors(environ, start_response)
        return super().__call__(environ, start_response)

    def expect_offers(self) -> None:
        """Have what the views sell checked too."""
        if self.list_routes is None:
            super().expect_offers()
        else:
            table = self.list_routes()
            for mistake in table.mistakes:
                raise ConfigurationError(mistake)
            table.expect_offers()

    def find_bypass(self, checkout: WSGICheckout, server_environ: Environ, status: int) -> Bypass | None:
        """Find what middleware between the paywall and the app answers in place of a paid view."""
        checked = checkout.checked_status
        is_from_app = checked is not None and (status == checked or not is_harmless_error(checked))
        if is_from_app or self.find_bypassed is None:
            return None
        checkout.has_called_handler = (
            False  # something else has answered, also in place of an error of the app
        )
        return self.find_bypassed(server_environ, status)

    def find_first_price(self, environ: Environ) -> Offer | None:
        """Find the price of a view that asks for it before anything else of the app runs."""
        found = None if self.first_prices is None else self.first_prices(environ)
        if found is None:
            return None
        offer, environ[_RULE] = found
        return offer

    def find_route(self, environ: Environ) -> str | None:
        """Find the rule of this request."""
        rule = _find_rule(environ)
        return None if rule is None else str(rule.rule)

    def find_handler(self, environ: Environ) -> HandlerInfo | None:
        """Find the view of this request; of a class, its method first."""
        rule = _find_rule(environ)
        view = None if rule is None else self.views.get(rule.endpoint)
        if view is None:
            return None
        view_class = getattr(view, "view_class", None)
        method = environ["werkzeug.request"].method if view_class is not None else None
        return ((view,) if method is None else (pick_method(view_class, method), view)), None


def _find_rule(environ: Environ) -> Rule | None:
    """Find the rule of the request that Flask made of this environ, or will make."""
    asked = environ.get("werkzeug.request")
    rule: Rule | None = environ.get(_RULE) if asked is None else getattr(asked, "url_rule", None)
    return rule


def watch_exceptions(app: Flask) -> None:
    """Have the checkout note that an answer of the app to an exception is not a result.

    Called again with the first request: extensions that came later may answer exceptions themselves.
    """
    for name in ("handle_user_exception", "handle_exception"):
        answer = getattr(app, name)
        if not hasattr(answer, _NOTES):
            setattr(app, name, _note_answer(answer))


def _note_answer(answer: Callable[[Exception], Any]) -> Callable[[Exception], Any]:
    @wraps(answer)
    def noted(error: Exception) -> Any:
        checkout = find_checkout(request.environ)
        if checkout is not None:
            checkout.note_answered_error()
            checkout.has_called_handler = False  # what answers may be a cache
        return answer(error)  # raises the error if no handler is for it

    noted.__dict__[_NOTES] = True
    return noted


# The object behind the proxy: each access to an attribute of a proxy looks up the context again.
_get_request = cast(Callable[[], Request], cast(Any, request)._get_current_object)  # noqa: SLF001


def watch_views(app: Flask, own: Callable[..., Any]) -> None:
    """Have the checkout note when the app calls the view of a request: before that, others may answer.

    Each view goes through `ensure_sync`, also in an app that dispatches requests in its own way. `own`, the
    paywall's function after each request, goes through it as well: it is not async, and returned as it is.
    """
    ensure_sync = app.ensure_sync

    @wraps(ensure_sync)
    def noted(function: Callable[..., Any]) -> Callable[..., Any]:
        if function is own:
            return own
        try:
            asked = _get_request()
        except RuntimeError:  # no request is served
            return ensure_sync(function)
        rule = asked.url_rule
        if rule is not None and app.view_functions.get(rule.endpoint) is function:
            checkout = find_checkout(asked.environ)
            if checkout is not None:
                checkout.has_called_handler = True
        return ensure_sync(function)

    cast(Any, app).ensure_sync = noted


def get_cors_headers(headers: Iterable[tuple[str, str]], origin: str) -> Headers:
    """Get those of these headers that let a script of `origin` read the response."""
    by_name = {name.lower(): value for name, value in headers}
    allowed = by_name.get("access-control-allow-origin")
    if allowed is None or allowed not in ("*", origin):
        return ()
    credentials = by_name.get("access-control-allow-credentials") == "true"
    more: Headers = (("Access-Control-Allow-Credentials", "true"),) if credentials else ()
    return (("Access-Control-Allow-Origin", allowed), *more, ("Vary", "Origin"))


def _record_cors(app: WSGIApp) -> WSGIApp:
    def run(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        origin = environ.get("HTTP_ORIGIN")
        if origin is None:
            return app(environ, start_response)

        def start(status: str, headers: list[tuple[str, str]], *error: Any) -> Callable[[bytes], object]:
            environ[_ALLOWED] = get_cors_headers(headers, origin)
            return start_response(status, headers, *error)

        return app(environ, start)

    return run


def _apply_cors(environ: Environ, start_response: StartResponse) -> StartResponse:
    def start(status: str, headers: list[tuple[str, str]], *error: Any) -> Callable[[bytes], object]:
        if not any(name.lower() == "access-control-allow-origin" for name, _ in headers):
            headers = [*headers, *environ.get(_ALLOWED, ())]
        return start_response(status, headers, *error)

    return start


# Sessions

SaveSession = Callable[[Flask, SessionMixin, Response], None]


def defer_session_writes(app: Flask) -> None:
    """Have the app's session interface save the sessions of paid views late. Raises `ConfigurationError`.

    Called for each request: the interface may be chosen at any time.
    """
    interface = app.session_interface
    # Flask's own, or one that differs in how a cookie is made.
    if type(interface).save_session is SecureCookieSessionInterface.save_session:
        return
    if isinstance(interface.save_session, DeferredSave):
        return
    try:
        interface.save_session = DeferredSave(interface.save_session)  # type: ignore[method-assign]
    except AttributeError as error:
        raise ConfigurationError(
            f"The session interface {type(interface).__name__} cannot save a session after its payment: "
            "its save_session must be an attribute that can be set."
        ) from error


class DeferredSave:
    """An interface's `save_session` that saves a paid view's session only once its result is released."""

    def __init__(self, save: SaveSession) -> None:
        self._save = save

    def __call__(self, app: Flask, session: SessionMixin, response: Response) -> None:
        checkout = find_checkout(request.environ) if has_request_context() else None
        if checkout is None or checkout.state is not AUTHORIZED:
            self._save(app, session, response)
            return
        # An interface may use `flask.request`, and the request's context has ended by then.
        context = copy_context()
        on_release(request.environ, lambda result: context.run(self._save_late, app, session, result))

    def _save_late(self, app: Flask, session: SessionMixin, result: Result) -> Headers:
        """Gives the headers that the interface adds to the response."""
        response = app.response_class(result.body, result.status, list(result.headers))
        before = list(response.headers)
        with app.app_context():  # one of its own: what it opens is closed
            self._save(app, session, response)
        return tuple(pair for pair in response.headers if pair not in before)

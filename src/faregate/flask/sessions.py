"""The session of a paid view is saved once its result is released, whatever interface the app has.

Flask saves a session before the response leaves, and so before the payment is known. Its own interface
saves into a cookie, which is held back with the response. Others save into a store.
"""

from collections.abc import Callable
from contextvars import copy_context

from flask import Flask, Response, has_request_context, request
from flask.sessions import SecureCookieSessionInterface, SessionInterface, SessionMixin

from faregate.core.models import Headers
from faregate.core.models import Response as Result
from faregate.errors import ConfigurationError
from faregate.middleware.checkout import State
from faregate.wsgi import find_checkout, on_release

SaveSession = Callable[[Flask, SessionMixin, Response], None]


def defer_session_writes(app: Flask) -> None:
    """Have the app's session interface save the sessions of paid views late. Raises `ConfigurationError`.

    Called for each request: the interface may be chosen at any time.
    """
    interface = app.session_interface
    if _is_cookie_session(interface) or isinstance(interface.save_session, _DeferredSave):
        return
    try:
        interface.save_session = _DeferredSave(interface.save_session)  # type: ignore[method-assign]
    except AttributeError as error:
        raise ConfigurationError(
            f"The session interface {type(interface).__name__} cannot save a session after its payment: "
            "its save_session must be an attribute that can be set."
        ) from error


def _is_cookie_session(interface: SessionInterface) -> bool:
    """Whether it is Flask's own, or one that differs in how a cookie is made."""
    return type(interface).save_session is SecureCookieSessionInterface.save_session


class _DeferredSave:
    """An interface's `save_session`, for which a paid view's session waits for the release of its result."""

    def __init__(self, save: SaveSession) -> None:
        self._save = save

    def __call__(self, app: Flask, session: SessionMixin, response: Response) -> None:
        checkout = find_checkout(request.environ) if has_request_context() else None
        if checkout is None or checkout.state is not State.AUTHORIZED:
            self._save(app, session, response)
            return
        context = copy_context()  # an interface may speak of the request, whose context ends before
        on_release(request.environ, lambda result: context.run(self._save_late, app, session, result))

    def _save_late(self, app: Flask, session: SessionMixin, result: Result) -> Headers:
        """Gives the headers that the interface adds to the response."""
        response = app.response_class(result.body, result.status, list(result.headers))
        before = list(response.headers)
        with app.app_context():  # one of its own: what it opens is closed
            self._save(app, session, response)
        return tuple(pair for pair in response.headers if pair not in before)

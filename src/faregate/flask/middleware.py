"""The WSGI middleware around a Flask app, and what the app's own CORS extension allows.

Flask's CORS extensions work inside the app, on responses that the paywall may throw away. So that a
browser's script can read the `402` sent in their place, their CORS headers are kept for it. Nothing
else of such a response is.
"""

from collections.abc import Callable, Iterable
from typing import Any

from faregate.core.models import Headers
from faregate.wsgi import Environ, PaywallMiddleware, StartResponse, WSGIApp, WSGICheckout

NAME = "faregate"
"""Of the middleware in `app.extensions`."""

_ALLOWED = "faregate.cors"


class FlaskPaywallMiddleware(PaywallMiddleware):
    """`faregate.wsgi.PaywallMiddleware` around `app.wsgi_app`."""

    is_opaque = False  # the extension knows what the view of a request sells

    def __init__(self, app: WSGIApp, *arguments: Any, **named: Any) -> None:
        super().__init__(_record_cors(app), *arguments, **named)
        self.stack_mistakes: tuple[str, ...] | None = None
        self.find_sold: Callable[[Environ], str | None] | None = None

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        if "HTTP_ORIGIN" in environ:
            start_response = _apply_cors(environ, start_response)
        return super().__call__(environ, start_response)

    def find_bypass(self, checkout: WSGICheckout, server_environ: Environ, status: int) -> str:
        """Find what middleware between the paywall and the app answers in place of a paid view."""
        if checkout.is_checked or self.find_sold is None:
            return ""
        endpoint = self.find_sold(server_environ)
        return "" if endpoint is None else describe_answer(endpoint)


def describe_answer(endpoint: str) -> str:
    return (
        f"{endpoint!r} was answered by something above its price, such as a cache: nobody has paid. "
        "What answers in place of a view belongs below @paywall.paid, or must redirect or refuse."
    )


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

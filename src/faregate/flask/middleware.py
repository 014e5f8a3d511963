"""The WSGI door around a Flask app, and what the app's own CORS extension allows.

Flask's CORS extensions work inside the app, on answers that the paywall may throw away. So that a
browser's script can read the `402` sent in their place, the permission they spoke travels on. Nothing
else of a thrown-away answer does.
"""

from collections.abc import Callable, Iterable
from typing import Any

from faregate.core.models import Headers
from faregate.errors import ConfigurationError
from faregate.wsgi import Environ, PaywallMiddleware, RequestCheckout, StartResponse, WSGIApp

NAME = "faregate"
"""Of the door in `app.extensions`."""

_ALLOWED = "faregate.cors"


class FlaskPaywallMiddleware(PaywallMiddleware):
    """`faregate.wsgi.PaywallMiddleware` around `app.wsgi_app`."""

    is_opaque = False  # the extension knows what the view of a request sells

    def __init__(self, app: WSGIApp, *arguments: Any, **named: Any) -> None:
        super().__init__(_noting(app), *arguments, **named)
        self.stack_mistakes: tuple[str, ...] | None = None
        self.find_sold: Callable[[Environ], str | None] | None = None

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        if "HTTP_ORIGIN" in environ:
            start_response = _allowing(environ, start_response)
        return super().__call__(environ, start_response)

    def check_unpaid(self, checkout: RequestCheckout, asked: Environ, status: int) -> None:
        """Withhold what middleware between the paywall and the app answers in place of a paid view."""
        if checkout.is_checked or not is_of_a_view(status) or asked["REQUEST_METHOD"] == "OPTIONS":
            return
        sold = None if self.find_sold is None else self.find_sold(asked)
        if sold is not None:
            checkout.withhold(ConfigurationError(describe_answer(sold)))


def is_of_a_view(status: int) -> bool:
    """Whether this may be what a view sells, or our own 402 out of a cache: no redirect, and no refusal."""
    return status < 300 or status in (304, 402)


def describe_answer(endpoint: str) -> str:
    return (
        f"{endpoint!r} was answered by something above its price, such as a cache: nobody has paid. "
        "What answers in place of a view belongs below @paywall.paid, or must redirect or refuse."
    )


def permission(headers: Iterable[tuple[str, str]], origin: str) -> Headers:
    """What of these headers lets a script of `origin` read an answer."""
    said = {name.lower(): value for name, value in headers}
    allowed = said.get("access-control-allow-origin")
    if allowed is None or allowed not in ("*", origin):
        return ()
    credentials = said.get("access-control-allow-credentials") == "true"
    more: Headers = (("Access-Control-Allow-Credentials", "true"),) if credentials else ()
    return (("Access-Control-Allow-Origin", allowed), *more, ("Vary", "Origin"))


def _noting(app: WSGIApp) -> WSGIApp:
    def noting(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        origin = environ.get("HTTP_ORIGIN")
        if origin is None:
            return app(environ, start_response)

        def start(status: str, headers: list[tuple[str, str]], *error: Any) -> Callable[[bytes], object]:
            environ[_ALLOWED] = permission(headers, origin)
            return start_response(status, headers, *error)

        return app(environ, start)

    return noting


def _allowing(environ: Environ, start_response: StartResponse) -> StartResponse:
    def start(status: str, headers: list[tuple[str, str]], *error: Any) -> Callable[[bytes], object]:
        if not any(name.lower() == "access-control-allow-origin" for name, _ in headers):
            headers = [*headers, *environ.get(_ALLOWED, ())]
        return start_response(status, headers, *error)

    return start

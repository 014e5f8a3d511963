"""Convert a Django request, and find its checkout and payment."""

from collections.abc import Callable
from functools import partial
from io import BytesIO
from typing import Any, cast

from django.http import HttpRequest
from django.urls import set_urlconf

from faregate.checkout.asgi_scope import find_content_length as find_length_in_scope
from faregate.checkout.async_checkout import AsyncCheckout
from faregate.checkout.blocking_checkout import BlockingCheckout
from faregate.checkout.checkout import Checkout, FindBypass
from faregate.checkout.incoming_request import read_body
from faregate.checkout.wsgi_environ import (
    CHECKOUT,
    Environ,
    drop_conditions,
    find_content_length,
    find_path,
    has_payment,
    parse_environ,
    withhold_connection,
)
from faregate.core.models import Offer
from faregate.core.reported_values import Payment
from faregate.django.conf import Config
from faregate.django.state import ViewState
from faregate.errors import ConfigurationError

_CHECKOUT = "_faregate_checkout"
"""The attribute of a request that is its checkout."""


class DjangoCheckout(BlockingCheckout, AsyncCheckout):
    """The checkout of one Django request. `view_state` is there once its view may run.

    `routed_path` is the path that Django routes by, which middleware outside may have changed.
    """

    view_state: ViewState | None = None
    routed_path = ""

    def check_routed_path(self, request: HttpRequest) -> None:
        """`check_path`, for what changed the path behind the paywall. Raises `ConfigurationError`."""
        path = _find_routed_path(request)
        if path != self.routed_path:
            self.check_path(path)

    def keep_state(self, request: HttpRequest) -> Callable[[], None]:
        """Keep what the view changes beside its response until its result is released."""
        self.view_state = ViewState(request)
        return self.view_state.restore

    def restore_locale(self) -> None:
        """Put back language and time zone, unless the view's result is released."""
        if self.view_state is not None and not self.view_state.released:
            self.view_state.restore_locale()

    def close(self) -> None:
        """End the checkout, and let go of the request."""
        super().close()
        self.view_state = None

    @property
    def is_withheld(self) -> bool:
        """Whether a view ran, or was to run, whose result is not released."""
        return self.view_state is not None and not self.view_state.released


def make_checkout(config: Config, request: HttpRequest, find_bypass: FindBypass) -> DjangoCheckout:
    """Make the checkout of this request, which whatever sells finds again. Raises `ConfigurationError`."""
    if find_checkout(request) is not None:
        raise ConfigurationError("The paywall is in MIDDLEWARE twice. Keep the one at the end.")
    if (urlconf := getattr(request, "urlconf", None)) is not None:
        set_urlconf(urlconf)  # as Django does later: the rules read the path as this URLconf does
    environ = _copy_environ(request)
    read = partial(parse_environ, environ, request.scheme or "http", _find_content_length(request))
    path, root_path, _ = find_path(environ)
    path_match = config.path_rules.match(path, root_path)
    routed_path = _find_routed_path(request)
    if routed_path != path and not path_match.ambiguous:
        # By middleware outside. What is served there has its own price, or that of the path before.
        routed_match = config.path_rules.match(routed_path, root_path)
        path_match = routed_match if routed_match.protected else path_match
    # Not compared is a stream that middleware outside has consumed.
    is_readable = "_body" in vars(request) or not vars(request).get("_read_started")
    checkout = DjangoCheckout(
        config.paywall,
        read,
        has_payment(environ),
        path_match,
        find_bypass,
        read_body=partial(_read_ahead, request) if is_readable else None,
    )
    checkout.routed_path = routed_path
    checkout.find_route = partial(_find_route, request)
    checkout.has_called_handler = False
    outer = environ.get(CHECKOUT)
    checkout.outer = outer if isinstance(outer, Checkout) else None
    setattr(request, _CHECKOUT, checkout)
    if checkout.has_payment:
        drop_conditions(request.META)
        vars(request).pop("headers", None)  # made of `META`, and kept
        withhold_connection(request.META)
    return checkout


def _find_routed_path(request: HttpRequest) -> str:
    """Return the whole path that Django routes by."""
    return str(request.META.get("SCRIPT_NAME", "")).rstrip("/") + request.path_info


def _find_route(request: HttpRequest) -> str | None:
    match = request.resolver_match
    return None if match is None else f"/{match.route}"


def _find_content_length(request: HttpRequest) -> str | None:
    # Under ASGI, `META` does not say which version of HTTP it is: with HTTP/2 a body needs no header.
    scope = getattr(request, "scope", None)
    if scope is None:
        return find_content_length(request.META)
    return find_length_in_scope(scope["headers"], scope.get("http_version", "1.1"))


def _read_ahead(request: HttpRequest, length: int) -> bytes | None:
    """Read a small body before any view does: it is a part of what the payment is for.

    The view finds the stream unread, so that its upload handlers and limits apply as ever.
    """
    attributes = vars(request)
    if "_body" in attributes:
        return cast(bytes, attributes["_body"])
    if (body := read_body(request.read, length)) is not None:
        stream = BytesIO(body)
        attributes.update(_stream=stream, _read_started=False)
        if "wsgi.input" in request.META:
            request.META["wsgi.input"] = stream
    return body


def _copy_environ(request: HttpRequest) -> Environ:
    """The environ as a WSGI server gives it; a copy, because what stands around may change its own.

    Django decodes the paths in `META`, under WSGI and under ASGI.
    """
    meta: Any = request.META
    environ = {**meta}
    for name in ("SCRIPT_NAME", "PATH_INFO"):
        environ[name] = str(meta[name]).encode().decode("latin-1")
    if meta.get("SERVER_PORT") == "0":
        del environ["SERVER_NAME"]  # so Django fills in what an ASGI server did not say
    return environ


def get_checkout(request: HttpRequest, offer: Offer) -> DjangoCheckout:
    """The checkout of this request. Raises `ConfigurationError` when there is no paywall in front."""
    checkout = find_checkout(request)
    if checkout is None:
        raise ConfigurationError(
            f"A view sells {offer.sells!r}, but no PaywallMiddleware is in front of it: "
            'put "faregate.django.PaywallMiddleware" at the end of MIDDLEWARE.'
        )
    return checkout


def find_checkout(request: HttpRequest) -> DjangoCheckout | None:
    """The checkout of this request; None without a paywall in front."""
    checkout = getattr(request, _CHECKOUT, None)
    return checkout if isinstance(checkout, DjangoCheckout) else None


def find_request(args: tuple[Any, ...], kwargs: dict[str, Any]) -> HttpRequest:
    """The request among a view's arguments; REST framework has one of its own around it."""
    for value in (*args, *kwargs.values()):
        request = value if isinstance(value, HttpRequest) else getattr(value, "_request", None)
        if isinstance(request, HttpRequest):
            return request
    raise ConfigurationError("@paid needs a view that takes the request. On a class, use method_decorator.")


def get_payment(request: object) -> Payment:
    """Return `request.payment`, for type checkers. Raises `ConfigurationError`."""
    payment = getattr(find_request((request,), {}), "payment", None)
    if not isinstance(payment, Payment):
        raise ConfigurationError("There is no payment here: the view is not sold with @paid.")
    return cast(Payment, payment)

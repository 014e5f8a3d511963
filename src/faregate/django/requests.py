"""Convert a Django request, and find its checkout and payment."""

from io import BytesIO
from typing import Any

from django.http import HttpRequest

from faregate.core.models import Offer, PaidRequest
from faregate.django.conf import Shop
from faregate.django.state import ViewState
from faregate.errors import ConfigurationError
from faregate.middleware.asgi_scope import length_of as length_in_scope
from faregate.middleware.checkout import Checkout
from faregate.middleware.request_body import comparable_length, read_body
from faregate.middleware.wsgi_environ import (
    Environ,
    length_of,
    origin_of,
    path_of,
    payment_headers,
    request_of,
    root_of,
)
from faregate.payment import Payment

_GATE = "_faregate_gate"


class RequestCheckout(Checkout):
    """The gate of one Django request. `state` is there once its view was let in."""

    state: ViewState | None = None

    def let_in(self, request: HttpRequest) -> None:
        """Keep what the view changes beside its response until its result is released."""
        if self.state is None:
            self.state = ViewState(request)
            self.restore_unless_released(self.state.restore)

    def is_withheld(self) -> bool:
        """Whether a view was let in whose result is not released."""
        return self.state is not None and not self.state.released


def make_gate(shop: Shop, request: HttpRequest) -> RequestCheckout:
    """The gate of this request, which whatever sells finds again. Raises `ConfigurationError`."""
    if find_checkout(request) is not None:
        raise ConfigurationError("The paywall is in MIDDLEWARE twice. Keep the one at the end.")
    asked = _asked(request)
    if payment_headers(asked):
        request.META.pop("wsgi.early_hints", None)  # a way past us

    def sale_of(sold: Offer) -> PaidRequest:
        origin = origin_of(asked, request.scheme or "http")
        return shop.paywall.sale(sold, request_of(asked), path_of(asked), origin, asked.get("HTTP_HOST"))

    place = shop.grounds.place(path_of(asked), root_of(asked))
    checkout = RequestCheckout(shop.paywall, asked["REQUEST_METHOD"], sale_of, place)
    setattr(request, _GATE, checkout)
    if payment_headers(asked):
        _read_ahead(checkout, request)
    return checkout


def _read_ahead(checkout: RequestCheckout, request: HttpRequest) -> None:
    """Read a small body before any view does: it is a part of what the payment is for.

    The view finds the stream unread, so that its upload handlers and limits apply as ever. Not compared is a
    stream that middleware outside has consumed.
    """
    scope, attributes = getattr(request, "scope", None), vars(request)
    length = comparable_length(length_of(request.META) if scope is None else length_in_scope(scope))
    if length is None or checkout.verdict is not None:
        return
    content_type = request.META.get("CONTENT_TYPE", "")
    if "_body" in attributes:
        checkout.take_body(attributes["_body"], content_type)
    elif not attributes.get("_read_started"):
        if (body := read_body(request.read, length)) is not None:
            stream = BytesIO(body)
            attributes.update(_stream=stream, _read_started=False)
            if "wsgi.input" in request.META:
                request.META["wsgi.input"] = stream
        checkout.take_body(body, content_type)


def _asked(request: HttpRequest) -> Environ:
    """What the payer asked, as WSGI says it; a copy, because what stands around may change its own.

    Django decodes the paths in `META`, in both colours.
    """
    told: Any = request.META
    asked = {**told}
    for name in ("SCRIPT_NAME", "PATH_INFO"):
        asked[name] = str(told[name]).encode().decode("latin-1")
    if told.get("SERVER_PORT") == "0":
        del asked["SERVER_NAME"]  # so Django fills in what an ASGI server did not say
    return asked


def gate_of(request: HttpRequest, sold: Offer) -> RequestCheckout:
    """Raises `ConfigurationError` when there is no paywall in front."""
    checkout = find_checkout(request)
    if checkout is None:
        raise ConfigurationError(
            f"A view sells {sold.sells!r}, but no PaywallMiddleware is in front of it: "
            'put "faregate.django.PaywallMiddleware" at the end of MIDDLEWARE.'
        )
    return checkout


def find_checkout(request: HttpRequest) -> RequestCheckout | None:
    """The gate of this request; None without a paywall in front."""
    checkout = getattr(request, _GATE, None)
    return checkout if isinstance(checkout, RequestCheckout) else None


def request_in(args: tuple[Any, ...], kwargs: dict[str, Any]) -> HttpRequest:
    """The request among a view's arguments; REST framework has one of its own around it."""
    for value in (*args, *kwargs.values()):
        found = value if isinstance(value, HttpRequest) else getattr(value, "_request", None)
        if isinstance(found, HttpRequest):
            return found
    raise ConfigurationError("@paid needs a view that is given the request. On a class: method_decorator.")


def payment_of(request: object) -> Payment:
    """The sale that this request is: `request.payment`, for type checkers. Raises `ConfigurationError`."""
    found = getattr(request_in((request,), {}), "payment", None)
    if not isinstance(found, Payment):
        raise ConfigurationError("There is no payment here: the view is not sold with @paid.")
    return found


def may_pay(request: HttpRequest) -> bool:
    return bool(payment_headers(request.META))

"""Check what sellers hand to adapters, where they hand it over.

A wrong type would otherwise fail with an error of ours, in a request, at a place that says nothing to them.
"""

import re
import sys
from collections.abc import Mapping
from inspect import signature
from typing import Any

from faregate.checkout.wrapped_callables import is_async
from faregate.core.models import Offer, OfferChoice
from faregate.errors import ConfigurationError
from faregate.paywall import Paywall
from faregate.settings import Arguments


def choose_paywall(owner: str, paywall: Any, arguments: Arguments) -> Paywall:
    """Return `paywall`, or make one of the arguments. `owner` names the caller in a `ConfigurationError`."""
    if paywall is None:
        return Paywall(**arguments)
    if not isinstance(paywall, Paywall):
        raise ConfigurationError(
            f"{owner} takes a Paywall, not {type(paywall).__name__}: write paywall=Paywall(...), or name the "
            "settings, as in base_url='emulator:'."
        )
    if arguments:
        raise ConfigurationError(f"Give {owner} a paywall or the arguments of one, not both.")
    return paywall


def check_required(name: str, request: Any, sold: Any, ask: Any) -> None:
    """Check the arguments of `require_payment`, whose first is called `name`. Raises `ConfigurationError`."""
    is_request: bool = isinstance(request, Mapping)
    if is_request and isinstance(sold, Offer) and (ask is None or callable(ask)):
        return
    arguments: tuple[object, ...] = (request, sold) if ask is None else (request, sold, ask)
    raise ConfigurationError(
        f"Write require_payment({name}, Offer('text_summary')): it takes the {name} of the request and an "
        f"Offer, not {', '.join(type(argument).__name__ for argument in arguments)}."
    )


def check_not_added_twice(app: Any, *, has_prefixes: bool) -> None:
    """Refuse a middleware without prefixes directly around another one. Raises `ConfigurationError`."""
    # `is True`, because proxies invent attributes.
    if getattr(app, "faregate_middleware", False) is True and not has_prefixes:
        raise ConfigurationError(
            "PaywallMiddleware is added twice, and the outer one sells nothing. Add it once."
        )


def check_asgi_app(app: Any) -> None:
    """Check that an ASGI server could call this. Raises `ConfigurationError`."""
    if not callable(app):
        raise ConfigurationError(f"PaywallMiddleware wraps an ASGI application, not {type(app).__name__}.")
    try:
        signature(app).bind(None, None, None)
    except TypeError:
        raise ConfigurationError(
            "PaywallMiddleware of faregate.asgi wraps an ASGI application, which takes scope, receive and "
            "send. For a WSGI application use faregate.wsgi.PaywallMiddleware."
        ) from None
    except ValueError:  # what is written in C does not say what it takes
        return


def check_starlette() -> None:
    """Refuse a Starlette whose `BaseHTTPMiddleware` does not wait until the response has been sent.

    Below 1.7, code inside such a middleware goes on at once. Background tasks, and the code of dependencies
    after their `yield`, run before the payment is proven, or without one. Raises `ConfigurationError`.
    """
    # Not imported here: other ASGI frameworks need no Starlette.
    version = str(getattr(sys.modules.get("starlette"), "__version__", ""))
    number = re.match(r"(\d+)\.(\d+)", version)
    if number is not None and tuple(map(int, number.groups())) < LOWEST_STARLETTE:
        lowest = ".".join(map(str, LOWEST_STARLETTE))
        raise ConfigurationError(
            f"PaywallMiddleware needs Starlette {lowest} or later, and {version} is installed: below a "
            "BaseHTTPMiddleware, older versions run background tasks although the payment failed. Write: "
            f"pip install 'starlette>={lowest}'"
        )


LOWEST_STARLETTE = (1, 7)


def check_choose(sold: Offer) -> None:
    """Check that a function that chooses can be called with one request. Raises `ConfigurationError`."""
    if not isinstance(sold, OfferChoice):
        return
    try:
        signature(sold.choose).bind(None)
    except TypeError:
        raise ConfigurationError(
            f"The function that chooses {sold.sells} must take one argument, the request."
        ) from None
    except ValueError:  # a built-in function, which does not say what it takes
        return


def check_blocking(sold: Offer) -> None:
    """Check that a function that chooses needs no event loop. Raises `ConfigurationError`."""
    if isinstance(sold, OfferChoice) and is_async(sold.choose):
        raise ConfigurationError(
            f"The function that chooses {sold.sells} is async, and nothing awaits it here: make it a plain "
            "function."
        )

"""Check the functions that choose an offer for a request, where they are named."""

from inspect import signature

from faregate.core.models import Offer, OfferChoice
from faregate.errors import ConfigurationError
from faregate.middleware.callables import is_async


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

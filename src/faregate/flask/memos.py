"""Find a memo of the standard library around a price."""

import gc
from functools import lru_cache
from typing import Any

from faregate.checkout.handlers import name_handler
from faregate.errors import ConfigurationError

_MEMO: Any = type(lru_cache(lambda: None))


def check_memo(guard: Any) -> None:
    """Check that no `functools.cache` or `lru_cache` stands on a function that asks for a payment.

    A memo answers in place of the function: from its second call on, nothing is asked. Goes through all
    objects, so it is for the first call. Raises `ConfigurationError`.
    """
    for referrer in gc.get_referrers(guard):
        if type(referrer) is _MEMO and referrer.__wrapped__ is guard:
            raise ConfigurationError(
                f"A memo of functools stands above the price of {name_handler(guard)}: it would give the "
                "result away after one sale. Put @cache or @lru_cache below @paid."
            )

"""The seller's API key: sent to the service, never shown (spec: Authentication)."""

import re
from typing import Any, NoReturn

from faregate.errors import ConfigurationError
from faregate.x402.tokens import Environment

_KEY = re.compile(r"svc_(test|live)_[!-~]{1,500}", re.ASCII)
_HOW = "Give the private API key of your seller account: it starts with svc_test_ or svc_live_"


class ApiKey:
    """One key; its prefix selects the environment. Raises `ConfigurationError`, never echoing the value."""

    __slots__ = ("_key", "environment")

    _key: str
    environment: Environment

    def __init__(self, key: str) -> None:
        fault = _find_problem(key)
        if fault is None:
            self._key = key
            self.environment = "live" if key.startswith("svc_live_") else "test"
        # A traceback with locals would show the argument of this frame.
        key = ""
        if fault is not None:
            raise ConfigurationError(fault)

    def reveal(self) -> str:
        """The value of the `Authorization` header. Do not keep it in a variable."""
        return f"Bearer {self._key}"

    def __repr__(self) -> str:
        return f"svc_{getattr(self, 'environment', 'unknown')}_…"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(repr(self), spec)

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("an API key cannot be serialized: create it again from where it is stored")


def _find_problem(key: object) -> str | None:
    """Describe what is wrong with a key, without repeating it."""
    if not isinstance(key, str) or not key:
        return f"There is no API key. {_HOW}."
    if _KEY.fullmatch(key):
        return None
    if not all("!" <= char <= "~" for char in key):
        return "The API key has spaces, line breaks or other characters a key never has; copy it again."
    return f"This is no API key of the service. {_HOW}, and is not empty after that."

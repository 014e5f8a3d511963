"""The address of a node, which may hold a key or a password: it is shown as its host only."""

import re
from base64 import b64encode
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

from faregate.core.models import Headers
from faregate.errors import ConfigurationError

_URL: Final = re.compile(r"https?://[!-~]+", re.ASCII | re.IGNORECASE)
_HOW: Final = "an RPC URL is the http(s) address of a node, such as https://sepolia.base.org"
_SEPARATORS: Final = re.compile(r"[/?&=;:@]+")
_SHORTEST_SECRET: Final = 6
"""Characters. Shorter parts of a URL, such as `v2`, are no keys, and stand in other words."""


class RpcUrl:
    """A checked RPC URL. Raises `ConfigurationError`, which does not repeat it.

    A user and password before the host are sent as HTTP Basic, in `headers`.
    """

    __slots__ = ("_secrets", "_url", "headers", "host")

    def __init__(self, url: str) -> None:
        parts = _split(url)
        user, has_user, address = parts.netloc.rpartition("@")
        self.host: Final = address
        self.headers: Final = _build_basic(user) if has_user else ()
        self._url = f"{parts.scheme}://{address}{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
        self._secrets = _find_secrets(user, parts)

    def reveal(self) -> str:
        """Return the URL to send to: do not show it."""
        return self._url

    def redact(self, text: str) -> str:
        """Return a text of others without this URL and its keys: a node may repeat what it was sent."""
        text = text.replace(self._url, self.host)
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text

    def __repr__(self) -> str:
        return f"<RpcUrl {self.host}>"


def _split(url: str) -> SplitResult:
    if not _URL.fullmatch(url) or "#" in url or "\\" in url:
        raise ConfigurationError(f"{_HOW}, in plain ASCII and without a fragment.")
    try:
        parts = urlsplit(url)
        is_named = bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_named = False
    if not is_named:
        raise ConfigurationError(f"{_HOW}, with a host and, if any, a port from 1 to 65535.")
    return urlsplit(url)


def _build_basic(user: str) -> Headers:
    return (("Authorization", "Basic " + b64encode(unquote(user).encode()).decode("ascii")),)


def _find_secrets(user: str, parts: SplitResult) -> tuple[str, ...]:
    """Find every part that may be a key, the longest first."""
    found = {
        form
        for text in (user, parts.path, parts.query)
        for part in _SEPARATORS.split(text)
        for form in (part, unquote(part))
        if len(form) >= _SHORTEST_SECRET
    }
    return tuple(sorted(found, key=len, reverse=True))

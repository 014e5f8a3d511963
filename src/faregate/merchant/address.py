"""The address of the service: check it, build the URLs of requests, and compare two spellings of it. Pure.

Requests are sent to its origin only.
"""

import ipaddress
import re
from contextlib import suppress
from urllib.parse import SplitResult, urlsplit

from faregate.errors import BadAnswer, ConfigurationError
from faregate.merchant.calls import ROOT
from faregate.x402.tokens import Environment

_PORTS = {"http": 80, "https": 443}
_BASE = re.compile(r"https?://[!-~]+", re.ASCII | re.IGNORECASE)
# A path and query: `//` would name another host, `\` is read as `/` by some, `#` never travels.
_PATH = re.compile(r"/(?!/)[!-\"$-\[\]-~]*", re.ASCII)


class BaseURL:
    """A checked `base_url`. Raises `ConfigurationError`, which does not repeat it: it may hold a password.

    `setting` is what the seller calls it.
    """

    __slots__ = ("_base", "_origin", "_own_root")

    def __init__(self, base_url: str, environment: Environment, setting: str = "base_url") -> None:
        parts = _split(base_url, setting)
        self._origin = f"{parts.scheme}://{parts.netloc}"
        prefix = parts.path.rstrip("/")
        self._base = self._origin + prefix
        self._own_root = f"{prefix}{ROOT}/" if prefix else None
        if environment == "live" and parts.scheme == "http" and not is_loopback(parts.hostname or ""):
            raise ConfigurationError(f"A live key is sent over https only: give an https {setting}.")

    def url(self, path: str) -> str:
        """The full URL of a path with query, unchanged, on this host. Raises `BadAnswer` for another host.

        All paths are relative to `base_url`, a `next` too. With a path in `base_url`, a `next` that
        already starts with it is taken from the root of the host instead: services behind a prefix do both.
        """
        if not _PATH.fullmatch(path):
            raise BadAnswer("the service gave a next page that is not a path on its own host")
        if self._own_root is not None and path.startswith(self._own_root):
            return self._origin + path
        return self._base + path

    def __repr__(self) -> str:
        return self._base


def _split(base_url: object, setting: str) -> SplitResult:
    how = f"{setting} is the http(s) address of the service, such as https://api.example.com,"
    if not isinstance(base_url, str) or not _BASE.fullmatch(base_url):
        raise ConfigurationError(f"{how} in plain ASCII.")
    if any(char in base_url for char in "?#@\\"):
        raise ConfigurationError(f"{how} without user, password, query or fragment.")
    parts = urlsplit(base_url)
    try:
        named = bool(parts.hostname) and parts.port != 0
    except ValueError:
        named = False
    if not named:
        raise ConfigurationError(f"{how} with a host and, if any, a port from 1 to 65535.")
    return parts


def is_loopback(host: str) -> bool:
    """Whether this host is this machine. It is given without the brackets of an IPv6 address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def make_namespace(environment: str, base_url: str) -> str:
    """The namespace of a journal's rows: the environment of the API key and the service's address."""
    return f"{environment} {normalize_address(base_url)}"


def normalize_address(base_url: str) -> str:
    """One spelling for each address: case, default port, trailing slash, and the names of this machine.

    What is not an http(s) address is returned as it is.
    """
    try:
        parts = urlsplit(base_url)
        scheme, host, port = parts.scheme, (parts.hostname or "").rstrip("."), parts.port
    except ValueError:
        return base_url  # the client refuses it, with a reason
    if scheme not in _PORTS:
        return base_url
    host = _normalize_host(host)
    address = f"{scheme}://{host}" if port in (None, _PORTS[scheme]) else f"{scheme}://{host}:{port}"
    return address + parts.path.rstrip("/")


def _normalize_host(host: str) -> str:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        with suppress(UnicodeError):
            return host.encode("idna").decode()
        return host
    if address.is_loopback:
        return "localhost"
    return str(address) if address.version == 4 else f"[{address}]"

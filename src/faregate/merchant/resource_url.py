"""The URL of what is sold, as access gets it: the address that payers use, and the path of the request.

The payer controls the Host header and the headers of proxies. The address comes from the settings, or from
the server; from the Host header only if the application trusts it. The headers of proxies only decide whether
a warning is logged.
"""

import logging
import re
from functools import lru_cache
from urllib.parse import quote, urlsplit

from faregate.logs import log
from faregate.merchant.address import is_loopback
from faregate.merchant.formats import MAX_URL

_HOST = re.compile(r"[A-Za-z0-9.\-]+(?::[0-9]{1,5})?|\[[0-9a-fA-F:.]+\](?::[0-9]{1,5})?", re.ASCII)
_MAX_HOST = 255
_PORTS = {"http": ":80", "https": ":443"}
NOT_FOR_SALE = "https://faregate-check.invalid/"
"""The resource of calls that must sell nothing, such as checks. RFC 2606 reserves the domain."""
PATH_SAFE = "/:@!$&'()*+,;=~-._"


class ResourceUrls:
    """Builds resource URLs. `setting` is how the seller spells the setting of the public URL.

    A public URL that seems to be missing is logged once.
    """

    def __init__(self, public_url: str, trust_host: bool, setting: str) -> None:
        self._public_url = public_url
        self._trust_host = trust_host
        self._setting = setting
        self._has_logged = False

    def build(self, path: str, origin: str | None, host: str | None, is_forwarded: bool) -> str | None:
        """Build the resource URL; None if the address that payers use is unknown.

        `path` is decoded and without query. `origin` is the address the server listens on, `host` the Host
        header. `is_forwarded`: the request has headers of a proxy.
        """
        if self._public_url:
            return self._public_url + _quote_path(path)
        base = origin
        if self._trust_host and origin is not None and host is not None and _HOST.fullmatch(host):
            base = f"{origin.partition('://')[0]}://{host}"
        if base is None:
            self._log_once(
                logging.ERROR,
                "nothing can be sold: the server does not report the address it listens on, as on a unix "
                "socket. Paid requests are answered with 502. Set %s to the address that payers use, such as "
                "https://api.example.com",
                self._setting,
            )
            return None
        if not self._has_logged:
            self._check_base(base, host or "", is_forwarded)
        return base + _quote_path(path)

    def _check_base(self, base: str, host: str, is_forwarded: bool) -> None:
        """Warn if payers seem to use another address than `base`."""
        names_other_host = _names_other_host(base, host)
        if names_other_host or (is_forwarded and _is_local(base)):
            self._log_once(
                logging.WARNING,
                "payers are offered %s, which is not the address that they use%s: a proxy is in front of "
                "this server. Set %s to the address that payers use, such as https://%s",
                base,
                f" ({host})" if names_other_host else "",
                self._setting,
                host if names_other_host else "api.example.com",
            )

    def _log_once(self, level: int, message: str, *args: object) -> None:
        if not self._has_logged:
            self._has_logged = True
            log("settings", level, message, *args)


@lru_cache(maxsize=64)
def _is_local(base: str) -> bool:
    return is_loopback(urlsplit(base).hostname or "")


def _names_other_host(base: str, host: str) -> bool:
    """Whether a Host header names another host than `base`, and not this machine."""
    if base.endswith(f"//{host}"):
        return False
    # The client chose the Host header: it is logged only if it is a valid host.
    if len(host) > _MAX_HOST or not _HOST.fullmatch(host):
        return False
    scheme, _, name = base.partition("://")
    default_port = _PORTS.get(scheme, "")
    if host.lower().removesuffix(default_port) == name.lower():
        return False
    return not _is_local(f"//{host}")


def _quote_path(path: str) -> str:
    # Clients choose the paths: a path that is refused as too long is not cached.
    return _quote_short_path(path) if len(path) <= MAX_URL else quote(path, safe=PATH_SAFE)


@lru_cache(maxsize=1024)
def _quote_short_path(path: str) -> str:
    return quote(path, safe=PATH_SAFE)

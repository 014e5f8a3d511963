"""Compare two spellings of an address: of a service, or of this machine. Pure."""

import ipaddress
from contextlib import suppress
from urllib.parse import urlsplit

_PORTS = {"http": 80, "https": 443}


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

"""Restrict the control plane to programs on this machine and to its own page.

Any web page can send requests to this machine from its visitor's browser, and with a DNS name that points
to loopback (DNS rebinding) it can read the responses too. So a request must come from this machine, its Host
must be a loopback address or `localhost`, and a browser must report the emulator's own origin.

The client is the peer of the socket, never what a header says. Servers may be configured to believe such
headers (uvicorn's FORWARDED_ALLOW_IPS), so a request that has one is refused.
"""

import re
from collections.abc import MutableMapping
from ipaddress import IPv6Address, ip_address
from typing import Any, Final

from starlette.datastructures import Headers
from starlette.responses import JSONResponse

from faregate.emulator.delivery import MARKER_HEADER
from faregate.rules.asgi import App, Receive, Scope, Send

_HOST: Final = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9.-]+))(?::[0-9]{1,5})?", re.ASCII)
_FORWARDED: Final = ("forwarded", "x-forwarded-for", "x-real-ip")
_MARKER: Final = (MARKER_HEADER[0].lower().encode("ascii"), MARKER_HEADER[1].encode("ascii"))


def restrict_access(app: Any) -> App:
    """Wrap `app` in the access check. Every response carries the emulator's marker header."""

    async def check(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_marked(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), _MARKER]
            await send(message)

        reason = _find_violation(scope)
        if reason is None:
            await app(scope, receive, send_marked)
        else:
            refusal = JSONResponse({"code": "forbidden", "message": reason}, 403)
            await refusal(scope, receive, send_marked)

    return check


def _find_violation(scope: Scope) -> str | None:
    """Return why the request is refused, or None."""
    headers = Headers(scope=scope)
    hosts = headers.getlist("host")
    if any(name in headers for name in _FORWARDED):
        return "the control plane cannot be used through a proxy"
    if not _is_local_client(scope):
        return "the control plane can only be used from the emulator's own machine"
    if len(hosts) != 1 or not _is_local_host(hosts[0]):
        return "the control plane can only be used at a loopback address or localhost"
    if any(origin != f"{scope['scheme']}://{hosts[0]}" for origin in headers.getlist("origin")):
        return "other web pages cannot use the control plane"
    if any(site not in ("none", "same-origin") for site in headers.getlist("sec-fetch-site")):
        return "other web pages cannot use the control plane"
    return None


def _is_local_client(scope: Scope) -> bool:
    peer: tuple[str, int] | None = scope.get("client")
    # A peer without an address is a unix socket, or an app in the same process.
    return peer is None or is_loopback(peer[0], otherwise=True)


def _is_local_host(host: str) -> bool:
    match = _HOST.fullmatch(host)
    name = match and (match[1] or match[2])
    return name is not None and (name.lower() == "localhost" or is_loopback(name))


def is_loopback(text: str, *, otherwise: bool = False) -> bool:
    """Return whether this is a loopback address, or `otherwise` if it is no IP address."""
    try:
        address = ip_address(text)
    except ValueError:
        return otherwise
    # A socket for both versions reports an IPv4 client as ::ffff:127.0.0.1, which is no loopback address in
    # IPv6.
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback

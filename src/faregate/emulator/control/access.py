"""Who may use the control plane: programs on this machine and its own page, no other web page.

A page of any site can send requests to this machine from its visitor's browser, and with a name that
points here it can read the answers too. So the request must come from this machine, be addressed to it
by address or as `localhost`, and a browser must say that it comes from the emulator's own page.

Where a request comes from is the peer of its socket, never what a header says. Servers may be told to
believe such headers (uvicorn by FORWARDED_ALLOW_IPS), so a request that has one is refused.
"""

import re
from collections.abc import MutableMapping
from ipaddress import IPv6Address, ip_address
from typing import Any, Final

from starlette.datastructures import Headers
from starlette.responses import JSONResponse

from faregate.emulator.asgi import App, Receive, Scope, Send
from faregate.emulator.delivery import MARKER_HEADER

_HOST: Final = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9.-]+))(?::[0-9]{1,5})?", re.ASCII)
_FORWARDED: Final = ("forwarded", "x-forwarded-for", "x-real-ip")
_MARKER: Final = (MARKER_HEADER[0].lower().encode("ascii"), MARKER_HEADER[1].encode("ascii"))


def require_local_access(app: Any) -> App:
    """`app`, for those who may. Every answer says that it is the emulator's."""

    async def guard(scope: Scope, receive: Receive, send: Send) -> None:
        async def sign(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), _MARKER]
            await send(message)

        fault = _find_violation(scope)
        if fault is None:
            await app(scope, receive, sign)
        else:
            refusal = JSONResponse({"code": "forbidden", "message": fault}, 403)
            await refusal(scope, receive, sign)

    return guard


def _find_violation(scope: Scope) -> str | None:
    headers = Headers(scope=scope)
    hosts = headers.getlist("host")
    if any(name in headers for name in _FORWARDED):
        return "the control plane is not reached through a proxy"
    if not _is_local_peer(scope):
        return "the control plane is for programs on its own machine"
    if len(hosts) != 1 or not _is_local_host(hosts[0]):
        return "the control plane is reached by a loopback address or as localhost"
    if any(origin != f"{scope['scheme']}://{hosts[0]}" for origin in headers.getlist("origin")):
        return "another page may not use the control plane"
    if any(site not in ("none", "same-origin") for site in headers.getlist("sec-fetch-site")):
        return "another page may not use the control plane"
    return None


def _is_local_peer(scope: Scope) -> bool:
    """A peer without an address is a local socket, or an app in the same process."""
    peer: tuple[str, int] | None = scope.get("client")
    try:
        return peer is None or _is_loopback(peer[0])
    except ValueError:
        return True


def _is_local_host(host: str) -> bool:
    found = _HOST.fullmatch(host)
    if found is None:
        return False
    name = found[1] or found[2]
    try:
        return name.lower() == "localhost" or _is_loopback(name)
    except ValueError:
        return False


def _is_loopback(text: str) -> bool:
    """`ValueError` if it is no address."""
    address = ip_address(text)
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback

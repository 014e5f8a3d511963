"""Who may use the control plane: programs on this machine and its own page, no other web page.

A page of any site can send requests to this machine from its visitor's browser, and with a name that
points here it can read the answers too. So the request must be addressed to this machine by address or as
`localhost`, and a browser must say that it comes from the emulator's own page.
"""

from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import JSONResponse

from faregate.emulator.asgi import App, Receive, Scope, Send


def guarded(app: Any) -> App:
    """`app`, for those who may."""

    async def guard(scope: Scope, receive: Receive, send: Send) -> None:
        fault = _fault(Headers(scope=scope))
        if fault is None:
            await app(scope, receive, send)
        else:
            refusal = JSONResponse({"code": "forbidden", "message": fault}, 403)
            await refusal(scope, receive, send)

    return guard


def _fault(headers: Headers) -> str | None:
    host = headers.get("host", "")
    if not _is_here(host):
        return "the control plane is reached by a loopback address or as localhost"
    origin = headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != host:
        return "another page may not use the control plane"
    if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        return "another page may not use the control plane"
    return None


def _is_here(host: str) -> bool:
    name = urlsplit(f"//{host}").hostname or ""
    try:
        return name == "localhost" or ip_address(name).is_loopback
    except ValueError:
        return False

"""`/`: the console, a page without any part from elsewhere. Its files are in `console/`."""

from hashlib import sha256
from importlib.resources import files
from typing import Final

from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from faregate.emulator.control.told import Told

_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": _POLICY,
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def routes_of_page() -> list[Route]:
    packed = [Middleware(GZipMiddleware)]
    return [
        Route("/", page, methods=["GET"], middleware=packed),
        Route("/_emulator/console/{file}", part, methods=["GET"], middleware=packed),
    ]


async def page(request: Request) -> Response:
    return _file(request, "page.html")


async def part(request: Request) -> Response:
    return _file(request, request.path_params["file"])


def _file(request: Request, name: str) -> Response:
    """A file of the console; 304 if the browser has it already."""
    found = next((one for one in files("faregate.emulator.console").iterdir() if one.name == name), None)
    kind = _TYPES.get(name[name.rfind(".") :])
    if found is None or kind is None:
        raise Told(404, "invalid_request", f"the console has no part {name!r}")
    content = found.read_bytes()
    headers = {**_HEADERS, "ETag": f'"{sha256(content).hexdigest()[:32]}"'}
    if request.headers.get("if-none-match") == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=kind, headers=headers)

"""One interface to the test clients of httpx, Starlette, FastAPI, Flask and Django.

Each has a method for each verb, takes `headers`, and returns a response with status, headers and body.
"""

from collections.abc import Iterable
from typing import Any

from faregate.core.models import Headers, Response


def read(response: Any) -> Response:
    """Convert any client's response."""
    return Response(response.status_code, _read_headers(response.headers), _read_body(response))


def _read_headers(headers: Any) -> Headers:
    # httpx folds repeated headers in `items`; `multi_items` keeps them apart.
    pairs: Iterable[tuple[str, str]] = getattr(headers, "multi_items", headers.items)()
    return tuple((str(name), str(value)) for name, value in pairs)


def _read_body(response: Any) -> bytes:
    for name in ("content", "data"):  # Flask's is `data`
        if hasattr(response, name):
            return bytes(getattr(response, name))
    return bytes(response.getvalue())  # Django's streaming response

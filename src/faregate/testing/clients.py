"""The test clients that people have, as one: httpx, Starlette's and FastAPI's, Flask's, Django's.

Each has a method for each verb, takes `headers`, and gives a response with status, headers and body.
"""

from collections.abc import Iterable
from typing import Any

from faregate.core.models import Headers, Response


def send(client: Any, method: str, path: str, options: dict[str, Any]) -> Any:
    """The client's own response, or what is to be awaited for it."""
    return getattr(client, method.lower())(path, **options)


def read(response: Any) -> Response:
    """What came, whoever's response it is."""
    return Response(response.status_code, _headers(response.headers), _body(response))


def _headers(headers: Any) -> Headers:
    pairs: Iterable[tuple[str, str]] = getattr(headers, "multi_items", headers.items)()
    return tuple((str(name), str(value)) for name, value in pairs)


def _body(response: Any) -> bytes:
    for name in ("content", "data"):  # Flask says data
        if hasattr(response, name):
            return bytes(getattr(response, name))
    return bytes(response.getvalue())  # Django, streaming

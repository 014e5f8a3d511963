"""Decorators that sellers put around an endpoint, above or below its price."""

import functools
from inspect import iscoroutinefunction
from typing import Any

from starlette.authentication import AuthCredentials, AuthenticationBackend, SimpleUser, requires
from starlette.responses import Response


async def call(endpoint: Any, arguments: Any) -> Any:
    answer = endpoint(*arguments)
    return await answer if hasattr(answer, "__await__") else answer


def copied(response: Response) -> Response:
    return Response(response.body, response.status_code, dict(response.headers))


async def answer_once(kept: list[Response], endpoint: Any, arguments: Any) -> Response:
    """Answer with what is kept; keep the first success."""
    if not kept:
        response: Response = await call(endpoint, arguments)
        if response.status_code != 200:
            return response
        kept.append(response)
    return copied(kept[0])


def cached(endpoint: Any) -> Any:
    """Keeps whatever succeeded, and says what it wraps."""
    kept: list[Response] = []

    @functools.wraps(endpoint)
    async def wrapper(*arguments: Any) -> Response:
        return await answer_once(kept, endpoint, arguments)

    return wrapper


def cached_bare(endpoint: Any) -> Any:
    """The same without `functools.wraps`: nothing says what it wraps, but its closure."""
    kept: list[Response] = []

    async def wrapper(request: Any) -> Response:
        return await answer_once(kept, endpoint, [request])

    return wrapper


def cached_by_default(endpoint: Any) -> Any:
    """The same; what it wraps is the default of a parameter."""
    kept: list[Response] = []

    async def wrapper(request: Any, wrapped: Any = endpoint) -> Response:
        return await answer_once(kept, wrapped, [request])

    return wrapper


class Cache:
    """The same as an object, whose bound method is the endpoint."""

    def __init__(self, endpoint: Any) -> None:
        self.endpoint = endpoint
        self.kept: list[Response] = []

    async def answer(self, request: Any) -> Response:
        return await answer_once(self.kept, self.endpoint, [request])


def cached_by_an_object(endpoint: Any) -> Any:
    return Cache(endpoint).answer


def cached_twice(endpoint: Any) -> Any:
    return cached_bare(functools.partial(cached_bare(endpoint)))


def cached_politely(endpoint: Any) -> Any:
    """Leaves alone what says `no-store`, as HTTP asks of caches."""
    kept: list[Response] = []

    @functools.wraps(endpoint)
    async def wrapper(*arguments: Any) -> Response:
        if kept:
            return copied(kept[0])
        response: Response = await call(endpoint, arguments)
        if response.status_code == 200 and "no-store" not in response.headers.get("cache-control", ""):
            kept.append(response)
        return response

    return wrapper


def timed(endpoint: Any) -> Any:
    if iscoroutinefunction(endpoint):

        @functools.wraps(endpoint)
        async def awaiting(*arguments: Any) -> Any:
            return await endpoint(*arguments)

        return awaiting

    @functools.wraps(endpoint)
    def blocking(*arguments: Any) -> Any:
        return endpoint(*arguments)

    return blocking


def timed_bare(endpoint: Any) -> Any:
    async def wrapper(request: Any) -> Any:
        return await call(endpoint, [request])

    return wrapper


CACHES = {
    "cached": cached,
    "cached bare": cached_bare,
    "cached by default": cached_by_default,
    "cached by an object": cached_by_an_object,
    "cached twice": cached_twice,
}
OTHERS = {
    "cached politely": cached_politely,
    "login": requires("member"),
    "timed": timed,
    "timed bare": timed_bare,
}


class Members(AuthenticationBackend):
    async def authenticate(self, conn: Any) -> Any:
        if "x-member" not in conn.headers:
            return None
        return AuthCredentials(["member"]), SimpleUser("member")

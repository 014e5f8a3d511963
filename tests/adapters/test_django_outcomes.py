"""Every way in which a Django view can end is reported to the service, and goes on."""

import asyncio
import gc
import warnings
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import nullcontext
from typing import Any

import pytest

from tests import django_site

django_site.ready()

from django.core.asgi import get_asgi_application  # noqa: E402
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse  # noqa: E402
from django.urls import path  # noqa: E402

from faregate.checkout.shielding import wait_shielded  # noqa: E402
from faregate.django import paid  # noqa: E402
from faregate.emulator import Wallet  # noqa: E402
from tests.adapters.django_views import ask_wsgi, project, read_statuses  # noqa: E402


class Panic(BaseException):
    """As the panics of Rust extensions are."""


ENDS: dict[str, Callable[[], BaseException]] = {
    "panic": Panic,
    "SystemExit": lambda: SystemExit(3),
    "KeyboardInterrupt": KeyboardInterrupt,
    "GeneratorExit": GeneratorExit,
    "group": lambda: BaseExceptionGroup("both", [Panic(), ValueError()]),
}


def in_a_view(error: BaseException) -> Any:
    def view(_request: HttpRequest) -> HttpResponse:
        raise error

    return view


def in_an_async_view(error: BaseException) -> Any:
    async def view(_request: HttpRequest) -> HttpResponse:
        raise error

    return view


class Chunks:
    """A stream that ends in an error; no generator, which would turn some errors into others."""

    def __init__(self, error: BaseException) -> None:
        self.left: list[bytes | BaseException] = [b"paid ", error]

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        chunk = self.left.pop(0)
        if isinstance(chunk, BaseException):
            raise chunk
        return chunk


class AsyncChunks:
    def __init__(self, error: BaseException) -> None:
        self.chunks = Chunks(error)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        return next(self.chunks)


def in_a_stream(error: BaseException) -> Any:
    return lambda _request: StreamingHttpResponse(Chunks(error))


def in_an_async_stream(error: BaseException) -> Any:
    async def view(_request: HttpRequest) -> StreamingHttpResponse:
        return StreamingHttpResponse(AsyncChunks(error))

    return view


def ask_by_wsgi(proof: str | None) -> dict[str, str]:
    return ask_wsgi("/end", proof)[1]


def ask_by_asgi(proof: str | None) -> dict[str, str]:
    headers = [] if proof is None else [(b"payment-signature", proof.encode())]
    scope = {"type": "http", "method": "GET", "path": "/end", "query_string": b"", "headers": headers}
    told: dict[str, str] = {}

    async def receive() -> Any:
        if not told.get("asked"):
            told["asked"] = "yes"
            return {"type": "http.request", "body": b"", "more_body": False}
        return await asyncio.sleep(60)

    async def send(message: Any) -> None:
        told.update((name.decode().lower(), one.decode()) for name, one in message.get("headers", ()))

    async def serve() -> None:
        try:
            await get_asgi_application()(scope, receive, send)
        finally:
            await wait_shielded()  # a server's loop goes on

    asyncio.run(serve())
    return told


def goes_on(where: Any, ask: Any, error: BaseException) -> bool:
    """Python itself turns what was thrown into a coroutine into a `RuntimeError`: Django answers 500."""
    is_thrown = ask is ask_by_asgi and where in (in_a_view, in_a_stream)
    return not (is_thrown and isinstance(error, GeneratorExit))


@pytest.fixture
def _bodies() -> Generator[None]:
    """Django leaves the body of such a request open."""
    with warnings.catch_warnings(action="ignore", category=ResourceWarning):
        yield
        gc.collect()


@pytest.mark.usefixtures("_bodies")
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("ask", [ask_by_wsgi, ask_by_asgi])
@pytest.mark.parametrize("where", [in_a_view, in_an_async_view, in_a_stream, in_an_async_stream])
def test_whatever_ends_the_work_is_reported_and_goes_on(where: Any, ask: Any, end: str) -> None:
    error = ENDS[end]()
    with project(path("end", paid("daily_report")(where(error)))):
        proof = Wallet().pay(ask(None)["payment-required"])
        with pytest.raises(type(error)) if goes_on(where, ask, error) else nullcontext():
            ask(proof)
        assert read_statuses() == ["failed"]
        assert "payment-required" in ask(proof)
    error.__traceback__ = None


def test_a_plain_view_that_raises_a_cancellation_has_failed() -> None:
    with project(path("end", paid("daily_report")(in_a_view(asyncio.CancelledError())))):
        proof = Wallet().pay(ask_by_wsgi(None)["payment-required"])
        assert ask_wsgi("/end", proof)[0].startswith("500")
        assert read_statuses() == ["failed"]

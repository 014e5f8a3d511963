"""Django's responses in our values, and back: each is converted once."""

from collections.abc import AsyncGenerator, AsyncIterable, Generator, Iterable
from contextlib import contextmanager, suppress
from http.cookies import Morsel, SimpleCookie
from itertools import chain
from typing import Any, cast

from asgiref.sync import async_to_sync, sync_to_async
from django.http import FileResponse, HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase

from faregate.checkout.buffer import finalize
from faregate.checkout.checkout import Checkout
from faregate.core.models import Header, Headers, Response
from faregate.core.responses import NO_STORE

# Said beside what middleware outside says of the same name, which would otherwise take its place.
_BESIDE = frozenset(("access-control-expose-headers", "set-cookie"))


_CACHING = "_faregate_caching"
"""On a response that a price let pass: what its view said about caching. It stays there."""


def mark_private(response: HttpResponseBase) -> None:
    """Forbid caches to store this response, until `read_response` removes the mark."""
    if not hasattr(response, _CACHING):
        setattr(response, _CACHING, response.headers.get("Cache-Control"))
    response.headers["Cache-Control"] = NO_STORE[1]


def drop_kept_cookies(response: HttpResponseBase) -> None:
    """Take the cookies off a sold view's response that something kept: they are of another sale."""
    if hasattr(response, _CACHING):
        response.cookies.clear()


class _NoCookies(SimpleCookie):
    """Cookies that cannot be set."""

    def __setitem__(self, name: str, value: Any) -> None:
        """Keep nothing."""

    def __missing__(self, name: str) -> Any:
        return Morsel[str]()  # for `set_cookie`, which sets a cookie and then its attributes

    def load(self, rawdata: Any) -> None:
        """Keep nothing."""


class PaywallResponse(HttpResponse):
    """The response of the checkout: exactly these header pairs, and those that middleware outside adds.

    `is_withheld` marks the answer to a request whose view ran and whose result is not released: it takes no
    cookies of middleware outside either, which may have made them of what the view left in the request.
    """

    def __init__(
        self, response: Response, request: HttpRequest, made_by: HttpResponseBase | None, is_withheld: bool
    ) -> None:
        headers, body = finalize(response, str(request.method))
        super().__init__(body, status=response.status)
        if is_withheld:
            self.cookies = _NoCookies()
        self._is_withheld = is_withheld
        del self.headers["Content-Type"]
        self._more: list[Header] = []
        for name, value in headers:
            if name.lower() in _BESIDE or name in self.headers:
                self._more.append((name, value))
            else:
                self.headers[name] = value
        # Django logs a warning for every 4xx. A 402 with the price needs none.
        self._has_been_logged = response.status == 402
        if made_by is not None:
            # Files that the view opened are closed when the server is done; request_finished is sent once.
            view: Any = made_by
            self._resource_closers, view._resource_closers = view._resource_closers, []  # noqa: SLF001

    def items(self) -> Any:
        """Header pairs, doubled ones too, as the server sends them."""
        pairs = chain(self.headers.items(), self._more)
        return (pair for pair in pairs if not self._is_withheld or pair[0].lower() != "set-cookie")


def read_response(response: HttpResponseBase, checkout: Checkout) -> None:
    """Read a view's response into the buffer of its checkout. Raises what a stream raises."""
    _start_buffer(response, checkout)
    content = _get_content(response)
    with _close_unless_read(response):
        if isinstance(content, AsyncIterable):
            async_to_sync(_aread)(content, checkout)
        else:
            _read(content, checkout)


async def aread_response(response: HttpResponseBase, checkout: Checkout) -> None:
    """`read_response`, async; a stream that blocks is read in Django's thread."""
    content = _get_content(response)
    if not isinstance(content, AsyncIterable) and isinstance(response, StreamingHttpResponse):
        await sync_to_async(read_response)(response, checkout)
        return
    _start_buffer(response, checkout)
    with _close_unless_read(response):
        if isinstance(content, AsyncIterable):
            await _aread(content, checkout)
        else:
            _read(content, checkout)


def _start_buffer(response: HttpResponseBase, checkout: Checkout) -> None:
    if getattr(response, "exception", None) is True:  # REST framework answered an exception with it
        checkout.note_answered_error()
    checkout.buffer.start(response.status_code, list_headers(response))


@contextmanager
def _close_unless_read(response: HttpResponseBase) -> Generator[None]:
    """Close a response whose content broke off: Django closes only the response that is sent."""
    try:
        yield
    except BaseException:
        close_response(response)
        raise


def close_response(response: HttpResponseBase) -> None:
    """Close what a response that is never sent keeps open."""
    closers: list[Any] = cast(Any, response)._resource_closers  # noqa: SLF001
    while closers:
        # One that fails must not leave the others open.
        with suppress(Exception):
            closers.pop(0)()


def check_body(response: HttpResponseBase, checkout: Checkout) -> None:
    """Check what leaves unpaid. Raises `ConfigurationError` for the copy of a result.

    A stream breaks off with the last chunk of a copy, and if it asks for a payment: it began without one, and
    has to ask before.
    """
    if not isinstance(response, StreamingHttpResponse):
        checkout.check_body([cast(HttpResponse, response).content])
    # A file is sent by the server; nothing of the application runs meanwhile.
    elif checkout.has_called_handler is False or not isinstance(response, FileResponse):
        content: Any = response.streaming_content
        watch: Any = _awatch if isinstance(content, AsyncIterable) else _watch
        response.streaming_content = watch(content, checkout)


def _watch(content: Iterable[bytes], checkout: Checkout) -> Generator[bytes]:
    for chunk in content:
        _check_late(checkout)
        checkout.check_chunk(chunk)
        yield chunk
    _check_late(checkout)


async def _awatch(content: AsyncIterable[bytes], checkout: Checkout) -> AsyncGenerator[bytes]:
    async for chunk in content:
        _check_late(checkout)
        checkout.check_chunk(chunk)
        yield chunk
    _check_late(checkout)


def _check_late(checkout: Checkout) -> None:
    if checkout.late is not None:
        raise checkout.late


def _get_content(response: HttpResponseBase) -> Iterable[bytes] | AsyncIterable[bytes]:
    if isinstance(response, StreamingHttpResponse):
        return cast("Iterable[bytes] | AsyncIterable[bytes]", response.streaming_content)
    return [cast(HttpResponse, response).content]


def _read(content: Iterable[bytes], checkout: Checkout) -> None:
    for chunk in content:
        checkout.check_deadline()
        checkout.buffer.append(chunk)


async def _aread(content: AsyncIterable[bytes], checkout: Checkout) -> None:
    async for chunk in content:
        checkout.check_deadline()
        checkout.buffer.append(chunk)


def list_headers(response: HttpResponseBase) -> Headers:
    _restore_caching(response)
    # Django makes headers of cookies only when it sends the response.
    cookies = [("Set-Cookie", cookie.OutputString()) for cookie in response.cookies.values()]
    return tuple([(str(name), str(value)) for name, value in response.items()] + cookies)


def _restore_caching(response: HttpResponseBase) -> None:
    """Put back the view's own `Cache-Control`: the paywall decides on it with the payment."""
    if not hasattr(response, _CACHING) or response.headers.get("Cache-Control") != NO_STORE[1]:
        return
    del response.headers["Cache-Control"]
    if (caching := getattr(response, _CACHING)) is not None:
        response.headers["Cache-Control"] = caching

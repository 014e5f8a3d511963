"""The paywall for WSGI: a middleware for any app, and the offers a whole prefix can carry.

The price is bound to the handler: a paid handler calls `require_payment` with the environ of its request.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from http.client import responses as phrases
from inspect import iscoroutinefunction, signature
from io import BytesIO
from itertools import chain
from typing import Any, ClassVar, Unpack, cast

try:
    from werkzeug.wsgi import ClosingIterator, FileWrapper
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "faregate.wsgi needs Werkzeug: pip install 'faregate[wsgi]'", name=error.name
    ) from error

from faregate.checkout.argument_checks import check_blocking, check_required, choose_paywall
from faregate.checkout.blocking_checkout import Ask, BlockingCheckout
from faregate.checkout.buffer import finalize
from faregate.checkout.checkout import ReadBody
from faregate.checkout.context_variables import WorkContext
from faregate.checkout.copy_detection import RESULTS
from faregate.checkout.descriptions import HandlerInfo
from faregate.checkout.incoming_request import IncomingRequest, read_body
from faregate.checkout.object_publishers import check_publishers
from faregate.checkout.path_rules import PathMatch, PathRules
from faregate.checkout.snapshot import Snapshot
from faregate.checkout.states import AUTHORIZED, DECIDED, FREE, PASSING
from faregate.checkout.wsgi_environ import (
    CHECKOUT,
    Environ,
    drop_conditions,
    find_content_length,
    find_path,
    has_payment,
    list_path_headers,
    parse_environ,
    withhold_connection,
)
from faregate.core.models import Choose, Headers, Offer, Response, header_values
from faregate.core.reported_values import Payment
from faregate.core.withholding import Bypass, is_harmless_error
from faregate.errors import ConfigurationError
from faregate.logs import log
from faregate.paywall import Paywall
from faregate.server_config import find_forced_root
from faregate.settings import Arguments, check_arguments

__all__ = ["Environ", "Payment", "PaywallMiddleware", "on_release", "require_payment"]


Write = Callable[[bytes], object]
StartResponse = Callable[..., Write]
Close = Callable[[], None]
WSGIApp = Callable[[Environ, StartResponse], Iterable[bytes]]
OnRelease = Callable[[Response], Headers]
"""Called with a result that is released; gives more headers for its payer."""


class PaywallMiddleware:
    """Holds every response of a paid handler until its payment is proven.

    `offers` sells everything below a path prefix as one offer. `refuse` names prefixes below which
    whatever has no offer is refused, not free. Give a `paywall`, or the arguments of one. Raises
    `ConfigurationError`.
    """

    is_opaque: ClassVar[bool] = True
    """Whether only a call shows what the application sells.

    Below a refused prefix, such an application is not called.
    """

    def __init__(
        self,
        app: WSGIApp,
        paywall: Paywall | None = None,
        *,
        offers: Mapping[str, str | Offer] | None = None,
        refuse: Sequence[str] = (),
        **arguments: Unpack[Arguments],
    ) -> None:
        check_arguments(arguments, signature(type(self)).parameters)
        self.app = _check_app(app)
        self.paywall = choose_paywall("PaywallMiddleware", paywall, arguments)
        self.path_rules = PathRules(offers, refuse)
        check_publishers(self.path_rules)
        for sold in self.path_rules.offers.values():
            check_blocking(sold)
        self._has_expected = False

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        if not self._has_expected:
            self.expect_offers()
            self.path_rules.own_roots = tuple(filter(None, (find_forced_root(),)))
            self._has_expected = True
        # A copy: applications change an environ in place, Bottle every path that is not ASCII.
        server_environ = environ.copy()
        path, root_path, _ = find_path(environ)
        path_match = self.path_rules.match(path, root_path, list_path_headers(environ))
        checkout = WSGICheckout(self, server_environ, path_match, partial(_read_ahead, environ))
        checkout.has_called_handler = None if self.is_opaque else False
        outer = checkout.outer = find_checkout(environ)
        environ[CHECKOUT] = checkout
        if checkout.has_payment:
            drop_conditions(environ)
            withhold_connection(environ)
            # A server may send an object of its own file wrapper without iterating it, past the middleware.
            # It iterates an object of Werkzeug's.
            environ["wsgi.file_wrapper"] = FileWrapper
        if path_match.refused and path_match.offer is None and self.is_opaque:
            checkout.refuse_unsold()  # what would run is not known
        app = self.app
        if not (checkout.has_payment or path_match.protected) and (price := self.find_first_price(environ)):
            app = partial(self._call_behind_price, price)
        try:
            return _PaywallResponder(checkout, start_response).run(app, environ)
        finally:
            checkout.close()
            if outer is not None:
                environ[CHECKOUT] = outer  # the caller of this application may answer itself

    def _call_behind_price(
        self, price: Offer, environ: Environ, start_response: StartResponse
    ) -> Iterable[bytes]:
        """Ask for the first price of a handler, and call the application only if it is free.

        The application then asks again, and gets the same payment.
        """
        # The application asks again, gets the same error and answers it.
        with suppress(ConfigurationError):
            ask_payment(environ, price, None, None)  # raises where the application is not to run
        return self.app(environ, start_response)

    def find_first_price(self, environ: Environ) -> Offer | None:
        """For adapters: find the price that a handler asks for before anything else could answer or run."""
        return None

    def expect_offers(self) -> None:
        """For adapters: have what is sold checked against the service, with the first request."""
        self.paywall.expect_offers(self.path_rules.offers.values())

    def find_bypass(self, checkout: "WSGICheckout", server_environ: Environ, status: int) -> Bypass | None:
        """For adapters that know what a request is for: find what answered in place of what is sold.

        Called before such a response leaves: see `checkout.FindBypass`.
        """
        return None

    def find_route(self, environ: Environ) -> str | None:
        """For adapters that know the route of a request: return the pattern of its path."""
        return None

    def find_handler(self, environ: Environ) -> HandlerInfo | None:
        """For adapters that know the handler of a request: return what describes it to payers."""
        return None


class WSGICheckout(BlockingCheckout):
    """The checkout of one WSGI request. `on_release` is called with its result when that is released.

    `checked_status` is the status of the answer that the framework's own hooks have seen; None before.
    """

    def __init__(
        self,
        middleware: PaywallMiddleware,
        server_environ: Environ,
        path_match: PathMatch,
        read_body: ReadBody,
    ) -> None:
        super().__init__(
            middleware.paywall,
            partial(_read_environ, server_environ),
            has_payment(server_environ),
            path_match,
            partial(middleware.find_bypass, self, server_environ),
            read_body=read_body,
        )
        self.middleware = middleware
        self.on_release: list[OnRelease] = []
        self.checked_status: int | None = None


def _read_environ(environ: Environ) -> IncomingRequest:
    return parse_environ(environ, environ.get("wsgi.url_scheme", "http"), find_content_length(environ))


def _take_snapshot(environ: Environ) -> Callable[[], None]:
    snapshot = Snapshot()
    snapshot.take(environ, is_own=True)
    return snapshot.restore


def _read_ahead(environ: Environ, length: int) -> bytes | None:
    """Read a small body before the application does: it is a part of what the payment is for."""
    if (body := read_body(environ["wsgi.input"].read, length)) is not None:
        environ["wsgi.input"] = BytesIO(body)
    return body


def _ask_with_environ(environ: Environ, choose: Choose) -> object:
    """Give what `choose` returns or raises: no framework is here to answer an error."""
    try:
        return choose(environ)
    except Exception as error:
        return error


def require_payment(environ: Environ, offer: Offer, ask: Ask | None = None) -> Payment:
    """Sell what this request runs: call it in a handler or adapter, before the work.

    Changes to the environ stay only with a released result.

    `ask` calls a function that chooses the offer; without it, that function gets the environ.

    Raises `SkipHandler` when the payer's answer is something else than the work, and
    `ConfigurationError` when there is no paywall in front.
    """
    check_required("environ", environ, offer, ask)
    return ask_payment(environ, offer, ask, 0)


def ask_payment(environ: Environ, offer: Offer, ask: Ask | None, prices_inside: int | None) -> Payment:
    """`require_payment` for adapters. `prices_inside`: see `Checkout.start_work`; None before the handler."""
    checkout = find_checkout(environ)
    if checkout is None:
        raise ConfigurationError(
            f"A handler sells {offer.sells!r}, but no PaywallMiddleware is in front of it: "
            "app = faregate.wsgi.PaywallMiddleware(app)"
        )
    checkout.find_route = partial(checkout.middleware.find_route, environ)
    checkout.find_handler = partial(checkout.middleware.find_handler, environ)
    payment = checkout.authorize(
        offer, partial(_take_snapshot, environ), ask or partial(_ask_with_environ, environ)
    )
    if prices_inside is not None:
        checkout.start_work(prices_inside)
    return payment


def find_checkout(environ: Environ) -> WSGICheckout | None:
    """For adapters: the checkout of this request; None without a paywall in front."""
    checkout = environ.get(CHECKOUT)
    return checkout if isinstance(checkout, WSGICheckout) else None


def on_release(environ: Environ, release: OnRelease) -> None:
    """Have `release` called once the payment is proven, and never if it is not.

    For what a paid handler stores beside its response, such as a session. `release` is given the released
    result. The headers that it returns go to this payer, and are not part of a replay. An error is logged.
    Raises `ConfigurationError` where nothing is sold.
    """
    if not isinstance(cast(Any, environ), Mapping) or not callable(cast(Any, release)):
        raise ConfigurationError(
            "on_release takes an environ and a function: write on_release(environ, function)."
        )
    checkout = find_checkout(environ)
    if checkout is None or checkout.payment is None:
        raise ConfigurationError("Nothing is sold here: call require_payment before on_release.")
    checkout.on_release.append(release)


def _check_app(app: Any) -> WSGIApp:
    """Raises `ConfigurationError` for what no WSGI server could serve."""
    if not callable(app):
        raise ConfigurationError(f"PaywallMiddleware wraps a WSGI application, not {app!r}.")
    if iscoroutinefunction(app) or iscoroutinefunction(getattr(app, "__call__", None)):  # noqa: B004
        raise ConfigurationError("This is an ASGI application: use faregate.asgi.PaywallMiddleware.")
    if isinstance(app, PaywallMiddleware):
        raise ConfigurationError("PaywallMiddleware wraps this application twice. Keep one.")
    return cast(WSGIApp, app)


class _PaywallResponder:
    """The response of one request, buffered until its checkout says what may leave."""

    def __init__(self, checkout: WSGICheckout, start_response: StartResponse) -> None:
        self._checkout = checkout
        self._start_response = start_response
        self._mistake: ConfigurationError | None = None
        self._may_be_copy = False
        """Whether a response that no handler made has the length of a result."""
        self._is_passed = False
        """Whether the server iterates the application's own response, which needs no payment."""

    def run(self, app: WSGIApp, environ: Environ) -> Iterable[bytes]:
        """Call the application, and return what the server may send."""
        checkout = self._checkout
        # With a payment, the application runs in a context of its own.
        work = WorkContext() if checkout.has_payment else None
        body: Iterable[bytes] = ()
        close: Close = _do_nothing
        try:
            if checkout.prefix_offer is not None:
                ask_payment(environ, checkout.prefix_offer, None, None)
            if checkout.state is not DECIDED:
                start = self.start_response
                body = app(environ, start) if work is None else work.run(app, environ, start)
                close = _find_close(body)
                if work is not None:
                    body, close = work.iterate(body), partial(work.run, close)
            checkout.check_late()
            if checkout.state is FREE and self._mistake is None and self._is_data(body, environ):
                return body  # as it is: servers know their own file wrapper by its type
            chunks = self._run_to_start(body)
            mistake = self._mistake or checkout.late
            if mistake is not None:
                raise mistake
            if checkout.state in PASSING:
                if work is not None:
                    work.adopt()
                self._is_passed = True
                return ClosingIterator(self._cut_late(self._check_body(chunks)), close)
            answer = self._complete(chunks)
            if work is not None and answer.released:
                work.adopt()
        except BaseException as error:
            answer = self._fail(error, close)
        return self._send(answer, close)

    def start_response(self, status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Write:
        """What the application calls: buffered when authorized, dropped when decided, passed on otherwise."""
        # PEP 3333: three digits, a space and a phrase.
        checkout, code = self._checkout, int(status[:3])
        if checkout.state is AUTHORIZED:
            checkout.buffer.start(code, tuple(headers))
            return self._append
        if self._is_passed and exc_info and is_harmless_error(code):
            # A generator that failed while it is read. The server takes the error if nothing is sent yet.
            checkout.check_late()
            return self._start_response(status, headers, exc_info)
        try:
            if not checkout.allow_unpaid(code, lambda: tuple(headers)):
                return _drop
        except ConfigurationError as mistake:
            self._mistake = mistake  # raised when the application has returned what there is to close
            return _drop
        if checkout.has_called_handler is False:
            self._may_be_copy = _has_length_of_result(headers)
        write = self._start_response(status, headers, *((exc_info,) if exc_info else ()))
        return partial(self._write, write)

    def _write(self, write: Write, chunk: bytes) -> None:
        """The server's way to send without an iterable, which PEP 3333 keeps for old applications."""
        self._checkout.check_late()
        self._checkout.check_chunk(chunk)
        write(chunk)

    def _is_data(self, body: Iterable[bytes], environ: Environ) -> bool:
        """Whether no code of the application runs while this body is sent, and it is not a copy.

        Raises `ConfigurationError`.
        """
        if isinstance(body, list | tuple):
            self._checkout.check_body(body)
            return True
        file_wrapper = environ.get("wsgi.file_wrapper")
        is_file = isinstance(file_wrapper, type) and isinstance(body, file_wrapper)
        return is_file and not self._may_be_copy

    def _check_body(self, chunks: Iterator[bytes]) -> Iterable[bytes]:
        """All chunks; read before the first one leaves, if they have the length of a result."""
        if not self._may_be_copy:
            return chunks
        whole = list(chunks)
        self._checkout.check_body(whole)
        return whole

    def _run_to_start(self, body: Iterable[bytes]) -> Iterator[bytes]:
        """All chunks. A generator starts its response, and asks for its payment, with the first of them."""
        checkout, chunks = self._checkout, iter(body)
        early: list[bytes] = []
        while not checkout.buffer.has_started and checkout.state not in (FREE, DECIDED):
            chunk = next(chunks, None)
            if chunk is None:
                break
            early.append(chunk)
        return chain(early, chunks)

    def _cut_late(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """All chunks, until a late price or a copy of a result is found: the server cuts the response."""
        for chunk in chunks:
            self._checkout.check_late()
            self._checkout.check_chunk(chunk)
            yield chunk
        self._checkout.check_late()

    def _complete(self, chunks: Iterable[bytes]) -> Response:
        checkout = self._checkout
        if checkout.state is AUTHORIZED:
            for chunk in chunks:
                self._append(chunk)
            checkout.check_deadline()
        answer = checkout.complete()
        if not answer.released:
            return answer
        # Not earlier: a session that is stored for a result that is withheld would be given away.
        for release in checkout.on_release:
            try:
                answer = answer.plus(*release(answer))
            except Exception as error:
                # The payer has paid: whatever fails here takes nothing away from it.
                log("sale", logging.ERROR, "a function given to on_release failed", error=error)
        return answer

    def _append(self, chunk: bytes) -> None:
        # A handler in a thread cannot be interrupted, so its time is checked whenever it sends something.
        self._checkout.check_deadline()
        self._checkout.buffer.append(chunk)

    def _fail(self, error: BaseException, close: Close) -> Response:
        """Return what the payer gets when something raised; raise it on where the server must hear of it."""
        try:
            if self._checkout.late is not None:
                raise self._checkout.late  # a response is on its way, and takes no other
            # Asked before `fail`, which changes the state that this depends on.
            if self._checkout.must_raise(error):
                raise error
            answer = self._checkout.fail(error)
            # Such as SystemExit: the payment is reported as failed first, and then the process may end.
            if not isinstance(error, Exception):
                raise error
            return answer
        except BaseException:
            close()
            raise

    def _send(self, answer: Response, close: Close) -> Iterable[bytes]:
        """Send the answer. `close` runs when the server closes it: only the server knows when it is over."""
        headers, content = finalize(answer, self._checkout.incoming.request.method)
        try:
            self._start_response(f"{answer.status} {phrases.get(answer.status, 'Unknown')}", list(headers))
        except BaseException:
            close()
            raise
        return ClosingIterator([content], close)


def _has_length_of_result(headers: list[tuple[str, str]]) -> bool:
    """Whether a response declares the length of a result, or one that a result may have compressed."""
    declared, encoding = (header_values(tuple(headers), f"content-{name}") for name in ("length", "encoding"))
    length = int(declared[0]) if declared and declared[0].isdecimal() else None
    if encoding and length is not None:
        return length <= RESULTS.limit
    return RESULTS.may_have_length(length)


def _find_close(body: Iterable[bytes]) -> Close:
    return getattr(body, "close", _do_nothing)


def _do_nothing() -> None:
    return None


def _drop(_chunk: bytes) -> None:
    return None

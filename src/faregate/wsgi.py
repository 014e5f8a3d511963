"""The paywall for WSGI: a middleware for any app, and the offers a whole prefix can carry.

The price is bound to the handler: a paid handler opens the gate it finds in its environ (`open_gate`).
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from http.client import responses as phrases
from inspect import iscoroutinefunction
from io import BytesIO
from itertools import chain
from typing import Any, ClassVar, Unpack, cast

try:
    from werkzeug.wsgi import ClosingIterator, FileWrapper
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "faregate.wsgi needs Werkzeug: pip install 'faregate[wsgi]'", name=error.name
    ) from error

from faregate.core.models import Header, Headers, Offer, PaidRequest, Response
from faregate.errors import ConfigurationError, WorkInterrupted
from faregate.logs import log
from faregate.middleware.buffer import Held, sendable
from faregate.middleware.checkout import Checkout
from faregate.middleware.path_rules import PathRules, Place
from faregate.middleware.request_body import comparable_length, read_body
from faregate.middleware.snapshot import Snapshot
from faregate.middleware.wsgi_environ import (
    Environ,
    length_of,
    origin_of,
    path_of,
    payment_headers,
    request_of,
    root_of,
)
from faregate.payment import Payment
from faregate.paywall import Paywall
from faregate.settings import Arguments

__all__ = ["Environ", "Payment", "PaywallMiddleware", "on_release", "require_payment"]


Write = Callable[[bytes], object]
StartResponse = Callable[..., Write]
WSGIApp = Callable[[Environ, StartResponse], Iterable[bytes]]
Release = Callable[[Response], Headers]
"""Called with a result that is released; gives more headers for its payer."""

CheckUnpaid = Callable[["RequestCheckout", Environ, int], None]

_GATE = "faregate.middleware.checkout"
_PAST_US = ("wsgi.early_hints", "wsgi.websocket", "werkzeug.socket", "gunicorn.socket")


class PaywallMiddleware:
    """Holds every response of a paid handler until its payment is proven.

    `offers` sells everything below a path prefix as one offer. `refuse` names prefixes below which
    whatever has no offer is refused, not free. Give a `paywall`, or the arguments of one. Raises
    `ConfigurationError`.
    """

    is_opaque: ClassVar[bool] = True
    """Whether only a call tells what the application sells: below a refused prefix it is not called."""

    def __init__(
        self,
        app: WSGIApp,
        paywall: Paywall | None = None,
        *,
        offers: Mapping[str, str | Offer] | None = None,
        refuse: Sequence[str] = (),
        **arguments: Unpack[Arguments],
    ) -> None:
        if paywall is not None and arguments:
            raise ConfigurationError("Give PaywallMiddleware a paywall or the arguments of one, not both.")
        self.app = _check_app(app)
        self.paywall = paywall or Paywall(**arguments)
        self.grounds = PathRules(offers, refuse)

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        # What the payer asked; applications change an environ in place, Bottle every path that is not ASCII.
        asked = environ.copy()
        place = self.grounds.place(path_of(asked), root_of(asked))
        checkout = RequestCheckout(environ, self.paywall, asked, place)
        outer = environ.get(_GATE)
        environ[_GATE] = checkout
        if payment_headers(environ):
            # Ways of sending past us; a paid handler must not be offered them.
            environ["wsgi.file_wrapper"] = FileWrapper
            for name in _PAST_US:
                environ.pop(name, None)
        if place.closed and place.offer is None and self.is_opaque:
            checkout.refuse_closed()  # what would run is not known
        curtain = _PaywallResponder(checkout, asked, start_response, self.check_unpaid)
        try:
            if payment_headers(asked):
                _read_ahead(checkout, environ)
            return curtain.run(self.app, environ)
        finally:
            checkout.close()
            if outer is not None:
                environ[_GATE] = outer  # who asked this application may answer itself

    def check_unpaid(self, checkout: "RequestCheckout", asked: Environ, status: int) -> None:
        """For adapters that know what a request is for: called before an answer leaves that nobody pays for.

        Raises `ConfigurationError` for one that came in place of what is sold.
        """


class RequestCheckout(Checkout):
    """The gate of one WSGI request. `releases` are called with its result when that is released.

    `is_checked`: the framework itself has looked at what it answers.
    """

    def __init__(self, environ: Environ, paywall: Paywall, asked: Environ, place: Place) -> None:
        super().__init__(paywall, asked["REQUEST_METHOD"], partial(_sale, paywall, asked), place)
        self.releases: list[Release] = []
        self.is_checked = False
        self._environ = environ
        self._is_let_in = False

    def open(self, sold: Offer) -> Payment:
        """See `Checkout.open`.

        What is written into the environ afterwards stays only with a released result.
        """
        payment = super().open(sold)
        if not self._is_let_in:
            self._is_let_in = True
            snapshot = Snapshot()
            snapshot.take(self._environ, is_own=True)
            self.restore_unless_released(snapshot.restore)
        return payment


def _read_ahead(checkout: RequestCheckout, environ: Environ) -> None:
    """Read a small body before the application does: it is a part of what the payment is for."""
    length = comparable_length(length_of(environ))
    if length is None or checkout.verdict is not None:
        return
    if (body := read_body(environ["wsgi.input"].read, length)) is not None:
        environ["wsgi.input"] = BytesIO(body)
    checkout.take_body(body, environ.get("CONTENT_TYPE", ""))


def require_payment(environ: Environ, sold: Offer) -> Payment:
    """For adapters: let this request through to a paid handler.

    Raises `SkipHandler` when the payer's answer is something else than the work, and
    `ConfigurationError` when there is no paywall in front.
    """
    checkout = find_checkout(environ)
    if checkout is None:
        raise ConfigurationError(
            f"A handler sells {sold.sells!r}, but no PaywallMiddleware is in front of it: "
            "app = faregate.wsgi.PaywallMiddleware(app)"
        )
    return checkout.open(sold)


def find_checkout(environ: Environ) -> RequestCheckout | None:
    """For adapters: the gate of this request; None without a paywall in front."""
    checkout = environ.get(_GATE)
    return checkout if isinstance(checkout, RequestCheckout) else None


def on_release(environ: Environ, release: Release) -> None:
    """For adapters: have `release` called once the payment is proven, and never if it is not.

    For what a paid handler stores beside its response, such as a session. It is given the released result;
    the headers that it gives go to this payer, and are not part of what is handed out again. An error is
    logged. Raises `ConfigurationError` where nothing is sold.
    """
    checkout = find_checkout(environ)
    if checkout is None or checkout.payment is None:
        raise ConfigurationError("Nothing is sold here: call open_gate before on_release.")
    checkout.releases.append(release)


def _check_app(app: Any) -> WSGIApp:
    """Raises `ConfigurationError` for what no WSGI server could serve."""
    if not callable(app):
        raise ConfigurationError(f"PaywallMiddleware goes around a WSGI application, not around {app!r}.")
    if iscoroutinefunction(app) or iscoroutinefunction(getattr(app, "__call__", None)):  # noqa: B004
        raise ConfigurationError("This is an ASGI application: use faregate.asgi.PaywallMiddleware.")
    if isinstance(app, PaywallMiddleware):
        raise ConfigurationError("PaywallMiddleware is around this application twice. Keep one.")
    return cast(WSGIApp, app)


class _PaywallResponder:
    """The response of one request, held back until its gate says what may leave."""

    def __init__(
        self,
        checkout: RequestCheckout,
        asked: Environ,
        start_response: StartResponse,
        check_unpaid: CheckUnpaid,
    ) -> None:
        self._checkout = checkout
        self._asked = asked
        self._method: str = asked["REQUEST_METHOD"]
        self._start_response = start_response
        self._check_unpaid = check_unpaid
        self._mistake: ConfigurationError | None = None
        self._held = Held()

    def run(self, app: WSGIApp, environ: Environ) -> Iterable[bytes]:
        """Ask the application, and give what the server may send."""
        checkout = self._checkout
        body: Iterable[bytes] = ()
        try:
            if (sold := checkout.ground_offer) is not None:
                checkout.open(sold)
            if checkout.verdict is None:
                body = app(environ, self.start_response)
            if checkout.begun:
                return body
            chunks = self._from_the_start(body)
            if self._mistake is not None:
                raise self._mistake
            if checkout.verdict is None and checkout.payment is None:
                return ClosingIterator(chunks, _closing(body))
            answer = checkout.verdict or self._concluded(chunks)
        except BaseException as error:
            answer = self._failed(error, body)
        return self._given(answer, _closing(body))

    def _given(self, answer: Response, close: Callable[[], None]) -> Iterable[bytes]:
        """Only the server knows when the response is over, and with it what the application keeps open."""
        headers, content = sendable(answer, self._method)
        try:
            self._start_response(f"{answer.status} {phrases.get(answer.status, 'Unknown')}", list(headers))
        except BaseException:
            close()
            raise
        return ClosingIterator([content], close)

    def start_response(self, status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Write:
        """The application's: held when paid for, dropped when stopped, passed on otherwise."""
        checkout = self._checkout
        if checkout.verdict is None and checkout.payment is not None:
            self._held.begin(int(status[:3]), tuple(headers), checkout.result_bytes)
            return self._take
        if checkout.verdict is None:
            try:
                self._check_made(int(status[:3]))
                self._check_unpaid(checkout, self._asked, int(status[:3]))
            except ConfigurationError as mistake:
                self._mistake = mistake  # raised when the application has returned what there is to close
        if checkout.verdict is not None or not checkout.lets_pass():
            return _dropped
        return self._start_response(status, headers, *((exc_info,) if exc_info else ()))

    def _check_made(self, status: int) -> None:
        if (status < 300 or status == 304) and self._method != "OPTIONS":
            self._checkout.check_unopened()

    def _from_the_start(self, body: Iterable[bytes]) -> Iterator[bytes]:
        """All chunks. An application may begin its response, and open the gate, with the first of them."""
        chunks, early = iter(body), list[bytes]()
        while not (self._checkout.begun or self._held.has_begun or self._checkout.verdict is not None):
            chunk = next(chunks, None)
            if chunk is None:
                break
            early.append(chunk)
        return chain(early, chunks)

    def _concluded(self, chunks: Iterable[bytes]) -> Response:
        for chunk in chunks:
            self._take(chunk)
        self._checkout.hurry()
        if self._held.too_large is not None:
            raise self._held.too_large
        answer = self._checkout.conclude(self._held.whole())
        return answer.plus(*self._release(answer)) if answer.released else answer

    def _release(self, result: Response) -> Iterator[Header]:
        """The payer has paid: whatever fails here takes nothing away from it."""
        for release in self._checkout.releases:
            try:
                yield from release(result)
            except Exception as error:
                log(logging.ERROR, "what goes with a paid result could not be stored", error=error)

    def _take(self, chunk: bytes) -> None:
        self._checkout.hurry()
        self._held.take(chunk)

    def _failed(self, error: BaseException, body: Iterable[bytes]) -> Response:
        """What the payer gets when something raised; raised on, unless that is decided."""
        checkout = self._checkout
        ended = not isinstance(error, Exception)
        try:
            if checkout.payment is not None and checkout.verdict is None and not checkout.finished:
                told = WorkInterrupted(f"the handler raised {type(error).__name__}") if ended else error
                answer = checkout.abandon(self._held.too_large or cast(Exception, told))
            elif checkout.verdict is not None and error is not checkout.mistake:
                answer = checkout.verdict
            else:
                raise error
            if ended:
                raise error
            return answer
        except BaseException:
            _closing(body)()
            raise


def _closing(body: Iterable[bytes]) -> Callable[[], None]:
    return getattr(body, "close", _nothing)


def _nothing() -> None:
    return None


def _dropped(_chunk: bytes) -> None:
    return None


def _sale(paywall: Paywall, environ: Environ, sold: Offer) -> PaidRequest:
    origin = origin_of(environ, environ["wsgi.url_scheme"])
    return paywall.sale(sold, request_of(environ), path_of(environ), origin, environ.get("HTTP_HOST"))

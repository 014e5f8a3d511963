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

from faregate.middleware.wsgi_environ import Environ, length_of, origin_of, path_of, payment_headers, request_of, root_of
from faregate.errors import Misconfigured, WorkInterrupted
from faregate.middleware.checkout import Gate
from faregate.middleware.path_rules import Grounds, Place
from faregate.middleware.buffer import Held, sendable
from faregate.logs import log
from faregate.core.models import Header, Headers, Offer, Response, Sale
from faregate.payment import Payment
from faregate.paywall import Paywall
from faregate.middleware.request_body import comparable_length, read_body
from faregate.settings import Arguments
from faregate.middleware.snapshot import Snapshot

__all__ = ["Environ", "Payment", "PaywallMiddleware", "on_release", "open_gate"]


Write = Callable[[bytes], object]
StartResponse = Callable[..., Write]
WSGIApp = Callable[[Environ, StartResponse], Iterable[bytes]]
Release = Callable[[Response], Headers]
"""Called with a result that is released; gives more headers for its payer."""

CheckUnpaid = Callable[["RequestGate", Environ, int], None]

_GATE = "faregate.middleware.checkout"
_PAST_US = ("wsgi.early_hints", "wsgi.websocket", "werkzeug.socket", "gunicorn.socket")


class PaywallMiddleware:
    """Holds every response of a paid handler until its payment is proven.

    `offers` sells everything below a path prefix as one offer. `refuse` names prefixes below which
    whatever has no offer is refused, not free. Give a `paywall`, or the arguments of one. Raises
    `Misconfigured`.
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
            raise Misconfigured("Give PaywallMiddleware a paywall or the arguments of one, not both.")
        self.app = _check_app(app)
        self.paywall = paywall or Paywall(**arguments)
        self.grounds = Grounds(offers, refuse)

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        # What the payer asked; applications change an environ in place, Bottle every path that is not ASCII.
        asked = environ.copy()
        place = self.grounds.place(path_of(asked), root_of(asked))
        gate = RequestGate(environ, self.paywall, asked, place)
        outer = environ.get(_GATE)
        environ[_GATE] = gate
        if payment_headers(environ):
            # Ways of sending past us; a paid handler must not be offered them.
            environ["wsgi.file_wrapper"] = FileWrapper
            for name in _PAST_US:
                environ.pop(name, None)
        if place.closed and place.offer is None and self.is_opaque:
            gate.refuse_closed()  # what would run is not known
        curtain = _Curtain(gate, asked, start_response, self.check_unpaid)
        try:
            if payment_headers(asked):
                _read_ahead(gate, environ)
            return curtain.run(self.app, environ)
        finally:
            gate.close()
            if outer is not None:
                environ[_GATE] = outer  # who asked this application may answer itself

    def check_unpaid(self, gate: "RequestGate", asked: Environ, status: int) -> None:
        """For adapters that know what a request is for: called before an answer leaves that nobody pays for.

        Raises `Misconfigured` for one that came in place of what is sold.
        """


class RequestGate(Gate):
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
        """See `Gate.open`. What is written into the environ afterwards stays only with a released result."""
        payment = super().open(sold)
        if not self._is_let_in:
            self._is_let_in = True
            snapshot = Snapshot()
            snapshot.take(self._environ, is_own=True)
            self.restore_unless_released(snapshot.restore)
        return payment


def _read_ahead(gate: RequestGate, environ: Environ) -> None:
    """Read a small body before the application does: it is a part of what the payment is for."""
    length = comparable_length(length_of(environ))
    if length is None or gate.verdict is not None:
        return
    if (body := read_body(environ["wsgi.input"].read, length)) is not None:
        environ["wsgi.input"] = BytesIO(body)
    gate.take_body(body, environ.get("CONTENT_TYPE", ""))


def open_gate(environ: Environ, sold: Offer) -> Payment:
    """For adapters: let this request through to a paid handler.

    Raises `PaymentStop` when the payer's answer is something else than the work, and
    `Misconfigured` when there is no paywall in front.
    """
    gate = find_gate(environ)
    if gate is None:
        raise Misconfigured(
            f"A handler sells {sold.sells!r}, but no PaywallMiddleware is in front of it: "
            "app = faregate.wsgi.PaywallMiddleware(app)"
        )
    return gate.open(sold)


def find_gate(environ: Environ) -> RequestGate | None:
    """For adapters: the gate of this request; None without a paywall in front."""
    gate = environ.get(_GATE)
    return gate if isinstance(gate, RequestGate) else None


def on_release(environ: Environ, release: Release) -> None:
    """For adapters: have `release` called once the payment is proven, and never if it is not.

    For what a paid handler stores beside its response, such as a session. It is given the released result;
    the headers that it gives go to this payer, and are not part of what is handed out again. An error is
    logged. Raises `Misconfigured` where nothing is sold.
    """
    gate = find_gate(environ)
    if gate is None or gate.payment is None:
        raise Misconfigured("Nothing is sold here: call open_gate before on_release.")
    gate.releases.append(release)


def _check_app(app: Any) -> WSGIApp:
    """Raises `Misconfigured` for what no WSGI server could serve."""
    if not callable(app):
        raise Misconfigured(f"PaywallMiddleware goes around a WSGI application, not around {app!r}.")
    if iscoroutinefunction(app) or iscoroutinefunction(getattr(app, "__call__", None)):  # noqa: B004
        raise Misconfigured("This is an ASGI application: use faregate.asgi.PaywallMiddleware.")
    if isinstance(app, PaywallMiddleware):
        raise Misconfigured("PaywallMiddleware is around this application twice. Keep one.")
    return cast(WSGIApp, app)


class _Curtain:
    """The response of one request, held back until its gate says what may leave."""

    def __init__(
        self, gate: RequestGate, asked: Environ, start_response: StartResponse, check_unpaid: CheckUnpaid
    ) -> None:
        self._gate = gate
        self._asked = asked
        self._method: str = asked["REQUEST_METHOD"]
        self._start_response = start_response
        self._check_unpaid = check_unpaid
        self._mistake: Misconfigured | None = None
        self._held = Held()

    def run(self, app: WSGIApp, environ: Environ) -> Iterable[bytes]:
        """Ask the application, and give what the server may send."""
        gate = self._gate
        body: Iterable[bytes] = ()
        try:
            if (sold := gate.ground_offer) is not None:
                gate.open(sold)
            if gate.verdict is None:
                body = app(environ, self.start_response)
            if gate.begun:
                return body
            chunks = self._from_the_start(body)
            if self._mistake is not None:
                raise self._mistake
            if gate.verdict is None and gate.payment is None:
                return ClosingIterator(chunks, _closing(body))
            answer = gate.verdict or self._concluded(chunks)
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
        gate = self._gate
        if gate.verdict is None and gate.payment is not None:
            self._held.begin(int(status[:3]), tuple(headers), gate.result_bytes)
            return self._take
        if gate.verdict is None:
            try:
                self._check_made(int(status[:3]))
                self._check_unpaid(gate, self._asked, int(status[:3]))
            except Misconfigured as mistake:
                self._mistake = mistake  # raised when the application has returned what there is to close
        if gate.verdict is not None or not gate.lets_pass():
            return _dropped
        return self._start_response(status, headers, *((exc_info,) if exc_info else ()))

    def _check_made(self, status: int) -> None:
        if (status < 300 or status == 304) and self._method != "OPTIONS":
            self._gate.check_unopened()

    def _from_the_start(self, body: Iterable[bytes]) -> Iterator[bytes]:
        """All chunks. An application may begin its response, and open the gate, with the first of them."""
        chunks, early = iter(body), list[bytes]()
        while not (self._gate.begun or self._held.has_begun or self._gate.verdict is not None):
            chunk = next(chunks, None)
            if chunk is None:
                break
            early.append(chunk)
        return chain(early, chunks)

    def _concluded(self, chunks: Iterable[bytes]) -> Response:
        for chunk in chunks:
            self._take(chunk)
        self._gate.hurry()
        if self._held.too_large is not None:
            raise self._held.too_large
        answer = self._gate.conclude(self._held.whole())
        return answer.plus(*self._release(answer)) if answer.released else answer

    def _release(self, result: Response) -> Iterator[Header]:
        """The payer has paid: whatever fails here takes nothing away from it."""
        for release in self._gate.releases:
            try:
                yield from release(result)
            except Exception as error:
                log(logging.ERROR, "what goes with a paid result could not be stored", error=error)

    def _take(self, chunk: bytes) -> None:
        self._gate.hurry()
        self._held.take(chunk)

    def _failed(self, error: BaseException, body: Iterable[bytes]) -> Response:
        """What the payer gets when something raised; raised on, unless that is decided."""
        gate = self._gate
        ended = not isinstance(error, Exception)
        try:
            if gate.payment is not None and gate.verdict is None and not gate.finished:
                told = WorkInterrupted(f"the handler raised {type(error).__name__}") if ended else error
                answer = gate.abandon(self._held.too_large or cast(Exception, told))
            elif gate.verdict is not None and error is not gate.mistake:
                answer = gate.verdict
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


def _sale(paywall: Paywall, environ: Environ, sold: Offer) -> Sale:
    origin = origin_of(environ, environ["wsgi.url_scheme"])
    return paywall.sale(sold, request_of(environ), path_of(environ), origin, environ.get("HTTP_HOST"))

"""The paywall for WSGI: a middleware for any app, and the offers a whole prefix can carry.

The price is bound to the handler: a paid handler opens the gate it finds in its environ (`open_gate`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from http.client import responses as phrases
from itertools import chain
from typing import Any, Unpack, cast

try:
    from werkzeug.wsgi import ClosingIterator, FileWrapper
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "faregate.wsgi needs Werkzeug: pip install 'faregate[wsgi]'", name=error.name
    ) from error

from faregate.environs import Environ, origin_of, path_of, payment_headers, request_of, root_of
from faregate.errors import Misconfigured, WorkInterrupted
from faregate.gate import Gate
from faregate.grounds import Grounds
from faregate.held import Held, sendable
from faregate.model import Offer, Response, Sale
from faregate.payment import Payment
from faregate.paywall import Paywall
from faregate.settings import Arguments

__all__ = ["Environ", "Payment", "PaywallMiddleware", "open_gate"]

Write = Callable[[bytes], object]
StartResponse = Callable[..., Write]
WSGIApp = Callable[[Environ, StartResponse], Iterable[bytes]]

_GATE = "faregate.gate"
_PAST_US = ("wsgi.early_hints", "wsgi.websocket", "werkzeug.socket", "gunicorn.socket")


class PaywallMiddleware:
    """Holds every response of a paid handler until its payment is proven.

    `offers` sells everything below a path prefix as one offer. `refuse` names prefixes below which
    whatever has no offer is refused, not free. Give a `paywall`, or the arguments of one.
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
        if paywall is not None and arguments:
            raise Misconfigured("Give PaywallMiddleware a paywall or the arguments of one, not both.")
        self.app = app
        self.paywall = paywall or Paywall(**arguments)
        self.grounds = Grounds(offers, refuse)

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        # What the payer asked; applications change an environ in place, Bottle every path that is not ASCII.
        asked = environ.copy()
        place = self.grounds.place(path_of(asked), root_of(asked))
        gate = Gate(self.paywall, asked["REQUEST_METHOD"], partial(_sale, self.paywall, asked), place)
        outer = environ.get(_GATE)
        environ[_GATE] = gate
        if payment_headers(environ):
            # Ways of sending past us; a paid handler must not be offered them.
            environ["wsgi.file_wrapper"] = FileWrapper
            for name in _PAST_US:
                environ.pop(name, None)
        curtain = _Curtain(gate, asked["REQUEST_METHOD"], start_response)
        try:
            return curtain.run(self.app, environ)
        finally:
            gate.close()
            if outer is not None:
                environ[_GATE] = outer  # who asked this application may answer itself


def open_gate(environ: Environ, sold: Offer) -> Payment:
    """For adapters: let this request through to a paid handler.

    Raises `PaymentStop` when the payer's answer is something else than the work, and
    `Misconfigured` when there is no paywall in front.
    """
    gate = environ.get(_GATE)
    if not isinstance(gate, Gate):
        raise Misconfigured(
            f"A handler sells {sold.sells!r}, but no PaywallMiddleware is in front of it: "
            "app = faregate.wsgi.PaywallMiddleware(app)"
        )
    return gate.open(sold)


class _Curtain:
    """The response of one request, held back until its gate says what may leave."""

    def __init__(self, gate: Gate, method: str, start_response: StartResponse) -> None:
        self._gate = gate
        self._method = method
        self._start_response = start_response
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
        if gate.verdict is not None or not gate.lets_pass():
            return _dropped
        return self._start_response(status, headers, *((exc_info,) if exc_info else ()))

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
        if self._held.too_large is not None:
            raise self._held.too_large
        return self._gate.conclude(self._held.whole())

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

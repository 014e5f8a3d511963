"""Transports for httpx that pay, over the official x402 client, and never twice for one purchase.

Rules
1. A payment is kept in a file before it is first sent, until its result has arrived whole. The next call for
   the same request sends it again, also in another process, and signs none.
2. Calls for the same request run one after the other.
3. A response that leaves open whether the payment was charged never reaches the caller as a result: it is
   `PaymentPending`.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import Any, Final, TypeVar, cast, overload

import anyio
import anyio.to_thread
import httpx
from x402 import x402Client, x402ClientSync
from x402.http.utils import encode_payment_signature_header
from x402.schemas import PaymentRequired

from faregate.core.driver import arun, run
from faregate.core.models import Response
from faregate.errors import ConfigurationError, FaregateError
from faregate.merchant.requests import PROOF
from faregate.pay.http import NO_REUSE, build_no_response, build_payment_headers, decode_headers
from faregate.pay.output import PaymentSigned
from faregate.pay.payer_backend import Flow, PayerBackend
from faregate.pay.payment_file import PaymentDirectory, PurchaseLock
from faregate.pay.purchase import ExitCode, Purchase, PurchaseResult, SystemClock
from faregate.pay.request import RequestSpec
from faregate.pay.requirements import NotSigned, format_amount
from faregate.pay.wallet import PaymentProof, get_valid_until

T = TypeVar("T")
DEFAULT_WAIT: Final = 60.0
_TIMEOUT_SECONDS: Final = 75.0
_LOCK_POLL_SECONDS: Final = 0.05
# A body that was read whole is sent with its length.
_REPLACED: Final = (b"transfer-encoding", b"content-length")


class PaymentPending(FaregateError):
    """A payment was signed, and it may be charged: call again for its result, and no other one is signed.

    `response` is the last one that came, if any. `file` keeps the payment.
    """

    def __init__(self, message: str, file: str, response: httpx.Response | None = None) -> None:
        super().__init__(message)
        self.file = file
        self.response = response


class AlreadyDelivered(FaregateError):
    """The result of this `Idempotency-Key` was delivered once, and the seller does not deliver it again.

    `response` is what the seller said. `file` keeps the payment.
    """

    def __init__(self, message: str, file: str, response: httpx.Response | None = None) -> None:
        super().__init__(message)
        self.file = file
        self.response = response


class _Attempt:
    """One request through a transport: what it buys, and the last response. Performs no I/O."""

    def __init__(self, request: httpx.Request, directory: PaymentDirectory, wait: float) -> None:
        url, headers = str(request.url), tuple(_decode_pairs(request.headers))
        self._request = request
        self.spec = RequestSpec(request.method, url, headers, request.content)
        self.payment_file = directory.find_file(self.spec)
        self.lock = PurchaseLock(f"{self.payment_file.path}.lock")
        self.clock = SystemClock()
        self.wait = wait
        self.last: httpx.Response | None = None

    def build_request(self, payment: Any) -> httpx.Request:
        """Build the request, with the payment if there is one."""
        self.last = None
        pairs = [pair for pair in self._request.headers.raw if pair[0].lower() not in _REPLACED]
        own = [(name.encode(), value.encode()) for name, value in build_payment_headers(payment)]
        extensions, method, url = self._request.extensions, self._request.method, self._request.url
        content = self._request.content or None
        return httpx.Request(
            method, url, headers=[*pairs, *own], content=content, extensions=dict(extensions)
        )

    def pass_on(self, response: httpx.Response) -> Response:
        """Take a response that asks for no payment; its body is left to the caller."""
        self.last = response
        return Response(response.status_code, decode_headers(response))

    def take(self, response: httpx.Response, body: bytes) -> Response:
        """Take a response whose body was read."""
        self.last = httpx.Response(
            response.status_code,
            headers=response.headers.raw,
            content=body,
            extensions=response.extensions,
            request=self._request,
        )
        return Response(response.status_code, decode_headers(response), body)

    def buy(self, backend: PayerBackend) -> Flow[httpx.Response]:
        """Buy once. Raises `PaymentPending`, `AlreadyDelivered`, `NotSigned` and `NoResponse`."""
        yield from self._take_lock(backend)
        try:
            result = yield from self._buy_once(backend)
            # An earlier call's payment was certainly not charged. This call has signed none yet.
            if result.was_resumed and result.is_decided and result.exit is not ExitCode.RESULT:
                result = yield from self._buy_once(backend)
            return self._answer(result)
        finally:
            self.lock.release()

    def _take_lock(self, backend: PayerBackend) -> Flow[None]:
        deadline = self.clock.monotonic() + self.wait
        while not self.lock.try_take():
            if self.clock.monotonic() >= deadline:
                raise self._build_pending("another call is buying the same")
            yield backend.sleep(_LOCK_POLL_SECONDS)

    def _buy_once(self, backend: PayerBackend) -> Flow[PurchaseResult]:
        purchase = Purchase(self.spec, self.payment_file, backend, self.clock, self.wait)
        result: PurchaseResult = yield from purchase.buy()
        payment = purchase.payment
        if payment is None:
            return result
        if payment.is_delivered and result.exit in (ExitCode.REFUSED, ExitCode.ERROR):
            raise AlreadyDelivered(
                f"The result of this Idempotency-Key for {self._name} was delivered before, and the seller "
                f"does not deliver it again: {result.why}. The payment is in {self.payment_file.path}.",
                str(self.payment_file.path),
                self.last,
            )
        if not result.is_decided:
            return result
        if result.exit is ExitCode.RESULT and self.spec.find_header("idempotency-key") is not None:
            # The caller names the purchase, so the next call with this name is not another one.
            yield backend.call(partial(self.payment_file.update, replace(payment, is_delivered=True)))
        else:
            yield backend.call(self.payment_file.delete)
        return result

    def _answer(self, result: PurchaseResult) -> httpx.Response:
        if result.exit is ExitCode.PENDING:
            raise self._build_pending(result.why)
        payment = self.payment_file.payment
        if result.exit is ExitCode.REFUSED and payment is not None and payment.is_open:
            raise self._build_pending(
                "the seller asks for a new payment, although an earlier response left open whether this one "
                "was charged. If the chain shows that it was not, delete the file"
            )
        if self.last is None:
            raise self._build_pending("no response came")
        if result.exit is ExitCode.NOT_SIGNED and "payment-required" in self.last.headers:
            raise NotSigned(result.why)
        return self.last

    @property
    def _name(self) -> str:
        return f"{self.spec.method} {self.spec.display_url}"

    def _build_pending(self, why: str) -> PaymentPending:
        path = str(self.payment_file.path)
        message = f"The payment for {self._name} may be charged: {why}. It is kept in {path}. "
        return PaymentPending(f"{message}Call again to continue with it.", path, self.last)


class _BlockingBackend:
    """Does what one attempt asks for, blocking."""

    def __init__(self, attempt: _Attempt, payer: x402ClientSync, transport: httpx.BaseTransport) -> None:
        self._attempt = attempt
        self._payer = payer
        self._transport = transport

    def send(self, payment: Any) -> Response:
        try:
            response = self._transport.handle_request(self._attempt.build_request(payment))
            if payment is None and response.status_code != 402:
                return self._attempt.pass_on(response)
            try:
                body = b"".join(response.iter_raw())
            finally:
                response.close()
        except httpx.TransportError as error:
            if payment is None:
                raise
            raise build_no_response(self._attempt.spec, error) from None
        return self._attempt.take(response, body)

    def sign(self, required: PaymentRequired) -> PaymentProof:
        try:
            return _build_proof(required, self._payer.create_payment_payload(required))
        except Exception as error:  # the client documents no exceptions; whichever it was, nothing was sent
            raise NotSigned(f"the x402 client refused: {error}") from error

    def sleep(self, seconds: float) -> None:
        self._attempt.clock.sleep(seconds)

    def call(self, action: Callable[[], T]) -> T:
        return action()


class _AwaitingBackend:
    """Does what one attempt asks for, awaiting. Files are used in a thread."""

    def __init__(self, attempt: _Attempt, payer: x402Client, transport: httpx.AsyncBaseTransport) -> None:
        self._attempt = attempt
        self._payer = payer
        self._transport = transport

    async def send(self, payment: Any) -> Response:
        try:
            response = await self._transport.handle_async_request(self._attempt.build_request(payment))
            if payment is None and response.status_code != 402:
                return self._attempt.pass_on(response)
            try:
                body = b"".join([chunk async for chunk in response.aiter_raw()])
            finally:
                await response.aclose()
        except httpx.TransportError as error:
            if payment is None:
                raise
            raise build_no_response(self._attempt.spec, error) from None
        return self._attempt.take(response, body)

    async def sign(self, required: PaymentRequired) -> PaymentProof:
        try:
            return _build_proof(required, await self._payer.create_payment_payload(required))
        except Exception as error:
            raise NotSigned(f"the x402 client refused: {error}") from error

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)

    async def call(self, action: Callable[[], T]) -> T:
        return await anyio.to_thread.run_sync(action)


class PayingTransport(httpx.BaseTransport):
    """A transport for `httpx.Client` that pays. `payments` is a directory that keeps open payments.

    `wait` limits the seconds that one request waits for a pending payment. `transport` sends the requests.
    Each payer needs a directory of its own. Raises `ConfigurationError`.
    """

    def __init__(
        self,
        payer: x402ClientSync,
        payments: str | PathLike[str],
        *,
        wait: float = DEFAULT_WAIT,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        _check_payer(payer, x402ClientSync, "PayingTransport", "AsyncPayingTransport")
        self._payer = payer
        self._directory = PaymentDirectory(payments)
        self._wait = wait
        self._transport = transport or httpx.HTTPTransport(limits=NO_REUSE)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send the request, and pay for it if asked to.

        Raises `PaymentPending`, `AlreadyDelivered` and `NotSigned`.
        """
        if PROOF in request.headers:  # the caller pays
            return self._transport.handle_request(request)
        request.read()
        attempt = _Attempt(request, self._directory, self._wait)
        return run(attempt.buy(_BlockingBackend(attempt, self._payer, self._transport)))

    def close(self) -> None:
        """Close the transport that sends the requests."""
        self._transport.close()


class AsyncPayingTransport(httpx.AsyncBaseTransport):
    """`PayingTransport` for `httpx.AsyncClient`, on asyncio or trio."""

    def __init__(
        self,
        payer: x402Client,
        payments: str | PathLike[str],
        *,
        wait: float = DEFAULT_WAIT,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        _check_payer(payer, x402Client, "AsyncPayingTransport", "PayingTransport")
        self._payer = payer
        self._directory = PaymentDirectory(payments)
        self._wait = wait
        self._transport = transport or httpx.AsyncHTTPTransport(limits=NO_REUSE)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send the request, and pay for it if asked to.

        Raises `PaymentPending`, `AlreadyDelivered` and `NotSigned`.
        """
        if PROOF in request.headers:
            return await self._transport.handle_async_request(request)
        await request.aread()
        attempt = _Attempt(request, self._directory, self._wait)
        return await arun(attempt.buy(_AwaitingBackend(attempt, self._payer, self._transport)))

    async def aclose(self) -> None:
        """Close the transport that sends the requests."""
        await self._transport.aclose()


@overload
def open_client(
    payer: x402ClientSync, payments: str | PathLike[str], *, wait: float = ..., **options: Any
) -> httpx.Client: ...
@overload
def open_client(
    payer: x402Client, payments: str | PathLike[str], *, wait: float = ..., **options: Any
) -> httpx.AsyncClient: ...
def open_client(
    payer: x402Client | x402ClientSync,
    payments: str | PathLike[str],
    *,
    wait: float = DEFAULT_WAIT,
    **options: Any,
) -> httpx.Client | httpx.AsyncClient:
    """Open an `httpx.Client` that pays, or an `httpx.AsyncClient` for an asynchronous payer.

    `options` are those of the client; `timeout` is 75 seconds by default, because settlement takes time.
    """
    if not isinstance(cast(object, payer), x402Client | x402ClientSync):
        raise ConfigurationError(
            f"open_client needs payer=x402ClientSync(...) or x402Client(...), not {type(payer).__name__}."
        )
    options.setdefault("timeout", _TIMEOUT_SECONDS)
    if isinstance(payer, x402ClientSync):
        return httpx.Client(transport=PayingTransport(payer, payments, wait=wait), **options)
    return httpx.AsyncClient(transport=AsyncPayingTransport(payer, payments, wait=wait), **options)


def _check_payer(payer: object, kind: type, here: str, other: str) -> None:
    if not isinstance(payer, kind):
        raise ConfigurationError(
            f"{here} needs payer={kind.__name__}(...), not {type(payer).__name__}. For that, use {other}."
        )


def _build_proof(required: PaymentRequired, payload: Any) -> PaymentProof:
    """Encode a signed payment, and describe it as `faregate pay` does."""
    accepted = payload.accepted
    address = str(payload.payload.get("authorization", {}).get("from", ""))
    until = get_valid_until(payload.payload)
    description = PaymentSigned("", address, format_amount(accepted), accepted.network, until)
    return PaymentProof(encode_payment_signature_header(payload), description)


def _decode_pairs(headers: httpx.Headers) -> list[tuple[str, str]]:
    return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers.raw]

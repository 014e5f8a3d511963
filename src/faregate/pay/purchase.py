"""Buy one resource: request it, sign one payment, and send that payment until its result is known.

Rules
1. One purchase signs at most one payment. A second 402 ends it.
2. While the payment may still settle (202, 503, 409, no response) the same payment is sent again.
3. Pauses follow the seller's `Retry-After`, and last at most `wait` seconds in all.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import Enum, IntEnum
from typing import Any, cast

from x402.http.utils import decode_payment_response_header
from x402.schemas import PaymentRequired

from faregate.core.models import Headers, Response
from faregate.pay.http import NoResponse, SellerClient
from faregate.pay.output import (
    PaymentReported,
    PaymentResumed,
    ProgressStep,
    PurchaseEnded,
    RequestSent,
    ResponseMissing,
    ResponseReceived,
    RetryScheduled,
)
from faregate.pay.payment_file import PaymentFile
from faregate.pay.requirements import NotSigned, parse_payment_required, quote_price
from faregate.pay.wallet import PayerWallet
from faregate.x402.instructions import parse_json

_MIN_PAUSE, _DEFAULT_PAUSE = 0.5, 1.0
# `completion_refused` is stuck at the seller, but an operator can still complete it with this payment.
_PENDING_CODES = frozenset(
    ("payment_in_progress", "payment_unconfirmed", "payment_service_unavailable", "completion_refused")
)


class ExitCode(IntEnum):
    """The exit codes of `faregate pay` beside 1 and 2, which every command has."""

    RESULT = 0
    NOT_SIGNED = 3
    REFUSED = 4
    PENDING = 5
    ERROR = 6


class PaidResponseKind(Enum):
    """The meaning of a response for the payment that the request carried."""

    RESULT = "result"
    REFUSED = "refused"
    """402 again: this payment buys nothing."""
    PENDING = "pending"
    """The payment may still settle: send the same one again."""
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class SellerMessage:
    """The fields of an error body `{code, message}`; None for those that are absent."""

    code: str | None = None
    message: str | None = None
    transaction_id: str | None = None


@dataclass(frozen=True, slots=True)
class PurchaseResult:
    """`response` is the last one; None if there was none, or if only the price was asked for."""

    exit: ExitCode
    response: Response | None = None


class SystemClock:
    """The clock of this machine."""

    def monotonic(self) -> float:
        return time.monotonic()

    def now(self) -> datetime:
        return datetime.now(UTC)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


@dataclass(slots=True)
class Purchase:
    """One purchase. `wait` limits all pauses together, in seconds; `report` is called at each step."""

    client: SellerClient
    wallet: PayerWallet
    payment_file: PaymentFile
    clock: SystemClock
    wait: float
    report: Callable[[ProgressStep], object]

    def show_price(self) -> PurchaseResult:
        """Request the resource without paying. Nothing is signed."""
        response = self._send()
        if response.status != 402:
            return self._end_unpaid(response)
        try:
            self.wallet.select_requirements(self._read_price(response))
        except NotSigned as error:
            return self._end(ExitCode.NOT_SIGNED, f"this would not be signed: {error}", response)
        return self._end(ExitCode.RESULT, "nothing was signed", None)

    def buy(self) -> PurchaseResult:
        """Request the resource and pay if asked to. Raises `NoResponse` only before anything was paid."""
        proof = self.payment_file.load()
        if proof is not None:
            self.report(PaymentResumed(self.payment_file.path or ""))
            return self._redeem(proof)
        response = self._send()
        if response.status != 402:
            return self._end_unpaid(response)
        try:
            payment = self.wallet.sign(self._read_price(response))
        except NotSigned as error:
            return self._end(ExitCode.NOT_SIGNED, f"nothing was signed: {error}", response)
        self.report(payment.description)
        # Before it is first sent: a crash after that must not lose a payment that the seller may have used.
        self.payment_file.save(payment.proof)
        return self._redeem(payment.proof)

    def _redeem(self, proof: str) -> PurchaseResult:
        """Exchange the payment for the result; whatever goes wrong, keep a payment that is still good."""
        try:
            return self._send_until_final(proof)
        except KeyboardInterrupt:
            return self._end_pending("interrupted", None)
        # BaseException: SystemExit too. A payer who loses the payment would have to pay again.
        except BaseException:
            self.payment_file.save_pending()
            raise

    def _send_until_final(self, proof: str) -> PurchaseResult:
        deadline = self.clock.monotonic() + self.wait
        while True:
            response = self._send_payment(proof)
            if response is not None and (result := self._conclude(response)) is not None:
                return result
            seconds = parse_retry_after(response.headers if response else (), self.clock.now())
            if self.clock.monotonic() + seconds > deadline:
                return self._end_pending(f"not settled within {self.wait:g} s of --wait", response)
            self.report(RetryScheduled(seconds, "the payment is pending"))
            self.clock.sleep(seconds)

    def _conclude(self, response: Response) -> PurchaseResult | None:
        """End the purchase if the response is final; None while the payment is pending."""
        match classify_response(response, settled=self._is_settled(response)):
            case PaidResponseKind.RESULT:
                return self._end(ExitCode.RESULT, "result received", response)
            case PaidResponseKind.REFUSED:
                reason = self._read_refusal(response)
                return self._end(
                    ExitCode.REFUSED, f"402 again, so this payment buys nothing: {reason}", response
                )
            case PaidResponseKind.ERROR:
                message = parse_seller_message(response).message
                why = message or "the seller returned an error without a PAYMENT-RESPONSE header"
                return self._end(ExitCode.ERROR, f"no result: {why}", response)
            case PaidResponseKind.PENDING:
                return None

    def _end_unpaid(self, response: Response) -> PurchaseResult:
        """End with a response that asks for no payment."""
        if response.status < 400:
            return self._end(ExitCode.RESULT, "result received; it was free", response)
        return self._end(ExitCode.ERROR, "the seller returned an error and asked for no payment", response)

    def _end_pending(self, why: str, response: Response | None) -> PurchaseResult:
        path = self.payment_file.save_pending()
        text = f"the payment is still pending: {why}. To continue with it, add --proof {path}"
        return self._end(ExitCode.PENDING, text, response)

    def _end(self, code: ExitCode, why: str, response: Response | None) -> PurchaseResult:
        self.report(PurchaseEnded(int(code), why))
        return PurchaseResult(code, response)

    def _send(self, proof: str | None = None) -> Response:
        """Send the request and report it. Raises `NoResponse`."""
        request = self.client.request
        self.report(RequestSent(request.method, request.display_url, paying=proof is not None))
        response = self.client.send(proof)
        if response.status != 402 or response.first("payment-required") is None:
            message = parse_seller_message(response)
            kind, size = response.first("content-type") or "no content type", len(response.body)
            code, transaction_id = message.code, message.transaction_id
            self.report(ResponseReceived(response.status, code, transaction_id, kind, size))
        return response

    def _send_payment(self, proof: str) -> Response | None:
        """Send the request with the payment; None if no response came, which decides nothing."""
        try:
            return self._send(proof)
        except NoResponse as error:
            self.report(ResponseMissing(str(error)))
            return None

    def _read_price(self, response: Response, reason: str | None = None) -> PaymentRequired:
        """Parse and report the instructions of a 402; `reason` replaces theirs. Raises `NotSigned`."""
        # `first` also returns None for two headers: we do not guess which of two prices is meant.
        header = response.first("payment-required")
        if header is None:
            raise NotSigned("402 without exactly one PAYMENT-REQUIRED header")
        required = parse_payment_required(header)
        quoted = quote_price(required, self.client.request.display_url)
        self.report(quoted if reason is None else replace(quoted, error=reason))
        return required

    def _read_refusal(self, response: Response) -> str:
        """Return why the payment was refused, in the seller's words.

        The body goes first: the instructions may be fresh ones, which say nothing about this payment.
        """
        message = parse_seller_message(response).message
        try:
            error: str | None = self._read_price(response, message).error
        except NotSigned:
            error = None
        return message or error or "the seller gives no reason"

    def _is_settled(self, response: Response) -> bool:
        """Return whether `PAYMENT-RESPONSE` says success, and report what it says."""
        header = response.first("payment-response")
        if header is None:
            return False
        try:
            settled = decode_payment_response_header(header)
        except (ValueError, RecursionError):
            return False
        self.report(
            PaymentReported(
                settled.success, settled.transaction, settled.network, settled.payer, settled.amount
            )
        )
        return settled.success


def parse_seller_message(response: Response) -> SellerMessage:
    """Parse an error body; empty for a body of any other shape."""
    try:
        # A large body is a result and not an error; parsing it would only cost time.
        body = parse_json(response.body) if len(response.body) < 65536 else None
    except (ValueError, RecursionError):
        return SellerMessage()
    if not isinstance(body, dict) or ("code" not in body and "transaction_id" not in body):
        return SellerMessage()
    fields = (cast("dict[str, Any]", body).get(name) for name in ("code", "message", "transaction_id"))
    return SellerMessage(*(value if isinstance(value, str) else None for value in fields))


def classify_response(response: Response, *, settled: bool) -> PaidResponseKind:
    """Classify the response to a request with a payment; `settled`: its `PAYMENT-RESPONSE` says success."""
    if response.status == 402:
        return PaidResponseKind.REFUSED
    # Whatever its status: what was paid for is the result.
    if settled:
        return PaidResponseKind.RESULT
    if response.status == 202 or _is_pending(response):
        return PaidResponseKind.PENDING
    return PaidResponseKind.RESULT if response.status < 400 else PaidResponseKind.ERROR


def _is_pending(response: Response) -> bool:
    # Without Retry-After and without such a code, it is the error of the handler and not of the paywall.
    if response.status in (429, 503) and response.first("retry-after") is not None:
        return True
    return response.status >= 400 and parse_seller_message(response).code in _PENDING_CODES


def parse_retry_after(headers: Headers, now: datetime) -> float:
    """Return the seconds to wait: `Retry-After` in either of its forms, else one second."""
    value = Response(0, headers).first("retry-after") or ""
    # A seller that says 0 is not to be asked in a tight loop; nine digits are more than `wait` can be.
    if value.isascii() and value.isdigit():
        return max(float(value[:9]), _MIN_PAUSE)
    try:
        moment = parsedate_to_datetime(value)
    except ValueError:
        return _DEFAULT_PAUSE
    zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max((zoned - now).total_seconds(), _MIN_PAUSE)

"""Buy one resource: request it, sign one payment, and send that payment until its result is known.

Rules
1. One purchase signs at most one payment. A second 402 ends it.
2. Where a file was named, a payment is in it before it is first sent, and while it may be charged.
3. While it may be charged, it is sent again and no other one is signed. That it was not charged is certain
   only if the seller says so in the words of faregate, or if the first response of all to it is a 4xx of the
   seller's handler, or a refusal and it has expired since.
4. Pauses follow the seller's `Retry-After`. None ends later than `wait` seconds after this call first sends
   the payment.
"""

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import Enum, IntEnum
from functools import partial
from typing import Any, cast

from x402.http.utils import decode_payment_response_header
from x402.schemas import PaymentRequired

from faregate.core.models import Headers, Response
from faregate.core.responses import build_new_payment_required
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
from faregate.pay.payer_backend import Flow, PayerBackend
from faregate.pay.payment_file import PaymentFile, SavedPayment
from faregate.pay.request import NoResponse, RequestSpec
from faregate.pay.requirements import NotSigned, format_used, parse_payment_required, quote_price
from faregate.pay.wallet import PaymentProof
from faregate.rules.verification import UNCHARGED
from faregate.x402.instructions import parse_json
from faregate.x402.payment_identifier import add_identifier

_MIN_PAUSE, _DEFAULT_PAUSE = 0.5, 1.0
# `completion_refused` may be stuck at the seller, but an operator can still complete it with this payment.
_PENDING_CODES = frozenset(
    ("payment_in_progress", "payment_unconfirmed", "payment_service_unavailable", "completion_refused")
)
_KEEPING_CODES = frozenset(("proof_already_used", "incomplete_body", "upgrade_not_sold"))
"""The file is kept: this payment paid for another response, or can be sent again."""
_PROXY_STATUSES = frozenset((408, 425, 429))
"""What proxies say of a request that may have reached the seller."""


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
    """`response` is the last one; None if there was none, and if the price was shown or the
    purchase interrupted.

    `is_decided` says that nothing is left to learn about the payment: its result arrived, or it is certain
    that it was not charged. `was_resumed` says that an earlier call had signed it.
    """

    exit: ExitCode
    why: str
    response: Response | None = None
    is_decided: bool = True
    was_resumed: bool = False


class SystemClock:
    """The clock of this machine."""

    def monotonic(self) -> float:
        return time.monotonic()

    def now(self) -> datetime:
        return datetime.now(UTC)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


def ignore_step(_step: ProgressStep) -> None:
    """Report nothing."""


@dataclass(slots=True)
class Purchase:
    """One purchase. `report` is called at each step.

    No pause ends later than `wait` seconds after this call first sends the payment.
    """

    request: RequestSpec
    payment_file: PaymentFile
    backend: PayerBackend
    clock: SystemClock
    wait: float
    report: Callable[[ProgressStep], object] = ignore_step
    payment: SavedPayment | None = field(default=None, init=False)
    """The payment that is sent, from an earlier call or this one."""
    _is_open: bool = field(default=False, init=False)
    """Whether a response, or the lack of one, leaves it possible that the payment was charged."""
    _was_resumed: bool = field(default=False, init=False)
    _replaced: SavedPayment = field(default=SavedPayment(""), init=False)
    """An earlier payment for this purchase, whose idempotency key and identifier this call uses again."""

    def show_price(self, select: Callable[[PaymentRequired], object]) -> Flow[PurchaseResult]:
        """Request the resource without paying. `select` raises `NotSigned` if no price would be signed."""
        response = yield from self._send()
        if response.status != 402:
            return self._end_unpaid(response)
        try:
            select(self._read_price(response))
        except NotSigned as error:
            return self._end(ExitCode.NOT_SIGNED, f"this would not be signed: {error}", response)
        return self._end(ExitCode.RESULT, "nothing was signed", None)

    def buy(self) -> Flow[PurchaseResult]:
        """Request the resource and pay if asked to. Raises `NoResponse` only before anything was paid."""
        saved = yield from self._load()
        if saved is not None:
            self._was_resumed, self._is_open = True, saved.is_open
            self.report(PaymentResumed(self.payment_file.path or ""))
            # The seller may take now what it refused before.
            yield from self._record(replace(saved, is_open=True))
            return (yield from self._send_until_final(saved))
        response = yield from self._send()
        if response.status != 402:
            return self._end_unpaid(response)
        key = self._replaced.idempotency_key or secrets.token_urlsafe(24)
        identifier = self._replaced.identifier or f"pay_{secrets.token_hex(16)}"
        try:
            required = self._read_price(response)
            if required.extensions:
                required.extensions = add_identifier(required.extensions, identifier)
            signed: PaymentProof = yield self.backend.sign(required)
        except NotSigned as error:
            return self._end(ExitCode.NOT_SIGNED, f"nothing was signed: {error}", response)
        self.report(signed.description)
        payment = SavedPayment(
            signed.proof,
            signed.description.valid_until,
            None if self.request.has_credentials else key,
            identifier=identifier,
        )
        # Before it is first sent: a crash after that must not lose a payment that the seller may have used.
        yield self.backend.call(partial(self.payment_file.save, payment))
        return (yield from self._send_until_final(payment))

    def end_interrupted(self) -> PurchaseResult:
        """End a purchase whose caller was interrupted while the payment was pending."""
        return self._end_pending("interrupted", None)

    def _load(self) -> Flow[SavedPayment | None]:
        saved: SavedPayment | None = yield self.backend.call(self.payment_file.load)
        if saved is not None and saved.can_be_replaced(self.clock.now()):
            yield self.backend.call(self.payment_file.delete)
            self._replaced = saved
            return None
        return saved

    def _record(self, payment: SavedPayment) -> Flow[None]:
        """Write down what is known of the payment, if that is news."""
        if payment != self.payment_file.payment:
            yield self.backend.call(partial(self.payment_file.update, payment))

    def _send_until_final(self, payment: SavedPayment) -> Flow[PurchaseResult]:
        self.payment = payment
        deadline = self.clock.monotonic() + self.wait
        while True:
            response = yield from self._send_payment(payment)
            if (
                response is not None
                and (result := (yield from self._conclude(payment, response))) is not None
            ):
                return result
            self._is_open = True
            seconds = parse_retry_after(response.headers if response else (), self.clock.now())
            if self.clock.monotonic() + seconds > deadline:
                return self._end_pending(f"not settled within {self.wait:g} s", response)
            self.report(RetryScheduled(seconds, "the payment is pending"))
            yield self.backend.sleep(seconds)

    def _conclude(self, payment: SavedPayment, response: Response) -> Flow[PurchaseResult | None]:
        """End the purchase if the response is final; None while the payment is pending."""
        message = parse_seller_message(response)
        match classify_response(response, settled=self._says_settled(response)):
            case PaidResponseKind.RESULT:
                return self._end(ExitCode.RESULT, "result received", response)
            case PaidResponseKind.REFUSED:
                # A 402 that does not rule out a charge may come from a seller that forgot the payment, or
                # that lost the answer of its facilitator. After a first 402, the payment may be replaced once
                # it has expired.
                is_uncharged = rules_out_charge(message)
                if not is_uncharged and not self._is_open:
                    yield from self._record(replace(payment, is_open=False))
                why = f"402 again, so this payment buys nothing: {self._read_refusal(response)}"
                return self._end(ExitCode.REFUSED, why, response, is_decided=is_uncharged)
            case PaidResponseKind.ERROR:
                why = message.message or "the seller returned an error without a PAYMENT-RESPONSE header"
                is_uncharged = not self._is_open and is_refused_by_handler(response, message.code)
                return self._end(ExitCode.ERROR, f"no result: {why}", response, is_decided=is_uncharged)
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
        self.report(PurchaseEnded(int(ExitCode.PENDING), text))
        return PurchaseResult(ExitCode.PENDING, why, response, False, self._was_resumed)

    def _end(
        self, code: ExitCode, why: str, response: Response | None, *, is_decided: bool = True
    ) -> PurchaseResult:
        self.report(PurchaseEnded(int(code), why))
        return PurchaseResult(code, why, response, is_decided, self._was_resumed)

    def _send(self, payment: SavedPayment | None = None) -> Flow[Response]:
        """Send the request and report it. Raises `NoResponse`."""
        self.report(RequestSent(self.request.method, self.request.display_url, paying=payment is not None))
        response: Response = yield self.backend.send(payment)
        if response.status != 402 or response.first("payment-required") is None:
            message = parse_seller_message(response)
            content_type, size = response.first("content-type") or "no content type", len(response.body)
            code, transaction_id = message.code, message.transaction_id
            self.report(ResponseReceived(response.status, code, transaction_id, content_type, size))
        return response

    def _send_payment(self, payment: SavedPayment) -> Flow[Response | None]:
        """Send the request with the payment; None if no response came, which decides nothing."""
        try:
            return (yield from self._send(payment))
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
        quoted = quote_price(required, self.request.display_url)
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

    def _says_settled(self, response: Response) -> bool:
        """Return whether `PAYMENT-RESPONSE` says success, and report what it says."""
        header = response.first("payment-response")
        if header is None:
            return False
        try:
            settled = decode_payment_response_header(header)
        except (ValueError, RecursionError):
            return False
        proof = "" if self.payment is None else self.payment.proof
        self.report(
            PaymentReported(
                settled.success,
                settled.transaction,
                settled.network,
                settled.payer,
                settled.amount,
                format_used(proof, settled.amount),
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
    # Whatever its status but 402: what was paid for is the result.
    if settled:
        return PaidResponseKind.RESULT
    if response.status == 202 or _is_pending(response):
        return PaidResponseKind.PENDING
    return PaidResponseKind.RESULT if response.status < 400 else PaidResponseKind.ERROR


def rules_out_charge(message: SellerMessage) -> bool:
    """Return whether the body of a 402 says for certain that the payment was not charged."""
    return message.transaction_id is not None or message.message in (NOT_TAKEN, *UNCHARGED)


NOT_TAKEN = parse_seller_message(build_new_payment_required(Response(402), None)).message
"""What a seller says in place of the service, of a payment that failed or whose work failed."""


def is_refused_by_handler(response: Response, code: str | None) -> bool:
    """Return whether the seller's own code refused the request, for which nothing is charged."""
    if code in _KEEPING_CODES or response.status in _PROXY_STATUSES:
        return False
    return 400 <= response.status < 500


def _is_pending(response: Response) -> bool:
    code = parse_seller_message(response).code
    # A gateway gave up on the seller, and the seller may still be at work.
    if response.status in (502, 504) and code is None:
        return True
    # Without Retry-After and without such a code, it is the error of the handler and not of the paywall.
    if response.status in (429, 503) and response.first("retry-after") is not None:
        return True
    return response.status >= 400 and code in _PENDING_CODES


def parse_retry_after(headers: Headers, now: datetime) -> float:
    """Return the seconds to wait: `Retry-After` in either of its forms, else one second."""
    value = Response(0, headers).first("retry-after") or ""
    # A seller that says 0 is not to be asked in a tight loop; nine digits are more than `wait` can be.
    if value.isascii() and value.isdigit():
        return max(float(value[:9]), _MIN_PAUSE)
    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, OverflowError):  # a year or a zone of many digits
        return _DEFAULT_PAUSE
    zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max((zoned - now).total_seconds(), _MIN_PAUSE)

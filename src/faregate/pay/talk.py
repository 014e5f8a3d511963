"""The talk with the seller: what is asked and answered, each told as a step."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from faregate.core.models import Response
from faregate.pay.answers import told
from faregate.pay.http import Shop, Unanswered
from faregate.pay.official import PaymentRequired, decode_payment_response_header
from faregate.pay.output import Answered, Asked, NoAnswer, Paid, Step
from faregate.pay.requirements import Unsigned, as_step, read_required


@dataclass(frozen=True, slots=True)
class Talk:
    """With one seller, about one purchase."""

    shop: Shop
    tell: Callable[[Step], object]

    def ask(self) -> Response:
        """One request without a payment. Raises `Unanswered`."""
        wanted = self.shop.purchase
        self.tell(Asked(wanted.method, wanted.shown, paying=False))
        return self._told(self.shop.ask())

    def pay(self, proof: str) -> Response | None:
        """One request with the payment; None if no answer came, which decides nothing."""
        wanted = self.shop.purchase
        self.tell(Asked(wanted.method, wanted.shown, paying=True))
        try:
            return self._told(self.shop.ask(proof))
        except Unanswered as error:
            self.tell(NoAnswer(str(error)))
            return None

    def _told(self, answer: Response) -> Response:
        if answer.status != 402 or answer.first("payment-required") is None:
            said = told(answer)
            kind = answer.first("content-type") or "no content type"
            self.tell(Answered(answer.status, said.code, said.transaction_id, kind, len(answer.body)))
        return answer

    def required(self, answer: Response, reason: str | None = None) -> PaymentRequired:
        """The instructions of a 402, told; with this reason, if it is a better one. Raises `Unsigned`."""
        header = answer.first("payment-required")
        if header is None:
            raise Unsigned("402 without one PAYMENT-REQUIRED header")
        required = read_required(header)
        step = as_step(required, self.shop.purchase.shown)
        self.tell(step if reason is None else replace(step, error=reason))
        return required

    def reason(self, answer: Response) -> str:
        """In the seller's words: those of the body, else those of `PAYMENT-REQUIRED`.

        The instructions may be fresh ones, asked for without the payment, and then say nothing about it.
        """
        message = told(answer).message
        try:
            error: str | None = self.required(answer, message).error
        except Unsigned:
            error = None
        return message or error or "402 again, without a reason"

    def payment(self, answer: Response) -> bool:
        """Whether `PAYMENT-RESPONSE` says that it is paid."""
        header = answer.first("payment-response")
        if header is None:
            return False
        try:
            found = decode_payment_response_header(header)
        except (ValueError, RecursionError):
            return False
        self.tell(Paid(found.success, found.transaction, found.network, found.payer, found.amount))
        return found.success

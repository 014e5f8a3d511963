"""A checkout that blocks: for threads, WSGI and Django's views."""

from collections.abc import Callable

from faregate.checkout.checkout import Checkout, Restore
from faregate.checkout.states import AUTHORIZED, DECIDED
from faregate.core.driver import drive
from faregate.core.models import Choose, HandlerResult, Offer, OfferChoice, Response
from faregate.core.reported_values import Payment
from faregate.errors import ConfigurationError

Ask = Callable[[Choose], object]
"""Calls the seller's choosing function with the framework's request.

It may return or raise an error; the framework answers one that is raised."""


class BlockingCheckout(Checkout):
    """Drives the flow of one request in the thread that asks."""

    # A waiting thread serves no other request, and a server has few threads. Most payments settle within this
    # time and the time that the service waits itself.
    most_settle_wait = 2.0

    def authorize(self, sold: Offer, snapshot: Callable[[], Restore], ask: Ask | None = None) -> Payment:
        """Ask whether this request may be served, before the handler runs.

        `ask` calls the function of the seller's that chooses an offer with the request of the framework.
        `snapshot` is called once, when the handler may run. What it returns is called before the payer is
        answered, unless the handler's result is released. Raises `SkipHandler` where the handler may not run,
        and `ConfigurationError`.
        """
        if self._admit(sold):
            try:
                chosen = ask(sold.choose) if isinstance(sold, OfferChoice) and ask else None
                flow = self._begin_flow(self._paywall.backend, sold, self._pick(sold, chosen))
                self._handle_first_step(drive(flow), snapshot)
            except ConfigurationError as mistake:
                self._decide_mistake(mistake)
                raise
        return self._get_payment()

    def complete(self) -> Response:
        """Complete the payment with the buffered response; return what the payer gets."""
        if self._answer is not None and self.state is DECIDED:
            return self._answer
        return self._finish(self._make_result())

    def fail(self, error: BaseException) -> Response:
        """Return what the payer gets although the application ended in this error.

        Raises `error` again where its framework answers it.
        """
        if self.state is AUTHORIZED:
            return self._finish(self._make_failure(error))
        return self._get_decided(error)

    def _finish(self, result: HandlerResult | Exception) -> Response:
        flow = self._begin_completion(self._paywall.backend, result)
        return self._set_answer(drive(flow, result))

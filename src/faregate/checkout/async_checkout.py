"""A checkout for event loops. A cancellation of the application does not interrupt its completion."""

import math
from collections.abc import Awaitable, Callable
from functools import partial

import anyio
import anyio.lowlevel

from faregate.checkout.checkout import Checkout, Restore
from faregate.checkout.shielding import get_time, raise_pending_cancellation, run_shielded, run_uncancelled
from faregate.checkout.states import AUTHORIZED, COMPLETED, COMPLETING, DECIDED
from faregate.core import responses
from faregate.core.driver import adrive
from faregate.core.interfaces import Flow
from faregate.core.models import Choose, HandlerResult, Offer, OfferChoice, Response
from faregate.core.reported_values import Payment
from faregate.errors import ConfigurationError

AsyncAsk = Callable[[Choose], Awaitable[object]]
"""`blocking_checkout.Ask`, async."""


class AsyncCheckout(Checkout):
    """Drives the flow of one request in its event loop.

    `cancel_scope` is the scope in which an async handler runs, if it can be cancelled.
    """

    cancel_scope: anyio.CancelScope | None = None
    _completion: anyio.Event | None = None

    async def aauthorize(
        self, sold: Offer, snapshot: Callable[[], Restore], ask: AsyncAsk | None = None
    ) -> Payment:
        """Authorize as `BlockingCheckout` does. `cancel_scope` then limits the time of the handler."""
        if self._admit(sold):
            try:
                chosen = await ask(sold.choose) if isinstance(sold, OfferChoice) and ask else None
                flow = self._begin_flow(self._paywall.async_backend, sold, self._pick(sold, chosen))
                self._handle_first_step(await adrive(flow), snapshot)
            except ConfigurationError as mistake:
                self._decide_mistake(mistake)
                raise
            if self._work is not None and self.cancel_scope is not None:
                self.cancel_scope.deadline = get_time() + self._work.seconds
        return self._get_payment()

    async def acomplete(self) -> Response:
        """Complete the payment with the buffered response; return what the payer gets."""
        if self._answer is not None and self.state is DECIDED:
            return self._answer
        return await self._afinish(self._make_result())

    async def afail(self, error: BaseException) -> Response:
        """Return the response to the payer after the application raised `error`.

        Raises `error` again if the framework answers it.
        """
        if self.state is AUTHORIZED:
            return await self._afinish(self._make_failure(error), isinstance(error, GeneratorExit))
        if self.state in (COMPLETING, COMPLETED):
            return await self.wait_completed()
        return self._get_decided(error)

    async def wait_completed(self) -> Response:
        """Wait for a completion that goes on although the application was cancelled in it."""
        if self.state is COMPLETING:
            self._completion = self._completion or anyio.Event()
            await self._completion.wait()
        return self._answer or responses.build_unconfirmed(self.transaction_id)

    async def _afinish(self, result: HandlerResult | Exception, is_closing: bool = False) -> Response:
        # A coroutine that ends in GeneratorExit is being closed, and may wait for nothing.
        run = run_shielded if is_closing else run_uncancelled
        await self._lift_deadline()
        if not is_closing:
            await raise_pending_cancellation()
            if self.state is not AUTHORIZED:  # another task of the handler's was faster
                return await self.wait_completed()
        flow = self._begin_completion(self._paywall.async_backend, result)
        await run(partial(self._drive_to_end, flow, result))
        return self._answer or await self.wait_completed()

    async def _lift_deadline(self) -> None:
        if self.cancel_scope is not None:
            if self.cancel_scope.cancel_called:
                # A cancellation is pending: let it be raised here, or it would interrupt the completion.
                await anyio.lowlevel.checkpoint()
            self.cancel_scope.deadline = math.inf

    async def _drive_to_end(self, flow: Flow[Response], result: HandlerResult | Exception) -> None:
        try:
            self._set_answer(await adrive(flow, result))
        finally:
            if self.state is COMPLETING:  # the flow raised, so that there is no answer
                self._move(COMPLETED)
                if self._work is not None:
                    self._work.restore()
            if self._completion is not None:
                self._completion.set()

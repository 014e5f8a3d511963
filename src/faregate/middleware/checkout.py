"""The checkout of one request, sync and async: what every adapter drives. It decides nothing.

An adapter makes one checkout per request. A paid handler opens it (`open`), which drives the flow up to the
work. The adapter passes the handler's response to `conclude`, or its error to `abandon`, which drive the flow
to its end. What they return is all that may leave.
"""

import math
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from time import monotonic

import anyio
import anyio.lowlevel

from faregate.core import responses
from faregate.core.driver import Turn, adrive, drive, raised, resumed, started
from faregate.core.flow import serve
from faregate.core.models import HandlerResult, Offer, PaidRequest, Response
from faregate.core.steps import Flow, RunHandler
from faregate.errors import ConfigurationError, SoldTwice, WorkTimedOut
from faregate.middleware.path_rules import ANYWHERE, Place
from faregate.middleware.request_body import digest_body
from faregate.middleware.shielding import to_the_end
from faregate.payment import Payment
from faregate.paywall import Paywall
from faregate.unused_offers import watch_offers


class SkipHandler(Exception):
    """Raised in the handler's place: what the payer gets is decided already."""

    def __init__(self, status: int) -> None:
        super().__init__("this request is not paid for")
        self.status = status


class Checkout:
    """The state of one request.

    `payment` is there once the handler may work; `verdict` once the payer's answer is decided without
    it; `begun` once a response that nobody pays for is on its way. `is_sold_inside` once another paywall,
    between this one and the handler, sells it. `limit` is the scope in which an awaiting handler runs, if
    it can be cut off.
    """

    def __init__(
        self, paywall: Paywall, method: str, sale_of: Callable[[Offer], PaidRequest], place: Place = ANYWHERE
    ) -> None:
        self._paywall = paywall
        self._method = method
        self._sale_of = sale_of
        self._sale: PaidRequest | None = None
        self._flow: Flow[Response] | None = None
        self._answer: Response | None = None
        self._concluded: anyio.Event | None = None
        self._request_began = monotonic()
        self._work_began = 0.0
        self._work_seconds = math.inf
        self._sold_twice: SoldTwice | None = None
        self._restore: list[Callable[[], None]] = []
        self._made = watch_offers()
        self.place = place
        self.payment: Payment | None = None
        self.verdict: Response | None = None
        self.mistake: ConfigurationError | None = None
        self.begun = False
        self.is_sold_inside = False
        self._body_digest: str | None = None
        self.finished = False
        self._over = False
        self.limit: anyio.CancelScope | None = None
        if place.ambiguous:
            self._refuse_path()

    @property
    def result_bytes(self) -> int:
        """How much of a result is held."""
        return 0 if self._sale is None else self._sale.result_bytes

    @property
    def transaction_id(self) -> str | None:
        return None if self.payment is None else self.payment.transaction_id

    @property
    def ground_offer(self) -> Offer | None:
        """What the ground itself sells, to be opened before the application is asked."""
        return None if self.place.ambiguous else self.place.offer

    # Before the work

    @property
    def has_body(self) -> bool:
        """Whether `take_body` was called."""
        return self._body_digest is not None

    def take_body(self, body: bytes | None, content_type: str) -> None:
        """Bind the payment to this body, before `open`. None is a body that ended early: nothing runs."""
        if body is None:
            self.refuse(400, "incomplete_body", "The request body ended early. Send the whole body.")
        else:
            self._body_digest = digest_body(body, content_type)

    def open(self, sold: Offer) -> Payment:
        """Ask whether this request may be served. Raises `SkipHandler` when it may not."""
        if not self._is_new(sold):
            return self._granted()
        with self._mistakes():
            flow = self._begun(sold)
            self._reached(drive(flow, self._paywall.world, started(flow)))
        return self._granted()

    async def aopen(self, sold: Offer) -> Payment:
        """`open`, awaiting; from here on the handler can be cut off by `limit`."""
        if not self._is_new(sold):
            return self._granted()
        with self._mistakes():
            flow = self._begun(sold)
            self._reached(await adrive(flow, self._paywall.async_world, started(flow)))
        if self.limit is not None and self._sale is not None and self.transaction_id is not None:
            self.limit.deadline = anyio.current_time() + self._work_seconds
        return self._granted()

    def refuse(self, status: int, code: str, message: str) -> None:
        """Nothing of this request is served."""
        self.verdict = responses.refused(status, code, message)

    def refuse_closed(self) -> None:
        """Nothing is for sale here, and nothing is free."""
        self.refuse(403, "not_for_sale", "This resource is not for sale.")

    def withhold(self, mistake: ConfigurationError) -> None:
        """Let nothing leave, because the seller's mistake would give it away. Raises `mistake`."""
        with self._mistakes():
            raise mistake

    def check_unopened(self) -> None:
        """Withhold a result of a request that made an offer and opened none. Raises `ConfigurationError`."""
        if self._made and not self.is_sold_inside:
            sells = self._made[0].sells
            self.withhold(
                ConfigurationError(
                    f"The offer {sells!r} was made while a request was served, and sells nothing there. "
                    "Make it where the handler is defined, as its decorator or as "
                    f"Depends(paid({sells!r})): not inside the handler or a function that it depends on."
                )
            )

    def lets_pass(self) -> bool:
        """Whether a response that nobody pays for may leave; on closed ground it may not."""
        if self.place.closed and not self.is_sold_inside:
            self.refuse_closed()
            return False
        self.begun = True
        return True

    def _refuse_path(self) -> None:
        message = "A path on this server begins with a slash and is UTF-8 without dot-dot segments."
        self.refuse(400, "ambiguous_path", message)

    def _is_new(self, sold: Offer) -> bool:
        if self._over:
            # A thread that goes on, or a request that was begun below this one: what it sells reaches nobody.
            raise ConfigurationError(f"A handler sells {sold.sells!r} when its request is over already.")
        if self.payment is not None and self._sale is not None and self._sale.offer == sold:
            return False
        if self._sale is not None or self.begun:
            mistake = "One request reached two offers. Put one offer on the handler or its group."
            self._sold_twice = SoldTwice(mistake)
            raise ConfigurationError(mistake)
        if not self.place.is_path:
            self._refuse_path()
        if self.verdict is not None:
            return False
        if self._method == "OPTIONS":
            # Costs nothing and runs nothing. CORS is a middleware's, outside: a 402 needs it as well.
            self.verdict = Response(204, (responses.NO_STORE,))
            return False
        return True

    @contextmanager
    def _mistakes(self) -> Generator[None]:
        try:
            yield
        except ConfigurationError as mistake:
            # Whoever catches this in between must not go on as if it were paid.
            self.verdict, self.mistake = responses.trouble(502), mistake
            raise

    def _begun(self, sold: Offer) -> Flow[Response]:
        sale = self._sale_of(sold)
        if self._body_digest is not None:
            sale = replace(sale, request=replace(sale.request, body_digest=self._body_digest))
        self._sale, self._flow = sale, serve(sale)
        return self._flow

    def _reached(self, step: Response | RunHandler) -> None:
        if isinstance(step, RunHandler):
            self.payment = Payment(step.transaction_id)
            self._work_began = monotonic()
            elapsed = self._work_began - self._request_began
            self._work_seconds = self._paywall.work_seconds(step.sale, elapsed)
        else:
            self.verdict = step

    def _granted(self) -> Payment:
        if self.payment is None or self.verdict is not None:
            raise SkipHandler(500 if self.verdict is None else self.verdict.status)
        return self.payment

    def restore_unless_released(self, restore: Callable[[], None]) -> None:
        """Have `restore` called once, before the payer is answered, unless the handler's result is released.

        For what a handler writes beside its response: a session, messages, the state of the request.
        """
        self._restore.append(restore)

    def hurry(self) -> None:
        """With each piece of a result, where nobody can cut the handler off. Raises `WorkTimedOut`."""
        if self.transaction_id is not None and monotonic() - self._work_began > self._work_seconds:
            raise WorkTimedOut("the work took longer than its payment is valid")

    # After the work

    def conclude(self, response: Response) -> Response:
        """The handler answered: what the payer gets."""
        if self._sold_twice is not None:
            return self.abandon(self._sold_twice)
        turn = self._ending(resumed(self._open_flow(), self._work(response)))
        return self._answered(drive(self._open_flow(), self._paywall.world, turn))

    def abandon(self, error: Exception) -> Response:
        """The handler raised: what the payer gets. Raises `error` again where the framework answers it."""
        turn = self._ending(raised(self._open_flow(), error))
        return self._answered(drive(self._open_flow(), self._paywall.world, turn))

    async def aconclude(self, response: Response) -> Response:
        """`conclude`, awaiting. Whatever cuts the application off does not cut this off."""
        if self._sold_twice is not None:
            return await self.aabandon(self._sold_twice)
        turn = resumed(self._open_flow(), self._work(response))
        await self._unlimited()
        return await self._to_the_end(self._ending(turn))

    async def aabandon(self, error: Exception) -> Response:
        """`abandon`, awaiting."""
        await self._unlimited()
        return await self._to_the_end(self._ending(raised(self._open_flow(), error)))

    async def owed(self) -> Response:
        """The answer of a completion that goes on although the application was cut off in it."""
        if self._concluded is not None:
            await self._concluded.wait()
        return self._answer or responses.unconfirmed(self.transaction_id)

    def close(self) -> None:
        """Nothing more will be asked: an unfinished flow is the same case as a crash."""
        self._over = True
        self._restore_state()
        if self._flow is not None and not self.finished:
            self._flow.close()

    def _work(self, response: Response) -> HandlerResult:
        values = {} if self.payment is None else self.payment.values
        return HandlerResult(response, values, int((monotonic() - self._work_began) * 1000))

    def _ending(self, turn: Turn) -> Turn:
        self.finished = True
        return turn

    async def _unlimited(self) -> None:
        if self.limit is not None:
            if self.limit.cancel_called:
                await anyio.lowlevel.checkpoint()  # too late: the cut-off is on its way
            self.limit.deadline = math.inf

    async def _to_the_end(self, turn: Turn) -> Response:
        self._concluded = anyio.Event()
        await to_the_end(lambda: self._aconclude(turn))
        return await self.owed()

    async def _aconclude(self, turn: Turn) -> None:
        try:
            self._answered(await adrive(self._open_flow(), self._paywall.async_world, turn))
        finally:
            if self._concluded is not None:
                self._concluded.set()

    def _answered(self, answer: Response | RunHandler) -> Response:
        if isinstance(answer, RunHandler):
            raise RuntimeError("the flow asked for the work twice")
        self._answer = answer
        if answer.released:
            self._restore.clear()
        self._restore_state()
        return answer

    def _restore_state(self) -> None:
        while self._restore:
            self._restore.pop()()

    def _open_flow(self) -> Flow[Response]:
        if self._flow is None:
            raise RuntimeError("the gate is not open")
        return self._flow

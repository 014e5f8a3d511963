"""The checkout of one HTTP request: the state of its payment, and what may leave. All adapters drive it.

An adapter makes one checkout per request and passes `read_body`, which reads a small body early: the payment
is bound to that body. A paid handler calls `authorize`, which drives the payment flow up to the work. When
the application has answered, the adapter calls `complete` with the buffered response, or `fail` with the
error that ended it; both drive the flow to its end and return what the payer gets. The three are in
`blocking_checkout`, and in `async_checkout` as `aauthorize`, `acomplete` and `afail`. Before a response
without a payment leaves, the adapter asks `allow_unpaid`. Nothing leaves by another way.

The usual moves (`states.TRANSITIONS` has all of them):

    NEW ── authorize ──> AUTHORIZING ──> AUTHORIZED ── complete, fail ──> COMPLETING ──> COMPLETED
     │                        │
     │                        └──> DECIDED: the payer gets something else than the work (402, 409, 503, ...)
     └── allow_unpaid ──> FREE: the application's own response is on its way
"""

import logging
import math
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from time import monotonic
from typing import NoReturn, cast

from faregate.checkout.buffer import BufferedResponse
from faregate.checkout.copy_detection import RESULTS
from faregate.checkout.descriptions import FindHandler, describe_by_handler
from faregate.checkout.incoming_request import EMPTY_DIGEST, IncomingRequest, comparable_length, digest_body
from faregate.checkout.offer_choice import NOT_CHOSEN, NOT_CHOSEN_PAID, pick_offer
from faregate.checkout.openapi_operations import Operation, PathTemplate, merge_operation, read_path_template
from faregate.checkout.path_rules import NO_RULES, PathMatch
from faregate.checkout.paywall_answers import ANSWERS
from faregate.checkout.states import (
    AUTHORIZED,
    AUTHORIZING,
    CLOSED,
    COMPLETED,
    COMPLETING,
    DECIDED,
    FREE,
    NEW,
    PASSING,
    SOLD_INSIDE,
    TRANSITIONS,
    Answerer,
    State,
)
from faregate.core import responses
from faregate.core.billing import TOOK_TOO_LONG
from faregate.core.flow import serve
from faregate.core.interfaces import Backend, Flow, RunHandler
from faregate.core.models import HandlerResult, HasPayerLeft, Headers, Offer, OfferChoice, Request, Response
from faregate.core.reported_values import Payment
from faregate.core.withholding import (
    COPIED,
    Bypass,
    build_plain_redirect,
    find_transaction,
    is_harmless_error,
    is_marked,
    may_be_result,
)
from faregate.errors import ConfigurationError, SoldTwice, WorkInterrupted, WorkTimedOut
from faregate.logs import log
from faregate.observers import GuardedSpan
from faregate.offers import OFFERS_MADE
from faregate.paywall import FindRoute, Paywall

Restore = Callable[[], None]
"""Takes back what a handler wrote beside its response, as into a session."""
ReadRequest = Callable[[], IncomingRequest]
ReadBody = Callable[[int], bytes | None]
"""Reads a body of this length, and leaves it to be read again; None if it ends early."""
FindBypass = Callable[[int], Bypass | None]
"""Finds what answered with this status in place of a paid handler; None if the answer may leave."""


class SkipHandler(Exception):
    """Raised in the handler's place: what the payer gets is decided already."""

    def __init__(self, status: int) -> None:
        super().__init__("the answer to this request is decided without the handler")
        self.status = status


@dataclass(slots=True)
class Work:
    """The work of one request: its time, at most `seconds`, its trace, and how to undo what it writes.

    Free work has no limit. `undo` is set for a handler; `span` traces it.
    """

    start: float
    seconds: float
    undo: Restore | None = None
    span: GuardedSpan | None = None

    @property
    def is_late(self) -> bool:
        return monotonic() - self.start > self.seconds

    def get_duration(self) -> int:
        """Return for how long the work has run, in milliseconds."""
        return int((monotonic() - self.start) * 1000)

    def end(self, result: HandlerResult | BaseException | None) -> None:
        """End the trace, once."""
        span, self.span = self.span, None
        if span is not None:
            span.end(result)

    def restore(self, *, is_released: bool = False) -> None:
        """Take back what the handler wrote, once; keep it for good if its result is released."""
        undo, self.undo = self.undo, None
        if undo is not None and not is_released:
            undo()


def _find_no_bypass(_status: int) -> None:
    """Find no bypass: for adapters that do not know the handlers."""


def _raise_ended() -> IncomingRequest:
    raise RuntimeError("the request of this checkout has ended")


class Checkout:
    """The checkout of one request. `read` reads it; `find_bypass` finds how a paid handler was bypassed.

    `read_body` is called at once, if the payment is to be bound to the body: what runs next may consume it.
    An adapter that awaits its body, and can give it out again, calls `bind_body` before `authorize` instead.

    Pass `state` and `offers_made` of a request that was watched before its checkout was opened.

    `payment` is there once the handler may run. `buffer` holds what it answers. `find_route` finds the route
    of the request; `find_handler` what describes its handler, for payers, and `find_operation` the OpenAPI
    operation that documents it. `late` is the mistake that was found after a response began, such as a late
    price or a copied result: the adapter cuts the response, also if the handler goes on.
    """

    # Defaults are on the class, and values that can wait are made later: most requests reach no paid handler.
    payment: Payment | None = None
    find_route: FindRoute | None = None
    find_handler: FindHandler | None = None
    find_operation: Callable[[], Operation | None] | None = None
    late: ConfigurationError | None = None
    is_body_recorded = True
    """Whether the whole body of the result is recorded, so that copies of it are found."""
    recorded = b""
    """The body as the handler or its router sent it; middleware outside may have changed it since."""
    has_payer_left: HasPayerLeft | None = None
    """Finds whether the payer waits no longer; None if the adapter cannot tell."""
    most_settle_wait = math.inf
    """For how many seconds the adapter can wait for a payment to settle."""
    answerer = Answerer.HANDLER
    """Who made the response that is buffered."""
    has_answered_result = False
    """Whether the handler has answered with what may be a result; middleware may make an error of it."""
    is_prefix_called = False
    """Whether a handler below the sold prefix was called with this payment."""
    has_called_handler: bool | None = None
    """Whether the framework has called a handler for this request; None if the adapter cannot tell."""
    outer: "Checkout | None" = None
    """The checkout of a paywall around this one. It lets only the answer of this checkout leave."""
    _inside_status: int | None = None
    """The status that a paywall between this one and the handler answered with."""
    _sent_unpaid: bytearray | None = None
    """The body that leaves unpaid so far, while it may be the copy of a result."""
    _offers_at_start: float = math.inf
    """How many offers had been made when a response of the application began; infinite before."""
    has_transaction = False
    """Whether the work has a transaction: if it succeeds, its payer is charged. False if access is free."""
    _body_digest = ""
    _expected: Offer | None = None
    """The offer that the handler has to await; see `expect`."""
    _sold: Offer | None = None
    """The offer that a handler asked payment for; it may be a choice."""
    _offer: Offer | None = None
    """The offer that is charged: picked from a choice, and described by the handler."""
    _flow: Flow[Response] | None = None
    _handler_step: RunHandler | None = None
    """Where the flow waits for the handler."""
    _answer: Response | None = None
    _mistake: ConfigurationError | None = None
    _sold_twice: SoldTwice | None = None
    _asks_left: int | None = None
    """How often the payment may be asked for again; None before the work, when there is no limit."""
    _call: object = None
    """The call of the application that asked for the payment, if the adapter says which."""
    _work: Work | None = None
    _resource_url = ""

    def __init__(
        self,
        paywall: Paywall,
        read: ReadRequest,
        has_payment: bool,
        path_match: PathMatch = NO_RULES,
        find_bypass: FindBypass = _find_no_bypass,
        *,
        read_body: ReadBody | None = None,
        state: State = NEW,
        offers_made: list[Offer] | None = None,
    ) -> None:
        self.state = state
        self.has_payment = has_payment
        self.path_match = path_match
        self.buffer = BufferedResponse()
        self._paywall = paywall
        self._read = read
        self._find_bypass = find_bypass
        self.request_start = monotonic()
        self._offers_made: list[Offer] = [] if offers_made is None else offers_made
        if offers_made is None:
            OFFERS_MADE.set(self._offers_made)
        if state is FREE:
            self._offers_at_start = 0
        if path_match.ambiguous:
            self._refuse_path()
        elif read_body is not None and (length := self.body_length) is not None:
            self.bind_body(read_body(length))

    @cached_property
    def incoming(self) -> IncomingRequest:
        """The request, read when it is first needed."""
        return self._read()

    @property
    def transaction_id(self) -> str | None:
        return None if self.payment is None else self.payment.transaction_id

    @property
    def is_selling_work(self) -> bool:
        """Whether the application now sends work that is sold, and not proven to be paid yet."""
        return self.state is AUTHORIZED and self.has_transaction

    def may_be_result(self, status: int) -> bool:
        """Whether a response of the handler with this status may be, or come of, its result."""
        return may_be_result(status, () if self._offer is None else (self._offer,))

    @property
    def prefix_offer(self) -> Offer | None:
        """The offer of the path's prefix, to be authorized before the application is called."""
        return None if self.path_match.ambiguous else self.path_match.offer

    def _move(self, state: State) -> None:
        if state not in TRANSITIONS[self.state]:
            raise RuntimeError(f"a checkout that is {self.state.name} cannot become {state.name}")
        self.state = state

    # Before the work

    @property
    def body_length(self) -> int | None:
        """How many bytes of the body are to be bound before `authorize`; None if none are."""
        is_due = self.has_payment and not self._body_digest and self.state in PASSING
        return comparable_length(self.incoming.content_length) if is_due else None

    def bind_body(self, body: bytes | None) -> None:
        """Bind the payment to this body. None stands for a body that ended early: the request is refused."""
        if body is None:
            self.refuse(400, "incomplete_body", "The request body ended early. Send the whole body.")
        else:
            self._body_digest = digest_body(body, self.incoming.content_type) if body else EMPTY_DIGEST

    def check_path(self, *paths: str) -> None:
        """Check that the router got the path of the request. `paths` are spellings of the path that it got.

        A slash at its end may be missing or be there: routers such as Litestar's strip it themselves.
        Code that rewrites paths between the paywall and the router could also lead a request to a sold
        handler that the paywall does not find by the request's own path. Raises `ConfigurationError`.
        """
        if self.state in (NEW, SOLD_INSIDE) and self.path_match.is_path:
            incoming = self.incoming
            if incoming.path in paths:
                return
            request_paths = {
                incoming.path.removesuffix("/"),
                (incoming.root_path + incoming.path).removesuffix("/"),
            }
            if request_paths.isdisjoint(path.removesuffix("/") for path in paths):
                self.withhold(_PATH_REWRITTEN)

    def begin_call(self, call: object) -> None:
        """Note which call of the application asks next: one payment is for one call.

        `call` is an object that the framework makes anew for each call. Raises `ConfigurationError`.
        """
        if self._call is None:
            self._call = call
        elif call is not self._call and self.payment is not None and self._sold is not None:
            self._refuse_second(self._sold)

    def begin_prefix_call(self) -> None:
        """Note that a handler is called: the payment of a prefix, too, is for one call.

        Raises `ConfigurationError`.
        """
        if self.path_match.offer is None or self.state is not AUTHORIZED:
            return
        if self.is_prefix_called:
            self._raise_sold_twice(_CALLED_TWICE.format(self.path_match.prefix))
        self.is_prefix_called = True

    def start_work(self, prices_inside: int = 0) -> None:
        """Note that the handler runs now: its payment may be asked for only `prices_inside` times more.

        `prices_inside` is how many more decorators with the same offer are below this one.
        """
        if self._asks_left is None:
            self._asks_left = prices_inside

    def expect(self, sold: Offer) -> None:
        """Let no result leave before `aauthorize` (of `async_checkout`) was awaited for this offer.

        Raises `ConfigurationError` after the response has begun, awaited or not.
        """
        self._expected = sold
        if self.state is FREE:
            self._raise_late_price(sold)

    def _admit(self, offer: Offer) -> bool:
        """Return whether to start the flow. False: it was started, or the payer's answer is decided.

        Raises `ConfigurationError`.
        """
        if self.state is CLOSED:
            # The client is gone (a thread outlived its request, or a request began inside this one), or a
            # stream is being sent: it must not carry a result whose payment was asked for too late.
            self.late = ConfigurationError(f"A handler sells {offer.sells!r} after its request has ended.")
            raise self.late
        if self._mistake is not None:
            raise self._mistake
        if self.payment is not None and self._sold == offer and self._asks_left != 0:
            if self._asks_left is not None:
                self._asks_left -= 1
            return False
        if self.state is FREE:
            self._raise_late_price(offer)
        if self._sold is not None:
            self._refuse_second(offer)
        if self.outer is not None and self.outer.payment is not None:
            self._raise_sold_twice(
                f"{offer.sells!r} is sold behind another price that this request has passed: one payment "
                "cannot pay both. Take one of the two away, for example the one on the prefix."
            )
        if not self.path_match.is_path:
            self._refuse_path()
        incoming = self.incoming
        if incoming.is_upgrade and self.state is not DECIDED:
            # What a handler sends over the connection itself leaves before its payment is proven.
            self.refuse(400, "upgrade_not_sold", _UPGRADE_NOT_SOLD)
        if incoming.request.method == "OPTIONS" and self.state is not DECIDED:
            # OPTIONS costs nothing and runs no handler. CORS is for middleware outside of the paywall: a 402
            # needs its headers, too.
            self._decide(Response(204, (responses.NO_STORE,)))
        if self.state is DECIDED:
            return False
        self._sold = offer  # now: while a function chooses, another task could ask
        return True

    def _refuse_second(self, offer: Offer) -> NoReturn:
        """Sell nothing for a request that asks twice. Raises `ConfigurationError`."""
        mistake = "One request reached two offers. Put one offer on the handler or its group."
        if self._sold == offer:
            mistake = (
                f"One request asked for the payment of {offer.sells!r} twice. Ask once, before the work: "
                "one payment is for one call of a paid function."
            )
        self._raise_sold_twice(mistake)

    def _raise_sold_twice(self, mistake: str) -> NoReturn:
        self._sold_twice = SoldTwice(mistake)  # so an application that catches the error sells nothing
        raise ConfigurationError(mistake)

    def _raise_late_price(self, offer: Offer) -> NoReturn:
        """Cut off a response that has begun: the rest is not paid. Raises `ConfigurationError`."""
        self.late = self._mistake = ConfigurationError(
            f"The payment of {offer.sells!r} was asked for after the response began. Ask before."
        )
        self._move(DECIDED)
        raise self.late

    def _pick(self, sold: Offer, chosen: object) -> Offer:
        """Return the offer that the request is sold as. Raises `SkipHandler` where none was chosen."""
        if not isinstance(sold, OfferChoice):
            return sold
        offer = pick_offer(sold, chosen)
        if offer is None:
            self.refuse(500, "offer_not_chosen", NOT_CHOSEN_PAID if self.has_payment else NOT_CHOSEN)
            raise SkipHandler(500)
        return offer

    def _begin_flow(self, backend: Backend, sold: Offer, offer: Offer) -> Flow[Response]:
        self._move(AUTHORIZING)
        incoming = self.incoming
        unbound = incoming.request
        request = Request(unbound.method, unbound.url, unbound.headers, self._body_digest)
        resource_url = self._paywall.resource_urls.build(
            incoming.path, incoming.origin, incoming.host, incoming.is_forwarded
        )
        if resource_url is None:
            self._decide(responses.build_unavailable(502))
            raise SkipHandler(502)
        is_chosen, offer = sold is not offer, describe_by_handler(offer, self.find_handler)
        paid_request = self._paywall.build_request(
            offer,
            request,
            resource_url,
            is_chosen=is_chosen,
            find_route=self._find_route,
            find_operation=self._find_operation,
            prefix_host=(incoming.host or "") if sold is self.path_match.offer else None,
            has_payer_left=self.has_payer_left,
            settle_wait=self.most_settle_wait,
            request_start=self.request_start,
        )
        if self.outer is not None:
            self.outer.mark_sold_inside()
        self._offer, self.buffer.limit = offer, paid_request.result_bytes
        self._resource_url = resource_url
        self._flow = serve(backend, paid_request)
        return self._flow

    def _find_route(self) -> str | None:
        """Find the route of the request, or the prefix that is sold. Errors of a framework stop no sale."""
        with suppress(Exception):
            if self.find_route is not None and (route := self.find_route()):
                return route
        return self.path_match.prefix

    def _find_operation(self) -> tuple[str, Operation] | None:
        """Return the route and the OpenAPI operation that a catalogue lists; None if it lists nothing.

        A framework's errors stop no sale.
        """
        route: PathTemplate | None = None
        operation: Operation | None = {}
        with suppress(Exception):
            route = read_path_template(self.find_route() or "") if self.find_route is not None else None
        try:
            operation = self.find_operation() if self.find_operation is not None else operation
        except Exception as error:
            log("sale", logging.WARNING, "the handler cannot be described to catalogues", error=error)
        if operation is None or self._offer is None:
            return None
        return ("" if route is None else route.path), merge_operation(operation, self._offer.operation)

    def _handle_first_step(self, step: Response | RunHandler, snapshot: Callable[[], Restore]) -> None:
        """Decide the payer's answer, or let the handler run: the flow says which."""
        if isinstance(step, Response):
            if step.status == 402 and self._offer is not None:
                self._paywall.record_price(self._offer, step)
            self._decide(step)
            return
        self._move(AUTHORIZED)
        self._handler_step = step
        self.payment = Payment(step.transaction_id, step.request.offer.sells, step.request.http.headers)
        self.has_transaction = step.transaction_id is not None
        start, seconds = monotonic(), math.inf
        if self.has_transaction:
            seconds = self._paywall.get_work_seconds(step.request, start - self.request_start)
        self._work = work = Work(start, seconds)
        work.undo = snapshot()
        if self._paywall.instrumentation is not None:
            work.span = self._paywall.instrumentation.begin_work(step.request, step.transaction_id)

    def _get_payment(self) -> Payment:
        if self.payment is None:
            raise SkipHandler(500 if self._answer is None else self._answer.status)
        return self.payment

    # Responses without a payment

    def refuse(self, status: int, code: str, message: str) -> None:
        """Answer the request with an error, in place of the handler."""
        self._decide(responses.build_refused(status, code, message))

    def refuse_unsold(self) -> None:
        """Refuse a path without an offer below a refused prefix: it is not for sale, and not free."""
        self.refuse(403, "not_for_sale", "This resource is not for sale.")

    def withhold(self, mistake: str) -> NoReturn:
        """Let no response of the handler leave: a mistake of the seller would give its result away.

        Raises `ConfigurationError`.
        """
        error = ConfigurationError(mistake)
        if self.state is FREE:
            self.late = error  # a response has begun, and no other can replace it
        self._decide_mistake(error)
        raise error

    def check_late(self) -> None:
        """Raise the mistake that was found after a response began: a late price, or a copy of a result."""
        if self.late is None and len(self._offers_made) > self._offers_at_start:
            self._raise_late(ConfigurationError(self._describe_unpaid_offer()))
        if self.late is not None:
            raise self.late

    def _raise_late(self, mistake: ConfigurationError) -> NoReturn:
        """End a response that is on its way. Raises `ConfigurationError`."""
        self.late = mistake
        # If it is CLOSED, nothing is left to decide: a server sends what a generator still gives.
        if self.state is FREE:
            self._decide_mistake(mistake)
        raise mistake

    def mark_sold_inside(self, status: int | None = None) -> None:
        """Leave the payment to another paywall, between this one and the handler.

        `status` is the status of the other paywall's answer, once there is one.
        """
        if self.state is NEW:
            self._move(SOLD_INSIDE)
        self._inside_status = status

    def allow_unpaid(self, status: int, read_headers: Callable[[], Headers] = tuple) -> bool:
        """Decide whether a response without a payment may leave (`core.withholding`).

        `read_headers` reads its headers. Raises `ConfigurationError` for a response in place of sold work.
        """
        if self.state is DECIDED:
            return False
        # If it is sold inside, the inner paywall looks for a bypass and for a refused path.
        if self.state is SOLD_INSIDE:
            if status != self._inside_status and not is_harmless_error(status):
                self.withhold(COPIED)  # the status is another one, so a cache may have answered
            self.has_called_handler = None
        else:
            headers = read_headers()
            mistake = self._describe_unpaid_offer()
            bypass = None if mistake else self._find_bypass(status)
            if self.is_answered_inside(status, headers):
                self.has_called_handler = None  # a handler that this paywall does not see
            # A free handler may pass on what it has bought elsewhere.
            is_from_cache = self.has_called_handler is False and find_transaction(headers) is not None
            if not mistake and (is_from_cache or is_marked(headers)):
                mistake, bypass = (COPIED if bypass is None else bypass.mistake), None
            if mistake or bypass:
                answer = self.build_plain(status, headers, bypass)
                if answer is None:
                    self.withhold(mistake if bypass is None else bypass.mistake)
                self._decide(answer)
                return False
            if self.path_match.refused:
                self.refuse_unsold()
                return False
        self._move(FREE)
        self._offers_at_start = len(self._offers_made)
        if self.outer is not None:
            self.outer.has_called_handler = self.has_called_handler
        return True

    def is_answered_inside(self, status: int, headers: Headers) -> bool:
        """Whether a paywall inside made the answer with these headers for the payment of this request."""
        if not self.has_payment:
            return False
        return ANSWERS.has(self.incoming.request, status, headers, self.request_start)

    def check_body(self, body: Iterable[bytes]) -> None:
        """Withhold a result's body from an answer without a call of a handler. Raises `ConfigurationError`.

        A cache that stores only bodies loses the mark of a result, and may serve the body from a free
        address.
        """
        if self.has_called_handler is False:
            whole = b"".join(body)
            if RESULTS.is_copy(whole):
                self.withhold(COPIED)
            RESULTS.add_free(whole)

    def check_replaced(self, own: bytes, body: bytes) -> None:
        """Withhold the body of a result that a cache put in place of what a free handler answered.

        Raises `ConfigurationError`.
        """
        if body != own and RESULTS.is_copy(body) and not RESULTS.is_copy(own):
            self.withhold(COPIED)

    def check_chunk(self, chunk: bytes) -> None:
        """Check a body that is sent in chunks, before each chunk: the last chunk of a copy is withheld."""
        if self.has_called_handler is not False or RESULTS.longest == 0:
            return
        sent = self._sent_unpaid = bytearray() if self._sent_unpaid is None else self._sent_unpaid
        if len(sent) <= RESULTS.longest:
            sent += chunk
            if RESULTS.may_have_length(len(sent)) and RESULTS.is_copy(bytes(sent)):
                self._raise_late(ConfigurationError(COPIED))

    def build_plain(self, status: int, headers: Headers, bypass: Bypass | None) -> Response | None:
        """Build a response that certainly has no result, in place of one that may; None if there is none.

        There is one for OPTIONS, and for a redirect, such as to a login.
        """
        incoming = self.incoming
        if incoming.request.method == "OPTIONS":
            return responses.build_preflight(headers)
        if bypass is None:
            return None
        url, host = incoming.request.url, incoming.host or ""
        return build_plain_redirect(status, headers, url, incoming.root_path, host, bypass.is_free_page)

    def _describe_unpaid_offer(self) -> str:
        if self._expected is not None:
            return (
                f"A handler answered before the payment of {self._expected.sells!r} was asked for: write "
                "await require_payment(...), before the work."
            )
        if not self._offers_made:
            return ""
        sells = self._offers_made[0].sells
        return (
            f"The offer {sells!r} was created while a request was running, and sells nothing there. "
            "Make it where the handler is defined, as its decorator or as "
            f"Depends(paid({sells!r})): not inside the handler or a function that it depends on."
        )

    def _refuse_path(self) -> None:
        message = (
            "A path on this server begins with a slash and is UTF-8 without dot-dot segments. It comes "
            "without X-Vhm-Root, and with one plain X-Script-Name at most. What is sold is not copied or "
            "moved to a Destination."
        )
        self.refuse(400, "ambiguous_path", message)

    def _decide_mistake(self, mistake: ConfigurationError) -> None:
        """Decide before the mistake is raised: a framework may catch it, and go on as if it were paid."""
        self._decide(responses.build_unavailable(502))
        self._mistake = mistake

    def _decide(self, answer: Response) -> None:
        self._move(DECIDED)
        self._answer = self._present(answer)
        if self.outer is not None:
            self.outer.mark_sold_inside(answer.status)

    def _present(self, answer: Response) -> Response:
        """Present an answer of the paywall in the format of this payer; a result stays as it is."""
        incoming = self.incoming
        if self.has_payment:
            ANSWERS.add(incoming.request, answer.status, answer.headers)
        if not answer.code:
            return answer
        return self._paywall.render_response(
            answer, incoming.request, incoming.accept, self._resource_url, self._offer
        )

    # After the work

    def _is_error_billed(self, status: int) -> bool:
        return self._offer is not None and status in (self._offer.billable or ())

    def note_answered_error(self) -> None:
        """Note that the work raised: an answer without an error status is then no result."""
        if self.state is AUTHORIZED:
            self.answerer = Answerer.ERROR_HANDLER

    def note_no_result(self) -> None:
        """Note that the handler raised, sent an error or cut its response: what follows is not a result."""
        self.buffer.may_be_replaced = True
        if self.answerer is Answerer.HANDLER:
            self.answerer = Answerer.NONE

    def note_replacement_handler(self) -> None:
        """Note that another handler is called in place of one that raised."""
        if self.answerer is Answerer.NONE:
            self.answerer = Answerer.HANDLER

    def note_status(self, status: int) -> None:
        """Note with which status a route answered: if it failed, what replaces its error is not a result.

        An error that is made of a result may carry it. Below a prefix something else may answer in place of a
        route that was not found.
        """
        billed = self._is_error_billed(status)
        if status < 400 or billed:
            self.has_answered_result = True
        if status >= 400 and not billed and (self.path_match.offer is None or self.is_prefix_called):
            self.note_no_result()

    def check_deadline(self) -> None:
        """Raise `WorkTimedOut` if the work took too long: called where the handler cannot be cancelled."""
        if self._work is not None and self._work.is_late:
            raise build_timeout_error()

    def must_raise(self, error: BaseException) -> bool:
        """Whether the server has to hear of an error that ended the application.

        It does unless the error is answered by `fail`, or is our own way to stop the handler. A seller's
        configuration error is raised to the server if it has decided the payer's answer.
        """
        if self.state is AUTHORIZED:
            return False
        if self.state is DECIDED:
            return error is self._mistake
        return not _is_skip(error)

    def close(self) -> None:
        """End the checkout: the request is over.

        A flow that completes goes on. Any other is closed, and its payment left to the sweep.
        """
        is_completed = self.state is COMPLETED
        must_close_flow = not is_completed and self.state is not COMPLETING
        self.state = CLOSED  # from every state
        if self._work is not None and not is_completed:  # a completed one was restored or released
            self._work.restore()
            self._work.end(None)
        if self._flow is not None and must_close_flow:
            self._flow.close()
        # These refer to the request, and the request to this checkout: break the cycle to free both.
        self._read, self._find_bypass = _raise_ended, _find_no_bypass
        self.find_route = self.find_handler = self.find_operation = self._call = self.outer = None
        self.has_payer_left = None
        if is_completed:
            self._handler_step = None

    def _make_result(self) -> HandlerResult | Exception:
        duration = 0 if self._work is None else self._work.get_duration()
        buffer = self.buffer
        is_result, was_result = not is_harmless_error(buffer.status), self.has_answered_result
        if is_result and self.is_body_recorded and (body := buffer.body) != self.recorded:
            RESULTS.add(body)
        elif not (is_result or self._is_error_billed(buffer.status)) and RESULTS.is_copy(buffer.body):
            # A cache may have answered failed work with an earlier result, for which this payment does not
            # pay.
            was_result = True
            log("sale", logging.WARNING, _STALE, buffer.status, self.transaction_id)
        # A framework may have caught these errors; what it answered instead is not sold.
        failure = self._sold_twice or buffer.failure
        if failure is not None:
            return failure
        values = {} if self.payment is None else self.payment.values
        is_replacement = self.answerer is not Answerer.HANDLER
        return HandlerResult(buffer.build(), values, duration, is_replacement, was_result)

    def _make_failure(self, error: BaseException) -> Exception:
        if not isinstance(error, Exception):
            error = WorkInterrupted(f"the handler raised {type(error).__name__}")
        return self.buffer.failure or error

    def _set_answer(self, answer: Response | RunHandler) -> Response:
        if isinstance(answer, RunHandler):
            raise RuntimeError("the flow asked for the work twice")
        answer = self._answer = self._present(answer)
        if self.outer is not None:
            self.outer.mark_sold_inside(answer.status)
        if self.state is COMPLETING:  # CLOSED if the request ended while the flow went on
            self._move(COMPLETED)
        if self._work is not None:
            self._work.restore(is_released=answer.released)
        return answer

    def _get_decided(self, error: BaseException) -> Response:
        if self._answer is None or self.state is not DECIDED:
            raise error
        return self._answer

    def _begin_completion(self, backend: Backend, result: HandlerResult | BaseException) -> Flow[Response]:
        """Return the flow, which goes on after the handler with this backend."""
        if self._flow is None or self._handler_step is None:
            raise RuntimeError("nothing was authorized")
        if self._work is not None:
            self._work.end(result)
        self._move(COMPLETING)
        self._handler_step.backend = backend
        return self._flow


_UPGRADE_NOT_SOLD = (
    "This resource is sold as an HTTP response. Ask for it without Upgrade, websocket headers or CONNECT. "
    "This request charged nothing."
)
_STALE = (
    "an error %d of %s had the body of an earlier result, as from a cache that answers for failed work: only "
    "its status leaves, and nothing is charged"
)
_CALLED_TWICE = (
    "One request called handlers below {!r} twice, and one payment is for one call. Middleware "
    "between the paywall and the application, such as one that tries again, must call it only once."
)
_PATH_REWRITTEN = (
    "Something between the paywall and the router changed the path of a request to a paid handler. "
    "Put it outside: the paywall comes after whatever rewrites paths."
)


def build_timeout_error() -> WorkTimedOut:
    return WorkTimedOut(TOOK_TOO_LONG)


def _is_skip(error: BaseException | None) -> bool:
    """Whether an error is `SkipHandler`, or a group or an error that an application made of it."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(_is_skip, cast("BaseExceptionGroup[BaseException]", error).exceptions))
    return isinstance(error, SkipHandler) or (error is not None and _is_skip(error.__cause__))

"""Buffer the messages of one ASGI response until its checkout says what may leave."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from contextvars import Context, copy_context
from functools import cached_property, partial
from inspect import isawaitable
from types import BuiltinMethodType
from typing import Any, cast
from urllib.parse import quote

import anyio
import anyio.lowlevel

from faregate.checkout.asgi_scope import (
    RAW_MARK,
    ASGIApp,
    Message,
    Receive,
    Scope,
    Send,
    build_messages,
    decode_headers,
    drop_conditions,
    find_handler,
    find_operation,
    find_route,
    has_payment,
    has_result_mark,
    parse_scope,
    take_snapshot,
)
from faregate.checkout.async_checkout import AsyncAsk, AsyncCheckout
from faregate.checkout.checkout import SkipHandler, build_timeout_error
from faregate.checkout.context_variables import run_in_context
from faregate.checkout.copy_detection import RESULTS
from faregate.checkout.exception_handlers import (
    WatchedScope,
    remove_result,
    watch_handlers,
    watch_outermost,
)
from faregate.checkout.path_rules import PathMatch
from faregate.checkout.shielding import is_cancelled_by_itself, is_cancelled_from_outside, make_scope
from faregate.checkout.snapshot import Snapshot
from faregate.checkout.states import (
    AUTHORIZED,
    AUTHORIZING,
    CLOSED,
    DECIDED,
    FREE,
    NEW,
    PASSING,
    SOLD_INSIDE,
    Answerer,
)
from faregate.checkout.suspected_copy import SuspectedCopy, may_be_copy
from faregate.core import responses
from faregate.core.models import Choose, Offer, Response
from faregate.core.reported_values import Payment
from faregate.core.withholding import COPIED, Bypass, is_harmless_error
from faregate.errors import ConfigurationError
from faregate.logs import log
from faregate.offers import OFFERS_MADE
from faregate.paywall import Paywall
from faregate.server_config import has_server_threads

_RESPONDER = "faregate.checkout.asgi_responder"
"""The key of a request's responder in its scope."""

FindBypass = Callable[[Scope, Scope, int], Bypass | None]
"""`checkout.FindBypass`, also given the server's scope and the application's."""

_REPLACEMENT = "faregate.checkout.replacement"
"""The name of what replaces the response if a sold handler raises: a key of the scope, and an attribute of
the exception."""

_START, _BODY = "http.response.start", "http.response.body"
_SEQUENCES = (list, tuple)

_NOT_SOLD = (NEW, FREE)

_AT_ONCE = ("uvicorn.", "asyncio.")
"""Modules of `receive`s that wait for a message and do nothing else. Hypercorn's is `asyncio.Queue.get`."""

# Extensions by which a handler could send past the buffer; a paid handler is not offered them.
_WITHHELD = ("pathsend", "zerocopysend", "trailers", "push", "early_hint")


class PaywallResponder:
    """Stands between an application and its server, and sends what its checkout lets out.

    `server_scope` is the scope as the server gave it, `scope` the one for the application. `shared` is the
    state of the lifespan, whose values belong to all requests.
    """

    # Defaults of the class: most requests reach no paid handler.
    asking_scope: Mapping[str, Any] | None = None
    """In a request without a payment: the scope of the handler that asked for one."""
    _is_open = False
    """Whether there is a checkout."""
    _state = NEW
    """Before a checkout is opened: NEW, FREE or CLOSED."""
    _has_whole_body = False
    _is_body_bound = False
    _receive_lock: anyio.Lock | None = None
    _has_payer_left = False
    _has_server_left = False
    _has_received = False
    _has_told = False
    """Whether the application was told that the payer has left."""
    _closed: anyio.Event | None = None
    _is_sent = False
    _is_stream = False
    """Whether the handler has sent a part of the body, and not the last one."""
    _context: Context | None = None
    """The context before the work. A response that is not a released result is sent in it."""
    _session: Snapshot | None = None
    """The session at the start of a request with a payment."""
    _routed_status: int | None = None
    """The status of the route's response, as seen by the probes around the routers."""
    _probe: object = None
    """The probe that saw the response first: with nested routers, the probe of the innermost."""
    _relayed_status = 0
    _is_relaying = False
    """Whether a router has begun a paid response, and not sent its last chunk."""
    _suspected: SuspectedCopy | None = None
    _is_resending = False

    def __init__(
        self,
        paywall: Paywall,
        path_match: PathMatch,
        find_bypass: FindBypass,
        server_scope: Scope,
        receive: Receive,
        send: Send,
        shared: Mapping[str, object] | None,
        *,
        has_probes: bool = False,
    ) -> None:
        self._paywall = paywall
        self._has_probes = has_probes
        # What a router has sent of the body of a result, if in chunks.
        self._chunks: list[bytes] = []
        self._path_match = path_match
        self._find_bypass = find_bypass
        self._server_scope = server_scope
        # Copies: applications change the scope they are given in place.
        self._scope = {**server_scope, "extensions": dict(server_scope.get("extensions") or {})}
        self._scope[_RESPONDER] = self
        self._raw_headers = tuple(server_scope["headers"])
        self._receive = receive
        self._send = send
        self._shared = shared
        self._offers_made: list[Offer] = []
        OFFERS_MADE.set(self._offers_made)
        self.has_payment = has_payment(self._raw_headers)
        if self.has_payment:
            self._context = copy_context()
            if "session" in server_scope:
                self._session = Snapshot()
                self._session.take(server_scope["session"], into_records=True)
            self._scope["headers"] = drop_conditions(server_scope["method"], self._raw_headers)
            if path_match.offer is not None:
                self._scope = WatchedScope(self._scope, _begin_handling)
        if self.has_payment or path_match.protected:
            self._prepare_checkout()

    @cached_property
    def checkout(self) -> AsyncCheckout:
        """Opened when something needs it: most requests reach no paid handler."""
        self._is_open = True
        return AsyncCheckout(
            self._paywall,
            partial(parse_scope, self._server_scope, self._raw_headers),
            self.has_payment,
            self._path_match,
            partial(self._find_bypass, self._server_scope, self._scope),
            state=self._state,
            offers_made=self._offers_made,
        )

    def _prepare_checkout(self) -> None:
        checkout = self.checkout
        self._body: list[bytes] = []
        self._read_ahead_messages: deque[Message] = deque()
        self._has_whole_body = self.has_payment and checkout.incoming.content_length == "0"
        if self._has_whole_body:
            checkout.bind_body(b"")
        self._is_body_bound = checkout.body_length is not None
        checkout.has_payer_left = self._look_for_payer

    # The handler's side

    def authorize(
        self,
        offer: Offer,
        scope: Mapping[str, Any],
        ask: AsyncAsk | None = None,
        prices_inside: int | None = None,
    ) -> Coroutine[Any, Any, Payment]:
        """Let a paid handler run: see `Checkout.authorize`. `scope` is the scope of the handler.

        Without `ask`, a function that chooses the offer is called with the scope. The checkout expects the
        offer from this call on: a handler that forgets the `await` gives no result away. `prices_inside`: see
        `Checkout.start_work`; None if the payment is asked for before the handler runs.
        """
        self.checkout.expect(offer)
        return self._authorize(offer, scope, ask, prices_inside)

    async def _authorize(
        self, offer: Offer, scope: Mapping[str, Any], ask: AsyncAsk | None, prices_inside: int | None
    ) -> Payment:
        checkout = self.checkout
        outer = find_responder(self._server_scope)
        if outer is not None:
            checkout.outer = outer.checkout
            outer.checkout.mark_sold_inside()
        if self._is_body_bound and checkout.state in PASSING:
            await self._read_ahead()
        root_path, own_path = self._server_scope.get("root_path", ""), self._server_scope["path"]
        if (path := scope.get("path", own_path)) != own_path:
            checkout.check_path(path, scope.get("root_path", "") + path)
        # A router sets new `path_params` for each call of a handler. No router has run yet for a prefix.
        call = scope.get("path_params")
        if call is not None and call is not self._server_scope.get("path_params"):
            checkout.begin_call(call)
        if not self.has_payment:
            self.asking_scope = scope
        checkout.find_route = partial(find_route, scope, root_path)
        checkout.find_handler = partial(find_handler, scope)
        checkout.find_operation = partial(find_operation, scope)
        if self._has_told:
            # Quart is about to cancel the handler. Let it, before a payment is begun that would stay open.
            for _ in range(5):
                await anyio.sleep(0)
        payment = await checkout.aauthorize(
            offer, partial(self._prepare_work, scope), ask or partial(_ask_with_scope, scope)
        )
        watch_handlers(scope, _begin_handling)
        if prices_inside is not None:
            checkout.start_work(prices_inside)
        return payment

    def _prepare_work(self, scope: Mapping[str, Any]) -> Callable[[], None]:
        # Change the dict in place: middleware may have copied the scope, but the copy shares this dict.
        for name in _WITHHELD:
            self._scope["extensions"].pop(f"http.response.{name}", None)
        return take_snapshot(self._server_scope, scope, self._shared).restore

    async def receive(self) -> Message:
        """Return the payer's next message.

        While a payment is authorized or worked for, a disconnect after the whole body is kept back.
        """
        lock = self._get_receive_lock()
        try:
            # Without a checkpoint: `is_disconnected` of Starlette asks in a scope that is cancelled.
            lock.acquire_nowait()
        except anyio.WouldBlock:
            await lock.acquire()
        try:
            if self._read_ahead_messages:
                return self._read_ahead_messages.popleft()
            message = await self._next_message()
        finally:
            lock.release()
        # Quart cancels its handler when it hears of one: a payment that is being authorized would stay begun.
        is_begun = self.checkout.state is AUTHORIZING or self.checkout.transaction_id is not None
        is_sale_open = is_begun and not self._is_sent
        if message["type"] != "http.request" and is_sale_open and self._has_whole_body:
            if self._has_received:
                await self._wait_closed()
            else:
                # uvicorn may send the disconnect in place of the end of an empty body, for which a handler
                # would wait.
                message = {"type": "http.request", "body": b"", "more_body": False}
        self._has_received = True
        self._has_told = self._has_told or message["type"] != "http.request"
        return message

    async def _wait_closed(self) -> None:
        if self.checkout.state is not CLOSED:
            self._closed = self._closed or anyio.Event()
            await self._closed.wait()

    def _get_receive_lock(self) -> anyio.Lock:
        """Held while a message is awaited. Quart reads the body in a task of its own, beside the handler."""
        if self._receive_lock is None:
            self._receive_lock = anyio.Lock(fast_acquire=True)
        return self._receive_lock

    async def _next_message(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self._has_whole_body = not message.get("more_body", False)
            if self._is_body_bound:
                self._body.append(bytes(message.get("body", b"")))
        else:
            self._has_payer_left = True
        return message

    async def _look_for_payer(self) -> bool:
        """Find whether the payer has left, by the messages that the server has at this moment."""
        if self._receive_lock is not None and self._receive_lock.locked():
            return self._has_payer_left  # a task of the handler's waits for a message, and notes it
        pause = _find_pause(self._receive)
        if pause is None:
            # No other task runs meanwhile: nothing has to be locked.
            with suppress(Exception):
                _run_until_it_waits(self._take_messages())
            return self._has_payer_left
        async with self._get_receive_lock():
            with suppress(Exception):
                async with anyio.create_task_group() as group:
                    group.start_soon(_cancel_soon, group.cancel_scope, pause)
                    await self._take_messages()
                    group.cancel_scope.cancel()
        return self._has_payer_left

    async def _take_messages(self) -> None:
        # Three are enough: an empty part and the end of an unread body, and that the payer has left.
        for _ in range(3):
            message = await self._next_message()
            if message["type"] != "http.request":
                break
            self._read_ahead_messages.append(message)
            if message.get("body") and message.get("more_body", False):
                break

    async def _read_ahead(self) -> None:
        """Read a small body before the handler does: it is a part of what the payment is for."""
        while not (self._has_whole_body or self._has_payer_left):
            async with self._get_receive_lock():
                if not (self._has_whole_body or self._has_payer_left):
                    self._read_ahead_messages.append(await self._next_message())
        if self.checkout.body_length is not None:  # another task may have bound it meanwhile
            self.checkout.bind_body(b"".join(self._body) if self._has_whole_body else None)
            self._body.clear()

    def send(self, message: Message) -> Awaitable[None]:
        """The application's messages: buffered when paid for, dropped when decided, passed on otherwise.

        Decides when it is called, and not when it is awaited: what passes costs no coroutine.
        """
        if self._suspected is not None:
            return self._compare(self._suspected, message)
        if message["type"] == _START and type(message.get("headers", ())) not in _SEQUENCES:
            message = {**message, "headers": list(message["headers"])}  # they are read more than once
        if self._has_probes and message["type"] == _START and not self._is_resending:
            # What no route made may be a copy of a result: compare it first.
            is_sold_here = self._is_open and self.checkout.state not in _NOT_SOLD
            is_unrouted = not is_sold_here and message["status"] != self._routed_status
            if is_unrouted and may_be_copy(message) and not self._is_answered_inside(message):
                self._suspected = SuspectedCopy(message)
                return _do_nothing()
        if not self._is_open and self._may_pass_unopened(message):
            pass
        elif self.checkout.state not in PASSING:
            return self._take(message)
        elif not self._may_pass(message) or self._has_server_left:
            return _do_nothing()
        if "session" in self._server_scope:
            self._share_session()
        return self._send(message)

    def _is_answered_inside(self, start: Message) -> bool:
        headers = decode_headers(start.get("headers", ())) if self.has_payment else ()
        return self.checkout.is_answered_inside(start["status"], headers) if headers else False

    def _may_pass_unopened(self, message: Message) -> bool:
        """Whether the message needs no checkout: no payment was asked for, and nothing is sold here."""
        if self._state is CLOSED or self._offers_made:
            return False
        is_start = message["type"] == "http.response.start"
        if is_start or self._state is not FREE:
            # What comes before the start, such as an early hint, is judged like a result.
            status = message["status"] if is_start else 200
            if has_result_mark(message.get("headers", ())) or self._find_bypass(
                self._server_scope, self._scope, status
            ):
                return False
        self._state = FREE
        return True

    def _may_pass(self, message: Message) -> bool:
        checkout = self.checkout
        if message["type"] == "http.response.start":
            return checkout.allow_unpaid(
                message["status"], lambda: decode_headers(message.get("headers", ()))
            )
        checkout.check_late()
        # What comes before the start, such as an early hint, is judged like a result.
        return checkout.state in (FREE, SOLD_INSIDE) or checkout.allow_unpaid(200)

    async def _take(self, message: Message) -> None:
        checkout = self.checkout
        if checkout.late is not None and checkout.state is DECIDED:
            raise checkout.late
        if checkout.state is not AUTHORIZED:
            return
        if message["type"] == "http.response.start":
            checkout.buffer.start(message["status"], decode_headers(message.get("headers", ())))
        elif message["type"] == "http.response.body":
            body = message.get("body", b"")
            checkout.buffer.append(body)
            if message.get("more_body", False):
                self._is_stream = True
                return
            if self._is_stream or not body:
                # If the task that makes the parts has raised, its group is about to cancel this one. Until
                # then, the stream ends as if it were whole: FastAPI's event streams do. What the task closes
                # before it raises, such as a connection, takes some turns of the loop.
                for _ in range(20):
                    await anyio.lowlevel.checkpoint()
            await self._complete()
        elif message["type"] != "http.response.debug":
            raise ConfigurationError(f"A paid handler cannot send {message['type']}.")

    # Copies of results

    def relay(
        self, probe: object, is_routed: Callable[[], bool], send: Send, message: Message
    ) -> Awaitable[None]:
        """Pass on what came out of a router, and mark it if it is a result.

        `is_routed` returns whether a route of this router itself answered, not one of a mounted application.
        """
        kind = message["type"]
        if kind == _START and self._probe is None:
            self._probe = probe
            if is_routed():
                self._routed_status = message["status"]
                if _RESPONDER in self._server_scope:
                    self._server_scope[_RESPONDER].note_routed(message["status"])
        checkout = self.checkout if self._is_open else None
        if checkout is not None and checkout.is_selling_work:
            if kind == _START:
                self._relayed_status = status = message["status"]
                self._is_relaying = True
                checkout.note_status(status)
                if status < 400 or checkout.may_be_result(status):
                    message = {**message, "headers": [*message.get("headers", ()), RAW_MARK]}
            elif kind == _BODY and self._probe is probe:
                # As the router sent it: what stands between may change it, or send it in one piece.
                body = bytes(message.get("body", b""))
                self._is_stream = self._is_stream or message.get("more_body", False)
                if self._is_stream:
                    self._chunks.append(body)
                    body = b"".join(self._chunks)
                status = self._relayed_status
                self._is_relaying = message.get("more_body", False)
                if not self._is_relaying and not is_harmless_error(status):
                    checkout.recorded = body
                    RESULTS.add(body)
        return send(message)

    async def call_routes(
        self, probe: object, app: ASGIApp, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Call the routes of a router for a request with a payment.

        Raises `ConfigurationError` below a sold prefix, if a route has answered already.

        If a route raises, the answer of middleware around the routes is not a result. Nor is a response that
        the route cut: Starlette's `BaseHTTPMiddleware` sends the end of it.
        """
        if self.checkout.answerer is Answerer.NONE:
            self.checkout.note_replacement_handler()  # middleware tries another router after one that raised
        if self._routed_status is not None and not is_harmless_error(self._routed_status):
            self.checkout.is_prefix_called = True
            self.checkout.begin_prefix_call()
        try:
            await app(scope, receive, send)
        except Exception as error:
            # Here, because any middleware around the routes may answer it.
            self.strip_result(error)
            if self.checkout.is_selling_work:
                self.checkout.note_no_result()
            raise
        if self._probe is probe and self._is_relaying and self.checkout.is_selling_work:
            self.checkout.note_no_result()

    def strip_result(self, error: Exception) -> None:
        """Remove the result of a paid handler from its error, before other code answers the error."""
        if self._is_open and self.checkout.is_selling_work:
            remove_result(error)

    def note_routed(self, status: int) -> None:
        """Note that a route answered with this status, also for a paywall that is further outside."""
        self._routed_status = status
        if _RESPONDER in self._server_scope:
            self._server_scope[_RESPONDER].note_routed(status)

    async def _compare(self, suspected: SuspectedCopy, message: Message) -> None:
        """Keep a response back until it is compared; then send it, unless it is a copy."""
        if not suspected.append(message):
            return
        if suspected.is_copy():
            bypass = self._find_bypass(self._server_scope, self._scope, suspected.messages[0]["status"])
            self.checkout.withhold(COPIED if bypass is None else bypass.mistake)
        self._suspected, self._is_resending = None, True
        for kept_back in suspected.messages:
            await self.send(kept_back)
        self._is_resending = False

    async def _complete(self) -> None:
        response = await self.checkout.acomplete()
        await self._emit(response)
        if not response.released:
            # The payer did not get what the handler made: its background tasks must not run.
            raise SkipHandler(response.status)

    # The middleware's side

    async def run(self, app: ASGIApp) -> None:
        """Run the application, and send the payer a response whatever ends it."""
        try:
            if not self.has_payment:
                await self._run(app)
            else:
                # With a proof the handler can be cancelled, so that it never outlives its payment.
                with make_scope() as cancel_scope:
                    self.checkout.cancel_scope = cancel_scope
                    await self._run(app)
                if cancel_scope.cancelled_caught:
                    await self._on_error(build_timeout_error())
        except Exception as error:
            self._prepare_replacement(error)
            raise
        except BaseException as ended:
            await self._on_exit(ended)
        finally:
            self._close()

    def _prepare_replacement(self, error: Exception) -> None:
        """Prepare the answer in case a sold handler's exception is answered with what is no error."""
        if self._is_sent:  # this exception gets no response any more
            return
        if self._is_open and self.checkout.transaction_id is not None:
            # It does not say that nothing was charged: the service may not know yet of the failure.
            replacement = responses.build_refused(500, "not_billable", "The resource could not be produced.")
        elif self._find_bypass(self._server_scope, self._scope, 200) is not None:
            replacement = responses.build_unavailable(502)
        else:
            return
        self._server_scope[_REPLACEMENT] = replacement
        with suppress(AttributeError, TypeError):  # also for a middleware outside that copies the scope
            setattr(error, _REPLACEMENT, (self._server_scope["headers"], replacement))
        watch_outermost(self._server_scope, _begin_handling)

    def _close(self) -> None:
        self._state = CLOSED
        if self._is_open:
            self.checkout.close()
        self._scope = {}  # it refers to this responder: only the collector would free the two
        if self._closed is not None:
            self._closed.set()

    def leave(self) -> None:
        """Send nothing more: the server answers by itself, and the payer comes back."""
        self._has_server_left = True

    async def _run(self, app: ASGIApp) -> None:
        try:
            if not self._is_open or self.checkout.state is not DECIDED:
                # Without a proof there is no transaction, and no message to keep from the work.
                await app(self._scope, self.receive if self.has_payment else self._receive, self.send)
        except Exception as error:
            await self._on_error(error)
        else:
            if self._is_open and self.checkout.late is not None:
                raise self.checkout.late  # the server sees no end of the response, and cuts it
            if self._is_open and not self._is_sent and self.checkout.state not in PASSING:
                await self._fail(RuntimeError("the handler returned without a complete response"))

    async def _on_error(self, error: BaseException) -> None:
        if self._is_open and self.checkout.late is not None:
            raise self.checkout.late
        must_raise = self.checkout.must_raise(error)
        if self.checkout.state not in PASSING:
            await self._fail(error)
        if must_raise:
            raise error

    async def _on_exit(self, ended: BaseException) -> None:
        """Fail work that ended by a `BaseException`; raise that again unless it is our own cancellation."""
        if isinstance(ended, GeneratorExit) or is_cancelled_from_outside(ended):
            raise ended
        cancel_scope = self.checkout.cancel_scope
        if cancel_scope and cancel_scope.cancel_called and isinstance(ended, asyncio.CancelledError):
            # The application made its own error of the cancellation.
            await self._on_error(build_timeout_error())
            return
        if self.checkout.state not in PASSING:
            await self._fail(ended)
        if not isinstance(ended, asyncio.CancelledError) or is_cancelled_by_itself():
            raise ended

    async def _fail(self, error: BaseException) -> None:
        """Send what the payer gets after work that failed, also if cancelled while completing."""
        if not self._is_sent:
            await self._emit(await self.checkout.afail(error))

    async def _emit(self, response: Response) -> None:
        if self._is_sent:  # two tasks of the handler's waited for the same completion
            return
        self._is_sent = True
        if not response.released and self._session is not None:
            # Code that ran before the price may have changed the session. A payer who returns is recognised
            # by its cookie.
            self._session.restore()
        elif response.released and "session" in self._server_scope:
            self._share_session()
        for message in build_messages(response, self.checkout.incoming.request.method):
            if self._has_server_left:
                continue
            if response.released or self._context is None:
                await self._send(message)
            else:
                await run_in_context(self._context, _call_send(self._send, message))

    def _share_session(self) -> None:
        """Give session middleware outside the session of the work: Litestar's handlers set a new object."""
        if "session" in self._scope:
            self._server_scope["session"] = self._scope["session"]


def _find_pause(receive: Receive) -> float | None:
    """Return how long to wait for a message that may have arrived; None if the server gives it at once.

    uvicorn and hypercorn give it at once under asyncio. Granian fetches messages from another thread, also
    for middleware that asks it. Such middleware, as Starlette's `BaseHTTPMiddleware`, asks in a task of its
    own, which needs turns of the event loop, and no time. So does trio: there, a call that may wait is
    cancelled before it looks for what is there.
    """
    module: str = getattr(receive, "__module__", None) or ""
    if module.startswith(_AT_ONCE):
        return None
    is_from_thread = isinstance(receive, BuiltinMethodType) or has_server_threads()
    return 0.005 if is_from_thread else 0.0


def _run_until_it_waits(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine to its first wait, which is for a future of asyncio, and close it there.

    A cancel scope that is cancelled at once would do the same, in two turns of the loop and 80 calls.
    """
    try:
        coroutine.send(None)
    except StopIteration:
        return
    coroutine.close()


async def _cancel_soon(scope: anyio.CancelScope, pause: float) -> None:
    """Cancel after `pause` seconds and 20 turns of the event loop: a turn of a busy one may take longer."""
    await anyio.sleep(pause)  # one sleep, not several: uvloop rounds below a millisecond to zero
    for _ in range(20):
        await anyio.sleep(0)
    scope.cancel()


def find_responder(scope: Mapping[str, Any]) -> PaywallResponder | None:
    """The responder of the paywall in front of this request; None if there is none."""
    responder = scope.get(_RESPONDER)
    return responder if isinstance(responder, PaywallResponder) else None


def ask_payment(
    scope: Mapping[str, Any], offer: Offer, ask: AsyncAsk | None, prices_inside: int | None
) -> Coroutine[Any, Any, Payment]:
    """`asgi.require_payment` for adapters. `prices_inside`: see `PaywallResponder.authorize`."""
    responder = find_responder(scope)
    if responder is None:
        raise ConfigurationError(
            f"A handler sells {offer.sells!r}, but no PaywallMiddleware is in front of it: "
            "app.add_middleware(PaywallMiddleware)"
        )
    return responder.authorize(offer, scope, ask, prices_inside)


def _begin_handling(scope: Mapping[str, Any], error: Exception) -> Callable[[int], Any] | None:
    """Return what notes the response to an exception; None if there is nothing to note."""
    responder = find_responder(scope)
    if responder is None:
        replacement = _find_replacement(scope, error)
        return None if replacement is None else partial(_replace_response, scope, replacement)
    responder.strip_result(error)
    # The response may itself be sold, such as a page for all paths without a route.
    is_begun = responder.has_payment and responder.checkout.state is AUTHORIZED
    return partial(_note_handled, responder) if is_begun else None


def _note_handled(responder: PaywallResponder, status: int) -> None:
    # An error is never a result, and middleware may call another application next.
    if is_harmless_error(status):
        responder.checkout.note_replacement_handler()
    else:
        responder.checkout.note_answered_error()


def _find_replacement(scope: Mapping[str, Any], error: Exception) -> Response | None:
    """Find the response that was prepared for an exception; None if no sold handler raised it."""
    if _REPLACEMENT in scope:
        return cast(Response, scope[_REPLACEMENT])
    # An application may raise one exception object in two requests.
    headers, replacement = getattr(error, _REPLACEMENT, (None, None))
    return replacement if headers is not None and headers is scope.get("headers") else None


def _replace_response(scope: Mapping[str, Any], replacement: Response, status: int) -> ASGIApp | None:
    """Return an application that sends `replacement`; None if the status is an error already."""
    if is_harmless_error(status):
        return None
    log("sale", logging.WARNING, _HANDLED, scope["method"], quote(scope["path"]), status)

    async def send_replacement(_scope: Scope, _receive: Receive, send: Send) -> None:
        for message in build_messages(replacement, scope["method"]):
            await send(message)

    return send_replacement


_HANDLED = (
    "%s %s raised, and the application's handler of all exceptions answered with %d. That is no result: "
    "the client got an error instead. Answer exceptions with a status of 400 or more."
)


async def _ask_with_scope(scope: Mapping[str, Any], choose: Choose) -> object:
    """Return what `choose` returns, or the exception that it raises: no framework answers it here."""
    try:
        chosen = choose(scope)
        return await chosen if isawaitable(chosen) else chosen
    except Exception as error:
        return error


async def _call_send(send: Send, message: Message) -> None:
    await send(message)


async def _do_nothing() -> None:
    return None

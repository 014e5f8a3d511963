"""One tool call: its checkout, and what of the tool's result leaves."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from functools import cached_property
from typing import Any

from anyio import to_thread
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.mcpserver.tools import Tool
from mcp_types import SERVER_INFO_META_KEY, CallToolResult
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from faregate.checkout.asgi_scope import take_snapshot
from faregate.checkout.async_checkout import AsyncAsk, AsyncCheckout
from faregate.checkout.checkout import SkipHandler, build_timeout_error
from faregate.checkout.descriptions import HandlerInfo
from faregate.checkout.openapi_operations import Operation, build_content
from faregate.checkout.shielding import is_cancelled_by_itself, is_cancelled_from_outside, make_scope
from faregate.checkout.states import AUTHORIZED, COMPLETED, COMPLETING, PASSING
from faregate.core.models import Offer, Response
from faregate.core.reported_values import Payment
from faregate.core.withholding import Bypass, is_harmless_error, may_be_result
from faregate.errors import ConfigurationError, NotBillable
from faregate.mcp.copy_detection import COPIED, STALE, is_copy, is_stale, record_results
from faregate.mcp.requests import find_payment, read_call, serialize_bound_arguments
from faregate.mcp.results import (
    HEADERS,
    Result,
    build_result,
    check_output,
    dump_result,
    find_status,
    is_question,
    write_body,
)
from faregate.mcp.side_channels import CURRENT_OUTBOX, EVENT_STORE, Outbox, has_event_store, hold_messages
from faregate.mcp.tools import AnyServer, find_tool, get_low_level, inspect_tool, sells_tools
from faregate.paywall import Paywall

QUESTION = (
    "A paid tool cannot return InputRequiredResult: it would be asked again with a payment that is used. Ask "
    "before the price, with parameters annotated with Resolve(...)."
)
STOPPED = CallToolResult(content=[], is_error=True)
"""What a tool returns in place of its work when the client's answer is decided already."""


class ToolCall:
    """Stands between a tool and its client, and lets out what its checkout lets out.

    `returned` collects what the tool returns.
    """

    def __init__(
        self,
        server: AnyServer,
        paywall: Paywall,
        ctx: ServerRequestContext[Any, Any],
        call_next: CallNext,
        returned: Sequence[Any],
    ) -> None:
        self._server = server
        self._paywall = paywall
        self._outbox = Outbox()
        self._ctx = hold_messages(ctx, self._outbox)
        self._call_next = call_next
        self._returned = returned
        self._params: Mapping[str, Any] = ctx.params or {}
        self.has_payment = find_payment(self._params) is not None
        self._is_question = self._is_released = self._has_result = False
        self._scope: Mapping[str, Any] | None = getattr(ctx.request, "scope", None)
        self._checkout = AsyncCheckout(
            paywall,
            lambda: read_call(self._params, self._scope),
            self.has_payment,
            find_bypass=self._find_bypass,
            read_body=lambda _length: serialize_bound_arguments(self._params),
        )
        self._checkout.is_body_recorded = False  # its parts are, by `faregate.mcp.copy_detection`

    # The tool's side

    async def authorize(self, sold: Offer, ask: AsyncAsk) -> Payment:
        """Let a paid tool run: see `Checkout.authorize`."""
        if has_event_store(self._ctx):
            self._checkout.withhold(EVENT_STORE)
        self._checkout.find_handler = self._find_handler
        self._checkout.find_operation = self._find_operation
        try:
            payment = await self._checkout.aauthorize(sold, self._prepare_work, ask)
        except SkipHandler:
            self._outbox.is_holding = True
            raise
        self._outbox.is_holding = payment.transaction_id is not None
        self._checkout.start_work()
        return payment

    def _prepare_work(self) -> Callable[[], None]:
        """Remember what the tool can change in its HTTP request: middleware outside may send the session."""
        if self._scope is None:
            return _restore_nothing
        # The server gives each request a copy of the state of the lifespan, but its values belong to all.
        shared = dict(self._scope.get("state") or {})
        return take_snapshot(self._scope, self._scope, shared).restore

    def _find_handler(self) -> HandlerInfo | None:
        """Find what the server tells agents of the tool: by default its docstring."""
        return None if self._tool is None else ((self._tool.description,), None)

    def _find_operation(self) -> Operation:
        """Find the schemas that the server tells agents: of the arguments, and of the result."""
        if self._tool is None:
            return {}
        result = self._tool.output_schema
        return {
            "requestBody": build_content(self._tool.parameters),
            "responses": {} if result is None else {"200": build_content(result)},
        }

    async def check_end(self, result: Any) -> None:
        """Note that a paid tool has returned, and check that its result may still be sold.

        An error that something makes of the result later is withheld, because it may carry it.

        Raises `WorkTimedOut` if it was too late: a tool on a thread cannot be cut off. Raises
        `ConfigurationError` if the call was answered meanwhile, and not paid: an extension may let a tool run
        beside its call, and give the result to a later request.
        """
        if self._checkout.state is AUTHORIZED:
            self._checkout.check_deadline()
            if not (isinstance(result, CallToolResult) and result.is_error):
                self._has_result = True
            return
        if self._checkout.state in (COMPLETING, COMPLETED):
            self._is_released = (await self._checkout.wait_completed()).released
        if not self._is_released:
            raise ConfigurationError(_DETACHED)

    # The middleware's side

    async def run(self) -> HandlerResult:
        """Run the call; return its result on the wire, or raise what the SDK answers."""
        # In the context, because a tool is called with its own arguments only.
        token, outbox_token = _call.set(self), CURRENT_OUTBOX.set(self._outbox)
        try:
            if not self.has_payment:
                return await self._run()
            # With a payment the tool can be cancelled, so that it never outlives its payment.
            with make_scope() as cancel_scope:
                self._checkout.cancel_scope = cancel_scope
                return await self._run()
            # Reached only if the scope has cut the tool off.
            return await self._on_error(build_timeout_error())
        except Exception:
            raise
        # `_run` has answered errors. This is what ends more than the tool: a cancellation, an exit.
        except BaseException as ended:
            return await self._on_exit(ended)
        finally:
            _call.reset(token)
            CURRENT_OUTBOX.reset(outbox_token)
            self._checkout.close()

    async def _run(self) -> Result:
        try:
            result = dump_result(await self._call_next(self._ctx))
        except Exception as error:
            return await self._on_error(self._replace(error))
        status = find_status(result)
        self._is_question = is_question(result)
        if self._checkout.state in PASSING and self._checkout.allow_unpaid(status):
            if is_copy(result, self._returned):
                self._checkout.withhold(COPIED)
            return result
        return await self._take(result)

    def _replace(self, error: Exception) -> Exception:
        """Replace an error that came after a paid tool had returned: it may carry the result."""
        is_ours = isinstance(error, ConfigurationError)
        if is_ours or not (self._has_result and self._checkout.is_selling_work):
            return error
        record_results(self._returned[-1:])
        return NotBillable(_MADE_OF_RESULT)

    async def _take(self, result: Result) -> Result:
        if self._checkout.state is AUTHORIZED:
            try:
                if self._checkout.is_selling_work:
                    if is_stale(result):
                        raise NotBillable(STALE)
                    record_results((result, *self._returned[-1:]))
                    if self._has_result and result.get("isError") and not self._is_plain_error(result):
                        raise NotBillable(_MADE_OF_RESULT)
                if is_question(result):
                    raise ConfigurationError(QUESTION)
                body = write_body(result)
                self._checkout.buffer.start(find_status(result), HEADERS)
                self._checkout.buffer.append(body)
                await self._check_output(result, body)
            except Exception as error:
                return await self._on_error(error)
        answer = await self._checkout.acomplete()
        self._is_released = answer.released
        if answer.released:
            await self._outbox.release()
        return self._build(answer)

    def _is_plain_error(self, result: Result) -> bool:
        """Whether the SDK says only that the tool failed, as where a result does not fit its schema."""
        text = f"Error executing tool {self._params.get('name')}"
        return result.get("content") == [{"type": "text", "text": text}] and not result.get(
            "structuredContent"
        )

    async def _check_output(self, result: Result, body: bytes) -> None:
        """Raise `ValueError` if the SDK made nulls of numbers that JSON lacks: clients would refuse them."""
        schema = None if self._tool is None else self._tool.output_schema
        is_sold = self._checkout.is_selling_work and not result.get("isError")
        if schema is not None and is_sold and b"null" in body:
            await to_thread.run_sync(check_output, result, schema)  # a large one takes a while

    async def _on_error(self, error: BaseException) -> Result:
        # Asked before `afail`, which changes the state that this depends on.
        must_raise = self._checkout.must_raise(error)
        if self._checkout.state in PASSING:
            raise error
        answer = await self._checkout.afail(error)
        if must_raise:
            raise error
        return self._build(answer)

    async def _on_exit(self, ended: BaseException) -> Result:
        """A tool that ended in more than an error failed; what ended it goes on, unless it was ours."""
        if isinstance(ended, GeneratorExit) or is_cancelled_from_outside(ended):
            raise ended
        cancel_scope = self._checkout.cancel_scope
        if cancel_scope and cancel_scope.cancel_called and isinstance(ended, asyncio.CancelledError):
            return await self._on_error(build_timeout_error())
        if self._checkout.state not in PASSING:
            answer = await self._checkout.afail(ended)
            if isinstance(ended, asyncio.CancelledError) and not is_cancelled_by_itself():
                return self._build(answer)
        raise ended

    def _build(self, answer: Response) -> Result:
        # The TypeScript SDK checks the structured content of errors, too, against a tool's output schema.
        tool = self._tool
        return build_result(
            answer, self._envelope, structured=tool is not None and tool.output_schema is None
        )

    @property
    def _envelope(self) -> Result:
        """What the SDK adds to a result that a handler returned, and does not to one of a middleware."""
        if self._ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return {}
        stamp = get_low_level(self._server).server_info_stamp
        return {"resultType": "complete", "_meta": {SERVER_INFO_META_KEY: stamp}}

    @cached_property
    def _tool(self) -> Tool | None:
        return find_tool(self._server, self._params.get("name"))

    def _find_bypass(self, status: int) -> Bypass | None:
        """Find how a paid tool was bypassed by an answer with this status; None if it was not."""
        # The SDK asks the questions of `Resolve` before it calls the tool, and so before the price.
        if self._is_question:
            return None
        if self._tool is None:
            if is_harmless_error(status) or not sells_tools(self._server):
                return None
            return Bypass(_NO_TOOL.format(name=self._params.get("name")), _is_no_page)
        handler = inspect_tool(self._tool)
        if not (handler.mistake or handler.offers) or not may_be_result(status, handler.offers):
            return None
        mistake = handler.mistake or (
            f"The tool {self._tool.name!r} sells {handler.offers[0].sells!r}, and something in front of it "
            "answered without a payment. Move caches into the tool, below @paid."
        )
        return Bypass(mistake, _is_no_page)


_NO_TOOL = (
    "Something in front of the tools answered a call of {name!r}, which is no tool of this server. It may "
    "have kept the result of a paid tool. Add a tool of this name, or put caches into the tools, below @paid."
)


_MADE_OF_RESULT = (
    "a decorator or middleware made an error of what a paid tool had returned: it is withheld, because it "
    "may carry the result"
)


_DETACHED = (
    "A paid tool returned after its call was answered without a proven payment, so its result is withheld. "
    "Answer a call when its tool has returned."
)


def _is_no_page(_path: str) -> bool:
    return False


_call: ContextVar[ToolCall | None] = ContextVar("faregate tool call", default=None)


def find_call(sold: Offer) -> ToolCall:
    """The call that the current code serves. Raises `ConfigurationError` where no paywall serves one."""
    call = _call.get()
    if call is None:
        raise ConfigurationError(
            f"A tool sells {sold.sells!r}, but no paywall is in front of it: add_paywall(server). "
            "Only calls of tools can be sold, not resources or prompts."
        )
    return call


def _restore_nothing() -> None:
    """Over stdio a call has no request."""

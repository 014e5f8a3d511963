"""Buy the call of an MCP tool: `URL#TOOL` names it, as x402's MCP transport carries the payment in `_meta`.

What the server says is read as the response that a seller over HTTP would give, so that the rules of a
purchase are the same.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import unquote

import anyio
import httpx2
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, TextContent

from faregate.core.models import Header, Response
from faregate.errors import CommandError
from faregate.pay.http import IDEMPOTENCY_KEY
from faregate.pay.payment_file import SavedPayment
from faregate.pay.request import NoResponse, RequestSpec

METHOD = "tools/call"
_PAYMENT, _RECEIPT = "x402/payment", "x402/payment-response"
_JSON: Header = ("Content-Type", "application/json")
_TEXT: Header = ("Content-Type", "text/plain; charset=utf-8")
_TOOL_ERROR = 422
"""The status of an error of the tool itself: its server takes no payment for it."""


class ToolClient:
    """Calls the tool. Each call has a connection of its own."""

    def __init__(self, request: RequestSpec, timeout: float) -> None:
        """Raises `CommandError` if the body is not a JSON object, or the URL names no tool."""
        self.request = request
        self._endpoint, _, fragment = request.url.partition("#")
        self._tool = unquote(fragment)
        self._timeout = timeout
        self._arguments = _parse_arguments(request.body)
        if not self._tool:
            raise CommandError("URL#TOOL must name a tool, such as http://127.0.0.1:8000/mcp#forecast.")

    def send(self, payment: SavedPayment | None = None) -> Response:
        """Call the tool, with the payment if there is one. Raises `NoResponse`."""
        try:
            return anyio.run(self._call, payment)
        except Exception as error:
            reason = _find_cause(error)
            text = str(reason) or type(reason).__name__
            raise NoResponse(f"no result from {self.request.host}: {text}") from None

    def close(self) -> None:
        """Nothing stays open between calls."""

    async def _call(self, payment: SavedPayment | None) -> Response:
        headers = [*self.request.headers]
        meta: Any = None
        if payment is not None:
            meta = {_PAYMENT: json.loads(b64decode(payment.proof))}
            if payment.idempotency_key is not None:
                headers.append((IDEMPOTENCY_KEY, payment.idempotency_key))
        async with (
            httpx2.AsyncClient(headers=headers, timeout=self._timeout) as http,
            Client(
                streamable_http_client(self._endpoint, http_client=http), read_timeout_seconds=self._timeout
            ) as client,
        ):
            return read_result(await client.call_tool(self._tool, self._arguments, meta=meta))


def read_result(result: CallToolResult) -> Response:
    """Read a tool's result as the response of a seller over HTTP."""
    if result.is_error:
        return _read_error(result)
    receipt = (result.meta or {}).get(_RECEIPT)
    headers = () if receipt is None else (("PAYMENT-RESPONSE", _encode(receipt)),)
    content = [item for item in result.content if not isinstance(item, TextContent)]
    if result.structured_content is not None and not content:
        return Response(200, (_JSON, *headers), _write_json(result.structured_content))
    if content:
        dumped = result.model_dump(by_alias=True, mode="json", exclude_none=True)
        return Response(200, (_JSON, *headers), _write_json(dumped["content"]))
    return Response(200, (_TEXT, *headers), _join_text(result).encode())


def _read_error(result: CallToolResult) -> Response:
    texts = [item.text for item in result.content if isinstance(item, TextContent)]
    objects = [_parse_object(text) or {} for text in texts]
    first = result.structured_content or (objects[0] if objects else {})
    if "accepts" in first:
        # A second content says what became of the payment that was sent.
        refusal = (
            objects[1] if len(objects) > 1 else {"code": "payment_required", "message": first.get("error")}
        )
        return Response(402, (_JSON, ("PAYMENT-REQUIRED", _encode(first))), _write_json(refusal))
    status = first.get("http_status")
    if not isinstance(status, int):
        return Response(_TOOL_ERROR, (_TEXT,), _join_text(result).encode())
    wait = first.get("retry_after")
    headers = () if wait is None else (("Retry-After", str(wait)),)
    return Response(status, (_JSON, *headers), _write_json(first))


def _parse_arguments(body: bytes | None) -> dict[str, Any]:
    arguments = _parse_object((body or b"{}").decode("utf-8", "replace"))
    if arguments is None:
        raise CommandError('The arguments of a tool are a JSON object: -d \'{"city": "Oslo"}\'.')
    return arguments


def _parse_object(text: str) -> dict[str, Any] | None:
    """Parse a JSON object; None for any other text."""
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def _encode(value: Any) -> str:
    return b64encode(_write_json(value)).decode()


def _write_json(value: Mapping[str, Any] | list[Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def _join_text(result: CallToolResult) -> str:
    return "\n".join(item.text for item in result.content if isinstance(item, TextContent))


def _find_cause(error: BaseException) -> BaseException:
    """Find the error itself: task groups wrap what is raised in them."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error

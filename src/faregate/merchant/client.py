"""The client of the eight operations, blocking and async, over `faregate.merchant.wire`.

What the two have in common stands in `_Client`; below it are one-liners. Each operation gives the
contract's answer or raises one of `faregate.errors`; nothing is repeated by itself. Arguments that
the contract does not allow are pydantic's `ValidationError` (a `ValueError`).
"""

import math
from collections.abc import AsyncGenerator, Generator
from datetime import datetime
from typing import Generic, Self, TypedDict, TypeVar, Unpack

from faregate.core.models import Headers, WireRequest
from faregate.errors import BadAnswer, ConfigurationError
from faregate.merchant import wire
from faregate.merchant.api_key import ApiKey, RedactedHeaders, merge_headers
from faregate.merchant.models import (
    AccessDecision,
    AccessRequest,
    ContractsDocument,
    FailedCompleteRequest,
    ListQuery,
    Page,
    Payer,
    Resource,
    ResourceExecutionCompleted,
    ResourceExecutionCompleteRequest,
    ResourceQuery,
    SucceededCompleteRequest,
    Transaction,
    TransactionDetail,
    TransactionQuery,
)
from faregate.merchant.transports import AsyncChoice, AsyncTransport, Choice, Transport, make_async, make_sync
from faregate.merchant.transports.url import BaseURL
from faregate.merchant.types import ListOrder
from faregate.merchant.wire import Call, Completed
from faregate.x402.tokens import Environment

T = TypeVar("T")
C = TypeVar("C")
X = TypeVar("X")


class ListFilters(TypedDict, total=False):
    """Query of a list (spec: Pagination rules). What is left out is the service's default."""

    as_of: datetime | None
    order: ListOrder | None
    page: int | None
    page_size: int | None


class TransactionFilters(ListFilters, total=False):
    status: str | None
    payer_id: str | None


class ResourceFilters(ListFilters, total=False):
    archived: bool | None


class _Client(Generic[C, X]):
    """The key, the address and the deadline of a call. `C` is what may be chosen, `X` the transport."""

    def __init__(
        self, api_key: str | ApiKey, base_url: str, *, transport: C | None = None, timeout: float = 10.0
    ) -> None:
        try:
            key = api_key if isinstance(api_key, ApiKey) else ApiKey(api_key)
        finally:
            # Tracebacks with locals show the arguments of a frame.
            api_key = ""
        if not (math.isfinite(timeout) and timeout > 0):
            raise ConfigurationError("timeout must be a number of seconds above 0.")
        self.environment: Environment = key.environment
        self._address = BaseURL(base_url, key.environment)
        self._headers = _build_constant_headers(key)
        self._timeout = timeout
        self._transport = self._choose(transport)

    def _choose(self, choice: C | None) -> X:
        raise NotImplementedError

    def _exchange(self, request: WireRequest) -> tuple[str, str, Headers, bytes | None, float]:
        """The arguments of a transport's send."""
        return (
            request.method,
            self._address.url(request.path),
            merge_headers(self._headers, request.headers),
            request.body,
            self._timeout,
        )

    def __repr__(self) -> str:
        # A traceback may show a client that is only half made.
        known = vars(self)
        return f"<{type(self).__name__} {known.get('environment')} {known.get('_address')}>"


def _build_constant_headers(key: ApiKey) -> RedactedHeaders:
    return RedactedHeaders(
        (
            ("Authorization", key.reveal()),
            ("Accept", "application/json"),
            ("Accept-Encoding", "identity"),
            ("User-Agent", "faregate"),
        )
    )


def _next_call(page: Page[T], call: Call[Page[T]]) -> Call[Page[T]] | None:
    """The call for the next page; `BadAnswer` for a page that is its own next."""
    following = wire.next_page(page, call)
    if following is not None and following.request.path == call.request.path:
        raise BadAnswer("the service gave a page that names itself as the next one")
    return following


class MerchantClient(_Client[Choice, Transport]):
    """Blocking. Any number of threads may share one, and it survives a fork.

    `timeout` is in seconds and holds for a whole call. `transport` is `"h11"`, `"pyreqwest"`, an httpx
    transport, or an object with `send`; left out, it is pyreqwest where installed, else h11.
    """

    def _choose(self, choice: Choice) -> Transport:
        return make_sync(choice)

    def send(self, call: Call[T]) -> T:
        """Make one call of `wire`. Raises `NoAnswer`, `BadAnswer`, and what the call's `read` raises."""
        return call.read(self._transport.send(*self._exchange(call.request)))

    def access(self, request: AccessRequest, proof: str | None = None) -> AccessDecision:
        """May the payer have the resource? Raises `PaymentRequired` (402) and `PaymentPending` (202)."""
        return self.send(wire.access(request, proof))

    def complete_transaction(
        self, transaction_id: str, request: FailedCompleteRequest | SucceededCompleteRequest, proof: str
    ) -> Completed:
        """Report the outcome. 200 and 202 are answers: look at `result.status`."""
        return self.send(wire.complete_transaction(transaction_id, request, proof))

    def get_transaction(self, transaction_id: str) -> TransactionDetail:
        """One transaction; with its receipt only after its payment finished."""
        return self.send(wire.get_transaction(transaction_id))

    def list_transactions(self, **filters: Unpack[TransactionFilters]) -> Page[Transaction]:
        """One page of transactions."""
        return self.send(wire.list_transactions(TransactionQuery(**filters)))

    def list_payers(self, **filters: Unpack[ListFilters]) -> Page[Payer]:
        """One page of payers."""
        return self.send(wire.list_payers(ListQuery(**filters)))

    def list_resources(self, **filters: Unpack[ResourceFilters]) -> Page[Resource]:
        """One page of resources of the key's environment."""
        return self.send(wire.list_resources(ResourceQuery(**filters)))

    def list_contracts(self, include_integration_key: bool = False) -> ContractsDocument:
        """All active contract revisions."""
        return self.send(wire.list_contracts(include_integration_key))

    def complete_resource_execution(
        self, resource_execution_id: str, request: ResourceExecutionCompleteRequest
    ) -> ResourceExecutionCompleted:
        """Close a free execution with facts about its response."""
        return self.send(wire.complete_resource_execution(resource_execution_id, request))

    def iter_transactions(self, **filters: Unpack[TransactionFilters]) -> Generator[Transaction]:
        """Every transaction, page after page."""
        return self._items(wire.list_transactions(TransactionQuery(**filters)))

    def iter_payers(self, **filters: Unpack[ListFilters]) -> Generator[Payer]:
        """Every payer, page after page."""
        return self._items(wire.list_payers(ListQuery(**filters)))

    def iter_resources(self, **filters: Unpack[ResourceFilters]) -> Generator[Resource]:
        """Every resource, page after page."""
        return self._items(wire.list_resources(ResourceQuery(**filters)))

    def _items(self, first: Call[Page[T]]) -> Generator[T]:
        call: Call[Page[T]] | None = first
        while call is not None:
            page = self.send(call)
            yield from page.items
            call = _next_call(page, call)

    def close(self) -> None:
        """Close the connections of this process. A later call opens new ones."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncMerchantClient(_Client[AsyncChoice, AsyncTransport]):
    """Awaiting, on asyncio and trio; any number of event loops may share one. See `MerchantClient`."""

    def _choose(self, choice: AsyncChoice) -> AsyncTransport:
        return make_async(choice)

    async def send(self, call: Call[T]) -> T:
        """Make one call of `wire`. Raises `NoAnswer`, `BadAnswer`, and what the call's `read` raises."""
        return call.read(await self._transport.asend(*self._exchange(call.request)))

    async def access(self, request: AccessRequest, proof: str | None = None) -> AccessDecision:
        """May the payer have the resource? Raises `PaymentRequired` (402) and `PaymentPending` (202)."""
        return await self.send(wire.access(request, proof))

    async def complete_transaction(
        self, transaction_id: str, request: FailedCompleteRequest | SucceededCompleteRequest, proof: str
    ) -> Completed:
        """Report the outcome. 200 and 202 are answers: look at `result.status`."""
        return await self.send(wire.complete_transaction(transaction_id, request, proof))

    async def get_transaction(self, transaction_id: str) -> TransactionDetail:
        """One transaction; with its receipt only after its payment finished."""
        return await self.send(wire.get_transaction(transaction_id))

    async def list_transactions(self, **filters: Unpack[TransactionFilters]) -> Page[Transaction]:
        """One page of transactions."""
        return await self.send(wire.list_transactions(TransactionQuery(**filters)))

    async def list_payers(self, **filters: Unpack[ListFilters]) -> Page[Payer]:
        """One page of payers."""
        return await self.send(wire.list_payers(ListQuery(**filters)))

    async def list_resources(self, **filters: Unpack[ResourceFilters]) -> Page[Resource]:
        """One page of resources of the key's environment."""
        return await self.send(wire.list_resources(ResourceQuery(**filters)))

    async def list_contracts(self, include_integration_key: bool = False) -> ContractsDocument:
        """All active contract revisions."""
        return await self.send(wire.list_contracts(include_integration_key))

    async def complete_resource_execution(
        self, resource_execution_id: str, request: ResourceExecutionCompleteRequest
    ) -> ResourceExecutionCompleted:
        """Close a free execution with facts about its response."""
        return await self.send(wire.complete_resource_execution(resource_execution_id, request))

    def iter_transactions(self, **filters: Unpack[TransactionFilters]) -> AsyncGenerator[Transaction]:
        """Every transaction, page after page."""
        return self._items(wire.list_transactions(TransactionQuery(**filters)))

    def iter_payers(self, **filters: Unpack[ListFilters]) -> AsyncGenerator[Payer]:
        """Every payer, page after page."""
        return self._items(wire.list_payers(ListQuery(**filters)))

    def iter_resources(self, **filters: Unpack[ResourceFilters]) -> AsyncGenerator[Resource]:
        """Every resource, page after page."""
        return self._items(wire.list_resources(ResourceQuery(**filters)))

    async def _items(self, first: Call[Page[T]]) -> AsyncGenerator[T]:
        call: Call[Page[T]] | None = first
        while call is not None:
            page = await self.send(call)
            for item in page.items:
                yield item
            call = _next_call(page, call)

    async def aclose(self) -> None:
        """Close the connections of this process and event loop. A later call opens new ones."""
        await self._transport.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

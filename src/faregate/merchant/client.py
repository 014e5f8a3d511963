"""The client of the eight operations, blocking and async, over `faregate.merchant.wire`.

Each operation gives the contract's answer or raises one of `faregate.errors`; nothing is repeated by itself.
Arguments that the contract does not allow are pydantic's `ValidationError` (a `ValueError`).
"""

from collections.abc import AsyncGenerator, Generator
from datetime import datetime
from typing import TypedDict, TypeVar, Unpack

from faregate.merchant import wire
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
from faregate.merchant.requests import Call
from faregate.merchant.sender import AsyncSender, Sender
from faregate.merchant.types import ListOrder
from faregate.merchant.wire import Completed

T = TypeVar("T")


class ListFilters(TypedDict, total=False):
    """Query of a list (spec: Pagination rules). An omitted field means the service's default."""

    as_of: datetime | None
    order: ListOrder | None
    page: int | None
    page_size: int | None


class TransactionFilters(ListFilters, total=False):
    status: str | None
    payer_id: str | None


class ResourceFilters(ListFilters, total=False):
    archived: bool | None


class MerchantClient(Sender):
    """A blocking client of the Merchant API. Any number of threads may share one, and it survives a fork.

    `timeout` is in seconds and holds for a whole call. `transport` is an httpx transport, or an object with
    `send`; left out, it is the built-in one. Close it with `close()` or a `with` block.
    """

    def access(self, request: AccessRequest, proof: str | None = None) -> AccessDecision:
        """Ask for access to a resource. Raises `PaymentRequired` (402) and `PaymentPending` (202)."""
        return self.send(wire.access(request, proof))

    def complete_transaction(
        self, transaction_id: str, request: FailedCompleteRequest | SucceededCompleteRequest, proof: str
    ) -> Completed:
        """Report the outcome. 200 and 202 are answers: look at `result.status`."""
        return self.send(wire.complete_transaction(transaction_id, request, proof))

    def get_transaction(self, transaction_id: str) -> TransactionDetail:
        """Get one transaction; its receipt is there only after its payment has finished."""
        return self.send(wire.get_transaction(transaction_id))

    def list_transactions(self, **filters: Unpack[TransactionFilters]) -> Page[Transaction]:
        """Get one page of transactions."""
        return self.send(wire.list_transactions(TransactionQuery(**filters)))

    def list_payers(self, **filters: Unpack[ListFilters]) -> Page[Payer]:
        """Get one page of payers."""
        return self.send(wire.list_payers(ListQuery(**filters)))

    def list_resources(self, **filters: Unpack[ResourceFilters]) -> Page[Resource]:
        """Get one page of resources of the key's environment."""
        return self.send(wire.list_resources(ResourceQuery(**filters)))

    def list_contracts(self, include_integration_key: bool = False) -> ContractsDocument:
        """List all active contract revisions."""
        return self.send(wire.list_contracts(include_integration_key))

    def complete_resource_execution(
        self, resource_execution_id: str, request: ResourceExecutionCompleteRequest
    ) -> ResourceExecutionCompleted:
        """Close a free execution with facts about its response."""
        return self.send(wire.complete_resource_execution(resource_execution_id, request))

    def iter_transactions(self, **filters: Unpack[TransactionFilters]) -> Generator[Transaction]:
        """Iterate over all transactions, page by page."""
        return self._items(wire.list_transactions(TransactionQuery(**filters)))

    def iter_payers(self, **filters: Unpack[ListFilters]) -> Generator[Payer]:
        """Iterate over all payers, page by page."""
        return self._items(wire.list_payers(ListQuery(**filters)))

    def iter_resources(self, **filters: Unpack[ResourceFilters]) -> Generator[Resource]:
        """Iterate over all resources, page by page."""
        return self._items(wire.list_resources(ResourceQuery(**filters)))

    def _items(self, first: Call[Page[T]]) -> Generator[T]:
        call: Call[Page[T]] | None = first
        while call is not None:
            page = self.send(call)
            yield from page.items
            call = wire.next_page(page, call)


class AsyncMerchantClient(AsyncSender):
    """An async client of the Merchant API, on asyncio and trio. Any number of event loops may share one.

    Its arguments are those of `MerchantClient`. Close it with `await aclose()` or an `async with` block.
    """

    async def access(self, request: AccessRequest, proof: str | None = None) -> AccessDecision:
        """Ask for access to a resource. Raises `PaymentRequired` (402) and `PaymentPending` (202)."""
        return await self.send(wire.access(request, proof))

    async def complete_transaction(
        self, transaction_id: str, request: FailedCompleteRequest | SucceededCompleteRequest, proof: str
    ) -> Completed:
        """Report the outcome. 200 and 202 are answers: look at `result.status`."""
        return await self.send(wire.complete_transaction(transaction_id, request, proof))

    async def get_transaction(self, transaction_id: str) -> TransactionDetail:
        """Get one transaction; its receipt is there only after its payment has finished."""
        return await self.send(wire.get_transaction(transaction_id))

    async def list_transactions(self, **filters: Unpack[TransactionFilters]) -> Page[Transaction]:
        """Get one page of transactions."""
        return await self.send(wire.list_transactions(TransactionQuery(**filters)))

    async def list_payers(self, **filters: Unpack[ListFilters]) -> Page[Payer]:
        """Get one page of payers."""
        return await self.send(wire.list_payers(ListQuery(**filters)))

    async def list_resources(self, **filters: Unpack[ResourceFilters]) -> Page[Resource]:
        """Get one page of resources of the key's environment."""
        return await self.send(wire.list_resources(ResourceQuery(**filters)))

    async def list_contracts(self, include_integration_key: bool = False) -> ContractsDocument:
        """List all active contract revisions."""
        return await self.send(wire.list_contracts(include_integration_key))

    async def complete_resource_execution(
        self, resource_execution_id: str, request: ResourceExecutionCompleteRequest
    ) -> ResourceExecutionCompleted:
        """Close a free execution with facts about its response."""
        return await self.send(wire.complete_resource_execution(resource_execution_id, request))

    def iter_transactions(self, **filters: Unpack[TransactionFilters]) -> AsyncGenerator[Transaction]:
        """Iterate over all transactions, page by page."""
        return self._items(wire.list_transactions(TransactionQuery(**filters)))

    def iter_payers(self, **filters: Unpack[ListFilters]) -> AsyncGenerator[Payer]:
        """Iterate over all payers, page by page."""
        return self._items(wire.list_payers(ListQuery(**filters)))

    def iter_resources(self, **filters: Unpack[ResourceFilters]) -> AsyncGenerator[Resource]:
        """Iterate over all resources, page by page."""
        return self._items(wire.list_resources(ResourceQuery(**filters)))

    async def _items(self, first: Call[Page[T]]) -> AsyncGenerator[T]:
        call: Call[Page[T]] | None = first
        while call is not None:
            page = await self.send(call)
            for item in page.items:
                yield item
            call = wire.next_page(page, call)

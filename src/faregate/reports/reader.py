"""Read lists and receipts of the service, patiently: a busy service is asked again.

Every list is one snapshot: the pages after the first are those that its `next` names.
"""

import time
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from typing import Any, Final, TypeVar

from faregate.core.models import DEFAULT_MIME_TYPE
from faregate.core.terms import read_prices
from faregate.errors import ApiError, CommandError, PaymentRequired, ServiceError
from faregate.merchant import wire
from faregate.merchant.client import MerchantClient
from faregate.merchant.models import (
    AccessRequest,
    AccessResource,
    ContractRevision,
    ListQuery,
    Page,
    Payer,
    Resource,
    ResourceExecutionCompleteRequest,
    ResourceExecutionMetadata,
    ResourceQuery,
    Transaction,
    TransactionDetail,
    TransactionQuery,
)
from faregate.merchant.requests import Call
from faregate.merchant.resource_url import NOT_FOR_SALE
from faregate.reports.records import (
    PAYER,
    RESOURCE,
    TRANSACTION,
    TableRow,
    build_receipt_row,
    build_row,
)

T = TypeVar("T")

_PAGE_SIZE: Final = 100
_ATTEMPTS: Final = 6
_LONGEST_WAIT: Final = 30.0
_THREADS: Final = 8
_BUSY: Final = (429, 503)
SUCCEEDED: Final = "succeeded"


class PatientClient(MerchantClient):
    """A client that repeats a read while the service says that it is busy (429, 503)."""

    sleep: Callable[[float], None] = staticmethod(time.sleep)

    def send(self, call: Call[T]) -> T:
        for attempt in range(1, _ATTEMPTS):
            try:
                return super().send(call)
            except ApiError as error:
                if error.status not in _BUSY:
                    raise
                self.sleep(_parse_wait(error.retry_after, attempt))
        return super().send(call)


def _parse_wait(retry_after: str | None, attempt: int) -> float:
    # A date is not read: then each wait is a second longer than the one before.
    text = retry_after or ""
    return min(float(text) if text.isdecimal() else float(attempt), _LONGEST_WAIT)


@dataclass(frozen=True, slots=True)
class SnapshotRows:
    """Rows of one snapshot, read as they are taken.

    `count` is the number of all rows; None if it is not known before all are read, because of a filter
    that the service does not have.
    """

    rows: Iterator[TableRow]
    as_of: datetime | None
    count: int | None


@dataclass(frozen=True, slots=True)
class TransactionFilter:
    """Which transactions. `since` and `until` compare `created_at`; `resource` implies `details`."""

    status: str | None = None
    payer_id: str | None = None
    resource_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    details: bool = False

    @property
    def is_exact(self) -> bool:
        """Whether the service itself has all of these filters."""
        return self.resource_id is None and self.since is None and self.until is None


def list_transactions(client: MerchantClient, wanted: TransactionFilter, query: ListQuery) -> SnapshotRows:
    """List transactions, with the columns of their receipts if `details` is set."""
    page_query = TransactionQuery(**_get_fields(query), status=wanted.status, payer_id=wanted.payer_id)
    first, items = _open(client, wire.list_transactions(page_query))
    chosen = _filter_times(items, wanted, newest_first=query.order != "oldest")
    if wanted.details or wanted.resource_id:
        rows = _add_receipts(client, chosen)
    else:
        rows = (build_row(item, TRANSACTION) for item in chosen)
    if wanted.resource_id:
        rows = (row for row in rows if row["resource_id"] == wanted.resource_id)
    return SnapshotRows(rows, first.as_of, first.count if wanted.is_exact else None)


def list_payers(client: MerchantClient, query: ListQuery) -> SnapshotRows:
    first, items = _open(client, wire.list_payers(ListQuery(**_get_fields(query))))
    return SnapshotRows((build_row(item, PAYER) for item in items), first.as_of, first.count)


def list_resources(client: MerchantClient, query: ListQuery, *, archived: bool = False) -> SnapshotRows:
    """List resources, with the prices that their active revisions ask now; an archived one has none."""
    page_query = ResourceQuery(**_get_fields(query), archived=archived or None)
    first, items = _open(client, wire.list_resources(page_query))
    revisions = [] if archived else list_revisions(client)
    rows = (
        {**build_row(item, RESOURCE), "price": _join_prices(client, revisions, item.id)} for item in items
    )
    return SnapshotRows(rows, first.as_of, first.count)


def _join_prices(
    client: MerchantClient, revisions: Iterable[ContractRevision], resource_id: str
) -> str | None:
    prices = (read_price(client, revision) for revision in revisions if revision.resource_id == resource_id)
    return ", ".join(dict.fromkeys(price for price in prices if price)) or None


def read_price(client: MerchantClient, revision: ContractRevision) -> str | None:
    """Ask what a revision costs, by a call of access without a payment: "0.05 USDC", "free".

    None if this key may not ask, or if the service's instructions cannot be read.
    """
    request = AccessRequest(
        revision_id=revision.revision_id,
        resource=AccessResource(url=NOT_FOR_SALE, mime_type=DEFAULT_MIME_TYPE),
        settlement_asset=revision.settlement_asset,
    )
    try:
        decision = client.access(request)
    except PaymentRequired as unpaid:
        return " or ".join(price.text for price in read_prices(unpaid.instructions or "")) or None
    except ServiceError:
        return None
    if decision.resource_execution_id is not None:  # free access starts an execution
        closing = ResourceExecutionCompleteRequest(
            revision_id=revision.revision_id, resource_execution=ResourceExecutionMetadata()
        )
        with suppress(ServiceError):
            client.complete_resource_execution(decision.resource_execution_id, closing)
    return "free" if decision.transaction_id is None else None


def list_revisions(client: MerchantClient) -> list[ContractRevision]:
    """List active revisions by integration key."""
    document = client.list_contracts(include_integration_key=True)
    revisions = document.components.schemas.values()
    return sorted(revisions, key=lambda revision: (revision.integration_key or "", revision.revision_number))


def find_payer_id(client: MerchantClient, payer: str) -> str:
    """The id of a payer that is named by id or by identifier (an address). Raises `CommandError`."""
    if payer.startswith("pyr_"):
        return payer
    _, items = _open(client, wire.list_payers(ListQuery(page_size=_PAGE_SIZE)))
    for item in items:
        if (item.identifier or "").lower() == payer.lower():
            return item.id
    raise CommandError(f"Nobody has paid from {payer}: `faregate payers` lists who has.")


def find_resource_id(client: MerchantClient, resource: str) -> str:
    """The id of a resource that is named by id or by integration key. Raises `CommandError`."""
    if resource.startswith("res_"):
        return resource
    revisions = list_revisions(client)
    for revision in revisions:
        if revision.integration_key == resource:
            return revision.resource_id
    listed = (
        ", ".join(sorted({revision.integration_key for revision in revisions if revision.integration_key}))
        or "none"
    )
    raise CommandError(f"No active resource has the integration key {resource!r} (keys here: {listed}).")


def read_details(client: MerchantClient, ids: Iterable[str]) -> Iterator[TransactionDetail]:
    """Read transactions by id, some at a time, in the order of `ids`."""
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="faregate-report") as pool:
        waiting = iter(ids)
        while batch := list(islice(waiting, _PAGE_SIZE)):
            yield from pool.map(client.get_transaction, batch)


def _get_fields(query: ListQuery) -> dict[str, Any]:
    return {"as_of": query.as_of, "order": query.order, "page_size": query.page_size or _PAGE_SIZE}


Item = TypeVar("Item", Transaction, Payer, Resource)


def _open(client: MerchantClient, call: Call[Page[Item]]) -> tuple[Page[Item], Iterator[Item]]:
    """The first page, and the items of all pages."""
    first = client.send(call)
    return first, _iterate(client, first, call)


def _iterate(client: MerchantClient, page: Page[Item], call: Call[Page[Item]]) -> Generator[Item]:
    while True:
        yield from page.items
        following = wire.next_page(page, call)
        if following is None:
            return
        page, call = client.send(following), following


def _filter_times(
    items: Iterable[Transaction], wanted: TransactionFilter, *, newest_first: bool
) -> Generator[Transaction]:
    """Those created from `since` on and before `until`. Reading ends where no more can follow."""
    for item in items:
        if wanted.since and item.created_at and item.created_at < wanted.since:
            if newest_first:
                return
        elif wanted.until and item.created_at and item.created_at >= wanted.until:
            if not newest_first:
                return
        else:
            yield item


def _add_receipts(client: MerchantClient, items: Iterable[Transaction]) -> Generator[TableRow]:
    """Only a transaction that succeeded in the snapshot has its receipt read: it does not change."""
    waiting = iter(items)
    while batch := list(islice(waiting, _PAGE_SIZE)):
        settled = [item.id for item in batch if item.status == SUCCEEDED]
        details = {detail.id: detail for detail in read_details(client, settled)}
        for item in batch:
            yield build_row(item, TRANSACTION) | build_receipt_row(details.get(item.id))


def take(listing: SnapshotRows, limit: int | None) -> SnapshotRows:
    """The same listing, ending after `limit` rows."""
    return listing if limit is None else replace(listing, rows=islice(listing.rows, limit))

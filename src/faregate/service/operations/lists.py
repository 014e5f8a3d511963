"""The lists of transactions, payers and resources, and their envelope (spec: List envelope)."""

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Final, TypeVar
from urllib.parse import urlencode

from pydantic import BaseModel

from faregate.core.models import Response
from faregate.merchant.calls import ROOT
from faregate.merchant.formats import ID_TAIL
from faregate.merchant.models import Page, Payer, Resource
from faregate.service.catalog import Listing
from faregate.service.http import (
    ListQuery,
    ParsedRequest,
    invalid_request,
    json_value_response,
    parse_choice,
    parse_flag,
    parse_list_query,
)
from faregate.service.index import TemporalIndex
from faregate.service.receipts import build_transaction
from faregate.service.records import STATUSES, TransactionRecord
from faregate.service.settlement import settle_due
from faregate.service.state import EnvironmentState

T = TypeVar("T")
_PAYER_ID: Final = re.compile(f"pyr_{ID_TAIL}", re.ASCII)


def list_transactions(store: EnvironmentState, call: ParsedRequest) -> Response:
    query = parse_list_query(call, store.clock, ("status", "payer_id"))
    # Payments that fell due since the call arrived belong to its snapshot.
    settle_due(store, query.as_of)
    register, status = _select_index(store, query), _parse_status(query)
    count = register.count(query.as_of, status)
    return _build_page(
        count,
        lambda start, stop: register.between(start, stop, query.as_of, status),
        query,
        "/transactions",
        lambda record: build_transaction(record, query.as_of),
    )


def _select_index(store: EnvironmentState, query: ListQuery) -> TemporalIndex[TransactionRecord]:
    """Return the index of all transactions, or of one payer's."""
    payer_id = query.filters.get("payer_id")
    if payer_id is None:
        return store.index
    if not _PAYER_ID.fullmatch(payer_id):
        raise invalid_request("payer_id is not a payer id")
    payer = store.payer(payer_id)
    return TemporalIndex[TransactionRecord]() if payer is None else payer.transactions


def _parse_status(query: ListQuery) -> str | None:
    status = query.filters.get("status")
    return None if status is None else parse_choice("status", status, STATUSES)


def list_payers(store: EnvironmentState, call: ParsedRequest) -> Response:
    query = parse_list_query(call, store.clock)
    count = bisect_right(store.observed, query.as_of, key=lambda payer: payer.created_at)
    return _build_page(
        count,
        lambda start, stop: store.observed[start:stop],
        query,
        "/payers",
        lambda payer: Payer(
            id=payer.id,
            identifier=payer.identifier,
            created_at=payer.created_at,
            last_transaction_at=payer.last_transaction_at(query.as_of),
        ),
    )


def list_resources(store: EnvironmentState, call: ParsedRequest) -> Response:
    query = parse_list_query(call, store.clock, ("archived",))
    archived = parse_flag("archived", query.filters.get("archived", "false"))
    made = store.catalog.at(query.as_of)
    found = (listing for listing in made if listing.archived(query.as_of) == archived)
    oldest_first = sorted(found, key=lambda listing: listing.created_at)
    return _build_page(
        len(oldest_first), lambda start, stop: oldest_first[start:stop], query, "/resources", _build_resource
    )


def _build_resource(listing: Listing) -> Resource:
    return Resource(
        id=listing.id,
        name=listing.resource.name,
        description=listing.resource.description,
        image_url=listing.resource.image_url,
        created_at=listing.created_at,
        updated_at=listing.updated_at,
    )


def _build_page(
    count: int,
    between: Callable[[int, int], Sequence[T]],
    query: ListQuery,
    path: str,
    show: Callable[[T], BaseModel],
) -> Response:
    """Build one page of `count` records; `between` returns those of two positions, oldest first."""
    start = min((query.page - 1) * query.page_size, count)
    end = min(start + query.page_size, count)
    records = between(count - end, count - start)[::-1] if query.newest_first else between(start, end)
    envelope = Page[BaseModel](items=[], count=count, as_of=query.as_of, next=None)
    shown = envelope.model_dump(mode="json")
    shown["items"] = [show(one).model_dump(mode="json", exclude_none=True) for one in records]
    if end < count:
        shown["next"] = _build_next_url(path, query, shown["as_of"])
    return json_value_response(shown)


def _build_next_url(path: str, query: ListQuery, as_of: str) -> str:
    """Build the URL of the next page, with the same snapshot, filters, order and size."""
    # The URL names the snapshot, so that later pages show the same moment as the first.
    query_values = {
        "as_of": as_of,
        **query.filters,
        "order": "newest" if query.newest_first else "oldest",
        "page": query.page + 1,
        "page_size": query.page_size,
    }
    return f"{ROOT}{path}?{urlencode(query_values)}"

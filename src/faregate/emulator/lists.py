"""The list envelope and the lists of transactions, payers and resources (spec: List envelope). Pure."""

import re
from collections.abc import Callable, Iterable
from typing import Final, TypeVar
from urllib.parse import urlencode

from pydantic import BaseModel

from faregate.emulator.books import Books
from faregate.emulator.calls import Call
from faregate.emulator.catalog import Listing
from faregate.emulator.queries import ListQuery, flag, list_query, one_of
from faregate.emulator.receipts import item
from faregate.emulator.replies import answer_value, invalid
from faregate.emulator.state import STATUSES
from faregate.merchant.answers import Page, Payer, Resource
from faregate.merchant.types import ID_TAIL
from faregate.merchant.wire import ROOT
from faregate.model import Response

T = TypeVar("T")
_PAYER_ID: Final = re.compile(f"pyr_{ID_TAIL}", re.ASCII)


def list_transactions(books: Books, call: Call) -> Response:
    query = list_query(call, books.timeline, ("status", "payer_id"))
    found = (record for record in books.transactions.values() if record.created_at <= query.as_of)
    payer_id = query.filters.get("payer_id")
    if payer_id is not None:
        if not _PAYER_ID.fullmatch(payer_id):
            raise invalid("payer_id is not a payer id")
        found = (record for record in found if record.payer.id == payer_id)
    if "status" in query.filters:
        status = one_of("status", query.filters["status"], STATUSES)
        found = (record for record in found if record.status_at(query.as_of) == status)
    return _page(found, query, "/transactions", lambda record: item(record, query.as_of))


def list_payers(books: Books, call: Call) -> Response:
    query = list_query(call, books.timeline)
    found = (payer for payer in books.payers.values() if payer.created_at <= query.as_of)
    return _page(
        found,
        query,
        "/payers",
        lambda payer: Payer(
            id=payer.id,
            identifier=payer.identifier,
            created_at=payer.created_at,
            last_transaction_at=payer.last_transaction_at(query.as_of),
        ),
    )


def list_resources(books: Books, call: Call) -> Response:
    query = list_query(call, books.timeline, ("archived",))
    archived = flag("archived", query.filters.get("archived", "false"))
    made = (listing for listing in books.catalog.listings.values() if listing.created_at <= query.as_of)
    found = (listing for listing in made if listing.archived(query.as_of) == archived)
    return _page(sorted(found, key=lambda listing: listing.created_at), query, "/resources", _resource)


def _resource(listing: Listing) -> Resource:
    return Resource(
        id=listing.id,
        name=listing.plan.name,
        description=listing.plan.description,
        image_url=listing.plan.image_url,
        created_at=listing.created_at,
        updated_at=listing.updated_at,
    )


def _page(oldest_first: Iterable[T], query: ListQuery, path: str, show: Callable[[T], BaseModel]) -> Response:
    """One page of what the snapshot holds; `count` is all of it."""
    records = list(oldest_first)
    if query.newest_first:
        records.reverse()
    start = (query.page - 1) * query.page_size
    end = start + query.page_size
    envelope = Page[BaseModel](items=[], count=len(records), as_of=query.as_of, next=None)
    shown = envelope.model_dump(mode="json")
    shown["items"] = [show(one).model_dump(mode="json", exclude_none=True) for one in records[start:end]]
    if end < len(records):
        shown["next"] = _address(path, query, shown["as_of"])
    return answer_value(shown)


def _address(path: str, query: ListQuery, as_of: str) -> str:
    """Where the next page is: the same snapshot, filters, order and size."""
    asked = {
        "as_of": as_of,
        **query.filters,
        "order": "newest" if query.newest_first else "oldest",
        "page": query.page + 1,
        "page_size": query.page_size,
    }
    return f"{ROOT}{path}?{urlencode(asked)}"

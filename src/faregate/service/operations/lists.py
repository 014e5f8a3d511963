"""The lists of transactions, payers and resources, and their envelope (spec: List envelope)."""

import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlencode

from pydantic import BaseModel

from faregate.core.models import Response
from faregate.merchant.calls import ROOT
from faregate.merchant.formats import ID_TAIL
from faregate.merchant.models import Page, Payer, Resource
from faregate.service.catalog import Listing
from faregate.service.http import (
    ParsedListQuery,
    ParsedRequest,
    invalid_request,
    json_value_response,
    parse_as_of,
    parse_choice,
    parse_flag,
    parse_list_query,
)
from faregate.service.receipts import build_transaction
from faregate.service.records import STATUSES
from faregate.service.settlement import settle_due
from faregate.service.steps import FixSnapshot, ListPayers, ListResources, ListTransactions, Steps
from faregate.service.store import cut_page

_PAYER_ID: Final = re.compile(f"pyr_{ID_TAIL}", re.ASCII)


def list_transactions(call: ParsedRequest) -> Steps[Response]:
    query = yield from _read_query(call, ("status", "payer_id"))
    # Payments that fell due since the call arrived belong to its snapshot.
    yield from settle_due(query.as_of)
    payer_id, status = query.filters.get("payer_id"), query.filters.get("status")
    if payer_id is not None and not _PAYER_ID.fullmatch(payer_id):
        raise invalid_request("payer_id is not a payer id")
    if status is not None:
        parse_choice("status", status, STATUSES)
    page = yield from ListTransactions(query, status, payer_id)
    return _build_page(
        [build_transaction(one, query.as_of) for one in page.records], page.count, query, "/transactions"
    )


def list_payers(call: ParsedRequest) -> Steps[Response]:
    query = yield from _read_query(call)
    page = yield from ListPayers(query)
    shown = [
        Payer(
            id=payer.id,
            identifier=payer.identifier,
            created_at=payer.created_at,
            last_transaction_at=payer.last_transaction_at,
        )
        for payer in page.records
    ]
    return _build_page(shown, page.count, query, "/payers")


def list_resources(call: ParsedRequest) -> Steps[Response]:
    query = yield from _read_query(call, ("archived",))
    archived = parse_flag("archived", query.filters.get("archived", "false"))
    made = yield from ListResources(query.as_of)
    found = [listing for listing in made if listing.is_archived(query.as_of) == archived]
    found.sort(key=lambda listing: listing.created_at)
    page = cut_page(query, len(found), lambda start, stop: found[start:stop])
    return _build_page([_build_resource(one) for one in page.records], page.count, query, "/resources")


def _read_query(call: ParsedRequest, own: Sequence[str] = ()) -> Steps[ParsedListQuery]:
    """Read the query of a list, and fix the moment that it shows; 422 if that is in the future."""
    as_of = yield from FixSnapshot(parse_as_of(call))
    if as_of is None:
        raise invalid_request("as_of is in the future")
    return parse_list_query(call, as_of, own)


def _build_resource(listing: Listing) -> Resource:
    return Resource(
        id=listing.id,
        name=listing.resource.name,
        description=listing.resource.description,
        image_url=listing.resource.image_url,
        created_at=listing.created_at,
        updated_at=listing.updated_at,
    )


def _build_page(items: Sequence[BaseModel], count: int, query: ParsedListQuery, path: str) -> Response:
    """Build the envelope around the items of one page."""
    envelope = Page[BaseModel](items=[], count=count, as_of=query.as_of, next=None)
    shown = envelope.model_dump(mode="json")
    shown["items"] = [one.model_dump(mode="json", exclude_none=True) for one in items]
    if query.page * query.page_size < count:
        shown["next"] = _build_next_url(path, query, shown["as_of"])
    return json_value_response(shown)


def _build_next_url(path: str, query: ParsedListQuery, as_of: str) -> str:
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

"""What a seller reads: one transaction, lists, and the contracts document (spec: Endpoints)."""

import re
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlencode

from pydantic import BaseModel

from faregate.core.models import Response
from faregate.merchant.formats import ID_TAIL
from faregate.merchant.models import (
    Components,
    ContractRevision,
    ContractsDocument,
    ContractValue,
    DocumentInfo,
    Page,
    Payer,
    Resource,
    SecurityRequirement,
    SecuritySchemes,
)
from faregate.merchant.requests import ROOT
from faregate.rules.account import Value
from faregate.rules.catalog import Listing
from faregate.rules.dependencies import Dependencies
from faregate.rules.http import (
    ParsedListQuery,
    ParsedRequest,
    invalid_request,
    json_value_response,
    parse_as_of,
    parse_choice,
    parse_flag,
    parse_list_query,
    parse_query,
)
from faregate.rules.operations.complete import find_transaction
from faregate.rules.receipts import build_transaction, build_transaction_detail
from faregate.rules.records import STATUSES
from faregate.rules.settlement import count_read, settle_due
from faregate.rules.store import Store, cut_page

_PAYER_ID: Final = re.compile(f"pyr_{ID_TAIL}", re.ASCII)


def get_transaction(call: ParsedRequest, deps: Dependencies) -> Response:
    """Return the transaction. This counts as a read, so it may settle the payment."""
    transaction = count_read(find_transaction(call.identifier, deps.store), deps)
    shown = build_transaction_detail(transaction).model_dump(mode="json", exclude_none=True)
    return json_value_response(shown)


# Lists (spec: List envelope)


def list_transactions(call: ParsedRequest, deps: Dependencies) -> Response:
    query = _read_query(call, deps.store, ("status", "payer_id"))
    # Payments that fell due since the call arrived belong to its snapshot.
    settle_due(query.as_of, deps)
    payer_id, status = query.filters.get("payer_id"), query.filters.get("status")
    if payer_id is not None and not _PAYER_ID.fullmatch(payer_id):
        raise invalid_request("payer_id is not a payer id")
    if status is not None:
        parse_choice("status", status, STATUSES)
    page = deps.store.list_transactions(query, status, payer_id)
    return _build_page(
        [build_transaction(record, query.as_of) for record in page.records],
        page.count,
        query,
        "/transactions",
    )


def list_payers(call: ParsedRequest, deps: Dependencies) -> Response:
    query = _read_query(call, deps.store)
    page = deps.store.list_payers(query)
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


def list_resources(call: ParsedRequest, deps: Dependencies) -> Response:
    query = _read_query(call, deps.store, ("archived",))
    archived = parse_flag("archived", query.filters.get("archived", "false"))
    created = deps.store.list_resources(query.as_of)
    listings = [listing for listing in created if listing.is_archived(query.as_of) == archived]
    listings.sort(key=lambda listing: listing.created_at)
    page = cut_page(query, len(listings), lambda start, stop: listings[start:stop])
    return _build_page([_build_resource(record) for record in page.records], page.count, query, "/resources")


def _read_query(call: ParsedRequest, store: Store, own: Sequence[str] = ()) -> ParsedListQuery:
    """Read the query of a list, and fix the moment that it shows; 422 if that is in the future."""
    as_of = store.fix_snapshot(parse_as_of(call))
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
    # The envelope shows a null `next`; its items leave out what is null.
    envelope = Page[BaseModel](items=[], count=count, as_of=query.as_of, next=None)
    shown = envelope.model_dump(mode="json")
    shown["items"] = [item.model_dump(mode="json", exclude_none=True) for item in items]
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


# The contracts document


def list_contracts(call: ParsedRequest, deps: Dependencies) -> Response:
    """Return the active revision of every resource that is not archived."""
    parameters = parse_query(call, ("include_integration_key",))
    keys = parse_flag("include_integration_key", parameters.get("include_integration_key", "false"))
    active = [_build_contract(listing) for listing in deps.store.list_active()]
    document = ContractsDocument(
        info=DocumentInfo(title=f"{deps.store.seller_name} contracts", version="1.0.0"),
        paths={},
        components=Components(
            security_schemes=SecuritySchemes(),
            schemas={revision.revision_id: revision for revision in active},
        ),
        security=[SecurityRequirement(merchant_api_key=["contracts:read"])],
    )
    # Left out, and not null: `include_integration_key` is about the fields.
    hidden = set[str]() if keys else {"integration_key", "revision_key"}
    shown: dict[str, Any] = document.model_dump(mode="json", by_alias=True)
    shown["components"]["schemas"] = {
        revision.revision_id: revision.model_dump(mode="json", by_alias=True, exclude=hidden)
        for revision in active
    }
    return json_value_response(shown)


def _build_contract(listing: Listing) -> ContractRevision:
    resource, revision = listing.resource, listing.active
    values = revision.rules.values
    return ContractRevision(
        title=f"{resource.name} completion values",
        properties={value.name: _build_contract_value(value, place) for place, value in enumerate(values)},
        required=[value.name for value in values if value.required],
        settlement_asset=revision.token.symbol,
        revision_id=revision.id,
        revision_number=revision.number,
        revision_name=revision.rules.name or f"Revision {revision.number}",
        resource_id=listing.id,
        resource_name=resource.name,
        resource_description=resource.description,
        integration_key=resource.key if resource.show_key else None,
        revision_key=revision.key,
    )


def _build_contract_value(value: Value, position: int) -> ContractValue:
    return ContractValue(
        description=value.description,
        label=value.label or value.name,
        unit=value.unit,
        position=position,
    )

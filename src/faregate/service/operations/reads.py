"""One transaction, and the contracts document (spec: Endpoints)."""

from typing import Any

from faregate.core.models import Response
from faregate.merchant.models import (
    Components,
    ContractRevision,
    ContractsDocument,
    ContractValue,
    DocumentInfo,
    SecurityRequirement,
    SecuritySchemes,
)
from faregate.service.catalog import Listing
from faregate.service.config import Value
from faregate.service.http import ParsedRequest, json_value_response, parse_flag, parse_query
from faregate.service.operations.complete import find_transaction
from faregate.service.receipts import build_transaction_detail
from faregate.service.settlement import read
from faregate.service.steps import GetSellerName, ListActive, Steps


def get_transaction(call: ParsedRequest) -> Steps[Response]:
    """Return the transaction. This counts as a read, so it may settle the payment."""
    transaction = yield from read((yield from find_transaction(call.identifier)))
    shown = build_transaction_detail(transaction).model_dump(mode="json", exclude_none=True)
    return json_value_response(shown)


def list_contracts(call: ParsedRequest) -> Steps[Response]:
    """Return the active revision of every resource that is not archived."""
    given = parse_query(call, ("include_integration_key",))
    keys = parse_flag("include_integration_key", given.get("include_integration_key", "false"))
    active = [_build_contract(listing) for listing in (yield from ListActive())]
    seller_name = yield from GetSellerName()
    document = ContractsDocument(
        info=DocumentInfo(title=f"{seller_name} contracts", version="1.0.0"),
        paths={},
        components=Components(
            security_schemes=SecuritySchemes(),
            schemas={revision.revision_id: revision for revision in active},
        ),
        security=[SecurityRequirement(merchant_api_key=["contracts:read"])],
    )
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

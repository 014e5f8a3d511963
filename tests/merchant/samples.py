"""Bodies of the contract, whole, to be changed in one place per test."""

from typing import Any

from faregate.merchant.models import (
    AccessRequest,
    AccessResource,
    FailedCompleteRequest,
    ResourceExecutionMetadata,
    SucceededCompleteRequest,
)

TAIL = "0123456789ab7cde89abcdef01234567"
TXN, ACR, RES, PYR, REX, PRQ, RCT, PRC, ORG, RVK = (
    f"{prefix}_{TAIL}" for prefix in ("txn", "acr", "res", "pyr", "rex", "prq", "rct", "prc", "org", "rvk")
)
ADDRESS = "0x" + "ab" * 20
HASH = "0x" + "cd" * 32
NOW = "2026-01-02T03:04:05.678Z"

ACCESS = AccessRequest(
    revision_id=ACR,
    resource=AccessResource(url="https://seller.example/a", mime_type="text/plain"),
    settlement_asset="USDC",
)
FAILED = FailedCompleteRequest(revision_id=ACR, failure_code="work_failed")
SUCCEEDED = SucceededCompleteRequest(
    revision_id=ACR, values={"tokens": "12.5"}, resource_execution=ResourceExecutionMetadata(duration_ms=7)
)

RECEIPT: dict[str, Any] = {
    "id": RCT,
    "transaction_id": TXN,
    "environment": "test",
    "environment_key": "test",
    "issued_at": NOW,
    "schema_version": 1,
    "payment": {
        "asset": "USDC",
        "asset_id": ADDRESS,
        "authorized_atomic": "10000",
        "settled_atomic": "10000",
        "network": "eip155:84532",
        "payer": ADDRESS,
        "recipient": ADDRESS,
        "scheme": "exact",
        "transaction_hash": HASH,
    },
    "price": {"id": PRC, "calculation_mode": "fixed", "currency": "USD", "label": "1 cent"},
    "resource": {"id": RES, "name": "A", "url": "https://seller.example/a"},
    "seller": {"id": ORG, "name": "S"},
}
TRANSACTION: dict[str, Any] = {
    "id": TXN,
    "payer": ADDRESS,
    "payment_request_id": PRQ,
    "status": "succeeded",
    "created_at": NOW,
    "authorized_at": NOW,
    "authorized_atomic": "10000",
    "settled_at": NOW,
    "settled_atomic": "10000",
    "transaction_hash": HASH,
}
SETTLEMENT = ("settled_at", "settled_atomic", "transaction_hash")
"""What a transaction has only if it was paid for."""
COMPLETED: dict[str, Any] = {
    "transaction_id": TXN,
    "status": "succeeded",
    "payment_response": "cHJvb2Y=",
    "receipt": RECEIPT,
    "transaction_hash": HASH,
}
PAYER: dict[str, Any] = {"id": PYR, "identifier": ADDRESS, "created_at": NOW, "last_transaction_at": NOW}
RESOURCE: dict[str, Any] = {
    "id": RES,
    "name": "A",
    "description": "",
    "image_url": "https://seller.example/a.png",
    "created_at": NOW,
    "updated_at": NOW,
}
VALUE: dict[str, Any] = {
    "type": "string",
    "format": "decimal",
    "pattern": r"^(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,12})?$",
    "description": "d",
    "x-svc-label": "Tokens",
    "x-svc-unit": "token",
    "x-svc-position": 0,
    "x-svc-max-digits": 30,
    "x-svc-decimal-places": 12,
}
REVISION: dict[str, Any] = {
    "title": "T",
    "type": "object",
    "additionalProperties": False,
    "properties": {"tokens": VALUE},
    "required": ["tokens"],
    "x-svc-settlement-asset": "USDC",
    "x-svc-revision-id": ACR,
    "x-svc-revision-number": 1,
    "x-svc-revision-name": "first",
    "x-svc-resource-id": RES,
    "x-svc-resource-name": "A",
    "x-svc-resource-description": "",
}
CONTRACTS: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "Contracts", "version": "1.0"},
    "paths": {"/a": {}},
    "components": {
        "securitySchemes": {"merchantApiKey": {"type": "http", "scheme": "bearer"}},
        "schemas": {ACR: REVISION},
    },
    "security": [{"merchantApiKey": ["contracts:read"]}],
}


def page(*items: dict[str, Any], following: str | None = None) -> dict[str, Any]:
    return {"items": list(items), "count": len(items), "as_of": NOW, "next": following}


def changed(body: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy with the property at a dotted path set, or removed by `...`."""
    name, _, rest = path.partition(".")
    copy = dict(body)
    if rest:
        copy[name] = changed(copy[name], rest, value)
    elif value is ...:
        del copy[name]
    else:
        copy[name] = value
    return copy

"""Hooks of schemathesis: what it makes up becomes what the service knows, so that calls get somewhere.

Only calls that should be taken are changed: their revision exists, their payment is a real one, their
snapshot is not in the future. `EMULATOR_URL` and `EMULATOR_KEY` name the service.
"""

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from typing import Any, Final

import schemathesis
from schemathesis import GenerationMode, HookContext

from faregate.emulator import Wallet
from faregate.errors import PaymentRequired
from faregate.merchant.client import MerchantClient
from faregate.merchant.models import AccessRequest, AccessResource, ContractRevision

FREE: Final = "free_notes"
PAST: Final = "2025-06-01T00:00:00Z"


@cache
def client() -> MerchantClient:
    return MerchantClient(os.environ["EMULATOR_KEY"], os.environ["EMULATOR_URL"])


@cache
def wallet() -> Wallet:
    return Wallet()


@cache
def revisions() -> Mapping[str, ContractRevision]:
    """By integration key."""
    found = client().list_contracts(include_integration_key=True).components.schemas.values()
    return {str(revision.integration_key): revision for revision in found}


def one_of(case: Any) -> ContractRevision:
    """A paid revision; another one for another body."""
    paid = [revision for key, revision in sorted(revisions().items()) if key != FREE]
    return paid[len(str(case.body)) % len(paid)]


def proof_for(request: AccessRequest) -> str:
    try:
        client().access(request)
    except PaymentRequired as error:
        return wallet().pay(str(error.instructions))
    raise AssertionError("it is free")


def request_for(revision: ContractRevision) -> AccessRequest:
    resource = AccessResource(url="https://seller.example/a", mime_type="text/plain")
    return AccessRequest(
        revision_id=revision.revision_id, resource=resource, settlement_asset=revision.settlement_asset
    )


def bought(revision: ContractRevision) -> tuple[str, str]:
    """An open transaction and its proof."""
    request = request_for(revision)
    proof = proof_for(request)
    return str(client().access(request, proof).transaction_id), proof


@cache
def bought_once() -> str:
    return bought(revisions()["text_summary"])[0]


def access(case: Any) -> None:
    revision = one_of(case)
    case.body = {
        **case.body,
        "revision_id": revision.revision_id,
        "settlement_asset": revision.settlement_asset,
    }
    if "PAYMENT-SIGNATURE" in (case.headers or {}):
        # A resource that the models refuse is left as it is, and so is the proof: it should be taken.
        with suppress(ValueError):
            proof = proof_for(AccessRequest.model_validate(case.body))
            case.headers = {**case.headers, "PAYMENT-SIGNATURE": proof}


def complete_transaction(case: Any) -> None:
    revision = one_of(case)
    transaction, proof = bought(revision)
    case.path_parameters = {"transaction_id": transaction}
    case.headers = {**(case.headers or {}), "PAYMENT-SIGNATURE": proof}
    changes: dict[str, Any] = {"revision_id": revision.revision_id}
    if "values" in case.body:
        told = [*case.body["values"].values(), *("1" for _ in revision.required)]
        changes["values"] = dict(zip([*revision.required, *revision.properties], told, strict=False))
    case.body = {**case.body, **changes}


def complete_resource_execution(case: Any) -> None:
    revision = revisions()[FREE]
    execution = client().access(request_for(revision)).resource_execution_id
    case.path_parameters = {"resource_execution_id": execution}
    case.body = {**case.body, "revision_id": revision.revision_id}


def get_transaction(case: Any) -> None:
    case.path_parameters = {"transaction_id": bought_once()}


def listed(case: Any) -> None:
    if str((case.query or {}).get("as_of", "")) > PAST:
        case.query = {**case.query, "as_of": PAST}


KNOWN: Final[Mapping[str, Callable[[Any], None]]] = {
    "access": access,
    "complete_transaction": complete_transaction,
    "complete_resource_execution": complete_resource_execution,
    "get_transaction": get_transaction,
    "list_transactions": listed,
    "list_payers": listed,
    "list_resources": listed,
}


@schemathesis.hook
def map_case(context: HookContext, case: Any) -> Any:
    taken = case.meta is not None and case.meta.generation.mode is GenerationMode.POSITIVE
    change = KNOWN.get(str(case.operation.definition.raw.get("operationId")))
    if taken and change is not None:
        change(case)
    return case

"""Check that an API key may make the calls that selling needs. Sells nothing."""

import secrets
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, cast

from faregate.core.models import Offer, OfferRevision
from faregate.errors import Forbidden, ServiceError
from faregate.merchant import wire
from faregate.merchant.backend import access_resource
from faregate.merchant.requests import (
    AccessRequest,
    FailedCompleteRequest,
    ResourceExecutionCompleteRequest,
    ResourceExecutionMetadata,
)
from faregate.merchant.types import SettlementAsset
from faregate.merchant.wire import Call
from faregate.paywall import Paywall


def find_missing_rights(paywall: Paywall, offer: Offer, rules: OfferRevision, url: str) -> Iterator[str]:
    """What the key may not do, a sentence each.

    Asks for the price of the offer, and of things that do not exist: a service refuses a key before it looks
    for them. What else a service answers says nothing of the key.
    """
    for needed, call in _calls(offer, rules, url):
        try:
            answer = paywall.call(call)
        except Forbidden as error:
            yield (
                f"The API key may not {needed}: {error}. Set FAREGATE_API_KEY to a key that may, or give "
                "this one the right in your seller account."
            )
        except ServiceError:
            continue
        else:
            _close(paywall, rules, getattr(answer, "resource_execution_id", None))


def _calls(offer: Offer, rules: OfferRevision, url: str) -> Iterator[tuple[str, Call[Any]]]:
    request = AccessRequest(
        revision_id=rules.revision_id,
        resource=access_resource(offer, url),
        settlement_asset=cast(SettlementAsset, rules.asset),
    )
    yield "authorize access, so nothing can be sold", wire.access(request)
    transaction_id = _unissued("txn")
    failed = FailedCompleteRequest(revision_id=rules.revision_id, failure_code="faregate-check")
    yield (
        "complete transactions, so nobody can be charged",
        wire.complete_transaction(transaction_id, failed, "faregate-check"),
    )
    yield (
        "read transactions, so a payment that settles late cannot be looked up",
        wire.get_transaction(transaction_id),
    )
    yield "complete free executions", _closing(rules, _unissued("rex"))


def _close(paywall: Paywall, rules: OfferRevision, execution_id: str | None) -> None:
    """Free access leaves an execution."""
    if execution_id is not None:
        with suppress(ServiceError):
            paywall.call(_closing(rules, execution_id))


def _closing(rules: OfferRevision, execution_id: str) -> Call[Any]:
    body = ResourceExecutionCompleteRequest(
        revision_id=rules.revision_id, resource_execution=ResourceExecutionMetadata()
    )
    return wire.complete_resource_execution(execution_id, body)


def _unissued(prefix: str) -> str:
    """An id that no service gave: its moment is 1970."""
    return f"{prefix}_{'0' * 12}7{secrets.token_hex(8)[:3]}8{secrets.token_hex(8)[:15]}"

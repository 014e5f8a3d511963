"""Check that what an application sells can be sold: its routes, its journal, its API key, its offers.

Blocking: it calls the journal and the service. It sells nothing and pays nothing.
"""

import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, Final, cast

from faregate.core.claim_types import Claimant, Claimed
from faregate.core.driver import run
from faregate.core.models import Offer, OfferRevision
from faregate.core.service_price import ask_price
from faregate.errors import ConfigurationError, FaregateError, Forbidden, ServiceError
from faregate.maintenance.journal import find_problems, is_in_memory
from faregate.merchant import wire
from faregate.merchant.backend import build_resource
from faregate.merchant.models import (
    AccessRequest,
    AccessResource,
    FailedCompleteRequest,
    ResourceExecutionCompleteRequest,
    ResourceExecutionMetadata,
)
from faregate.merchant.requests import INSTRUCTIONS, Call
from faregate.merchant.resource_url import NOT_FOR_SALE
from faregate.paywall import Paywall
from faregate.routes import RouteTable
from faregate.settings import SERVICE, load_service
from faregate.x402.instructions import are_unpredictable
from faregate.x402.tokens import SettlementAsset

UNPREDICTABLE: Final = (
    "Payment instructions are unpredictable: every 402 carries a fresh value in accepts[].extra."
)
PREDICTABLE: Final = (
    "Payment instructions can be guessed: two 402s for {} are alike. Readers of a settled payment on the "
    "chain can rebuild its PAYMENT-SIGNATURE header. Ask the operator of the merchant service for a fresh "
    "value in accepts[].extra."
)
UNKNOWN: Final = "Whether payment instructions can be guessed is unknown: no offer was answered with 402."

IN_MEMORY: Final = (
    "The journal is in memory: it serves one process, and ends with it. Before you run several workers, or "
    "take real money, set {} to a journal that all processes share."
)


def check(table: RouteTable) -> list[str]:
    """Find what keeps these routes from being sold; returns sentences.

    A paywall is checked even if nothing is sold with it.
    """
    problems = list(table.problems)
    try:
        offers = table.group_offers()
    except ConfigurationError as error:
        return [*problems, str(error)]
    for paywall, sold in offers.items():
        with _keep_address(paywall):
            problems += [*_check_journal(paywall), *_check_offers(paywall, sold)]
        problems += paywall.find_service_faults()
    checked = {offer for sold in offers.values() for offer in sold}
    problems += [
        f"{offer.sells} was not checked: there is no paywall in front of its route."
        for offer in table.offers
        if offer not in checked
    ]
    return problems


def _keep_address(paywall: Paywall) -> AbstractContextManager[None]:
    """Let the check of a service in this process not change which address is paid."""
    if paywall.settings.base_url != SERVICE:
        return nullcontext()
    kept: AbstractContextManager[None] = load_service("FAREGATE_BASE_URL").keeping_address()
    return kept


def _check_journal(paywall: Paywall) -> Iterator[str]:
    journal = paywall.journal
    try:
        # Reading is not enough: a full disk or a read-only replica shows only when a row is written.
        claim = journal.claim(f"faregate check {secrets.token_hex(16)}", Claimant("CHECK /"))
        if isinstance(claim, Claimed):
            journal.abandon_claim(claim.lease)
    except Exception as error:
        yield f"The journal cannot be written: {error}"
    try:
        yield from find_problems(paywall)
    except FaregateError as error:
        yield f"The journal cannot be inspected: {error}"
    if path := paywall.settings.last_resort:
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600))
        except OSError as error:
            named = paywall.settings.name_setting("last_resort")
            yield f"{named} names a file that cannot be written: {error}"


def _check_offers(paywall: Paywall, offers: Iterable[Offer]) -> Iterator[str]:
    resolved: tuple[Offer, OfferRevision] | None = None
    for offer in offers:
        try:
            revision = cast(OfferRevision, paywall.backend.resolve_offer(offer))
        except ServiceError as error:
            # All offers are resolved from one document, so the others would fail in the same way.
            yield f"The merchant service does not say what is sold: {error}"
            return
        except FaregateError as error:
            yield f"{offer.sells}: {error}"
        else:
            resolved = resolved or (offer, revision)
    if resolved is not None:
        yield from _check_permissions(paywall, *resolved)


def _check_permissions(paywall: Paywall, offer: Offer, revision: OfferRevision) -> Iterator[str]:
    """Make the calls that selling needs.

    They are about an offer's price, and about things that do not exist: a service refuses a key before it
    looks for them. So 403 is the only answer that says something about the key.
    """
    for purpose, call in _build_calls(offer, revision):
        try:
            result = paywall.call(call)
        except Forbidden as error:
            yield (
                f"The API key may not {purpose}: {error}. Set {paywall.settings.name_setting('api_key')} to "
                "a key that may, or give this one the permission in your seller account."
            )
        except ServiceError:
            continue
        else:
            # Free access starts an execution.
            if (execution_id := getattr(result, "resource_execution_id", None)) is not None:
                with suppress(ServiceError):
                    paywall.call(_build_closing_call(execution_id, revision))


def _build_calls(offer: Offer, revision: OfferRevision) -> Iterator[tuple[str, Call[Any]]]:
    request = AccessRequest(
        revision_id=revision.revision_id,
        resource=AccessResource.model_validate(
            build_resource(NOT_FOR_SALE, offer.mime_type, offer.description)
        ),
        settlement_asset=cast(SettlementAsset, revision.asset),
    )
    yield "authorize access, so nothing can be sold", wire.access(request)
    transaction_id = _make_unissued_id("txn")
    failed = FailedCompleteRequest(revision_id=revision.revision_id, failure_code="faregate-check")
    yield (
        "complete transactions, so payers cannot be charged",
        wire.complete_transaction(transaction_id, failed, "faregate-check"),
    )
    yield (
        "read transactions, so a payment that settles late cannot be looked up",
        wire.get_transaction(transaction_id),
    )
    yield "complete free executions", _build_closing_call(_make_unissued_id("rex"), revision)


def _build_closing_call(execution_id: str, revision: OfferRevision) -> Call[Any]:
    body = ResourceExecutionCompleteRequest(
        revision_id=revision.revision_id, resource_execution=ResourceExecutionMetadata()
    )
    return wire.complete_resource_execution(execution_id, body)


def _make_unissued_id(prefix: str) -> str:
    """An id that no service has issued: a UUIDv7 whose time is 1970."""
    return f"{prefix}_{'0' * 12}7{secrets.token_hex(8)[:3]}8{secrets.token_hex(8)[:15]}"


def describe_journals(table: RouteTable) -> list[str]:
    """Say what a journal lacks that is not an error, because one process needs no more."""
    try:
        paywalls = table.group_offers()
    except ConfigurationError:
        return []
    in_memory = (paywall for paywall in paywalls if is_in_memory(paywall.journal))
    return [IN_MEMORY.format(paywall.settings.name_setting("journal")) for paywall in in_memory][:1]


def describe_instructions(table: RouteTable) -> list[str]:
    """Say for each paywall whether the service's payment instructions can be guessed.

    Asks the service twice for the instructions of one offer. Errors are not raised: `check` reports them.
    """
    try:
        offers = table.group_offers()
    except ConfigurationError:
        return []
    return [_describe(paywall, sold) for paywall, sold in offers.items() if sold]


def _describe(paywall: Paywall, offers: Iterable[Offer]) -> str:
    for offer in offers:
        try:
            answers = [run(ask_price(paywall.backend, offer, NOT_FOR_SALE)) for _ in range(2)]
        except FaregateError:
            continue
        instructions = [answer.first(INSTRUCTIONS) or "" for answer in answers if answer is not None]
        if len(instructions) == 2:
            return UNPREDICTABLE if are_unpredictable(*instructions) else PREDICTABLE.format(offer.sells)
    return UNKNOWN

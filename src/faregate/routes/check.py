"""What would keep an inventory from being sold, and whether payments can be rebuilt. Blocking.

The journal and the service are asked.
"""

import os
import secrets
from collections.abc import Iterable, Iterator
from typing import Final, cast

from faregate.core.claims import Claimant, Claimed
from faregate.core.driver import drive, started
from faregate.core.instructions import are_unguessable
from faregate.core.models import HandlerResult, Offer, OfferRevision, PaidRequest, Request, Response
from faregate.core.results import AccessFree, AccessUnpaid
from faregate.core.steps import CallAccess, CloseExecution, Flow, ResolveOffer
from faregate.errors import FaregateError, ServiceError
from faregate.merchant.wire import INSTRUCTIONS
from faregate.operations.journal import find_problems
from faregate.paywall import Paywall
from faregate.routes import RouteTable
from faregate.routes.rights import find_missing_rights

_CHECKED_URL: Final = "https://faregate-check.invalid/"
UNGUESSABLE: Final = (
    "Payment instructions are unguessable: every 402 carries a fresh value in accepts[].extra."
)
GUESSABLE: Final = (
    "Payment instructions can be guessed: two 402s for {} are alike. Whoever reads a settled payment on the "
    "chain can rebuild its PAYMENT-SIGNATURE header. Ask the operator of the merchant service for a fresh "
    "value in accepts[].extra."
)
UNKNOWN: Final = "Whether payment instructions can be guessed is not known: no offer was answered 402."


def check(inventory: RouteTable, paywall: Paywall | None = None) -> list[str]:
    """What would keep this inventory from being sold, as sentences; asks journal and service. Blocking.

    A route's own paywall is asked for its offer, else the one that is given.
    """
    faults, asked = list(inventory.problems), _by_paywall(paywall, inventory)
    for own, offers in asked.items():
        faults.extend((*_unwritable(own), *_unsellable(own, offers), *_unfinished(own)))
    unasked = [offer.sells for offer in inventory.offers if not any(offer in one for one in asked.values())]
    faults.extend(f"{sells}: no paywall is in front, so nobody was asked." for sells in unasked)
    return faults


def describe_instructions(inventory: RouteTable, paywall: Paywall | None = None) -> list[str]:
    """Say for each paywall whether the service's instructions can be guessed, in one line. Blocking.

    Asks the service for the instructions of one offer twice, and pays nothing. Never raises for what the
    service answers.
    """
    return [_describe(own, offers) for own, offers in _by_paywall(paywall, inventory).items() if offers]


def _describe(paywall: Paywall, offers: Iterable[Offer]) -> str:
    for offer in offers:
        try:
            flow = _ask_for_instructions(offer)
            instructions = cast(list[str], drive(flow, paywall.world, started(flow)))
        except FaregateError:
            continue
        if len(instructions) == 2:
            return UNGUESSABLE if are_unguessable(*instructions) else GUESSABLE.format(offer.sells)
    return UNKNOWN


def _ask_for_instructions(offer: Offer) -> Flow[list[str]]:
    """The instructions of two 402s for this offer, as far as there are any; a free execution is closed."""
    rules = yield from ResolveOffer(offer)
    sale = PaidRequest(offer, Request("GET", "/", ()), _CHECKED_URL, 1, 1)
    found = list[str]()
    for _ in range(2):
        access = yield from CallAccess(sale, rules, None)
        if isinstance(access, AccessUnpaid):
            found.append(access.response.first(INSTRUCTIONS) or "")
        elif isinstance(access, AccessFree) and access.execution_id is not None:
            yield from CloseExecution(access.execution_id, rules, HandlerResult(Response(200), {}))
    return found


def _by_paywall(paywall: Paywall | None, inventory: RouteTable) -> dict[Paywall, dict[Offer, None]]:
    asked: dict[Paywall, dict[Offer, None]] = {} if paywall is None else {paywall: {}}
    for route in inventory.routes:
        own = paywall if route.paywall is None else route.paywall()
        if own is not None and route.offer is not None:
            asked.setdefault(own, {})[route.offer] = None
    return asked


def _unwritable(paywall: Paywall) -> Iterator[str]:
    """Takes a claim and drops it."""
    journal = paywall.world.journal
    try:
        claim = journal.claim(f"faregate check {secrets.token_hex(16)}", Claimant("CHECK /"))
        if isinstance(claim, Claimed):
            journal.abandon_claim(claim.lease)
    except Exception as error:
        yield f"The journal cannot be written: {error}"


def _unfinished(paywall: Paywall) -> Iterator[str]:
    try:
        yield from find_problems(paywall)
    except FaregateError as error:
        yield f"The journal does not say what it owes: {error}"
    if path := paywall.settings.last_resort:
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600))
        except OSError as error:
            yield f"FAREGATE_LAST_RESORT names a file that cannot be written: {error}"


def _unsellable(paywall: Paywall, offers: Iterable[Offer]) -> Iterator[str]:
    known: tuple[Offer, OfferRevision] | None = None
    for offer in offers:
        try:
            rules = paywall.world.rules(offer)
        except ServiceError as error:
            # It would say the same of every offer.
            yield f"The merchant service does not say what is sold: {error}"
            return
        except FaregateError as error:
            yield f"{offer.sells}: {error}"
        else:
            known = known or (offer, cast(OfferRevision, rules))
    if known is not None:
        yield from find_missing_rights(paywall, *known, _CHECKED_URL)

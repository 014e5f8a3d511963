"""What would keep an inventory from being sold: the journal and the service are asked. Blocking."""

import secrets
from collections.abc import Iterable, Iterator

from faregate.errors import FaregateError, ServiceError
from faregate.inventory import Inventory
from faregate.model import Offer
from faregate.paywall import Paywall
from faregate.records import Fresh


def check(paywall: Paywall | None, inventory: Inventory) -> list[str]:
    """What would keep this inventory from being sold, as sentences; asks journal and service. Blocking.

    A route's own paywall is asked for its offer, else the one that is given.
    """
    faults, asked = list(inventory.complaints), _by_paywall(paywall, inventory)
    for own, offers in asked.items():
        faults.extend((*_unwritable(own), *_unsellable(own, offers)))
    unasked = [offer.sells for offer in inventory.offers if not any(offer in one for one in asked.values())]
    faults.extend(f"{sells}: no paywall is in front, so nobody was asked." for sells in unasked)
    return faults


def _by_paywall(paywall: Paywall | None, inventory: Inventory) -> dict[Paywall, dict[Offer, None]]:
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
        claim = journal.claim(f"faregate check {secrets.token_hex(16)}", "CHECK /")
        if isinstance(claim, Fresh):
            journal.drop(claim.ticket)
    except Exception as error:
        yield f"The journal cannot be written: {error}"


def _unsellable(paywall: Paywall, offers: Iterable[Offer]) -> Iterator[str]:
    for offer in offers:
        try:
            paywall.world.rules(offer)
        except ServiceError as error:
            # It would say the same of every offer.
            yield f"The merchant service does not say what is sold: {error}"
            return
        except FaregateError as error:
            yield f"{offer.sells}: {error}"

"""Choose one offer of several, by a function of the seller's. Its failure charges nothing."""

import logging
from inspect import iscoroutine

from faregate.core.models import Offer, OfferChoice
from faregate.logs import log


def pick_offer(sold: OfferChoice, chosen: object) -> Offer | None:
    """Find the offer that the function has chosen by its name; None, with an error in the log, if it has not.

    `chosen` is what the function returned, or the error that it raised.
    """
    for offer in sold.among:
        if isinstance(chosen, str) and offer.sells == chosen:
            return offer
    if iscoroutine(chosen):
        chosen.close()  # it is never awaited
    error = chosen if isinstance(chosen, Exception) else None
    fault = "raised" if error else f"returned {_describe_choice(chosen)}"
    message = "the function that chooses %s %s: the request is answered with 500, and nothing is sold"
    log("sale", logging.ERROR, message, sold.sells, fault, error=error)
    return None


def _describe_choice(chosen: object) -> str:
    """Describe what is not a choice without repeating it: it may be what the payer sent."""
    if isinstance(chosen, str):
        return f"a str of {len(chosen)} characters that is not in among"
    return f"{type(chosen).__name__}, not a name in among"


NOT_CHOSEN = "The price of this resource could not be determined. Nothing was charged."
# The payment may be one that settles: what becomes of it is not known here.
NOT_CHOSEN_PAID = (
    "The price of this resource could not be determined, and this request charged nothing. "
    "Come back with the same payment; do not pay again."
)

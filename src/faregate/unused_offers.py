"""Notice offers that are made while a request is served: nobody would be asked to pay for them.

`Depends(lambda: paid("report"))` makes an offer for each request, and nobody is asked to pay for it.
"""

from contextvars import ContextVar
from inspect import currentframe

from faregate.core.models import Offer

_made: ContextVar[list[Offer] | None] = ContextVar("faregate_offers_made", default=None)


def watch_offers() -> list[Offer]:
    """A list of the offers that are made from now on in this context, as a request is served."""
    made: list[Offer] = []
    _made.set(made)
    return made


def note_offer(offer: Offer) -> None:
    """Say that an offer was made. What a module makes that a request imports is for later ones."""
    made = _made.get()
    if made is not None and not _is_importing():
        made.append(offer)


def _is_importing() -> bool:
    frame = currentframe()
    while frame is not None:
        if frame.f_globals.get("__name__") == "importlib._bootstrap":
            return True
        frame = frame.f_back
    return False

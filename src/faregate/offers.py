"""Make offers, and notice those that are made while a request is served."""

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from inspect import currentframe
from typing import Any, TypedDict, Unpack, cast, overload

from faregate.core.models import Choose, Offer, OfferChoice
from faregate.core.terms import Price
from faregate.errors import ConfigurationError, nearest_name
from faregate.merchant.backend import build_resource
from faregate.x402.declared_prices import Requirement
from faregate.x402.tokens import SettlementAsset
from faregate.x402.usage_prices import Usage

OFFERS_MADE: ContextVar[list[Offer] | None] = ContextVar("faregate_offers_made", default=None)
"""The offers that this context makes while it serves a request; an adapter sets an empty list for each one.

`Depends(lambda: paid("report"))` makes an offer for each request, and is not charged. The variable is never
reset: the next request in the same context sets a new list.
"""

CHOICE = "A function that chooses needs the names to choose from: paid(choose, among=('small', 'large'))."


class OfferOptions(TypedDict, total=False):
    """The options of an offer; see `faregate.Offer`."""

    asset: SettlementAsset | None
    mime_type: str | None
    description: str | None
    billable: frozenset[int] | None
    max_result_bytes: int | None
    max_work_seconds: float | None
    replay: bool
    price: str | Price | Usage | None
    values: Mapping[str, Requirement] | None
    openapi: Mapping[str, Any] | None
    resume_open_payments: bool


@overload
def offer(sells: str, *, among: None = None, **options: Unpack[OfferOptions]) -> Offer: ...
@overload
def offer(sells: Choose, *, among: Sequence[str | Offer], **options: Unpack[OfferOptions]) -> Offer: ...
def offer(
    sells: str | Choose, *, among: Sequence[str | Offer] | None = None, **options: Unpack[OfferOptions]
) -> Offer:
    """Make an offer, checked as far as it can be without the service. Raises `ConfigurationError`.

    `sells` is an integration key or an `acr_` revision id. Or it is a function that gets the request and
    returns one of the names in `among`; the options are those of each offer that `among` only names.
    """
    return record_if_serving(build_offer(sells, among, **options))


def make_offer(sells: object, among: object, options: OfferOptions, message: str) -> Offer:
    """Make the offer of the arguments that `paid` of an adapter was given, of whatever type.

    `message` says what to write where the arguments name no offer. Raises `ConfigurationError`.
    """
    _check_options(options)
    if isinstance(sells, Offer):
        example = "choose, among=..." if isinstance(sells, OfferChoice) else repr(sells.sells)
        raise ConfigurationError(
            f"paid makes an offer itself, and takes no Offer. Write paid({example}), with the options of the "
            "offer as further arguments."
        )
    if not isinstance(sells, str) and not callable(sells):
        raise ConfigurationError(message)
    if callable(sells) and among is None:
        raise ConfigurationError(f"{message} {CHOICE}")
    return record_if_serving(build_offer(sells, among, **options))


def record_if_serving(offer: Offer) -> Offer:
    """Note an offer that sells nothing, if a request is being served: its answer is withheld."""
    offers_made = OFFERS_MADE.get()
    if offers_made is not None and not _is_importing():
        offers_made.append(offer)
    return offer


def build_offer(sells: object, among: object = None, **options: Unpack[OfferOptions]) -> Offer:
    """Make an offer without recording it: a server may build middleware with path rules during a request.

    Raises `ConfigurationError`.
    """
    _check_options(options)
    if not isinstance(sells, str) or among is not None:
        return _build_choice(sells, among, options)
    offer = Offer(sells, **options)
    # Called for its checks: the seller learns now, and not at the first sale, what the service would refuse.
    build_resource("https://seller.invalid/", offer.mime_type, offer.description)
    return offer


def _check_options(options: Mapping[str, object]) -> None:
    allowed = OfferOptions.__annotations__
    unknown = sorted(options.keys() - allowed.keys())
    if unknown:
        hints = "".join(nearest_name(name, (*allowed, "among")) for name in unknown)
        raise ConfigurationError(
            f"{', '.join(unknown)}: no such option of an offer.{hints} The options are {', '.join(allowed)}."
        )


def _build_choice(sells: Any, among: Any, options: OfferOptions) -> OfferChoice:
    if isinstance(sells, str):
        raise ConfigurationError(f"among goes with a function that chooses, not with {sells!r}.")
    if not callable(sells) or isinstance(sells, type):
        raise ConfigurationError("Say what is sold: a name, or a function that chooses among several names.")
    if isinstance(among, str) or not isinstance(among, Sequence) or not among:
        raise ConfigurationError(f"{CHOICE} Without it faregate cannot list what is sold.")
    given = cast("Sequence[str | Offer]", among)
    alternatives = tuple(_build_alternative(name_or_offer, options) for name_or_offer in given)
    names = [alternative.sells for alternative in alternatives]
    if len(set(names)) < len(names):
        raise ConfigurationError(f"among names an offer twice: {', '.join(names)}.")
    return OfferChoice(" or ".join(names), choose=sells, among=alternatives)


def _build_alternative(given: Any, options: OfferOptions) -> Offer:
    if isinstance(given, OfferChoice) or not isinstance(given, str | Offer):
        raise ConfigurationError(f"among takes names and offers, not {given!r}.")
    return given if isinstance(given, Offer) else build_offer(given, **options)


def _is_importing() -> bool:
    """Whether a module is being imported: the offers in it are made once, for later requests."""
    frame = currentframe()
    while frame is not None:
        # Every import runs through this module of the interpreter.
        if frame.f_globals.get("__name__") == "importlib._bootstrap":
            return True
        frame = frame.f_back
    return False

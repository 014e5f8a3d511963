"""Which revision an offer means, as the service's contracts document says.

Integration keys are resolved there, so that test and live share one code base. The document is cached for
`FRESH_SECONDS`; a name that it does not have is not requested again within `MISSING_SECONDS`. A stale
revision is better than none: it is used while the service does not answer.
"""

import logging
from collections.abc import Callable, Iterable

from faregate.core.models import Offer, OfferRevision, Response, WireRequest
from faregate.core.results import Predictability
from faregate.errors import ConfigurationError, nearest_name
from faregate.logs import log
from faregate.merchant.interpret import parse_published, parse_revisions
from faregate.merchant.json_text import to_json
from faregate.merchant.requests import JSON, PRICES, ROOT, Call

_CONTRACTS = WireRequest("GET", f"{ROOT}/contracts?include_integration_key=true")
FRESH_SECONDS = 300.0
MISSING_SECONDS = 5.0
REFRESH_SECONDS = 2.0
"""After a revision was refused, all requests together read the document once in so many seconds for it."""
PREDICTABILITY_SECONDS = 3600.0
ASK_SECONDS = 5.0
"""How long one request may take to check the instructions, before another one tries."""


class RevisionCache:
    """The active revisions, by revision id and by integration key.

    `takes_prices`: the service runs in this process, and publishes the prices that are written in the code.
    What is published for this code is what it sells, whatever revision is the active one. `hint` ends the
    message about a key that is not sold.
    """

    def __init__(self, clock: Callable[[], float], takes_prices: bool = False, hint: str = "") -> None:
        self._clock = clock
        self._takes_prices = takes_prices
        self._hint = hint
        self._declared: dict[str, Offer] = {}
        self._expected: dict[str, Offer] = {}
        self._logged: set[str] = set()
        self.forget()

    def forget(self) -> None:
        """As if nothing had been read yet."""
        self._revisions: dict[str, OfferRevision] = {}
        self._published: dict[str, OfferRevision] = {}
        self._read_at = self._asked_at = float("-inf")
        self._refused_at: dict[str, float] = {}
        self._predictability = Predictability.UNKNOWN
        self._judged_at = self._judging_at = float("-inf")

    def expect(self, offers: Iterable[Offer]) -> None:
        """Look for these offers whenever the document is read, and log what is missing, once.

        Raises `ConfigurationError` for a price that cannot be asked.
        """
        offers = list(offers)
        for offer in offers:
            self._declare(offer)
        self._expected.update({offer.sells: offer for offer in offers})

    def _declare(self, offer: Offer) -> None:
        """Remember the price of an offer. Raises `ConfigurationError` for one that cannot be asked."""
        if offer.price is None:
            return
        if not self._takes_prices:
            raise ConfigurationError(
                f"{offer.sells!r} has price={offer.price!r}, and the price of a service elsewhere is set in "
                "your account there: leave price= out, or run the service in this process "
                "(FAREGATE_BASE_URL=service:)."
            )
        first = self._declared.setdefault(offer.sells, offer)
        if first.price != offer.price:
            raise ConfigurationError(
                f"{offer.sells!r} is sold for {first.price} and for {offer.price}: write one price, or "
                "two names."
            )
        if first.reported_values != offer.reported_values:
            raise ConfigurationError(
                f"{offer.sells!r} is sold with values={first.reported_values} and with "
                f"values={offer.reported_values}: write the same, or two names."
            )

    def resolve(self, offer: Offer) -> OfferRevision | None:
        """Return the revision; None if the caller has to request it. Raises `ConfigurationError`."""
        self._declare(offer)
        if offer.sells in self._declared:
            published = self._published.get(offer.sells)
            return None if published is None else _check_asset(offer, published)
        now = self._clock()
        if offer.sells in self._revisions:
            # When the cache is stale, one request refreshes it, and the others use what is there.
            if now - self._read_at < FRESH_SECONDS or now - self._asked_at < MISSING_SECONDS:
                return _check_asset(offer, self._revisions[offer.sells])
        elif now - self._read_at < MISSING_SECONDS:
            raise self._build_error(offer)
        self._asked_at = now
        return None

    def find(self, offer: Offer) -> OfferRevision | None:
        """Return the revision, however old. Raises `ConfigurationError`."""
        if offer.sells in self._declared:
            return self._published.get(offer.sells)
        return _check_asset(offer, self._revisions[offer.sells]) if offer.sells in self._revisions else None

    def find_newer(self, offer: Offer, rejected: OfferRevision) -> OfferRevision | None:
        """Return the revision if it is another one, or was read since `rejected` was refused just now.

        Raises `ConfigurationError`.
        """
        if offer.sells in self._declared:
            published = self._published.get(offer.sells)
            return None if published == rejected else published
        revision = self._revisions.get(offer.sells)
        is_newer = revision is not None and revision.revision_id != rejected.revision_id
        # Read because of a refusal, a moment ago: reading it again would not help. One that was read before
        # says nothing: what is sold may have been published since.
        refused_at = self._refused_at.get(rejected.revision_id, float("-inf"))
        is_read_again = refused_at <= self._read_at < refused_at + REFRESH_SECONDS
        if is_newer or (is_read_again and self._clock() - self._read_at < REFRESH_SECONDS):
            return None if revision is None else _check_asset(offer, revision)
        return None

    def begin_refresh(self, rejected: OfferRevision) -> bool:
        """Whether the caller is the one who reads the document now; the others wait for what it finds."""
        now = self._clock()
        recent = {name: at for name, at in self._refused_at.items() if now - at < REFRESH_SECONDS}
        if rejected.revision_id in recent:
            return False
        # Replaced, never changed: other threads iterate over it.
        self._refused_at = {**recent, rejected.revision_id: now}
        self._asked_at = now
        return True

    def find_asset(self, sells: str) -> str | None:
        """Return the asset that was read last; None if nothing was."""
        revision = self._published.get(sells) or self._revisions.get(sells)
        return None if revision is None else revision.asset

    def recall_predictability(self) -> Predictability:
        """Return what is known about the service's instructions; `UNKNOWN` if the caller has to find out."""
        now = self._clock()
        if now - self._judged_at < PREDICTABILITY_SECONDS:
            return self._predictability
        if now - self._judging_at < ASK_SECONDS:
            return Predictability.BEING_CHECKED
        self._judging_at = now
        return Predictability.UNKNOWN

    def record_predictability(self, predictability: Predictability) -> None:
        self._predictability = predictability
        self._judged_at = self._clock()

    def build_call(self, offer: Offer) -> Call[OfferRevision]:
        """The call that reads the contracts document and gives the offer's rules.

        For an offer with a price it publishes the prices of this code.
        """
        if offer.sells in self._declared:
            declared = {sells: declaring.declared_price for sells, declaring in self._declared.items()}
            prices = {sells: price.to_fields() for sells, price in declared.items() if price is not None}
            request = WireRequest("POST", PRICES, JSON, to_json(prices))
            return Call(request, lambda reply: self._store_published(reply, offer))
        return Call(_CONTRACTS, lambda reply: self._store(reply, offer))

    def _store(self, reply: Response, offer: Offer) -> OfferRevision:
        self._revisions = parse_revisions(reply)
        # Set this before the name is looked up: a missing name must not cause another read at once
        # (`resolve`).
        self._read_at = self._clock()
        self._log_missing(offer)
        if offer.sells not in self._revisions:
            raise self._build_error(offer)
        return _check_asset(offer, self._revisions[offer.sells])

    def _store_published(self, reply: Response, offer: Offer) -> OfferRevision:
        # Replaced, never changed: other threads read it.
        self._published = {**self._published, **parse_published(reply)}
        return _check_asset(offer, self._published[offer.sells])

    def _log_missing(self, wanted: Offer) -> None:
        for offer in {**self._expected, wanted.sells: wanted}.values():
            if offer.sells not in self._revisions and offer.sells not in self._logged:
                self._logged.add(offer.sells)
                log(
                    "settings",
                    logging.ERROR,
                    "%s Until then it is answered with 502.",
                    self._build_error(offer),
                )

    def _build_error(self, offer: Offer) -> ConfigurationError:
        names = sorted(name for name in self._revisions if not name.startswith("acr_"))
        listed = ", ".join(names) or "none"
        hint = nearest_name(offer.sells, names)
        return ConfigurationError(
            f"Nothing is sold as {offer.sells!r} in this environment.{hint} Use an integration key or the id "
            f"of an active revision from your seller account (integration keys here: {listed}).{self._hint}"
        )


def _check_asset(offer: Offer, revision: OfferRevision) -> OfferRevision:
    if offer.asset not in (None, revision.asset):
        raise ConfigurationError(
            f"{offer.sells!r} is offered for {offer.asset}, but its revision settles in "
            f"{revision.asset}. Say asset={revision.asset!r}, or leave the asset out."
        )
    return revision

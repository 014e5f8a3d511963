"""Which revision an offer means, as the service's contracts document says.

Integration keys are resolved there, so that test and live share one code base. What was read is kept
for `FRESH_SECONDS`; a name that was not found is not asked for again within `MISSING_SECONDS`.
"""

from collections.abc import Callable

from faregate.errors import Misconfigured
from faregate.merchant.contracts import ContractRevision, ContractsDocument
from faregate.merchant.wire import Call, list_contracts
from faregate.model import Offer, Rules

FRESH_SECONDS = 300.0
MISSING_SECONDS = 5.0


class Catalog:
    """The rules of every active revision, by revision id and by integration key."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._rules: dict[str, Rules] = {}
        self._read_at = float("-inf")
        self._asked_at = float("-inf")

    def known(self, offer: Offer) -> Rules | None:
        """The rules, or None for whoever is to ask for them. Raises `Misconfigured`."""
        now = self._clock()
        if offer.sells in self._rules:
            # When they are old one request asks anew; the others go on with what is known.
            if now - self._read_at < FRESH_SECONDS or now - self._asked_at < MISSING_SECONDS:
                return self._matching(offer)
        elif now - self._read_at < MISSING_SECONDS:
            raise self._unknown(offer)
        self._asked_at = now
        return None

    def forget(self) -> None:
        """As if nothing had been read yet."""
        self._rules = {}
        self._read_at = self._asked_at = float("-inf")

    def asset_of(self, sells: str) -> str | None:
        """What was read last; None if nothing was."""
        return self._rules[sells].asset if sells in self._rules else None

    def asking(self, offer: Offer) -> Call[Rules]:
        """The call that reads the contracts document and gives the offer's rules."""
        call = list_contracts(include_integration_key=True)
        return Call(call.request, lambda reply: self._learned(call.read(reply), offer))

    def _learned(self, document: ContractsDocument, offer: Offer) -> Rules:
        rules: dict[str, Rules] = {}
        for revision in document.components.schemas.values():
            rules[revision.revision_id] = _rules(revision)
            if revision.integration_key is not None:
                rules[revision.integration_key] = _rules(revision)
        self._rules = rules
        self._read_at = self._clock()
        if offer.sells not in rules:
            raise self._unknown(offer)
        return self._matching(offer)

    def _matching(self, offer: Offer) -> Rules:
        rules = self._rules[offer.sells]
        if offer.asset not in (None, rules.asset):
            raise Misconfigured(
                f"{offer.sells!r} is offered for {offer.asset}, but its revision settles in {rules.asset}. "
                f"Say asset={rules.asset!r}, or leave the asset out."
            )
        return rules

    def _unknown(self, offer: Offer) -> Misconfigured:
        known = ", ".join(sorted(name for name in self._rules if not name.startswith("acr_"))) or "none"
        return Misconfigured(
            f"Nothing is sold as {offer.sells!r} in this environment. Use an integration key or the id of "
            f"an active revision from your seller account (integration keys here: {known})."
        )


def _rules(revision: ContractRevision) -> Rules:
    return Rules(
        revision.revision_id,
        revision.settlement_asset,
        frozenset(revision.properties),
        frozenset(revision.required),
    )

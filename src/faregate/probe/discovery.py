"""Discover what the service sells, without paying."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from x402.schemas import PaymentRequired

from faregate.core.models import Response
from faregate.errors import BadAnswer, CommandError
from faregate.merchant.models import AccessDecision, ContractRevision, ContractsDocument
from faregate.merchant.wire import parse
from faregate.pay.requirements import NotSigned, parse_payment_required
from faregate.pay.wallet import PayerWallet
from faregate.probe.check import describe
from faregate.probe.client import RawClient

MAX_LOOKUPS = 20
"""Access calls for revisions that the user did not choose: a catalog may be large."""
SELLER = "https://probe.faregate.example"
SLOW_RESOURCE = "slow_settlement"
"""The emulator's resource whose payments settle late."""


@dataclass(frozen=True, slots=True)
class ProductChoice:
    """The resources chosen by the user. A field that is None is chosen by discovery."""

    resource: str | None = None
    revision: str | None = None
    free: str | None = None
    slow: str | None = None


@dataclass(frozen=True, slots=True)
class Product:
    """A revision that can be bought. `atomic` is its price in atomic units of the revision's asset.

    With the `scheme` `upto`, it is the maximum of a price that follows the use.
    """

    revision: ContractRevision
    required: PaymentRequired
    atomic: int
    scheme: str

    @property
    def values(self) -> dict[str, str]:
        """The smallest set of values that can be reported."""
        return dict.fromkeys(self.revision.required, "1")


@dataclass(frozen=True, slots=True)
class FoundProducts:
    """The products found. None: this service has no such product, or this payer cannot buy it."""

    revisions: Sequence[ContractRevision]
    product: Product | None
    metered: Product | None
    slow: Product | None
    free: ContractRevision | None
    used: Product | None
    """One whose price follows the use."""


def build_access_body(revision: ContractRevision, path: str = "probe") -> dict[str, Any]:
    """Build the body of an access call; another `path` makes it another resource."""
    return {
        "revision_id": revision.revision_id,
        "resource": {"url": f"{SELLER}/{path}", "mime_type": "application/json"},
        "settlement_asset": revision.settlement_asset,
    }


def discover(client: RawClient, wallet: PayerWallet, choice: ProductChoice) -> FoundProducts:
    """Read the contracts and request access to some of them without a proof. Raises `CommandError`."""
    revisions = _read_revisions(client)
    products: list[Product] = []
    used: list[Product] = []
    free: list[ContractRevision] = []
    for revision in _select_revisions(revisions, choice):
        response = client.post("/access", build_access_body(revision))
        if _is_free(response):
            free.append(revision)
        elif (product := _parse_product(revision, response, wallet)) is not None:
            (products if product.scheme == "exact" else used).append(product)
    return FoundProducts(
        revisions,
        product=_select_product(products, choice),
        metered=next((product for product in products if product.revision.required), None),
        slow=_find_by_key(products, choice.slow or SLOW_RESOURCE),
        free=_select_free(revisions, free, choice.free),
        used=min(used, key=lambda product: product.atomic, default=None),
    )


def _read_revisions(client: RawClient) -> list[ContractRevision]:
    response = client.get("/contracts?include_integration_key=true")
    if response.status != 200:
        raise CommandError(
            f"The contracts cannot be read: {describe(response)}. Check --base-url and FAREGATE_API_KEY."
        )
    return list(parse(ContractsDocument, response).components.schemas.values())


def _select_revisions(revisions: Sequence[ContractRevision], choice: ProductChoice) -> list[ContractRevision]:
    """Return what the user chose, then as many others as a probe may look up."""
    keys = {key: None for key in (choice.resource, choice.free, choice.slow) if key is not None}
    integration_keys = {revision.integration_key for revision in revisions}
    for key in keys:
        if key not in integration_keys:
            raise CommandError(f"There is no active resource with the integration key {key!r}.")
    if choice.revision is not None and choice.revision not in {
        revision.revision_id for revision in revisions
    }:
        raise CommandError(f"There is no active revision {choice.revision}.")
    chosen = [
        revision
        for revision in revisions
        if revision.integration_key in keys or revision.revision_id == choice.revision
    ]
    return chosen + [revision for revision in revisions if revision not in chosen][:MAX_LOOKUPS]


def _is_free(response: Response) -> bool:
    try:
        return response.status == 200 and parse(AccessDecision, response).transaction_id is None
    except BadAnswer:
        return False


def _parse_product(revision: ContractRevision, response: Response, wallet: PayerWallet) -> Product | None:
    """Return the product if it asks for a payment that the wallet may sign, else None."""
    header = response.first("payment-required")
    if response.status != 402 or header is None:
        return None
    try:
        required = parse_payment_required(header)
        selected = wallet.select_requirements(required)
        return Product(revision, required, int(selected.amount), selected.scheme)
    except NotSigned:
        return None


def _select_product(products: Sequence[Product], choice: ProductChoice) -> Product | None:
    """Return the user's choice, else the cheapest, preferring products that need no values."""
    if choice.revision is not None:
        return next(
            (product for product in products if product.revision.revision_id == choice.revision), None
        )
    if choice.resource is not None:
        return _find_by_key(products, choice.resource)
    # The slow resource is bought once already, for the checks of late settlement.
    usual = (product for product in products if product.revision.integration_key != SLOW_RESOURCE)
    return min(usual, key=lambda product: (bool(product.revision.required), product.atomic), default=None)


def _select_free(
    revisions: Sequence[ContractRevision], free: Sequence[ContractRevision], key: str | None
) -> ContractRevision | None:
    """Return the user's choice without asking whether it is free: that is for a check to find out."""
    if key is None:
        return free[0] if free else None
    return next((revision for revision in revisions if revision.integration_key == key), None)


def _find_by_key(products: Sequence[Product], key: str) -> Product | None:
    return next((product for product in products if product.revision.integration_key == key), None)

"""The purchases of one probe: authorize, complete, and at the end fail all that are still pending."""

import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from faregate.core.models import Response
from faregate.errors import BadAnswer, ServiceError
from faregate.merchant.api_key import ApiKey
from faregate.merchant.models import AccessDecision
from faregate.merchant.wire import parse
from faregate.pay.wallet import PayerWallet
from faregate.probe.check import SkipCheck, describe
from faregate.probe.client import Body, RawClient
from faregate.probe.discovery import FoundProducts, Product, build_access_body
from faregate.rules.ids import build_id

METADATA = {
    "duration_ms": 1,
    "response_content_type": "application/json",
    "response_size_bytes": 2,
    "response_status": 200,
}


@dataclass(frozen=True, slots=True)
class AuthorizedTransaction:
    """An authorized transaction and the proof that completes it."""

    id: str
    product: Product
    proof: str = field(repr=False)

    @property
    def path(self) -> str:
        return f"/transactions/{self.id}/complete"

    def build_success(self, **changes: object) -> dict[str, Any]:
        """Build the smallest completion that reports success."""
        body = {"revision_id": self.product.revision.revision_id, "outcome": "succeeded"}
        return {**body, "values": self.product.values, **changes}

    def build_failure(self, **changes: object) -> dict[str, Any]:
        """Build a completion that reports failure, so that nothing is charged."""
        body = {"revision_id": self.product.revision.revision_id, "outcome": "failed"}
        return {**body, "failure_code": "probe", **changes}


@dataclass
class ProbeSession:
    """`slow_wallet` belongs to a payer whose payments settle late, if there is one."""

    client: RawClient
    catalog: FoundProducts
    wallet: PayerWallet
    slow_wallet: PayerWallet | None
    read_only_key: ApiKey | None
    foreign_revision: str | None
    _pending: dict[str, AuthorizedTransaction] = field(default_factory=dict[str, AuthorizedTransaction])

    @property
    def product(self) -> Product:
        if self.catalog.product is None:
            raise SkipCheck("no product was found that this payer can buy")
        return self.catalog.product

    @property
    def slow_product(self) -> Product | None:
        """The product whose payment settles late, or None."""
        return self.catalog.slow or (self.catalog.product if self.slow_wallet else None)

    @property
    def expected_purchases(self) -> list[Product]:
        """The products paid for if the service decides as expected: one settles at once, one late.

        And one whose price follows the use, at its maximum.
        """
        bought = (self.catalog.product, self.slow_product, self.catalog.used)
        return [product for product in bought if product is not None]

    @property
    def worst_case_purchases(self) -> list[Product]:
        """The same, and what is paid for if it accepts the two completions that leave out a value."""
        more = (self.catalog.product, self.catalog.metered)
        return [*self.expected_purchases, *(product for product in more if product is not None)]

    def sign(self, product: Product, wallet: PayerWallet | None = None) -> str:
        """Sign a new payment for this product and return its proof."""
        return (wallet or self.wallet).sign(product.required).proof

    def access(self, product: Product, proof: str | None, path: str = "probe") -> Response:
        return self.client.post("/access", build_access_body(product.revision, path), proof=proof)

    def authorize(self, product: Product, wallet: PayerWallet | None = None) -> AuthorizedTransaction:
        """Pay for access and return the new transaction. Raises `SkipCheck`."""
        transaction, response = self.try_authorize(product, wallet)
        if transaction is None:
            raise SkipCheck(f"nothing can be bought: access with a payment returned {describe(response)}")
        return transaction

    def try_authorize(
        self, product: Product, wallet: PayerWallet | None = None
    ) -> tuple[AuthorizedTransaction | None, Response]:
        """Pay for access; return the transaction, if it is authorized, and the response."""
        proof = self.sign(product, wallet)
        response = self.access(product, proof)
        identifier = parse_transaction_id(response) if response.status == 200 else None
        if identifier is None:
            return None, response
        transaction = self._pending[identifier] = AuthorizedTransaction(identifier, product, proof)
        return transaction, response

    def complete(self, transaction: AuthorizedTransaction, body: Mapping[str, Any] | bytes) -> Response:
        return self.complete_with(transaction, body, transaction.proof)

    def complete_with(self, transaction: AuthorizedTransaction, body: Body, proof: str | None) -> Response:
        """Complete with another proof, or with none."""
        return self.track(transaction, self.client.post(transaction.path, body, proof=proof))

    def track(self, transaction: AuthorizedTransaction, response: Response) -> Response:
        """Note that this response completed the transaction, unless it is an error."""
        if response.status < 300:
            self._pending.pop(transaction.id, None)
        return response

    def get_pending(self) -> AuthorizedTransaction:
        """Return a transaction that is not completed yet; the same one as long as there is one."""
        # Checks of refused completions share one transaction, so that they reserve the money of one.
        for transaction in self._pending.values():
            if transaction.product is self.product:
                return transaction
        return self.authorize(self.product)

    def cleanup(self) -> None:
        """Report pending transactions as failed, which frees the payer's reserved money."""
        for transaction in list(self._pending.values()):
            # Best effort: an authorization that stays pending expires by itself.
            with suppress(ServiceError):
                self.complete(transaction, transaction.build_failure())


def parse_transaction_id(response: Response) -> str | None:
    """Return the well-formed transaction id in a response to access; None if there is none."""
    try:
        return parse(AccessDecision, response).transaction_id
    except BadAnswer:
        return None


def make_unknown_id(prefix: str) -> str:
    """Make a well-formed id that the service never gave out."""
    return build_id(prefix, datetime.now(UTC), secrets.randbits(74))

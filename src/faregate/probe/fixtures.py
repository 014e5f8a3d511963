"""Purchases that several checks share. Each is made once, when the first check needs it."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from faregate.core.models import Response
from faregate.errors import BadAnswer, FaregateError
from faregate.merchant.models import ContractRevision, TransactionDetail
from faregate.merchant.wire import parse
from faregate.probe.check import SkipCheck, describe, get_field
from faregate.probe.discovery import build_access_body
from faregate.probe.session import METADATA, AuthorizedTransaction, ProbeSession
from faregate.rules.records import PENDING

SETTLEMENT_TIMEOUT = 30.0
"""Seconds within which an accepted payment should be final."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SettledSale:
    """`extra` is the least beyond the minimum that complete accepted; `response` may prove the payment."""

    transaction: AuthorizedTransaction
    extra: Mapping[str, Any]
    response: Response

    @property
    def is_accepted(self) -> bool:
        return self.response.status < 300


@dataclass(frozen=True, slots=True)
class PendingSale:
    """A purchase whose payment settles late. As far as known, it was pending during each of these calls."""

    transaction: AuthorizedTransaction
    completed: Response
    accessed: Response
    completed_again: Response


class cached_fixture(Generic[T]):  # noqa: N801  # used as a decorator
    """Make the fixture once. An error is cached too: another try would pay again."""

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make = make

    def __get__(self, run: "ProbeRun", owner: type["ProbeRun"]) -> T:
        name = self._make.__name__
        if name not in run.cache:
            try:
                run.cache[name] = self._make(run)
            except (SkipCheck, FaregateError) as error:
                run.cache[name] = error
        value: Any = run.cache[name]
        if isinstance(value, Exception):
            raise SkipCheck(str(value))
        return cast(T, value)


class ProbeRun:
    """One run of the probe. Fixtures raise `SkipCheck` if they cannot be made at this service."""

    def __init__(self, session: ProbeSession, sleep: Callable[[float], object] = time.sleep) -> None:
        self.session = session
        self.cache: dict[str, object] = {}
        self._sleep = sleep

    @cached_fixture
    def settled_sale(self) -> SettledSale:
        """A payment that is accepted, if any completion is."""
        session = self.session
        transaction = session.authorize(session.product)
        extra, response = {}, session.complete(transaction, transaction.build_success())
        # A refused completion leaves the transaction pending, so the next attempt costs no other payment.
        for more in _list_extra_fields(transaction):
            if response.status < 300:
                break
            extra, response = more, session.complete(transaction, transaction.build_success(**more))
        if response.status == 202:
            self._wait_until_final(transaction)
            response = session.complete(transaction, transaction.build_success(**extra))
        return SettledSale(transaction, extra, response)

    @cached_fixture
    def settled_transaction(self) -> AuthorizedTransaction:
        """The transaction of the settled purchase, once its payment is final."""
        sale = self.settled_sale
        if sale.response.status != 200:
            raise SkipCheck(f"no payment could be settled: complete returned {describe(sale.response)}")
        return sale.transaction

    @cached_fixture
    def failed_sale(self) -> tuple[AuthorizedTransaction, Response]:
        """A completion that reports failed work, and the response to it."""
        transaction = self.session.authorize(self.session.product)
        return transaction, self.session.complete(transaction, transaction.build_failure())

    @cached_fixture
    def used_sale(self) -> tuple[AuthorizedTransaction, Response]:
        """A payment of a price that follows the use, and the response when it is final."""
        product = self.session.catalog.used
        if product is None:
            raise SkipCheck("no price follows the use here")
        metadata = {name: value for name, value in self.settled_sale.extra.items() if name != "values"}
        transaction = self.session.authorize(product)
        body = transaction.build_success(**metadata)
        response = self.session.complete(transaction, body)
        if response.status == 202:
            self._wait_until_final(transaction)
            response = self.session.complete(transaction, body)
        return transaction, response

    @cached_fixture
    def pending_sale(self) -> PendingSale:
        """A payment that does not settle at once."""
        session = self.session
        product = session.slow_product
        if product is None:
            raise SkipCheck("no payment settles late here: name a resource with --slow-resource")
        # The metadata that the service required of the first sale; its values belong to another product.
        metadata = {name: value for name, value in self.settled_sale.extra.items() if name != "values"}
        transaction = session.authorize(product, session.slow_wallet)
        body = transaction.build_success(**metadata)
        completed = session.complete(transaction, body)
        if completed.status == 200 and get_field(completed, "status") not in PENDING:
            raise SkipCheck("the payment settled at once: name another resource with --slow-resource")
        accessed = session.access(product, transaction.proof)
        completed_again = session.complete(transaction, body)
        # Some payments settle only by being read; this one should not stay pending after the probe.
        session.client.get(f"/transactions/{transaction.id}")
        return PendingSale(transaction, completed, accessed, completed_again)

    @cached_fixture
    def free_response(self) -> Response:
        """The response to access for a free resource."""
        return self.access_free()

    @property
    def free_revision(self) -> ContractRevision:
        revision = self.session.catalog.free
        if revision is None:
            raise SkipCheck("no free resource was found: name one with --free-resource")
        return revision

    def access_free(self) -> Response:
        return self.session.client.post("/access", build_access_body(self.free_revision))

    def read_transaction(self, transaction: AuthorizedTransaction) -> TransactionDetail:
        """Read the transaction's current state. Raises `SkipCheck`."""
        response = self.session.client.get(f"/transactions/{transaction.id}")
        if response.status != 200:
            raise SkipCheck(f"the transaction cannot be read: {describe(response)}")
        try:
            return parse(TransactionDetail, response)
        except BadAnswer as error:
            raise SkipCheck(str(error)) from None

    def is_pending(self, transaction: AuthorizedTransaction) -> bool:
        return self.read_transaction(transaction).status in PENDING

    def _wait_until_final(self, transaction: AuthorizedTransaction) -> None:
        for _ in range(int(SETTLEMENT_TIMEOUT)):
            if not self.is_pending(transaction):
                return
            self._sleep(1.0)


def _list_extra_fields(transaction: AuthorizedTransaction) -> list[dict[str, Any]]:
    """List what a service may require beyond the minimum: metadata, optional values, or both."""
    values = {"values": dict.fromkeys(transaction.product.revision.properties, "1")}
    metadata = {"resource_execution": METADATA}
    return [metadata, values, {**metadata, **values}]

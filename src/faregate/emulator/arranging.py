"""The side of `Emulator` that arranges things: what the seller sells, how payments end, who has how much."""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from faregate.emulator import settlement as transitions
from faregate.emulator.ledger import SimulatedLedger
from faregate.emulator.snapshots import Rewinding
from faregate.errors import ConfigurationError
from faregate.merchant.types import MAX_ATOMIC, Environment, SettlementAsset
from faregate.service.catalog import Listing
from faregate.service.config import Revision, Settlement
from faregate.service.state import Books
from faregate.x402.tokens import TOKENS


class Arranging(Rewinding):
    """What is done outside of the service's API, at once and for both environments that it concerns."""

    def revision_id(self, key: str, environment: Environment = "test") -> str:
        """The active revision of the resource `key`."""
        return self._books(key, environment).catalog.listings[key].active.id

    def resource_id(self, key: str, environment: Environment = "test") -> str:
        return self._books(key, environment).catalog.listings[key].id

    def settle_after(self, target: str, settlement: Settlement | None) -> None:
        """How payments end from now on: of a transaction, a payer, a resource (its key), or of all (`*`).

        The most special rule wins; None takes one back. See `transitions.settle_after`.
        """
        with self._lock:
            for books in self._environments_of(target):
                transitions.settle_after(books, target, settlement)

    def settle(self, transaction_id: str) -> None:
        """Takes the payment of a pending transaction now; `ConfigurationError` if it is not pending."""
        with self._lock:
            for books in self._environments_of(transaction_id):
                transitions.settle(books, transaction_id)

    def fail(self, transaction_id: str) -> None:
        """The payment will never be taken; `ConfigurationError` if the transaction is final."""
        with self._lock:
            for books in self._environments_of(transaction_id):
                transitions.fail(books, transaction_id)

    def require_payment(self, key: str, required: bool = True) -> None:
        """The seller's require-payment setting: False makes the resource free."""
        self._edit(key, lambda listing: replace(listing, require_payment=required))

    def edit_resource(
        self,
        key: str,
        *,
        name: str | None = None,
        description: str | None = None,
        image_url: str | None = None,
    ) -> None:
        """The seller edits how the resource is shown; None leaves a field as it is.

        `ConfigurationError` if there is no such resource, or if a field breaks a rule; nothing has changed
        then.
        """
        asked = {"name": name, "description": description, "image_url": image_url}
        update = {field: value for field, value in asked.items() if value is not None}
        with self._changing(key) as found:
            plans = [books.catalog.listings[key].plan.shown_as(**update) for books in found]
            for books, plan in zip(found, plans, strict=True):
                books.catalog.edit(key, books.timeline.edit(), partial(replace, plan=plan))

    def archive(self, key: str) -> None:
        """The seller archives the resource; access to it is 422 from now on."""
        with self._changing(key) as found:
            for books in found:
                moment = books.timeline.edit()
                books.catalog.edit(key, moment, partial(replace, archived_at=moment))

    def publish(self, key: str, revision: Revision) -> None:
        """A new active revision in both environments; the one before can no longer be bought."""
        with self._changing(key) as found:
            for books in found:
                books.catalog.publish(key, revision, books.timeline.edit())

    def balance(
        self, address: str, asset: SettlementAsset = "USDC", environment: Environment = "test"
    ) -> int:
        """Atomic units the address has on the simulated ledger."""
        return self._ledger().balance(TOKENS[environment, asset], address)

    def fund(
        self,
        address: str,
        balance: int,
        asset: SettlementAsset = "USDC",
        environment: Environment = "test",
    ) -> None:
        """Gives the address exactly this balance on the simulated ledger.

        `ConfigurationError` if it cannot be.
        """
        if not transitions.is_address(address):
            raise ConfigurationError(f"{address!r} is no address: 0x and 40 hex digits")
        if not 0 <= balance <= MAX_ATOMIC:
            raise ConfigurationError(f"a balance is 0 to {MAX_ATOMIC} atomic units, not {balance}")
        with self._lock:
            self._ledger().fund(TOKENS[environment, asset], address, balance)

    def _ledger(self) -> SimulatedLedger:
        if not isinstance(self.payments, SimulatedLedger):
            raise ConfigurationError("balances are known only to the simulated ledger")
        return self.payments

    def _books(self, key: str, environment: Environment) -> Books:
        books = self._service.books[environment]
        if key not in books.catalog.listings:
            raise ConfigurationError(f"there is no resource {key!r} in {environment}")
        return books

    def _environments_of(self, target: str) -> list[Books]:
        """Those that know the target; if none does, one that will say so."""
        found = [books for books in self._service.books.values() if transitions.knows(books, target)]
        return found or [self._service.books["test"]]

    def _edit(self, key: str, change: Callable[[Listing], Listing]) -> None:
        with self._changing(key) as found:
            for books in found:
                books.catalog.edit(key, books.timeline.edit(), change)

    @contextmanager
    def _changing(self, key: str) -> Generator[Sequence[Books]]:
        """The environments that have this resource, under the lock; `ConfigurationError` if none has."""
        with self._lock:
            found = [books for books in self._service.books.values() if key in books.catalog.listings]
            if not found:
                raise ConfigurationError(f"there is no resource {key!r}")
            yield found

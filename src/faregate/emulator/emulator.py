"""`Emulator`: the state machine with a clock, an id source and a lock, and the seller's settings at hand."""

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TypeVar

from faregate.emulator import transitions
from faregate.emulator.books import Books
from faregate.emulator.catalog import Listing
from faregate.emulator.clock import WorldClock
from faregate.emulator.delivery import Delivery
from faregate.emulator.diary import Diary, RecordedCall
from faregate.emulator.edge import random_id, system_clock
from faregate.emulator.faults import CLEAN, Faults
from faregate.emulator.faults.acting import deliver_with
from faregate.emulator.goods import Revision, Settlement
from faregate.emulator.identifiers import Ids, RewindableIds, SeededIds
from faregate.emulator.ledger import SimulatedLedger
from faregate.emulator.payers import payers_of
from faregate.emulator.payments import Payments
from faregate.emulator.restoring import refill
from faregate.emulator.rewinding import Rewinding
from faregate.emulator.service import Service
from faregate.emulator.settling import advance
from faregate.emulator.signs import signed
from faregate.emulator.timeline import Clock
from faregate.emulator.tokens import TOKENS
from faregate.emulator.world import World
from faregate.emulator.worldkeys import named
from faregate.errors import Misconfigured
from faregate.merchant.types import MAX_ATOMIC, Environment, SettlementAsset
from faregate.model import Response, WireRequest

T = TypeVar("T")
BOTH: tuple[Environment, ...] = ("test", "live")


class Emulator(Rewinding):
    """The merchant service in this process: one world. Every mount of one emulator shows the same state.

    `seed` makes the ids of one story always the same; otherwise they are from `ids`, or by chance.
    `payments` replaces the simulated ledger; `expose_execution_id` adds `resource_execution_id` to a free
    access; without `allow_live` live keys are 401. `mode` is the way of going wrong it begins with.
    """

    def __init__(
        self,
        world: World | None = None,
        *,
        clock: Clock | None = None,
        ids: Ids | None = None,
        seed: int | str | None = None,
        payments: Payments | None = None,
        expose_execution_id: bool = False,
        allow_live: bool = False,
        mode: str = CLEAN,
    ) -> None:
        self.world = world or World.builtin()
        self.clock = clock if isinstance(clock, WorldClock) else WorldClock(clock or system_clock)
        self.payments: Payments = payments or funded_ledger(self.world)
        self._given_payments = payments
        self._like = partial(
            Emulator,
            expose_execution_id=expose_execution_id,
            allow_live=allow_live,
            mode=mode,
        )
        self.faults = Faults(mode)
        source = _ids_of(ids, seed)
        service = partial(
            Service,
            self.world,
            clock=self.clock,
            ids=source,
            payments=self.payments,
            expose_execution_id=expose_execution_id,
            allow_live=allow_live,
        )
        super().__init__(source, service)

    def like(self, name: str, *, world: World | None = None, seed: int | str | None = None) -> "Emulator":
        """A new world with the same settings for the keys of this name; time, ids and ledger are its own.

        Its resources and payers are the same too, unless another `world` is given. `seed` is for its ids.
        """
        ids = self._ids.like(name) if isinstance(self._ids, RewindableIds) else self._ids
        return self._like(
            named(world or self.world, name),
            clock=self.clock.twin(),
            ids=ids if seed is None else SeededIds(seed),
            payments=self._payments_anew(),
        )

    def deliver(self, request: WireRequest) -> Delivery:
        """One call to the service, one at a time, and how its answer travels. Never raises."""
        with self._lock:
            call = self._diary.received(request, self.clock(), self._service)
            if self.faults.rules:
                call.delivery = self._struck(call)
            else:
                call.delivery = Delivery(signed(self._service.respond(request)))
            self._answered.notify_all()
            return call.delivery

    def mode(self, name: str) -> None:
        """Goes wrong in this known way from now on; "clean" ends it. `Misconfigured` for an unknown name."""
        self.faults.play(name)

    def respond(self, request: WireRequest) -> Response:
        """What the service says to this call, however it travels. Never raises."""
        return self.deliver(request).response

    def look(self, see: Callable[[Service, Diary], T]) -> T:
        """What `see` makes of the world as it is now, with all that has fallen due. It changes nothing."""
        with self._lock:
            for books in self._service.books.values():
                advance(books, books.timeline.now())
            return see(self._service, self._diary)

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
        """Takes the payment of a pending transaction now; `Misconfigured` if it is not pending."""
        with self._lock:
            for books in self._environments_of(transaction_id):
                transitions.settle(books, transaction_id)

    def fail(self, transaction_id: str) -> None:
        """The payment will never be taken; `Misconfigured` if the transaction is final."""
        with self._lock:
            for books in self._environments_of(transaction_id):
                transitions.fail(books, transaction_id)

    def require_payment(self, key: str, required: bool = True) -> None:
        """The seller's require-payment setting: False makes the resource free."""
        self._edit(key, lambda listing: replace(listing, require_payment=required))

    def archive(self, key: str) -> None:
        """The seller archives the resource; access to it is 422 from now on."""
        with self._changing(key) as found:
            for books in found:
                moment = books.timeline.stamp()
                books.catalog.edit(key, moment, partial(replace, archived_at=moment))

    def publish(self, key: str, revision: Revision) -> None:
        """A new active revision in both environments; the one before can no longer be bought."""
        with self._changing(key) as found:
            for books in found:
                books.catalog.publish(key, revision, books.timeline.stamp())

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
        """Gives the address exactly this balance on the simulated ledger; `Misconfigured` if it cannot be."""
        if not transitions.is_address(address):
            raise Misconfigured(f"{address!r} is no address: 0x and 40 hex digits")
        if not 0 <= balance <= MAX_ATOMIC:
            raise Misconfigured(f"a balance is 0 to {MAX_ATOMIC} atomic units, not {balance}")
        with self._lock:
            self._ledger().fund(TOKENS[environment, asset], address, balance)

    def _struck(self, call: RecordedCall) -> Delivery:
        delivery, call.fault = deliver_with(self.faults, self._service, call.request)
        return replace(delivery, response=signed(delivery.response))

    def _payments_anew(self) -> Payments | None:
        """Those that were given, but a simulated ledger as it was then; None if none were."""
        if not isinstance(self._given_payments, SimulatedLedger):
            return self._given_payments
        anew = self._given_payments.twin()
        refill(anew, self._beginning.ledger)
        return anew

    def _ledger(self) -> SimulatedLedger:
        if not isinstance(self.payments, SimulatedLedger):
            raise Misconfigured("balances are known only to the simulated ledger")
        return self.payments

    def _books(self, key: str, environment: Environment) -> Books:
        books = self._service.books[environment]
        if key not in books.catalog.listings:
            raise Misconfigured(f"there is no resource {key!r} in {environment}")
        return books

    def _environments_of(self, target: str) -> list[Books]:
        """Those that know the target; if none does, one that will say so."""
        found = [books for books in self._service.books.values() if transitions.knows(books, target)]
        return found or [self._service.books["test"]]

    def _edit(self, key: str, change: Callable[[Listing], Listing]) -> None:
        with self._changing(key) as found:
            for books in found:
                books.catalog.edit(key, books.timeline.stamp(), change)

    @contextmanager
    def _changing(self, key: str) -> Generator[Iterable[Books]]:
        """The environments that have this resource, under the lock; `Misconfigured` if none has."""
        with self._lock:
            found = [books for books in self._service.books.values() if key in books.catalog.listings]
            if not found:
                raise Misconfigured(f"there is no resource {key!r}")
            yield found


def _ids_of(ids: Ids | None, seed: int | str | None) -> Ids:
    if ids is not None and seed is not None:
        raise Misconfigured("give ids or a seed for them, not both")
    return SeededIds(seed) if seed is not None else ids or random_id


def funded_ledger(world: World) -> SimulatedLedger:
    """A ledger with the balances the world names; the seller starts with nothing."""
    ledger = SimulatedLedger(world.default_balance)
    for token in TOKENS.values():
        ledger.fund(token, world.seller.pay_to, 0)
    for environment in BOTH:
        for payer in payers_of(world, environment):
            for asset, balance in payer.balances.items():
                ledger.fund(TOKENS[environment, asset], payer.address, balance)
    return ledger

"""`Emulator`: the state machine with a clock, an id source, faults and a lock."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TypeVar

from faregate.core.models import Response, WireRequest
from faregate.emulator.arranging import Arranging
from faregate.emulator.calls import Diary, RecordedCall
from faregate.emulator.clock import WorldClock
from faregate.emulator.delivery import Delivery, signed
from faregate.emulator.faults import CLEAN, Faults
from faregate.emulator.faults.apply import deliver_with
from faregate.emulator.ledger import SimulatedLedger, funded_ledger
from faregate.emulator.persistence.load import refill
from faregate.emulator.system import random_challenge, random_id, system_clock
from faregate.errors import ConfigurationError
from faregate.service.app import Service
from faregate.service.builtin import builtin_world, named
from faregate.service.clock import Clock
from faregate.service.config import World
from faregate.service.identifiers import CountedIds, Ids, RewindableIds, SeededChallenges, SeededIds
from faregate.service.payments import Payments
from faregate.service.settlement import advance

T = TypeVar("T")


class Emulator(Arranging):
    """The merchant service in this process: one world. Every mount of one emulator shows the same state.

    `seed` makes the ids and challenges of one story always the same; otherwise they are from `ids` or by
    chance.
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
        self.world = world or builtin_world()
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
        challenges = SeededChallenges(source.seed) if isinstance(source, CountedIds) else random_challenge
        service = partial(
            Service,
            self.world,
            clock=self.clock,
            ids=source,
            challenge=challenges,
            payments=self.payments,
            expose_execution_id=expose_execution_id,
            allow_live=allow_live,
        )
        super().__init__(source, challenges, service)

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
        """Goes wrong in this known way from now on; "clean" ends it.

        `ConfigurationError` for an unknown name.
        """
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


def _ids_of(ids: Ids | None, seed: int | str | None) -> Ids:
    if ids is not None and seed is not None:
        raise ConfigurationError("give ids or a seed for them, not both")
    return SeededIds(seed) if seed is not None else ids or random_id

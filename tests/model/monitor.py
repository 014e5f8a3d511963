"""The rules, asked of every step in a larger model."""

from collections import Counter
from collections.abc import Callable
from typing import Any

from faregate.core.claims import Claimed, PendingPayment, Resumable
from tests.core.steps import (
    AbandonClaim,
    MarkStuck,
    RecordFinal,
    RecordPending,
    RecordSettlement,
    ScheduleRetry,
)
from tests.model.backend import ModelBackend
from tests.model.flow_run import Actor
from tests.model.invariants import (
    Violation,
    check_answer,
    check_kept,
    check_known,
    check_lease,
    check_raised,
    is_content,
)
from tests.model.journal_views import JournalView, standing
from tests.model.replies import transaction

SHORTEST_LEASE = 30.0
GIVES_BACK = RecordPending | RecordFinal | AbandonClaim | ScheduleRetry | RecordSettlement | MarkStuck


class Watch:
    """`given`: the payments whose result left. `now` is the time in the model."""

    def __init__(self, backend: ModelBackend, books: JournalView, now: Callable[[], float]) -> None:
        self.counts: Counter[str] = Counter()
        self.given: set[int] = set()
        self._known: set[int] = set()
        self._owed: set[int] = set()
        self._holders: dict[bytes, tuple[Actor, float]] = {}
        self._backend = backend
        self._books = books
        self._now = now

    def asks(self, actor: Actor) -> None:
        """Whether the row of its payment was forgotten since, in its time."""
        number = actor.number
        if number in self._known and self._books.line(transaction(number)) is None:
            self._backend.facts[number] = self._backend.facts[number]._replace(over=True)

    def answered(self, actor: Actor, answer: Any) -> None:
        """What the journal then has, of the payment that this flow is about."""
        line = self._books.line(transaction(actor.number))
        check_kept(actor.number in self._owed, line is not None)
        if line is not None:
            self._known.add(actor.number)
            self._owed.add(actor.number) if line.owed else self._owed.discard(actor.number)
        match answer:
            case Claimed(lease) | Resumable(PendingPayment(lease)) | PendingPayment(lease):
                self._took(actor, lease.key)
            case _ if isinstance(actor.question, GIVES_BACK):
                self._holders = {key: held for key, held in self._holders.items() if held[0] is not actor}

    def _took(self, actor: Actor, key: bytes) -> None:
        """Who is gone holds what it took until the lease is over."""
        now = self._now()
        holder, until = self._holders.get(key, (actor, now))
        check_lease(holder is not actor and now < until)
        self._holders[key] = actor, now + SHORTEST_LEASE

    def went_on(self, actor: Actor, learned: str) -> None:
        """An id that it had learned is written now, unless the journal failed."""
        if learned and not actor.knowledge.learned:
            kept = actor.number in self._known or self._backend.facts[actor.number].last_resort
            check_known(learned, kept)

    def ended(self, actor: Actor, value: Any, error: Exception | None) -> None:
        check_raised(error)
        if not actor.proof:
            return
        self.asks(actor)
        number = actor.number
        whose = standing(self._books, transaction(number), actor.proof)
        payment, facts = self._backend.payments[number], self._backend.facts[number]
        check_known(actor.knowledge.learned, number in self._known or facts.last_resort)
        check_answer(value or error, payment, facts, whose)
        self.counts[f"answered with {value.status}"] += 1
        if is_content(value):
            self.given.add(number)
            if value.body != b"the paid result %d" % number:
                raise Violation(f"the payer of {number} was given {value.body!r}")

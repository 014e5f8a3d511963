"""The rules, asked of every step in a larger model."""

from collections import Counter
from collections.abc import Callable
from typing import Any

from faregate.core.claim_types import Claimed, PendingPayment, Recoverable, find_resumed
from faregate.core.interfaces import RunHandler
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
    TransactionState,
    check_alone,
    check_answer,
    check_kept,
    check_known,
    check_lease,
    check_led,
    check_named,
    check_raised,
    is_content,
)
from tests.model.journal_views import JournalView, standing
from tests.model.replies import payer_of, transaction

SHORTEST_LEASE = 30.0
GIVES_BACK = RecordPending | RecordFinal | AbandonClaim | ScheduleRetry | RecordSettlement | MarkStuck


class Watch:
    """`given`: the payments whose result left. `now` is the time in the model, `named` as in a fault plan."""

    def __init__(
        self, backend: ModelBackend, books: JournalView, now: Callable[[], float], named: bool
    ) -> None:
        self.counts: Counter[str] = Counter()
        self.given: set[int] = set()
        self._known: set[int] = set()
        self._owed: set[int] = set()
        self._holders: dict[bytes, tuple[Actor, float]] = {}
        self._backend = backend
        self._books = books
        self._now = now
        self._named = named

    def asks(self, actor: Actor) -> None:
        """Whether a row was forgotten since, in its time."""
        if isinstance(actor.question, RunHandler):
            self._check_alone(actor.number)
        for known in self._known:
            if self._books.line(transaction(known)) is None:
                self._backend.facts[known] = self._backend.facts[known]._replace(over=True)

    def _find_resumed(self, number: int, proof: str) -> int:
        """The payment for which this one was given up, while its row says so and the result waits."""
        if standing(self._books, transaction(number), proof) is not TransactionState.OWN:
            return number
        resumed = find_resumed(self._backend.facts[number].told.removeprefix("failed "))
        other = self._backend.number_of(resumed) if resumed else number
        return number if other in self.given and not self._named else other

    def _check_alone(self, number: int) -> None:
        same = [other for other in self._backend.payments if payer_of(other) == payer_of(number)]
        states = {other: self._state(other) for other in same}
        own = states.pop(number)
        check_alone(own, states.values())
        if self._named:
            check_named(own, any(self._was_paid(other) for other in states))

    def _was_paid(self, number: int) -> bool:
        line = self._books.line(transaction(number))
        return line is not None and line.was_settled

    def _state(self, number: int) -> str:
        line = self._books.line(transaction(number))
        return "" if line is None else line.state

    def answered(self, actor: Actor, answer: Any) -> None:
        """What the journal then has, of every payment: a flow may end another one than its own."""
        for number in self._backend.payments:
            line = self._books.line(transaction(number))
            check_kept(number in self._owed, line is not None)
            if line is not None:
                self._known.add(number)
                self._owed.add(number) if line.owed else self._owed.discard(number)
        match answer:
            case Claimed(lease) | Recoverable(PendingPayment(lease)) | PendingPayment(lease):
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
        if learned and not actor.knowledge.learned and not actor.knowledge.given_up:
            kept = actor.number in self._known or self._backend.facts[actor.number].last_resort
            check_known(learned, kept)

    def ended(self, actor: Actor, value: Any, error: Exception | None) -> None:
        check_raised(error)
        if not actor.proof:
            return
        self.asks(actor)
        number = actor.number
        if is_content(value):
            sold = int(value.body.rsplit(b" ", 1)[1])
            if sold != number:
                self.counts["led to an earlier payment"] += 1
                check_led(payer_of(sold) == payer_of(number), self._backend.payments[number])
            number = sold
        else:
            number = self._find_resumed(number, actor.proof)
        whose = standing(self._books, transaction(number), actor.proof)
        payment, facts = self._backend.payments[number], self._backend.facts[number]
        check_known(actor.knowledge.learned, number in self._known or facts.last_resort)
        check_answer(value or error, payment, facts, whose)
        self.counts[f"answered with {value.status}"] += 1
        if is_content(value):
            self.given.add(number)

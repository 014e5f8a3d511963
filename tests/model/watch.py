"""The rules, asked of every step in a larger world."""

from collections import Counter
from typing import Any, NamedTuple

from faregate.steps import ClaimProof, TakeDue
from tests.model.actor import Actor
from tests.model.books import Books, standing
from tests.model.replies import transaction
from tests.model.rules import (
    Facts,
    Violation,
    check_answer,
    check_kept,
    check_known,
    check_lease,
    check_raised,
    is_content,
)
from tests.model.world import ModelWorld


class Before(NamedTuple):
    """What has to be remembered of the journal until a question is answered."""

    leases: dict[bytes, int]
    owed: bool
    learned: str


class Watch:
    """`given`: the payments whose result left."""

    def __init__(self, world: ModelWorld, books: Books) -> None:
        self.counts: Counter[str] = Counter()
        self.given: set[int] = set()
        self._known: set[int] = set()
        self._world = world
        self._books = books

    def before(self, actor: Actor, now: float) -> Before:
        leases = {}
        if isinstance(actor.question, ClaimProof | TakeDue):
            leases = {line.key: line.fence for line in self._books.lines() if line.lease_until > now}
        line = self._books.line(transaction(actor.number))
        return Before(leases, line is not None and line.owed, actor.mind.learned)

    def answered(self, actor: Actor, before: Before, *, alone: bool) -> None:
        """`alone`: nobody else came in between."""
        there = self._books.line(transaction(actor.number)) is not None
        check_kept(before.owed, there)
        if alone and before.leases:
            lines = self._books.lines()
            check_lease(any(before.leases.get(line.key, line.fence) != line.fence for line in lines))
        if there:
            self._known.add(actor.number)

    def went_on(self, actor: Actor, before: Before) -> None:
        """An id that it learned before is written now, unless the journal failed."""
        if before.learned and not actor.mind.learned:
            kept = actor.number in self._known or self._world.facts[actor.number].last_resort
            check_known(before.learned, kept)

    def ended(self, actor: Actor, value: Any, error: Exception | None) -> None:
        check_raised(error)
        if not actor.proof:
            return
        number = actor.number
        whose = standing(self._books, transaction(number), actor.proof)
        check_known(actor.mind.learned, number in self._known or self.facts(number).last_resort)
        check_answer(value or error, self._world.payments[number], self.facts(number), whose)
        self.counts[f"answered with {value.status}"] += 1
        if is_content(value):
            self.given.add(number)
            if value.body != b"the paid result %d" % number:
                raise Violation(f"the payer of {number} was given {value.body!r}")

    def facts(self, number: int) -> Facts:
        gone = number in self._known and self._books.line(transaction(number)) is None
        return self._world.facts[number]._replace(over=gone)

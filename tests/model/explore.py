"""Every state that a small model can come to, the nearest first.

    python -m tests.model.explore [--large] [part of a scope's name]

The first state in which a rule is broken is reached by the shortest schedule there is: it is told step by
step.
"""

import math
import sys
import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

from tests.model.interning import Move, State
from tests.model.invariants import Violation
from tests.model.liveness import Healing
from tests.model.schedule_count import number_of_schedules
from tests.model.scope import Flows, Scope
from tests.model.scopes import LARGE, SUITE
from tests.model.state_space import Space
from tests.support.campaigns import Progress


class Broken(AssertionError):
    """A rule is broken; the message is the shortest schedule that breaks it."""


@dataclass(frozen=True)
class Found:
    """`edges`: for each state its number of moves, and where they lead."""

    states: int
    moves: int
    seconds: float
    edges: "array[int]" = field(repr=False)


def explore(
    scope: Scope,
    flows: Flows | None = None,
    say: Callable[[str], None] = lambda _: None,
    limit: float = math.inf,
) -> Found:
    """Search all states, or about `limit` of them: those that the fewest steps lead to. Raises `Broken`."""
    return _Search(scope, flows or Flows(), say).run(limit)


class _Search:
    def __init__(self, scope: Scope, flows: Flows, say: Callable[[str], None]) -> None:
        self._scope = scope
        self._space = Space(scope, flows)
        self._flows = flows
        self._say = say
        self._seen: dict[State, int] = {}
        self._states: list[State] = []
        self._came_from = array("q")
        self._healed: set[State] = set()
        self._moves = 0
        self._edges = array("q")

    def run(self, limit: float) -> Found:
        began = time.monotonic()
        self._add(self._space.start(), -1)
        for number, state in enumerate(self._states):
            self._look_at(number, state)
            if len(self._states) >= limit:
                break
            if not number % 1000:
                self._say(f"{self._scope.name}: {number} of {len(self._states)} states looked at")
        return Found(len(self._states), self._moves, time.monotonic() - began, self._edges)

    def _add(self, state: State, parent: int) -> int:
        number = self._seen.setdefault(state, len(self._states))
        if number == len(self._states):
            self._states.append(state)
            self._came_from.append(parent)
        return number

    def _look_at(self, number: int, state: State) -> None:
        self._heal(number, state)
        moves = tuple(self._space.moves(state))
        self._moves += len(moves)
        self._edges.append(len(moves))
        for move in moves:
            try:
                after = self._space.after(state, move)
            except Violation as violation:
                raise Broken(self._schedule(number, move, violation)) from violation
            self._edges.append(self._add(after, number))

    def _heal(self, number: int, state: State) -> None:
        """What ran is gone then, so what matters is the journal and the payment."""
        if state[:2] in self._healed:
            return
        self._healed.add(state[:2])
        try:
            Healing(*self._space.ground(state), self._scope.proofs, self._flows).check()
        except Violation as violation:
            raise Broken(self._schedule(number, None, violation)) from violation

    # For whoever has to understand it

    def _schedule(self, number: int, last: Move | None, violation: Violation) -> str:
        way = [number]
        while self._came_from[way[-1]] >= 0:
            way.append(self._came_from[way[-1]])
        states = [self._states[at] for at in reversed(way)]
        told = [self._space.tell(before, self._between(before, after)) for before, after in pairwise(states)]
        if last is not None:
            told.append(self._space.tell(states[-1], last))
        lines = "\n".join(f"  {step:2} {line}" for step, line in enumerate(told, 1))
        return f"{self._scope.name}: {violation}\n{lines}"

    def _between(self, before: State, after: State) -> Move:
        return next(move for move in self._space.moves(before) if self._space.after(before, move) == after)


def main(arguments: list[str]) -> int:
    scopes = (*SUITE, *LARGE) if "--large" in arguments else SUITE
    wanted = next((word for word in arguments if not word.startswith("--")), "")
    for scope in scopes:
        if wanted not in scope.name:
            continue
        try:
            progress = Progress()
            found = explore(scope, say=progress.show)
        except Broken as broken:
            print(broken)
            return 1
        progress.close()
        print(
            f"{scope.name}: {found.states:,} states, {found.moves:,} moves, "
            f"{number_of_schedules(found.edges):.3g} schedules, 0 violations, {found.seconds:.0f} s",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

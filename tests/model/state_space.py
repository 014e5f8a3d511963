"""How a small model, one payment in it, comes from one state to the next."""

from functools import partial
from itertools import count
from typing import Any

from tests.core.steps import ClaimProof, ClaimTransaction, LeaseNext, Question
from tests.model.backend import STORE_AFTER, STORE_BEFORE, How, ModelBackend
from tests.model.checks import check_end, checked
from tests.model.flow_tree import Place
from tests.model.frozen_journal import AT, Frozen, freeze, jumped, thaw
from tests.model.interning import ENDED, Left, Move, State, Tables, Told
from tests.model.notation import in_brief
from tests.model.scope import Flows, Scope
from tests.model.transitions import BY_ITSELF, CRASHES, FAR, GOES_ON, Choices


class Space:
    """A step that was made once is not made again."""

    def __init__(self, scope: Scope, flows: Flows) -> None:
        self._scope = scope
        self._tables = Tables()
        self.moves = Choices(scope, self._tables).moves
        self._requests = [Place(partial(flows.request, proof), proof) for proof in scope.proofs]
        self._walk = Place(flows.sweep)
        self._numbers = dict.fromkeys(scope.proofs, 1)
        self._steps: dict[Any, tuple[int, int, int]] = {}

    def start(self) -> State:
        tables, scope = self._tables, self._scope
        left = Left(scope.sweeps - 1, scope.crashes, scope.store_faults)
        places = (tables.places.number(place) for place in (*self._requests, self._walk))
        return (tables.journals.number(()), tables.told.number(Told()), tables.left.number(left), *places)

    def ground(self, state: State) -> tuple[Frozen, Told]:
        """What is there when every flow is gone."""
        return self._tables.journals.values[state[0]], self._tables.told.values[state[1]]

    def after(self, state: State, move: Move) -> State:
        """Raises `Violation`."""
        journal, told, left, *places = state
        if move.what == GOES_ON:
            return self._gone_on(state, move)
        if move.what == CRASHES:
            remaining = self._tables.left.values[left]
            left = self._tables.left.number(remaining._replace(crashes=remaining.crashes - 1))
            return self._ended((journal, told, left, *places), move.flow)
        if move.what in BY_ITSELF:
            payment, facts = self._tables.told.values[told]
            told = self._tables.told.number(Told(payment._replace(status=BY_ITSELF[move.what]), facts))
        else:
            frozen = jumped(self._tables.journals.values[journal], far=move.what == FAR)
            journal = self._tables.journals.number(frozen)
        return (journal, told, left, *places)

    def _gone_on(self, state: State, move: Move) -> State:
        journal, told, left, *places = state
        number = places[move.flow]
        fence = self._fence(state, self._tables.place(number).question)
        known = (journal, told, number, move.how, fence)
        step = self._steps.get(known)
        if step is None:
            step = self._steps[known] = self._step(journal, told, number, move.how, fence)
        journal, told, places[move.flow] = step
        if move.how.fault in (STORE_BEFORE, STORE_AFTER):
            remaining = self._tables.left.values[left]
            left = self._tables.left.number(remaining._replace(store_faults=remaining.store_faults - 1))
        after = (journal, told, left, *places)
        return after if self._tables.place(places[move.flow]).end is None else self._ended(after, move.flow)

    def _step(self, journal: int, told: int, number: int, how: How, fence: int) -> tuple[int, int, int]:
        place, before = self._tables.place(number), self._tables.journals.values[journal]
        backend = ModelBackend(thaw(before, count(fence)), self._numbers)
        backend.payments[1], backend.facts[1] = self._tables.told.values[told]
        later = place.after(backend.asked(place.question, how))
        after = freeze(backend.journal)
        facts = checked(before, after, backend.facts[1], place, later)
        if later.end is not None:
            check_end(after, Told(backend.payments[1], facts), later)
        return (
            self._tables.journals.number(after),
            self._tables.told.number(Told(backend.payments[1], facts)),
            self._tables.places.number(later),
        )

    def _ended(self, state: State, flow: int) -> State:
        """The next walk begins where one ends."""
        after, left = list(state), self._tables.left.values[state[2]]
        after[3 + flow] = ENDED
        if flow == len(self._requests) and left.sweeps:
            after[2] = self._tables.left.number(left._replace(sweeps=left.sweeps - 1))
            after[3 + flow] = self._tables.places.number(self._walk)
        return tuple(after)

    def _fence(self, state: State, question: Question | None) -> int:
        """For whoever takes a row: the least that nobody has."""
        if not isinstance(question, ClaimProof | ClaimTransaction | LeaseNext):
            return 0
        used = {row[AT["fence"]] for row in self._tables.journals.values[state[0]]}
        for number in state[3:]:
            if number != ENDED:
                used |= self._tables.place(number).knowledge.fences
        return next(fence for fence in count(1) if fence not in used)

    def tell(self, state: State, move: Move) -> str:
        """A move in words."""
        if move.flow < 0:
            return move.what
        who = f"request {move.flow + 1}" if move.flow < len(self._requests) else "sweep"
        if move.what == CRASHES:
            return f"{who} {move.what}"
        number = state[3 + move.flow]
        place = self._tables.place(number)
        step = self._steps.get((*state[:2], number, move.how, self._fence(state, place.question)))
        answer = "" if step is None else self._tables.place(step[2]).last_answer()
        return f"{who}: {in_brief(place.question, move.how)}{answer}"

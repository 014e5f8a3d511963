"""What can happen in a state of a small model."""

from collections.abc import Callable, Iterator

from faregate.core.interfaces import RunHandler
from faregate.core.models import WorkSucceeded
from tests.core.steps import CallAccess, CallComplete, FindPayer, GetTransaction, Question, WriteFallback
from tests.model.backend import BAD_WORK, REFUSES, SLOWLY, STORE_AFTER, STORE_BEFORE, WAITS, How
from tests.model.frozen_journal import jumped
from tests.model.interning import ENDED, Left, Move, State, Tables
from tests.model.replies import LOST
from tests.model.scope import Scope
from tests.model.service import AUTHORIZED, FAILED, NEW, SETTLING, SUCCEEDED, Payment

GOES_ON, CRASHES, JUMP, FAR, SETTLES, FAILS, REOPENS = (
    "goes on",
    "is gone",
    "the clock jumps past the leases",
    "the clock jumps past everything",
    "the payment succeeds",
    "the payment fails",
    "the payment is open after all",
)
BY_ITSELF = {SETTLES: SUCCEEDED, FAILS: FAILED, REOPENS: AUTHORIZED}
_ELSEWHERE = WriteFallback | CallAccess | CallComplete | GetTransaction | FindPayer


class Choices:
    """What was found out once is not asked again."""

    def __init__(self, scope: Scope, tables: Tables) -> None:
        self._scope = scope
        self._tables = tables
        self._moves: dict[tuple[int, ...], tuple[Move, ...]] = {}

    def moves(self, state: State) -> Iterator[Move]:
        _, told, left, *places = state
        for flow, number in enumerate(places):
            if number != ENDED:
                yield from self._known((flow, number, told, left), self._of_a_flow)
        yield from self._known(state[:2], self._by_itself)

    def _known(self, about: tuple[int, ...], found: Callable[..., Iterator[Move]]) -> tuple[Move, ...]:
        moves = self._moves.get(about)
        if moves is None:
            moves = self._moves[about] = tuple(found(*about))
        return moves

    def _of_a_flow(self, flow: int, number: int, told: int, left: int) -> Iterator[Move]:
        question, remaining = self._tables.place(number).question, self._tables.left.values[left]
        for how in self._ways(question, self._tables.told.values[told].payment, remaining):
            yield Move(GOES_ON, flow, how)
        if remaining.crashes:
            yield Move(CRASHES, flow)

    def _ways(self, question: Question | None, payment: Payment, left: Left) -> Iterator[How]:
        """How a question may be answered."""
        yield How()
        if isinstance(question, RunHandler):
            yield from self._courses(BAD_WORK)
        elif isinstance(question, GetTransaction | FindPayer):
            yield How(LOST[0])
        elif isinstance(question, CallAccess) and question.proof is not None:
            yield from map(How, LOST)
            if payment.status == NEW:
                yield from self._courses(WAITS, REFUSES)
        elif isinstance(question, CallComplete):
            yield from map(How, LOST)
            if payment.status == AUTHORIZED and isinstance(question.outcome, WorkSucceeded):
                yield from self._courses(SLOWLY)
        elif left.store_faults and not isinstance(question, _ELSEWHERE):
            yield from map(How, (STORE_BEFORE, STORE_AFTER))

    def _courses(self, *names: str) -> Iterator[How]:
        return (How(course=name) for name in names if name in self._scope.courses)

    def _by_itself(self, journal: int, told: int) -> Iterator[Move]:
        frozen, payment = self._tables.journals.values[journal], self._tables.told.values[told].payment
        if jumped(frozen, far=False) != frozen:
            yield Move(JUMP)
        if self._scope.far and jumped(frozen, far=True) != frozen:
            yield Move(FAR)
        if payment.status == SETTLING:
            yield Move(SETTLES)
            yield Move(FAILS)
            if not payment.accepted:
                yield Move(REOPENS)
